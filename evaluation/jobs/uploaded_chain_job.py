"""Score a chain that a visitor brought."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import structlog

from evaluation.content.suites import EditPair
from evaluation.images import ImageError, Picture
from evaluation.measuring.jpeg import jpeg_equivalent
from evaluation.measuring.scoring import Scorer
from evaluation.metrics import HEADLINE, MetricError, load_metric
from evaluation.statistics.chain_scores import score_chain
from evaluation.statistics.diagnostics.dynamics import dynamics
from evaluation.statistics.events import Case, event
from evaluation.statistics.levels import LEVELS
from leaderboard.models import UploadedChain

log = structlog.get_logger(__name__)
PAIR = EditPair("own", "own", "", "", change="local")
CASE = Case("own", PAIR.slug, PAIR.category, "own")


def score(chain_id: int) -> None:
    """Write what the metrics say of the chain, or why they cannot."""
    chain = UploadedChain.objects.filter(pk=chain_id, state=UploadedChain.State.WAITING).first()
    if chain is None:
        return
    try:
        results = _results(chain)
    except Exception as error:
        log.exception("uploaded chain not scored", chain=chain.pk)
        # Only what was written for people is shown to them.
        known = isinstance(error, (ImageError, MetricError))
        why = f"{error}." if known else "The fault is ours and has been noted; please try again."
        UploadedChain.objects.filter(pk=chain.pk).update(
            state=UploadedChain.State.FAILED, error=why[:500]
        )
        return
    UploadedChain.objects.filter(pk=chain.pk).update(
        state=UploadedChain.State.SCORED, results=results
    )


def _results(chain: UploadedChain) -> dict[str, Any]:
    pictures = {
        (p.number, p.forward): p.stored.read() for p in chain.pictures.select_related("stored")
    }
    source = pictures[0, False]
    count = max(number for number, _ in pictures)
    trips: list[tuple[Picture | None, Picture]] = [
        (pictures.get((number, True)), pictures[number, False]) for number in range(1, count + 1)
    ]
    scorer = Scorer()
    scored = score_chain(scorer, source, iter(trips), PAIR)
    calibrations = scorer.calibrate(source)
    metrics: dict[str, Any] = {}
    for name in scored.distances:
        measured = scored.measured(CASE, name, calibrations.get(name))
        if measured is None:
            continue
        metric, result = load_metric(name), measured.result
        metrics[name] = {
            "label": metric.label,
            "version": metric.version,
            "retention": [round(q, 4) for q in result.retention],
            "shown": [metric.text(distance) for distance in measured.distances],
            "jpeg": [jpeg_equivalent(distance, measured.ladder) for distance in measured.distances],
            "events": {f"{level:g}": asdict(event(result, count, level)) for level in LEVELS},
        }
    last = metrics.get(HEADLINE) or next(iter(metrics.values()), None)
    return {
        "trips": count,
        "metrics": metrics,
        "not_run": scorer.unfit(source.size),
        "change_seen": [trip.change_seen for trip in scored.trips],
        "because": [trip.because for trip in scored.trips],
        "worst_place": [trip.worst_place for trip in scored.trips],
        "reframed": [trip.reframed for trip in scored.trips],
        "dynamics": asdict(
            dynamics(
                [trip.step for trip in scored.trips],
                scored.trips[-1].from_source,
                last["retention"][-1] if last else None,
            )
        ),
    }
