"""From scores to standings: the one place where the site computes what it shows.

`rebuild(run)` writes a run's numbers with their intervals, `refresh_ranks(suite)`
ranks all runs of a suite from the resamples that `rebuild` kept. Both can be
repeated at any time and give the same rows.
"""

from __future__ import annotations

import itertools
import statistics
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from django.db import transaction
from django.db.models import BooleanField, ExpressionWrapper, Prefetch, Q
from django.utils import timezone

from evaluation.breakdown import CaseSummary, case_summaries, scopes
from evaluation.curve_shape import curve_shape
from evaluation.dynamics import Dynamics, dynamics, summarise_dynamics
from evaluation.half_life import (
    LEVELS,
    METHOD_VERSION,
    ChainResult,
    Summary,
    summarise,
)
from evaluation.jpeg import jpeg_equivalent
from evaluation.metrics import metric_class
from evaluation.ranking import MIN_PICTURES, Bounds, Interval, Ranks, board_key
from evaluation.recomputing import SHAPE_RESAMPLES, TICKS, chain_numbers
from evaluation.repeats import repeat_spread
from evaluation.resampling import Replicates, replicate
from evaluation.scoring import retention
from leaderboard import exports
from leaderboard.models import (
    Calibration,
    Case,
    Chain,
    MetricVersion,
    Resamples,
    Run,
    Score,
    Standing,
    Suite,
    Trip,
)
from leaderboard.models.runs import ChainState, Outcome, RunState

EXTREMES = 6


@dataclass
class Measured:
    """One chain by one metric: distances and retention of its scored trips."""

    chain: Chain
    trips: list[Trip]
    distances: list[float] = field(default_factory=list)
    retentions: list[float] = field(default_factory=list)
    blank: float = 0.0
    ladder: Mapping[str, float] = field(default_factory=dict)

    def result(self) -> ChainResult:
        """What the statistics need of it."""
        case, count = self.chain.case, len(self.retentions)
        # A chain still in play is censored where it stands.
        outcome = self.chain.outcome if self.chain.state == ChainState.PLAYED else Outcome.LOST
        judged = self.trips[: count + 1]
        return ChainResult(
            picture=case.picture.slug,
            pair=case.pair_slug,
            category=case.category,
            kind=case.kind,
            repeat=self.chain.repeat,
            retention=tuple(self.retentions),
            outcome=outcome or Outcome.LOST,
            change_seen=tuple(trip.change_seen for trip in judged),
            reframed=tuple(trip.reframed for trip in judged),
        )


@transaction.atomic
def rebuild(run: Run) -> None:
    """Write the run's chain results and standings anew, replacing what was there."""
    chains = _chains(run)
    trips, wanted = run.suite.trips, _wanted_keys(run.suite)
    results: dict[int, dict[str, Any]] = {chain.pk: {} for chain in chains}
    run.standings.all().delete()
    complete = False
    for metric in pinned_metrics(run):
        measured = _measure(run, chains, metric)
        if measured is None:
            continue
        by_chain = [(m, m.result()) for m in measured]
        for one, result in by_chain:
            results[one.chain.pk][metric.name] = chain_numbers(result, one.distances, trips)
        part = [result for _, result in by_chain]
        played = {result.key for result in part if result.played}
        complete = complete or wanted <= played
        if played:
            _write_standings(run, metric, measured, part)
    for chain in chains:
        chain.results = results[chain.pk]
    Chain.objects.bulk_update(chains, ["results"], batch_size=200)
    Run.objects.filter(pk=run.pk).update(complete=complete)
    run.complete = complete


def refresh_ranks(suite: Suite) -> None:
    """Decide which run stands for each model of the suite, and rank them all in one pass.

    Called whenever a run ends, is published, withdrawn or cleared, so this is also where the
    suite's file of scores is asked for anew.
    """
    with transaction.atomic():
        _choose_current(suite)
        runs = [
            run
            for run in suite.runs.on_the_board().select_related("editing_model")
            if run.is_ranked
        ]
        Standing.objects.filter(run__suite=suite).update(
            rank=None, rank_low=None, rank_high=None, p_first=None, computed_at=timezone.now()
        )
        groups: dict[tuple[int, float, str], list[Standing]] = defaultdict(list)
        for standing in Standing.objects.filter(run__in=runs).defer("curve", "details", "counts"):
            groups[standing.metric_id, standing.level, standing.scope].append(standing)
        pictures = _pictures_by_scope(suite)
        for (_, _, scope), standings in groups.items():
            _rank(standings, enough=pictures.get(scope, 0) >= MIN_PICTURES)
        exports.ring(suite)


def _chains(run: Run) -> list[Chain]:
    trips = Prefetch("trips", Trip.objects.order_by("number"))
    return list(run.chains.select_related("case__picture").prefetch_related(trips))


def _wanted_keys(suite: Suite) -> set[tuple[str, str, int]]:
    cases = Case.objects.filter(suite=suite).values_list("picture__slug", "pair_slug")
    return {(*case, repeat) for case in cases for repeat in range(suite.repeats)}


def pinned_metrics(run: Run) -> list[MetricVersion]:
    """The metric versions this run is scored with; those that were not run are not among them."""
    found = []
    for name, pinned in run.metrics.items():
        if "missing" in pinned:
            continue
        metric = MetricVersion.objects.filter(
            name=name,
            version=pinned["version"],
            weights_sha256=pinned.get("weights_sha256") or "",
        ).first()
        if metric:
            found.append(metric)
    return found


def _measure(run: Run, chains: Sequence[Chain], metric: MetricVersion) -> list[Measured] | None:
    """Every chain by this metric; None where the metric does not cover the suite's pictures."""
    pixels = {chain.case.picture.pixels_sha256 for chain in chains}
    calibrations = {
        row.pixels_sha256: row
        for row in Calibration.objects.filter(metric=metric, pixels_sha256__in=pixels)
    }
    scores: dict[int, dict[int, float]] = defaultdict(dict)
    rows = Score.objects.filter(trip__chain__run=run, metric=metric)
    for chain_id, number, distance in rows.values_list(
        "trip__chain_id", "trip__number", "distance"
    ):
        scores[chain_id][number] = distance
    measured = []
    for chain in chains:
        one = Measured(chain, list(chain.trips.all()))
        measured.append(one)
        calibration = calibrations.get(chain.case.picture.pixels_sha256)
        if calibration is None:
            if any(trip.scored_at for trip in one.trips):
                return None
            continue
        one.blank, one.ladder = calibration.blank, calibration.ladder
        for number in range(1, run.suite.trips + 1):
            measured_here = scores[chain.pk].get(number)
            kept = retention(measured_here, one.blank)
            if measured_here is None or kept is None:
                break
            one.distances.append(measured_here)
            one.retentions.append(kept)
        scored = sum(1 for trip in one.trips if trip.scored_at)
        if len(one.retentions) < scored:
            return None  # the metric could not score some pictures of this suite
    return measured


def _write_standings(
    run: Run, metric: MetricVersion, measured: Sequence[Measured], results: Sequence[ChainResult]
) -> None:
    trips = run.suite.trips
    standings, resamples = [], []
    for scope, part in scopes(results).items():
        pictures = {result.picture for result in part if result.played}
        enough = len(pictures) >= MIN_PICTURES
        about_run: dict[str, Any] = {}
        for level in LEVELS:
            summary = summarise(part, trips, level)
            if summary.usable_trips is None or summary.auc is None:
                continue
            # Single pairs get no bootstrap: they have few pictures, and are many.
            replicates = (
                None if scope.startswith("pair:") else replicate({"": part}, trips, level)[""]
            )
            bounds = Bounds.of(replicates) if replicates and enough else Bounds()
            standing = _standing(run, metric, scope, summary, bounds)
            if scope == "all" and replicates:
                standing.curve["shown"] = _own_scale(metric, measured, results, trips)
                # The same at every level, so computed once.
                about_run = about_run or _about_run(measured, summary, replicates)
                standing.details = about_run | _about_cases(measured, results, trips, level)
            standings.append(standing)
            if replicates:
                resamples.append(_packed(standing, replicates))
    Standing.objects.bulk_create(standings)
    Resamples.objects.bulk_create(resamples)


def _standing(
    run: Run, metric: MetricVersion, scope: str, summary: Summary, bounds: Bounds
) -> Standing:
    half, usable, auc = (
        bounds.half_life or _NOTHING,
        bounds.usable_trips or _NOTHING,
        bounds.auc or _NOTHING,
    )
    band = [interval or _NOTHING for interval in bounds.curve or ()]
    assert summary.usable_trips is not None and summary.auc is not None  # noqa: S101, PT018
    return Standing(
        run=run,
        metric=metric,
        level=summary.level,
        scope=scope,
        half_life=summary.half_life,
        half_life_low=half.low,
        half_life_high=half.high,
        has_interval=bounds.half_life is not None,
        usable_trips=summary.usable_trips,
        usable_trips_low=usable.low,
        usable_trips_high=usable.high,
        auc=summary.auc,
        auc_low=auc.low,
        auc_high=auc.high,
        curve={
            "mean": _rounded(summary.curve),
            "low": _rounded(interval.low for interval in band),
            "high": _rounded(interval.high for interval in band),
        },
        counts={
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
        method_version=METHOD_VERSION,
    )


_NOTHING = Interval(None, None)


def _rounded(values: Iterable[float | None]) -> list[float | None]:
    return [None if value is None else round(value, 4) for value in values]


def _own_scale(
    metric: MetricVersion, measured: Sequence[Measured], results: Sequence[ChainResult], trips: int
) -> list[float | None]:
    """The metric's own scale after each trip: the mean distance over cases, then shown.

    A broken chain carries its blank card on, as its retention carries 0.
    """
    scale = metric_class(metric.name)()
    shown: list[float | None] = [None]
    for number in range(1, trips + 1):
        distances = []
        for one, result in zip(measured, results, strict=True):
            if number <= len(one.distances):
                distances.append(one.distances[number - 1])
            elif result.outcome in ("refused", "blank", "failed"):
                distances.append(one.blank)
        shown.append(scale.shown(statistics.fmean(distances)) if distances else None)
    return _rounded(shown)


def _about_run(
    measured: Sequence[Measured], summary: Summary, replicates: Replicates
) -> dict[str, Any]:
    """Where the chains head, what shape the curve has, and the JPEG of equal loss."""
    moved = [_dynamics(one) for one in measured if _steps(one)]
    return {
        "jpeg": {str(n): _jpeg(measured, n) for n in TICKS if n <= summary.trips},
        "dynamics": asdict(summarise_dynamics(moved)),
        "shape": asdict(curve_shape(summary.curve, replicates.curve[:SHAPE_RESAMPLES])),
    }


def _about_cases(
    measured: Sequence[Measured], results: Sequence[ChainResult], trips: int, level: float
) -> dict[str, Any]:
    """The extreme cases, and the spread of reruns where the suite repeats its cases."""
    cases = case_summaries(results, trips, level)
    pk = {(r.picture, r.pair): m.chain.case_id for m, r in zip(measured, results, strict=True)}

    def numbers(some: Sequence[CaseSummary]) -> list[dict[str, Any]]:
        return [
            {
                "case": pk[case.picture, case.pair],
                "auc": case.summary.auc,
                "usable_trips": case.summary.usable_trips,
            }
            for case in some
        ]

    repeated = any(result.repeat for result in results)
    return {
        "worst": numbers(cases[:EXTREMES]),
        "best": numbers(cases[::-1][:EXTREMES]),
        "repeats": asdict(repeat_spread(results, trips, level)) if repeated else None,
    }


def _steps(one: Measured) -> list[float]:
    """s(n) of the scored trips, as far as they go without a gap."""
    steps = (trip.step for trip in one.trips)
    return [
        float(step)
        for step in itertools.takewhile(lambda s: s is not None, steps)
        if step is not None
    ]


def _dynamics(one: Measured) -> Dynamics:
    steps = _steps(one)
    last = one.trips[len(steps) - 1].from_source or 0.0
    return dynamics(steps, last, one.retentions[-1] if one.retentions else None)


def _jpeg(measured: Sequence[Measured], number: int) -> float | None:
    """The JPEG quality of equal loss after n trips, median over cases; None = worse than 1."""
    qualities = [
        jpeg_equivalent(one.distances[number - 1], {int(q): d for q, d in one.ladder.items()})
        or 0.0
        for one in measured
        if number <= len(one.distances) and one.ladder
    ]
    if not qualities:
        return None
    middle = statistics.median(qualities)
    return round(middle, 1) if middle >= 1 else None


def _packed(standing: Standing, replicates: Replicates) -> Resamples:
    def pack(values: Any) -> bytes:
        return zlib.compress(np.asarray(values, dtype=np.float32).tobytes(), level=1)

    return Resamples(
        standing=standing,
        half_life=pack(replicates.half_life),
        usable_trips=pack(replicates.usable_trips),
    )


def _unpacked(resamples: Resamples) -> Replicates:
    def unpack(data: Any) -> Any:
        return np.frombuffer(zlib.decompress(bytes(data)), dtype=np.float32).astype(float)

    nothing = np.zeros(0)
    return Replicates(
        half_life=unpack(resamples.half_life),
        usable_trips=unpack(resamples.usable_trips),
        auc=nothing,
        curve=nothing,
    )


def _choose_current(suite: Suite) -> None:
    """The newest finished public run of each model stands for it; nothing else does.

    One that was played elsewhere only where there is none of ours.
    """
    newest: dict[int, int] = {}
    finished = suite.runs.public().filter(state=RunState.FINISHED)
    ours = ExpressionWrapper(Q(source=Run.Source.OURS), BooleanField())
    finished = finished.order_by(ours, "finished_at", "pk")
    for pk, model in finished.values_list("pk", "editing_model_id"):
        newest[model] = pk
    suite.runs.filter(current=True).exclude(pk__in=newest.values()).update(current=False)
    suite.runs.filter(pk__in=newest.values(), current=False).update(current=True)


def _pictures_by_scope(suite: Suite) -> dict[str, int]:
    pictures: dict[str, set[int]] = defaultdict(set)
    cases = suite.cases.values_list("picture_id", "category", "kind", "pair_slug")
    for picture, category, kind, pair in cases:
        for scope in ("all", f"category:{category}", f"kind:{kind}", f"pair:{pair}"):
            pictures[scope].add(picture)
    return {scope: len(found) for scope, found in pictures.items()}


def _rank(standings: list[Standing], *, enough: bool) -> None:
    standings.sort(key=lambda s: (board_key(s), s.run_id))
    kept = Resamples.objects.in_bulk([s.pk for s in standings], field_name="standing_id")
    if len(kept) < len(standings):
        return  # single pairs: shown in order, without ranks
    ranks = Ranks([_unpacked(kept[s.pk]) for s in standings], enough=enough)
    for standing, rank, interval, p_first in zip(
        standings, ranks.shared, ranks.intervals, ranks.p_first, strict=True
    ):
        standing.rank = rank
        standing.rank_low, standing.rank_high = interval
        standing.p_first = round(p_first, 4)
    Standing.objects.bulk_update(standings, ["rank", "rank_low", "rank_high", "p_first"])
