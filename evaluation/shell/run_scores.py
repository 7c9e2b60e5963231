"""The scores of a run as plain data: everything curves, tables and reports are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np

from evaluation.content.suites import EditPair, Suite
from evaluation.editors.base import Answer
from evaluation.images import Picture, fit, is_reframed
from evaluation.measuring import change_seen as seen
from evaluation.measuring.cheating import signs
from evaluation.measuring.scoring import Calibration, Scorer, retention
from evaluation.round_trips import Half
from evaluation.shell.run_folder import PlayedChain, RunFolder
from evaluation.statistics.dynamics import rmse
from evaluation.statistics.half_life import COMPLETED, METHOD_VERSION, ChainResult

FORMAT = 1
#: One trip: what was edited (None where it was not kept) and what came back.
TripPictures = tuple[Picture | None, Picture]


@dataclass(frozen=True)
class TripMeasure:
    """What one trip did to the picture, beside the metrics."""

    reframed: bool
    step: float  # RMSE to the picture before the trip
    from_source: float  # RMSE to the source
    change_seen: bool | None = None
    change: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ChainScores:
    """One chain: its distances by metric (None: not run) and what each trip did."""

    picture: str
    pair: str
    repeat: int
    outcome: str
    restored: tuple[str, ...]  # SHA-256 of X1..Xn: what these scores are of
    distances: Mapping[str, tuple[float, ...] | None]
    trips: tuple[TripMeasure, ...]
    signs: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        fields = dict(data)
        fields["restored"], fields["signs"] = tuple(fields["restored"]), tuple(fields["signs"])
        fields["trips"] = tuple(TripMeasure(**trip) for trip in fields["trips"])
        fields["distances"] = {
            name: None if values is None else tuple(values)
            for name, values in fields["distances"].items()
        }
        return cls(**fields)


@dataclass(frozen=True)
class RunScores:
    """A run's chains by slug, and each picture's calibration by metric."""

    suite: str  # the suite's content hash
    provenance: Mapping[str, Any]
    pictures: Mapping[str, Mapping[str, Calibration | None]]
    chains: Mapping[str, ChainScores]
    method: str = METHOD_VERSION

    def to_dict(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The scores in `data`; ValueError where it is something else."""
        if data.get("format") != FORMAT:
            raise ValueError(f"these are not scores of format {FORMAT}")
        try:
            pictures = {
                slug: {
                    name: c and Calibration(c["blank"], {int(q): d for q, d in c["ladder"].items()})
                    for name, c in calibrations.items()
                }
                for slug, calibrations in data["pictures"].items()
            }
            chains = {slug: ChainScores.from_dict(row) for slug, row in data["chains"].items()}
            return cls(data["suite"], data["provenance"], pictures, chains, data["method"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"these scores do not fit: {error}") from error

    @property
    def metrics(self) -> list[str]:
        """The metrics that were run."""
        return list(self.provenance["metrics"])

    def retention(self, chain: ChainScores, metric: str) -> tuple[float, ...] | None:
        """Q(1..n) of a chain; None where the metric was not run on it."""
        calibration = self.pictures[chain.picture].get(metric)
        distances = chain.distances.get(metric)
        if calibration is None or distances is None:
            return None
        values = [retention(distance, calibration.blank) for distance in distances]
        return None if None in values else tuple(q for q in values if q is not None)

    def results(self, suite: Suite, metric: str) -> list[ChainResult]:
        """The chains that have an outcome, as half-lives and ranks are made of them."""
        found = []
        for chain in self.chains.values():
            curve = self.retention(chain, metric)
            if not chain.outcome or curve is None:
                continue
            found.append(
                ChainResult(
                    picture=chain.picture,
                    pair=chain.pair,
                    category=suite.pair_by_slug[chain.pair].category,
                    kind=suite.picture_by_slug[chain.picture].kind,
                    repeat=chain.repeat,
                    retention=curve,
                    outcome=chain.outcome,
                    change_seen=tuple(trip.change_seen for trip in chain.trips),
                    reframed=tuple(trip.reframed for trip in chain.trips),
                )
            )
        return found


def score_run(
    folder: RunFolder,
    scorer: Scorer,
    before: RunScores | None = None,
    on_trip: Callable[[int], None] = lambda trips: None,
    calibrations: dict[str, Mapping[str, Calibration | None]] | None = None,
) -> RunScores:
    """The scores of all that is played; what `before` has and still holds is not done again.

    `calibrations` is filled by picture; with the same scorer it serves the next run too.
    """
    provenance = scorer.provenance()
    calibrations = {} if calibrations is None else calibrations
    if before and (before.provenance != provenance or before.method != METHOD_VERSION):
        before = None  # curves never mix versions
    pictures: dict[str, Mapping[str, Calibration | None]] = {}
    chains: dict[str, ChainScores] = {}
    # By picture, so that a source's features are computed once.
    for chain in sorted(folder.chains.values(), key=lambda chain: chain.picture):
        known = before.chains.get(chain.slug) if before else None
        restored = tuple(back.sha256 for _, back in chain.trips)
        if before and known and known.restored == restored:
            chains[chain.slug] = replace(known, outcome=chain.outcome)
            pictures.setdefault(chain.picture, before.pictures[chain.picture])
            on_trip(len(restored))
            continue
        source = folder.source(chain)
        if chain.picture not in pictures:
            key = folder.suite.picture_by_slug[chain.picture].sha256
            if key not in calibrations:
                calibrations[key] = scorer.calibrate(source)
            pictures[chain.picture] = calibrations[key]
        scored = score_chain(scorer, source, _trips(folder, chain, on_trip), folder.pair(chain))
        chains[chain.slug] = replace(
            scored,
            picture=chain.picture,
            repeat=chain.repeat,
            outcome=chain.outcome,
        )
    ordered = {slug: chains[slug] for slug in folder.chains}
    return RunScores(
        folder.suite.content_hash, provenance, pictures, judge_global(ordered, folder.suite)
    )


def score_chain(
    scorer: Scorer, source: Picture, trips: Iterable[TripPictures], pair: EditPair
) -> ChainScores:
    """The scores of one chain, whoever played it."""
    measures, restored, halves = [], [], []
    before = source

    def seen_on_the_way() -> Iterator[Picture]:
        nonlocal before
        for number, (edited, back) in enumerate(trips, start=1):
            measures.append(measure(source, before, edited, back, pair))
            restored.append(back.sha256)
            if edited:
                halves.append(Half(number, "forward", Answer(edited, 0)))
            halves.append(Half(number, "backward", Answer(back, 0)))
            before = back
            yield back

    distances = scorer.score(source, seen_on_the_way())
    found = signs(source, halves, pair.change)
    return ChainScores(
        picture="",
        pair=pair.slug,
        repeat=1,
        outcome=COMPLETED,
        restored=tuple(restored),
        distances={n: None if v is None else tuple(v) for n, v in distances.items()},
        trips=tuple(measures),
        signs=tuple(f"trip {s.number}, {s.direction}: {s.name} ({s.detail})" for s in found),
    )


def measure(
    source: Picture, before: Picture, edited: Picture | None, restored: Picture, pair: EditPair
) -> TripMeasure:
    """What one trip did; nothing is said of the change where its picture was not kept."""
    size = source.size
    back, last = fit(restored.image, size), fit(before.image, size)
    verdict = seen.ChangeSeen(None)
    if edited:
        verdict = seen.change_seen(before.image, edited.image, pair)
        if pair.change == "none":
            verdict = seen.ChangeSeen(None, {"moved": seen.drift(before.image, edited.image)})
    return TripMeasure(
        reframed=is_reframed(restored.size, size),
        step=rmse(np.asarray(last), np.asarray(back)),
        from_source=rmse(np.asarray(source.image), np.asarray(back)),
        change_seen=verdict.seen,
        change=verdict.measure,
    )


def judge_global(chains: Mapping[str, ChainScores], suite: Suite) -> dict[str, ChainScores]:
    """Judge what only the whole run can tell: does a style edit move more than no edit at all?"""

    def of(change: str) -> dict[str, ChainScores]:
        return {s: c for s, c in chains.items() if suite.pair_by_slug[c.pair].change == change}

    moved = [t.change["moved"] for c in of("none").values() for t in c.trips if t.change]
    if not moved:
        return dict(chains)
    drift = math.fsum(moved) / len(moved)
    return dict(chains) | {
        slug: replace(
            chain,
            trips=tuple(
                replace(
                    trip,
                    change_seen=trip.change["moved"] > seen.DRIFTS * drift,
                    change={**trip.change, "identity_drift": drift},
                )
                if trip.change
                else trip
                for trip in chain.trips
            ),
        )
        for slug, chain in of("global").items()
    }


def _trips(
    folder: RunFolder, chain: PlayedChain, on_trip: Callable[[int], None]
) -> Iterator[TripPictures]:
    for forward, backward in chain.trips:
        yield folder.read(chain, forward), folder.read(chain, backward)
        on_trip(1)
