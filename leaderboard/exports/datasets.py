"""Chains as a dataset for researchers: degraded images, retentions, preferences and votes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db.models import Prefetch, Q
from django.utils import timezone

from leaderboard.models import Chain, Run, StoredImage, Suite, Trip, Vote
from leaderboard.people import vote_rows

#: The two images of a preference differ at least this much in retention by some metric.
MARGIN = 0.05
README = """# ConvergeBench: degraded images and preferences

Written on {date} from {runs} public runs of {suites}.

- `degraded.jsonl`: {degraded:,} lines. Each has a source image, the restored image after `trip`
  round trips, and its retention by metric (`retention`): the share of the image that is left. 1 is
  identical, 0 no better than a card of the mean colour; values may be negative.
- `preferences.jsonl`: {preferences:,} lines. Each has two restored images of the same source.
  `better` has the higher retention by every metric that was run, and for at least one of them the
  difference is {margin:g} or more. `from` tells whether the two come from one chain or from two
  models after the same trip.
- `votes.jsonl`: {votes:,} lines. Each is the vote of a person who did not know the models, in the
  API's format. On a `pair` the `answer` is `first`, `second` or `cannot say`; on one restored image
  it is `yes` or `no` (still usable). Each image has its model, its retention by metric
  (`retention`) and the verdicts of witnesses, which are automatic checks of the edit (`evidence`).
  `voter` is a hash, and `weight` is the weight of this voter. Leave votes out of fits if their
  `role` is `gold` (the answer was known) or `repeat` (the question was asked again).
- `images/`: named by the SHA-256 of their bytes. Sources are exactly as used, restored images
  exactly as the models returned them.

Licences. Each line names the licence and attribution of its source image. A degraded image is
derived from its source, under the same licence. The terms of the model named in the line may demand
more.

Provenance. Each line names the run, the model, how the run was played, its secret, the suite and
the suite's content hash. Metric versions are in `runs.json`. Preferences in `preferences.jsonl`
come from metrics, votes in `votes.jsonl` from people.
"""


class DatasetError(ValueError):
    """The dataset cannot be written; the message is shown to the user."""


@dataclass
class Counts:
    runs: int = 0
    degraded: int = 0
    preferences: int = 0
    votes: int = 0
    images: int = 0


@dataclass(frozen=True)
class ScoredImage:
    """A scored restored image of a chain."""

    chain: Chain
    trip: Trip
    image: StoredImage
    retention: Mapping[str, float]

    @property
    def facts(self) -> dict[str, Any]:
        """The origin and scores of the restored image, as written to the dataset."""
        run = self.chain.run
        return {
            "image": _name(self.image),
            "trip": self.trip.number,
            "retention": dict(self.retention),
            "change_seen": self.trip.change_seen,
            "model": run.editing_model.slug,
            "run": run.pk,
            "played": run.played,
            "repeat": self.chain.repeat,
            "secret": run.published_secret,
        }


def export(out: Path, suite: Suite | None = None) -> Counts:
    """Write the dataset of a suite, or of all suites with runs of this site, to a folder.

    Raises DatasetError if the folder is not empty or no run is public.
    """
    if out.exists() and any(out.iterdir()):
        raise DatasetError(f"{out} is not empty: name a new folder")
    runs = Run.objects.on_the_board().filter(
        source=Run.Source.OURS, suite__published_elsewhere=False
    )
    if suite:
        runs = runs.filter(suite=suite)
    exported = list(runs.select_related("editing_model", "suite").order_by("suite", "pk"))
    if not exported:
        raise DatasetError("no public run to export")
    (out / "images").mkdir(parents=True, exist_ok=True)
    counts = Counts(runs=len(exported))
    written: set[str] = set()
    with (
        (out / "degraded.jsonl").open("w", encoding="utf-8") as degraded,
        (out / "preferences.jsonl").open("w", encoding="utf-8") as preferences,
    ):
        for current in dict.fromkeys(run.suite for run in exported):
            for restored in _by_case(current, [run for run in exported if run.suite == current]):
                about = _case_fields(current, restored[0].chain)
                for result in restored:
                    _write_images(out, written, restored[0].chain.case.image.stored, result.image)
                    degraded.write(_line({**about, "degraded": result.facts}))
                    counts.degraded += 1
                for better, worse, source in _preferences(restored):
                    pair = {"better": better.facts, "worse": worse.facts, "from": source}
                    preferences.write(_line(about | pair))
                    counts.preferences += 1
    counts.votes = _write_votes(out, exported, written)
    counts.images = len(written)
    _write_readme_and_runs(out, exported, counts)
    return counts


def _write_votes(out: Path, runs: list[Run], written: set[str]) -> int:
    """Write the public votes on these runs, with the images. Return the number of votes."""
    both = Q(question__second=None) | Q(question__second__chain__run__in=runs)
    votes = Vote.objects.public().filter(both, question__first__chain__run__in=runs)
    number = 0
    with (out / "votes.jsonl").open("w", encoding="utf-8") as file:
        for vote in vote_rows.with_related(votes).iterator(chunk_size=vote_rows.BATCH):
            first, second = vote.question.first, vote.question.second
            keys = {
                "source": vote.question.case.image.stored_id,
                "first": first.restored_id,
                "second": second and second.restored_id,
            }
            stored = StoredImage.objects.in_bulk([key for key in keys.values() if key])
            _write_images(out, written, *stored.values())
            files = {
                side: _name(stored[key]) if key in stored else None for side, key in keys.items()
            }
            row = vote_rows.VoteOut.from_orm(vote).model_dump(mode="json")
            file.write(_line(row | {"images": files}))
            number += 1
    return number


def _by_case(suite: Suite, runs: list[Run]) -> Iterator[list[ScoredImage]]:
    """Yield the scored restored images of each case."""
    trips = Trip.objects.filter(scored_at__isnull=False).select_related("restored")
    for case in suite.cases.filter(image__stored__isnull=False):
        chains = (
            Chain.objects.filter(case=case, run__in=runs)
            .select_related("run__editing_model", "case__image__stored")
            .select_related("case__image__source_image")
            .prefetch_related(Prefetch("trips", trips.order_by("number")))
            .order_by("run", "repeat")
        )
        restored = [
            ScoredImage(chain, trip, trip.restored, dict(sorted(retentions.items())))
            for chain in chains
            for trip in chain.trips.all()
            if trip.restored and (retentions := chain.retentions_after(trip.number))
        ]
        if restored:
            yield restored


def _preferences(restored: list[ScoredImage]) -> Iterator[tuple[ScoredImage, ScoredImage, str]]:
    """Yield pairs of restored images on which all metrics agree, the better image first.

    The two are consecutive in a chain, or from two models after the same trip.
    """
    for first, other in itertools.combinations(restored, 2):
        if first.chain == other.chain:
            if other.trip.number != first.trip.number + 1:
                continue
            source = "one chain"
        elif first.trip.number == other.trip.number and first.chain.run != other.chain.run:
            source = "two models"
        else:
            continue
        if _better(first, other):
            yield first, other, source
        elif _better(other, first):
            yield other, first, source


def _better(first: ScoredImage, other: ScoredImage) -> bool:
    shared = first.retention.keys() & other.retention.keys()
    gains = [first.retention[metric] - other.retention[metric] for metric in shared]
    return bool(gains) and min(gains) > 0 and max(gains) >= MARGIN


def _case_fields(suite: Suite, chain: Chain) -> dict[str, Any]:
    """Return the fields that all lines of a case share."""
    case, image = chain.case, chain.case.image
    return {
        "source": _name(image.stored) if image.stored else None,
        "case": case.slug,
        "kind": case.kind,
        "origin": case.origin,
        "category": case.category,
        "forward": case.forward,
        "backward": case.backward,
        "steps": case.steps,
        "suite": suite.key,
        "suite_hash": suite.content_hash,
        "title": image.title,
        "licence": image.licence,
        "attribution": image.attribution,
        "source_url": image.source_image.source_url if image.source_image else "",
    }


def _write_images(out: Path, written: set[str], *images: StoredImage | None) -> None:
    for stored in images:
        if stored is not None and stored.pk not in written:
            (out / _name(stored)).write_bytes(stored.data())
            written.add(stored.pk)


def _write_readme_and_runs(out: Path, runs: list[Run], counts: Counts) -> None:
    suites = sorted({str(run.suite) for run in runs})
    text = README.format(
        date=f"{timezone.now():%Y-%m-%d}",
        runs=counts.runs,
        suites=", ".join(suites),
        degraded=counts.degraded,
        preferences=counts.preferences,
        votes=counts.votes,
        margin=MARGIN,
    )
    (out / "README.md").write_text(text, encoding="utf-8")
    about = {
        run.pk: {
            "model": run.editing_model.slug,
            "name": run.editing_model.name,
            "played": run.played,
            "suite": run.suite.key,
            "suite_hash": run.suite.content_hash,
            "metrics": run.metrics,
            "provenance": run.provenance,
        }
        for run in runs
    }
    (out / "runs.json").write_text(json.dumps(about, indent=1, ensure_ascii=False), "utf-8")


def _name(stored: StoredImage) -> str:
    return f"images/{Path(stored.name).name}"


def _line(data: Mapping[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, allow_nan=False) + "\n"
