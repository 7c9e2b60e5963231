"""Standings of a run from its scores: curves, half-lives, intervals and details.

A standing has the results of a run by one metric at one threshold, for one scope (part of the
suite). No other module computes standings. The site stores the standings of its runs; the
verification of a bundle computes them again.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from evaluation.analysis.case_values import CaseValues, chain_auc, last_common_trip
from evaluation.analysis.covariance import Interval
from evaluation.analysis.dynamics import dynamics, summarise_dynamics
from evaluation.analysis.edit_quality import Rating, edit_quality, rating
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
from evaluation.analysis.half_life import Summary, scopes, summaries_and_values
from evaluation.analysis.ranking import Bounds
from evaluation.analysis.robustness import repeat_spread
from evaluation.analysis.thresholds import THRESHOLDS
from evaluation.measuring.calibration import jpeg_equivalent, retention
from evaluation.metrics import HEADLINE, METRICS, metric_class
from evaluation.records import StandingRecord, TripMeasures
from evaluation.witnesses.base import Verdict, count_verdicts

# For these trips, the JPEG quality that loses as much is displayed.
TICKS = (1, 2, 3, 5, 10, 15, 20, 30, 40, 50, 75, 100)
_NO_INTERVAL = Interval(None, None)


@dataclass(frozen=True)
class ScoredTrip:
    """One trip as scored by a metric. `distance` may be None although the trip was `scored`."""

    number: int
    distance: float | None
    measures: TripMeasures
    scored: bool = True


@dataclass(frozen=True)
class MeasuredChain:
    """One chain as scored by one metric: distances, and what its statistics are computed from."""

    result: ChainResult
    distances: tuple[float, ...]
    blank: float
    ladder: Mapping[int, float]
    #: `steps` are the RMSE s(n) from each restored image to the next, up to the first trip without
    #: an RMSE. `end` is the RMSE from the source to the last of these images.
    steps: tuple[float, ...]
    end: float
    #: The measures of trips with a restored image.
    trips: tuple[TripMeasures, ...] = ()

    @property
    def rating(self) -> Rating | None:
        """The judge's rating of the first edit."""
        return rating(self.result, self.trips[0].evidence if self.trips else ())


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
    """Return a chain by one metric; None if a scored trip has no distance by this metric.

    `trips` are in order. If the chain converged, its last trip is repeated up to trip `until`.
    `blank` is None if the metric has no calibration on this image. Callers must leave out chains to
    which the metric does not apply, for example the face metric if the image has no face.
    """
    if outcome == CONVERGED and trips:
        remaining = range(trips[-1].number + 1, until + 1)
        trips = [*trips, *(replace(trips[-1], number=number) for number in remaining)]
    distances: list[float] = []
    retentions: list[float] = []
    for trip in trips:
        q = retention(trip.distance, blank)
        if trip.number != len(retentions) + 1 or trip.distance is None or q is None:
            break
        distances.append(trip.distance)
        retentions.append(q)
    if len(retentions) < sum(trip.scored for trip in trips):
        return None
    restored, begun = trips[: len(retentions)], trips[: len(retentions) + 1]
    steps, end = _steps(trips)
    return MeasuredChain(
        ChainResult(
            *case,
            repeat,
            retention=tuple(retentions),
            outcome=outcome,
            change_seen=tuple(trip.measures.change_seen for trip in begun),
            reframed=tuple(trip.measures.reframed for trip in begun),
            because=tuple(crossing_cause(trip.measures.because) for trip in restored)
            if metric == HEADLINE
            else (),
            cause=crossing_cause(metric),
            made=tuple(_verdict(trip, gating=True).made for trip in begun),
            undone=tuple(_verdict(trip, gating=True).undone for trip in restored),
            edits_made=tuple(_verdict(trip).made for trip in begun),
            edits_undone=tuple(_verdict(trip).undone for trip in restored),
        ),
        tuple(distances),
        blank or 0.0,
        {int(quality): distance for quality, distance in ladder.items()},
        steps,
        end,
        tuple(trip.measures for trip in restored),
    )


def _verdict(trip: ScoredTrip, *, gating: bool = False) -> Verdict:
    return Verdict.from_evidence(trip.measures.evidence, gating=gating)


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
    """Return retention, AUC and events of one chain, rounded as they are stored."""
    result = chain.result
    events = {threshold: event(result, trips, threshold) for threshold in THRESHOLDS}
    auc = chain_auc(result, trips)
    unknown = "stopped" if result.outcome == KNOWN else "lost"
    return {
        "retention": [round(q, 5) for q in result.retention],
        "because": list(result.because),
        "gate": result.gate,
        "auc": None if auc is None else round(auc, 5),
        "recovered": any(e.recovered for e in events.values()),
        "events": {
            f"{threshold:g}": {
                "time": round(e.time, 4),
                "cause": e.cause or (unknown if e.time < trips else "censored"),
            }
            for threshold, e in events.items()
        },
    }


def chain_of_numbers(
    metric: str, case: Case, repeat: int, outcome: str, numbers: Mapping[str, Any], trips: int
) -> ChainResult:
    """Restore a chain from stored `chain_numbers`.

    An empty `outcome` means that the chain is still being played. Of a chain's gates (trips whose
    edit was not made or not undone), only the first is stored, because it ends the chain.
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
    chains: Iterable[MeasuredChain], required: Collection[tuple[str, str, int]], trips: int
) -> bool:
    """Return True if every required (image, pair, repeat) is played to its end by this metric."""
    results = (chain.result for chain in chains)
    return bool(required) and set(required) <= {
        r.key for r in results if r.played and r.is_decided(trips)
    }


def standings(
    metric: str, chains: Sequence[MeasuredChain], trips: int
) -> Iterator[tuple[StandingRecord, CaseValues | None]]:
    """Yield every standing of a run by this metric; nothing if no chain was played.

    Only the scope "all" comes with its values by case; the values of other scopes are selected from
    these. A threshold is left out if a chain was stopped before its retention fell to the
    threshold.
    """
    results = [chain.result for chain in chains]
    if not any(result.played for result in results):
        return
    ratings = {chain.result.key: chain.rating for chain in chains}
    decided_thresholds = [
        n for n in THRESHOLDS if all(result.is_decided(trips, n) for result in results)
    ]
    shown = _shown_values(metric, chains, trips)
    repeated = len({result.repeat for result in results}) > 1
    for scope, part in scopes(results).items():
        details: dict[str, Any] = {}
        stopped = last_common_trip(part, trips) < trips
        quality = edit_quality([rated for row in part if (rated := ratings[row.key])])
        for summary, values in summaries_and_values(part, trips, decided_thresholds):
            threshold = summary.threshold
            if summary.usable_trips is None or (summary.auc is None and not stopped):
                continue
            numbers = _numbers(summary, Bounds.of(values))
            if quality:
                numbers["counts"]["rubric"] = asdict(quality)
            if scope == "all":
                numbers["curve"]["shown"] = shown
                # The details do not depend on the threshold.
                details = details or _details(chains, summary)
                spread = asdict(repeat_spread(results, trips, threshold)) if repeated else None
                numbers["details"] = details | {"repeats": spread}
            record = StandingRecord(metric=metric, scope=scope, **numbers)
            yield record, values if scope == "all" else None


def _numbers(summary: Summary, bounds: Bounds) -> dict[str, Any]:
    """Return the fields of a standing except metric and scope."""
    half, usable, auc = (
        interval or _NO_INTERVAL for interval in (bounds.half_life, bounds.usable_trips, bounds.auc)
    )
    band = [interval or _NO_INTERVAL for interval in bounds.curve or ()]
    return {
        "threshold": summary.threshold,
        "half_life": summary.half_life,
        "half_life_low": half.low,
        "half_life_high": half.high,
        "has_interval": bounds.half_life is not None,
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


def _shown_values(metric: str, chains: Sequence[MeasuredChain], trips: int) -> list[float | None]:
    """Return the metric's value as displayed after each trip, from the mean distance of all chains.

    After the end of a broken chain, the distance of a blank card counts, whose retention is 0.
    """
    if metric not in METRICS:
        return []
    scale = metric_class(metric)()
    shown: list[float | None] = [None] * (trips + 1)
    for number in range(1, last_common_trip((chain.result for chain in chains), trips) + 1):
        distances = [
            chain.distances[number - 1] if number <= len(chain.distances) else chain.blank
            for chain in chains
            if number <= len(chain.distances) or chain.result.outcome in BROKEN
        ]
        shown[number] = scale.shown(statistics.fmean(distances)) if distances else None
    return _rounded(shown)


def _details(chains: Sequence[MeasuredChain], summary: Summary) -> dict[str, Any]:
    """Return dynamics, JPEG qualities and verdicts of witnesses (automatic checks of edits)."""
    dynamics_by_chain = [
        dynamics(
            list(chain.steps),
            chain.end,
            # A chain that was stopped because its result is known may still have been changing.
            chain.result.retention[-1]
            if chain.result.retention and chain.result.outcome != KNOWN
            else None,
        )
        for chain in chains
        if chain.steps
    ]
    last = last_common_trip((chain.result for chain in chains), summary.trips)
    return {
        "jpeg": {str(n): _equal_jpeg_quality(chains, n) for n in TICKS if n <= last},
        "dynamics": asdict(summarise_dynamics(dynamics_by_chain)),
        "witnesses": count_verdicts(
            (chain.result.category, trip.evidence) for chain in chains for trip in chain.trips
        ),
    }


def _equal_jpeg_quality(chains: Sequence[MeasuredChain], number: int) -> float | None:
    """Return the JPEG quality that loses as much as n trips, as the median over chains.

    None means that the loss is larger than at JPEG quality 1. A broken chain counts as such a loss.
    Interrupted chains are left out.
    """
    qualities = []
    for chain in chains:
        if not chain.ladder:
            continue
        if number <= len(chain.distances):
            qualities.append(jpeg_equivalent(chain.distances[number - 1], chain.ladder) or 0.0)
        elif chain.result.outcome in BROKEN:
            qualities.append(0.0)
    typical = statistics.median(qualities) if qualities else 0.0
    return round(typical, 1) if typical >= 1 else None


def _rounded(values: Iterable[float | None]) -> list[float | None]:
    return [None if value is None else round(value, 4) for value in values]
