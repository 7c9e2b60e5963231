"""A bundle's curves, half-lives and intervals, made anew from its scores alone."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evaluation.breakdown import scopes
from evaluation.bundle import Bundle, ChainLine
from evaluation.curve_shape import curve_shape
from evaluation.dynamics import dynamics, summarise_dynamics
from evaluation.half_life import (
    BROKEN,
    LEVELS,
    ChainResult,
    Summary,
    area,
    carried,
    event,
    summarise,
)
from evaluation.jpeg import jpeg_equivalent
from evaluation.metrics import METRICS, metric_class
from evaluation.ranking import MIN_PICTURES, Bounds, Interval
from evaluation.repeats import repeat_spread
from evaluation.resampling import Replicates, replicate
from evaluation.scoring import retention

# The trips people read, and curves enough to say how sure a shape is: each takes a few fits.
TICKS = (1, 2, 3, 5, 10, 15, 20, 30, 40, 50, 75, 100)
SHAPE_RESAMPLES = 100
_NOTHING = Interval(None, None)


@dataclass(frozen=True)
class Measured:
    """One chain by one metric: its distances, and what the statistics need of it."""

    chain: ChainLine
    distances: tuple[float, ...]
    blank: float
    ladder: dict[int, float]
    result: ChainResult


def metrics_run(bundle: Bundle) -> list[str]:
    """The metrics that this run was scored by, those that were not run left out."""
    return [name for name, pinned in bundle.document.run.metrics.items() if "missing" not in pinned]


def measured(bundle: Bundle, metric: str) -> list[Measured] | None:
    """Every chain by this metric; None where the metric does not cover what was scored."""
    document, suite = bundle.document, bundle.suite
    calibrations = {row.picture: row for row in document.calibrations if row.metric == metric}
    cases = {case.slug: case for case in suite.cases}
    found = []
    for chain in document.chains:
        case = cases[chain.case]
        calibration = calibrations.get(case.picture)
        distances: list[float] = []
        kept: list[float] = []
        if calibration is None and any(trip.step is not None for trip in chain.trips):
            return None
        for trip in chain.trips if calibration else ():
            distance = trip.scores.get(metric)
            q = retention(distance, calibration.blank) if calibration else None
            if trip.number != len(kept) + 1 or distance is None or q is None:
                break
            distances.append(distance)
            kept.append(q)
        if len(kept) < sum(trip.step is not None for trip in chain.trips):
            return None
        judged = chain.trips[: len(kept) + 1]
        pair = suite.pair_by_slug[case.pair]
        result = ChainResult(
            picture=case.picture,
            pair=case.pair,
            category=pair.category,
            kind=suite.picture_by_slug[case.picture].kind,
            repeat=chain.repeat,
            retention=tuple(kept),
            outcome=chain.outcome,
            change_seen=tuple(trip.change_seen for trip in judged),
            reframed=tuple(trip.reframed for trip in judged),
        )
        ladder = {int(q): d for q, d in calibration.ladder.items()} if calibration else {}
        blank = calibration.blank if calibration else 0.0
        found.append(Measured(chain, tuple(distances), blank, ladder, result))
    return found


def chain_numbers(result: ChainResult, distances: Sequence[float], trips: int) -> dict[str, Any]:
    """Retention, AUC and events of one chain, rounded as the site keeps them."""
    events = {level: event(result, trips, level) for level in LEVELS}
    return {
        "retention": [round(q, 5) for q in result.retention],
        "distances": [round(d, 6) for d in distances],
        "auc": round(float(area(np.nan_to_num(carried(result, trips)))), 5),
        "recovered": any(e.recovered for e in events.values()),
        "events": {
            f"{level:g}": {
                "time": round(e.time, 4),
                "kind": e.kind or ("lost" if result.outcome == "lost" else "censored"),
            }
            for level, e in events.items()
        },
    }


def standings(
    metric: str, chains: Sequence[Measured], trips: int
) -> Iterator[tuple[tuple[str, float, str], dict[str, Any]]]:
    """Every standing of a run by this metric: (metric, level, scope) and its numbers."""
    results = [one.result for one in chains]
    if not any(result.played for result in results):
        return
    for scope, part in scopes(results).items():
        enough = len({result.picture for result in part if result.played}) >= MIN_PICTURES
        about: dict[str, Any] = {}
        for level in LEVELS:
            summary = summarise(part, trips, level)
            if summary.usable_trips is None or summary.auc is None:
                continue
            single = scope.startswith("pair:")
            replicates = None if single else replicate({"": part}, trips, level)[""]
            bounds = Bounds.of(replicates) if replicates and enough else Bounds()
            numbers = _numbers(summary, bounds)
            if scope == "all" and replicates:
                numbers["curve"]["shown"] = _own_scale(metric, chains, trips)
                about = about or _about(chains, summary, replicates)
                repeated = any(result.repeat for result in results)
                spread = asdict(repeat_spread(results, trips, level)) if repeated else None
                numbers["details"] = about | {"repeats": spread}
            # As JSON gives it back: tuples are lists there.
            yield (metric, level, scope), json.loads(json.dumps(numbers))


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
        "usable_trips": summary.usable_trips,
        "usable_trips_low": usable.low,
        "usable_trips_high": usable.high,
        "auc": summary.auc,
        "auc_low": auc.low,
        "auc_high": auc.high,
        "curve": {
            "mean": _rounded(summary.curve),
            "low": _rounded([interval.low for interval in band]),
            "high": _rounded([interval.high for interval in band]),
        },
        "counts": {
            "cases": summary.cases,
            "chains": summary.chains,
            "completed": summary.outcomes["completed"],
            "crossed": summary.events["crossed"],
            "blank": summary.outcomes["blank"],
            "failed": summary.outcomes["failed"],
            "change_not_seen": summary.change_not_seen,
            "refused": summary.refused,
            "lost": summary.lost,
            "censored": summary.censored,
            "reframed": summary.reframed,
            "recovered": summary.recovered,
            "change_seen": summary.change_seen,
        },
        "details": {},
    }


def _own_scale(metric: str, chains: Sequence[Measured], trips: int) -> list[float | None]:
    """The metric's own scale after each trip; a broken chain carries its blank card on."""
    if metric not in METRICS:
        return []
    scale = metric_class(metric)()
    shown: list[float | None] = [None]
    for number in range(1, trips + 1):
        distances = [
            one.distances[number - 1] if number <= len(one.distances) else one.blank
            for one in chains
            if number <= len(one.distances) or one.result.outcome in BROKEN
        ]
        shown.append(scale.shown(statistics.fmean(distances)) if distances else None)
    return _rounded(shown)


def _about(chains: Sequence[Measured], summary: Summary, replicates: Replicates) -> dict[str, Any]:
    moved = [
        dynamics(steps, last, one.result.retention[-1] if one.result.retention else None)
        for one in chains
        for steps, last in [_steps(one.chain)]
        if steps
    ]
    return {
        "jpeg": {str(n): _jpeg(chains, n) for n in TICKS if n <= summary.trips},
        "dynamics": asdict(summarise_dynamics(moved)),
        "shape": asdict(curve_shape(summary.curve, replicates.curve[:SHAPE_RESAMPLES])),
    }


def _steps(chain: ChainLine) -> tuple[list[float], float]:
    """s(n) as far as they go without a gap, and how far from the source the last one ends."""
    steps: list[float] = []
    last = 0.0
    for trip in chain.trips:
        if trip.step is None:
            break
        steps.append(trip.step)
        last = trip.from_source or 0.0
    return steps, last


def _jpeg(chains: Sequence[Measured], number: int) -> float | None:
    qualities = [
        jpeg_equivalent(one.distances[number - 1], one.ladder) or 0.0
        for one in chains
        if number <= len(one.distances) and one.ladder
    ]
    if not qualities:
        return None
    middle = statistics.median(qualities)
    return round(middle, 1) if middle >= 1 else None


def _rounded(values: Sequence[float | None]) -> list[float | None]:
    return [None if value is None else round(value, 4) for value in values]
