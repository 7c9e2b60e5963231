"""From the scores of a run to its standings: curves, half-lives, intervals and what they show.

The one place where these are computed. The site stores what comes out for its own runs, and a
bundle is verified by computing it again.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from evaluation.analysis.breakdown import scopes
from evaluation.analysis.case_values import CaseValues, chain_auc, last_shown
from evaluation.analysis.covariance import Interval
from evaluation.analysis.dynamics import curve_shape, dynamics, summarise_dynamics
from evaluation.analysis.events import (
    BROKEN,
    COMPLETED,
    CONVERGED,
    KNOWN,
    LOST,
    Case,
    ChainResult,
    crossing_cause,
    event,
)
from evaluation.analysis.failure_labels import failure_labels, label_counts
from evaluation.analysis.half_life import Summary, summaries_and_values
from evaluation.analysis.levels import LEVELS
from evaluation.analysis.ranking import Bounds
from evaluation.analysis.robustness import repeat_spread
from evaluation.measuring.calibration import jpeg_equivalent, retention
from evaluation.metrics import METRICS, metric_class
from evaluation.metrics.picture import WholePicture
from evaluation.records import TripMeasures
from evaluation.witnesses.base import Verdict, heard_by_category

# The trips people read, and curves enough to say how sure a shape is: each takes a few fits.
TICKS = (1, 2, 3, 5, 10, 15, 20, 30, 40, 50, 75, 100)
SHAPE_DRAWS = 100
_NOTHING = Interval(None, None)


@dataclass(frozen=True)
class ScoredTrip:
    """One trip by one metric; a distance of None where it was `scored`: not by this metric."""

    number: int
    distance: float | None
    measures: TripMeasures
    scored: bool = True


@dataclass(frozen=True)
class MeasuredChain:
    """One chain by one metric: its distances, and what the statistics need of it."""

    result: ChainResult
    distances: tuple[float, ...]
    blank: float
    ladder: Mapping[int, float]
    #: s(n) as far as they go without a gap, and how far from the source the last one ends.
    steps: tuple[float, ...]
    end: float
    #: What the trips that came back did to the picture.
    trips: tuple[TripMeasures, ...] = ()

    def labels(self, trips: int) -> tuple[str, ...]:
        """What went wrong with it."""
        return failure_labels(self.trips, event(self.result, trips), self.steps, self.end)


def measured_chain(
    metric: str,
    case: Case,
    repeat: int,
    outcome: str,
    trips: Sequence[ScoredTrip],
    blank: float | None,
    ladder: Mapping[str, float] | Mapping[int, float],
    until: int,
) -> MeasuredChain | None:
    """A chain by one metric; None where the metric could not score what was scored.

    `trips` come in order; those that a converged chain did not play, up to `until`, repeat
    its last one. A `blank` of None: the metric has no calibration for this picture.
    Of a chain that the metric does not apply to (identity where there is no face) nobody
    asks: it is no part of the metric's standings, nor of what makes a run complete.
    """
    if outcome == CONVERGED and trips:
        rest = range(trips[-1].number + 1, until + 1)
        trips = [*trips, *(replace(trips[-1], number=number) for number in rest)]
    distances: list[float] = []
    kept: list[float] = []
    for trip in trips:
        q = retention(trip.distance, blank)
        if trip.number != len(kept) + 1 or trip.distance is None or q is None:
            break
        distances.append(trip.distance)
        kept.append(q)
    if len(kept) < sum(trip.scored for trip in trips):
        return None
    returned, judged = trips[: len(kept)], trips[: len(kept) + 1]
    steps, end = _steps(trips)
    return MeasuredChain(
        ChainResult(
            *case,
            repeat,
            retention=tuple(kept),
            outcome=outcome,
            change_seen=tuple(trip.measures.change_seen for trip in judged),
            reframed=tuple(trip.measures.reframed for trip in judged),
            because=tuple(crossing_cause(trip.measures.because) for trip in returned)
            if metric == WholePicture.name
            else (),
            cause=crossing_cause(metric),
            made=tuple(_verdict(trip, gating=True).made for trip in judged),
            undone=tuple(_verdict(trip, gating=True).undone for trip in returned),
            edits_made=tuple(_verdict(trip).made for trip in judged),
            edits_undone=tuple(_verdict(trip).undone for trip in returned),
        ),
        tuple(distances),
        blank or 0.0,
        {int(quality): distance for quality, distance in ladder.items()},
        steps,
        end,
        tuple(trip.measures for trip in returned),
    )


def _verdict(trip: ScoredTrip, *, gating: bool = False) -> Verdict:
    return Verdict.of(trip.measures.evidence, gating=gating)


def _steps(trips: Sequence[ScoredTrip]) -> tuple[tuple[float, ...], float]:
    steps: list[float] = []
    end = 0.0
    for trip in trips:
        if trip.measures.step is None:
            break
        steps.append(trip.measures.step)
        end = trip.measures.from_source or 0.0
    return tuple(steps), end


def chain_numbers(chain: MeasuredChain, trips: int) -> dict[str, Any]:
    """Retention, AUC and events of one chain, rounded as they are kept."""
    result = chain.result
    events = {level: event(result, trips, level) for level in LEVELS}
    auc = chain_auc(result, trips)
    unknown = "stopped" if result.outcome == KNOWN else "lost"
    return {
        "labels": list(chain.labels(trips)),
        "retention": [round(q, 5) for q in result.retention],
        "because": list(result.because),
        "gate": result.gate,
        "auc": None if auc is None else round(auc, 5),
        "recovered": any(e.recovered for e in events.values()),
        "events": {
            f"{level:g}": {
                "time": round(e.time, 4),
                "cause": e.cause or (unknown if e.time < trips else "censored"),
            }
            for level, e in events.items()
        },
    }


def chain_of_numbers(
    metric: str, case: Case, repeat: int, outcome: str, numbers: Mapping[str, Any], trips: int
) -> ChainResult:
    """The chain of which `chain_numbers` were kept; an `outcome` of "": it is still in play.

    Of what gates a chain only the first is kept, and no other matters.
    """
    retention = tuple(min(1.0, q) for q in numbers["retention"])
    if not outcome or (outcome == COMPLETED and len(retention) < trips):
        outcome = LOST
    number, gated = numbers["gate"] or (0, "")
    flags = (*[None] * (number - 1), False)
    return ChainResult(
        *case,
        repeat,
        retention=retention,
        outcome=outcome,
        because=tuple(numbers["because"]),
        cause=crossing_cause(metric),
        change_seen=flags if gated == "not_made" else (),
        made=flags if gated == "not_the_edit" else (),
        undone=flags if gated == "not_undone" else (),
    )


def is_complete(
    chains: Iterable[MeasuredChain], wanted: Collection[tuple[str, str, int]], trips: int
) -> bool:
    """Is the end of every (picture, pair, repeat) that the metric applies to known?"""
    results = (chain.result for chain in chains)
    return bool(wanted) and set(wanted) <= {r.key for r in results if r.played and r.tells(trips)}


@dataclass(frozen=True)
class ComputedStanding:
    """A run by one metric at one level in one scope; `numbers` by the names they are kept under.

    `values` by case come with the scope "all": those of any other are a selection of them.
    """

    level: float
    scope: str
    numbers: dict[str, Any]
    values: CaseValues | None


def standings(
    metric: str, chains: Sequence[MeasuredChain], trips: int
) -> Iterator[ComputedStanding]:
    """Every standing of a run by this metric; none where nothing was played.

    Nor at a level that some chain was stopped before: there the metric is not known.
    """
    results = [chain.result for chain in chains]
    if not any(result.played for result in results):
        return
    told = [n for n in LEVELS if all(result.tells(trips, n) for result in results)]
    shown = _own_scale(metric, chains, trips)
    repeated = len({result.repeat for result in results}) > 1
    for scope, part in scopes(results).items():
        about: dict[str, Any] = {}
        stopped = last_shown(part, trips) < trips
        for summary, values in summaries_and_values(part, trips, told):
            level = summary.level
            if summary.usable_trips is None or (summary.auc is None and not stopped):
                continue
            numbers = _numbers(summary, Bounds.of(values))
            if scope == "all":
                numbers["curve"]["shown"] = shown
                # The same at every level, so computed once.
                about = about or _about(chains, summary, values)
                spread = asdict(repeat_spread(results, trips, level)) if repeated else None
                numbers["details"] = about | {"repeats": spread}
            yield ComputedStanding(level, scope, numbers, values if scope == "all" else None)


def _numbers(summary: Summary, bounds: Bounds) -> dict[str, Any]:
    half, usable, auc = (
        interval or _NOTHING for interval in (bounds.half_life, bounds.usable_trips, bounds.auc)
    )
    band = [interval or _NOTHING for interval in bounds.curve or ()]
    return {
        "half_life": summary.half_life,
        "half_life_low": half.low,
        "half_life_high": half.high,
        "has_interval": bounds.half_life is not None,
        "median": summary.median,
        "usable_trips": summary.usable_trips,
        "usable_trips_low": usable.low,
        "usable_trips_high": usable.high,
        "usable_by_trip": _rounded(summary.usable_by_trip),
        "auc": summary.auc,
        "auc_low": auc.low,
        "auc_high": auc.high,
        "curve": {
            "mean": _rounded(summary.curve),
            "low": _rounded(interval.low for interval in band),
            "high": _rounded(interval.high for interval in band),
        },
        "survival": _rounded(summary.survival),
        "incidence": {cause: _rounded(shares) for cause, shares in summary.incidence.items()},
        "counts": {
            "cases": summary.cases,
            "chains": summary.chains,
            **summary.outcomes,
            "causes": summary.causes,
            "censored": summary.censored,
            "reframed": summary.reframed,
            "recovered": summary.recovered,
            "change_not_seen": summary.change_not_seen,
            "change_seen": summary.change_seen,
            "edits_made": summary.edits_made,
            "edits_undone": summary.edits_undone,
        },
        "details": {},
    }


def _own_scale(metric: str, chains: Sequence[MeasuredChain], trips: int) -> list[float | None]:
    """The metric's own scale after each trip: the mean distance over cases, then shown.

    A broken chain carries its blank card on, as its retention carries 0.
    """
    if metric not in METRICS:
        return []
    scale = metric_class(metric)()
    shown: list[float | None] = [None] * (trips + 1)
    for number in range(1, last_shown((chain.result for chain in chains), trips) + 1):
        distances = [
            chain.distances[number - 1] if number <= len(chain.distances) else chain.blank
            for chain in chains
            if number <= len(chain.distances) or chain.result.outcome in BROKEN
        ]
        shown[number] = scale.shown(statistics.fmean(distances)) if distances else None
    return _rounded(shown)


def _about(chains: Sequence[MeasuredChain], summary: Summary, values: CaseValues) -> dict[str, Any]:
    """Where the chains end up, what shape the curve has, and the JPEG of equal loss."""
    moved = [
        dynamics(
            list(chain.steps),
            chain.end,
            # Where a chain that was stopped would end, nobody has seen.
            chain.result.retention[-1]
            if chain.result.retention and chain.result.outcome != KNOWN
            else None,
        )
        for chain in chains
        if chain.steps
    ]
    last = last_shown((chain.result for chain in chains), summary.trips)
    design = values.design
    drawn = design.draws(values.curve, SHAPE_DRAWS) if design.enough else None
    curves = [] if drawn is None else (design.mean(values.curve) + drawn).tolist()
    return {
        "jpeg": {str(n): _jpeg(chains, n) for n in TICKS if n <= last},
        "dynamics": asdict(summarise_dynamics(moved)),
        "shape": asdict(curve_shape(summary.curve, curves)),
        "labels": label_counts(chain.labels(summary.trips) for chain in chains),
        "witnesses": heard_by_category(
            (chain.result.category, trip.evidence) for chain in chains for trip in chain.trips
        ),
    }


def _jpeg(chains: Sequence[MeasuredChain], number: int) -> float | None:
    """The JPEG quality of equal loss after n trips, median over cases; None = worse than 1.

    A broken chain is worse than any JPEG; of a lost one nothing is known.
    """
    qualities = []
    for chain in chains:
        if not chain.ladder:
            continue
        if number <= len(chain.distances):
            qualities.append(jpeg_equivalent(chain.distances[number - 1], chain.ladder) or 0.0)
        elif chain.result.outcome in BROKEN:
            qualities.append(0.0)
    middle = statistics.median(qualities) if qualities else 0.0
    return round(middle, 1) if middle >= 1 else None


def _rounded(values: Iterable[float | None]) -> list[float | None]:
    return [None if value is None else round(value, 4) for value in values]
