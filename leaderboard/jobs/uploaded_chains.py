"""Score an uploaded chain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import structlog
from django.core.files.storage import default_storage
from django.db.models import F

from evaluation.analysis.dynamics import dynamics
from evaluation.analysis.events import Case, event
from evaluation.analysis.thresholds import THRESHOLDS
from evaluation.images import EncodedImage, ImageError
from evaluation.measuring.calibration import jpeg_equivalent, stored_source_data
from evaluation.measuring.scoring import Scorer
from evaluation.metrics import HEADLINE, MetricError, full_reference_metrics, load_metric
from evaluation.metrics.base import Subject
from evaluation.play.external_chains import DEFAULT_PAIR, ExternalChain, ExternalScores, build_runs
from evaluation.play.score import score as score_trips
from evaluation.play.store import PlayedTrips
from leaderboard.models import StoredImage, UploadedChain
from leaderboard.models.uploads import MAX_IMAGE_PIXELS

#: A chain that killed the process this often is not tried again.
MAX_ATTEMPTS = 3

log = structlog.get_logger(__name__)
CASE = Case("own", DEFAULT_PAIR.slug, DEFAULT_PAIR.category, "own", "own")


def score(chain_id: int) -> None:
    """Save the scores of the chain, or the reason why it cannot be scored."""
    waiting = UploadedChain.objects.filter(pk=chain_id, state=UploadedChain.State.WAITING)
    # Count the attempt before decoding: an image may kill the process.
    if not waiting.update(attempts=F("attempts") + 1):
        return
    chain = UploadedChain.objects.get(pk=chain_id)
    try:
        if chain.attempts > MAX_ATTEMPTS:
            raise ImageError("These images could not be scored: scoring failed three times")
        results = _results(chain)
    except Exception as error:
        log.exception("uploaded chain not scored", chain=chain.pk)
        # Visitors see only messages that were written for them.
        is_user_facing = isinstance(error, (ImageError, MetricError))
        why = (
            f"{error}."
            if is_user_facing
            else "This is our error, and it is recorded. Please try again."
        )
        waiting.update(state=UploadedChain.State.FAILED, error=why[:500])
        return
    waiting.update(state=UploadedChain.State.SCORED, results=results)


def _decode(answer: tuple[int, StoredImage]) -> EncodedImage:
    """Decode an image of a trip for the first time; write its copies for the page."""
    number, stored = answer
    with default_storage.open(stored.name) as file:
        data = file.read()
    try:
        image = EncodedImage.from_bytes(data, max_pixels=MAX_IMAGE_PIXELS)
    except ImageError as error:
        raise ImageError(
            f"{f'Restored image {number}' if number else 'The source'}: {error}"
        ) from None
    # If EXIF rotates the image, its header has width and height exchanged.
    if image.size != (stored.width, stored.height):
        StoredImage.objects.filter(pk=stored.pk).update(width=image.width, height=image.height)
    stored.write_thumbnail(image)
    stored.write_copy(image)
    return image


class UploadedScores(ExternalScores):
    """The scores of an uploaded chain. Its calibrations are kept in memory only.

    Calibrations are a metric's distances from the source to copies with a known loss.
    """

    def calibrate(
        self, chain: PlayedTrips, source: EncodedImage, subject: Subject, scorer: Scorer
    ) -> Mapping[str, Mapping[str, Any]]:
        self.images[chain.key.image] = scorer.calibrate(source, subject)
        return stored_source_data(self.images[chain.key.image])


def _results(chain: UploadedChain) -> dict[str, Any]:
    rows = {
        (p.number, p.forward): (p.number, p.stored) for p in chain.images.select_related("stored")
    }
    count = max(number for number, _ in rows)
    trips = tuple((rows.get((n, True)), rows[n, False]) for n in range(1, count + 1))
    first = rows[0, False]
    source = _decode(first)
    external = ExternalChain("own", first, trips)
    uploaded = build_runs({"own": [("own", external)]}, read=lambda file: source)
    (placed,) = uploaded.runs.values()
    scorer = Scorer(full_reference_metrics())
    store = UploadedScores(
        uploaded.suite, scorer, placed, lambda file: source if file is first else _decode(file)
    )
    score_trips(store, scorer)
    (scored,) = store.scores.values()
    metrics: dict[str, Any] = {}
    for name in scored.distances:
        calibration = store.images[scored.image].get(name)
        measured = scored.measured(CASE, name, calibration, count)
        if measured is None:
            continue
        metric, result = load_metric(name), measured.result
        metrics[name] = {
            "label": metric.label,
            "version": metric.running_version,
            "retention": [round(q, 4) for q in result.retention],
            "shown": [metric.text(distance) for distance in measured.distances],
            "jpeg": [jpeg_equivalent(distance, measured.ladder) for distance in measured.distances],
            "events": {
                f"{threshold:g}": asdict(event(result, count, threshold))
                for threshold in THRESHOLDS
            },
        }
    headline = metrics.get(HEADLINE) or next(iter(metrics.values()), None)
    return {
        "trips": count,
        "metrics": metrics,
        "not_run": scorer.size_problems(source.size),
        "change_seen": [trip.change_seen for trip in scored.trips],
        "because": [trip.because for trip in scored.trips],
        "window": [trip.window for trip in scored.trips],
        "evidence": [trip.evidence for trip in scored.trips],
        "reframed": [trip.reframed for trip in scored.trips],
        "dynamics": asdict(
            dynamics(
                *scored.steps_and_end,
                headline["retention"][-1] if headline else None,
            )
        ),
    }
