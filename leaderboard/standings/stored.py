"""Standings (a run's results by a metric): computed by the harness, stored and ranked here.

`rebuild(run)` stores a run's results with their intervals, and its values for each case.
`refresh_ranks(suite)` ranks all runs of a suite by those values. Both are idempotent.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from django.db import transaction
from django.db.models import BooleanField, ExpressionWrapper, Prefetch, Q, QuerySet
from django.utils import timezone

from evaluation.analysis import stopping
from evaluation.analysis.events import CROSSINGS, ChainResult, event
from evaluation.analysis.events import Case as CoreCase
from evaluation.analysis.half_life import METHOD_VERSION, CaseSummary, case_summaries_by_threshold
from evaluation.analysis.no_reference import QualityChain, no_reference_numbers
from evaluation.analysis.ranking import rank_scope
from evaluation.analysis.standings import (
    MeasuredChain,
    ScoredTrip,
    chain_numbers,
    chain_of_numbers,
    is_complete,
    measured_chain,
)
from evaluation.analysis.standings import standings as compute_standings
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD
from evaluation.metrics import HEADLINE, METRICS, metric_class
from evaluation.metrics.no_reference import no_reference_pins
from evaluation.records import Played
from leaderboard import job_queue
from leaderboard.models import (
    BoardRecord,
    Calibration,
    Case,
    CaseValues,
    Chain,
    MetricVersion,
    NoReferenceResult,
    Run,
    RunProgress,
    Score,
    Standing,
    Suite,
    Trip,
    TripStep,
)
from leaderboard.models.runs import ChainState, Outcome, RunState
from leaderboard.models.standings import RANK_FIELDS, RANK_FIELDS_HERE

Kind = BoardRecord.Kind

#: The fields that ranking writes.
ALL_RANK_FIELDS = (*RANK_FIELDS, *RANK_FIELDS_HERE)
#: The values of RANK_FIELDS of a run that is not ranked.
NO_RANK = (None,) * len(RANK_FIELDS)
#: The number of worst and of best cases stored for each threshold.
EXTREMES = 6
#: The number of cases stored for each cause that ends chains.
ENDINGS = 8


@transaction.atomic
def rebuild(run: Run) -> None:
    """Compute and store the run's chain results and standings again."""
    chains = _with_trips(run.chains.all())
    trips, cases = run.suite.trips, suite_cases(run.suite)
    results: dict[int, dict[str, Any]] = {chain.pk: {} for chain in chains}
    Standing.all_versions.filter(run=run).delete()
    run.case_values.all().delete()
    complete = False
    rows = run.suite.cases.values_list("image__slug", "pair_slug", "repeats")
    expected = {
        (image, pair, repeat)
        for image, pair, repeats in rows
        for repeat in range(run.core_arm.repeats_of(repeats))
    }
    for metric in pinned_metrics(run):
        measured = _measure(run, chains, metric)
        if not measured:
            continue
        for chain, row in measured:
            results[chain.pk][metric.name] = chain_numbers(row, trips)
        if not _is_selective(metric.name):
            complete = complete or is_complete([row for _, row in measured], expected, trips)
        _write_standings(run, metric, cases, measured)
    for chain in chains:
        chain.results = results[chain.pk]
        chain.summarise()
    summary = ["results", "cause", "usable_trips", "auc"]
    Chain.objects.bulk_update(chains, summary, batch_size=200)
    inner_seconds = TripStep.objects.filter(chain__run=run).values_list("seconds", flat=True)
    median, p95 = latency((trip for chain in chains for trip in chain.trips.all()), inner_seconds)
    write_no_reference(run, chains)
    Run.objects.filter(pk=run.pk).update(complete=complete)
    RunProgress.objects.filter(pk=run.pk).update(median_seconds=median, p95_seconds=p95)
    run.complete, run.progress.median_seconds, run.progress.p95_seconds = complete, median, p95


def latency(
    trips: Iterable[Trip], inner_seconds: Iterable[float | None] = ()
) -> tuple[float | None, float | None]:
    """Return the median and 95th percentile of the seconds per edit.

    `inner_seconds` are the seconds of edits between the first and the last of their trip.
    """
    both = ((trip.edited_seconds, trip.restored_seconds) for trip in trips)
    seconds_or_none = (*inner_seconds, *(seconds for pair in both for seconds in pair))
    recorded = [seconds for seconds in seconds_or_none if seconds is not None]
    if not recorded:
        return None, None
    median, p95 = np.percentile(recorded, (50, 95))
    return float(median), float(p95)


def refresh_ranks(suite: Suite) -> None:
    """Choose the current run of each model of the suite, and rank these runs.

    All runs are ranked together. The runs played on this site are also ranked without the others,
    because shared ranks depend on all the runs compared.

    Called when a run ends, is published, withdrawn or cleared; enqueues an export of the scores.
    """
    with transaction.atomic():
        _choose_current(suite)
        runs = [
            run
            for run in suite.runs.counted().filter(current=True).select_related("editing_model")
            if run.is_ranked
        ]
        now = timezone.now()
        _touch(suite, now)
        # Write only rows whose rank changed: each run has hundreds of large rows.
        unranked = Standing.objects.filter(run__suite=suite, rank__isnull=False)
        unranked.exclude(run__in=runs).update(**dict.fromkeys(ALL_RANK_FIELDS), computed_at=now)
        groups: dict[tuple[int, float], dict[str, list[Standing]]] = defaultdict(dict)
        # P(first) is drawn at random and depends on the order of the runs.
        standings = Standing.objects.filter(run__in=runs).order_by("run_id")
        for standing in standings.only(
            "run", "metric", "threshold", "scope", "usable_trips", *ALL_RANK_FIELDS
        ):
            scopes = groups[standing.metric_id, standing.threshold]
            scopes.setdefault(standing.scope, []).append(standing)
        cases = suite_cases(suite)
        runs_here = {run.pk for run in runs if run.played == Played.HERE}
        for (metric, threshold), by_scope in groups.items():
            values = case_values_by_run(metric, threshold, runs)
            _rank(by_scope, cases, values, suite.trips, runs_here, now)
        _record_changes(suite, now)
        job_queue.enqueue(suite.pk, job_queue.EXPORT, job_queue.GPU)


def _touch(suite: Suite, now: datetime) -> None:
    """Set one standing's date to now: pages and reports detect changes by the latest date."""
    newest = Standing.objects.filter(run__suite=suite).order_by("-pk").values_list("pk", flat=True)
    Standing.objects.filter(pk__in=list(newest[:1])).update(computed_at=now)


def _with_trips(chains: QuerySet[Chain]) -> list[Chain]:
    trips = Prefetch("trips", Trip.objects.order_by("number"))
    return list(chains.select_related("case__image").prefetch_related(trips))


def suite_cases(suite: Suite) -> list[CoreCase]:
    """Return the suite's cases in the order in which their values are stored."""
    rows = Case.objects.filter(suite=suite).order_by("position")
    return [
        CoreCase(*row)
        for row in rows.values_list("image__slug", "pair_slug", "category", "kind", "origin")
    ]


def core_case(chain: Chain) -> CoreCase:
    """Return the chain's case as the analysis represents it."""
    case = chain.case
    return CoreCase(case.image.slug, case.pair_slug, case.category, case.kind, case.origin)


def chain_result(chain: Chain, metric: str, trips: int) -> ChainResult | None:
    """Return a scored chain's result by one metric; None if the metric was not run."""
    numbers = chain.numbers(metric)
    if not numbers:
        return None
    return chain_of_numbers(metric, core_case(chain), chain.repeat, chain.outcome, numbers, trips)


def _is_selective(metric: str) -> bool:
    """Return True if a metric applies to some images only, such as faces."""
    return metric in METRICS and metric_class(metric).selective


def pinned_metrics(run: Run) -> list[MetricVersion]:
    """Return the metric versions that score this run."""
    rows = []
    for name in run.scored_metrics:
        pinned = run.metrics[name]
        metric = MetricVersion.objects.filter(
            name=name,
            version=pinned["version"],
            weights_sha256=pinned.get("weights_sha256") or "",
        ).first()
        if metric:
            rows.append(metric)
    return rows


def _measure(
    run: Run, chains: Sequence[Chain], metric: MetricVersion, outcome: str = ""
) -> list[tuple[Chain, MeasuredChain]] | None:
    """Return each chain with its measurements; None if a calibration is missing.

    A calibration is the metric's distances from a source to copies with a known loss.
    `outcome` replaces the outcome of every chain.
    """
    pixels = {chain.case.image.pixels_sha256 for chain in chains}
    calibrations = {
        row.pixels_sha256: row
        for row in Calibration.objects.filter(metric=metric, pixels_sha256__in=pixels)
    }
    scores = Score.objects.filter(trip__chain__in=chains, metric=metric)
    distances = dict(scores.values_list("trip_id", "distance"))
    measured = []
    for chain in chains:
        calibration = calibrations.get(chain.case.image.pixels_sha256)
        if calibration is None and _is_selective(metric.name):
            continue
        # An unfinished chain is censored: the trips after its last played trip are unknown.
        ended = chain.outcome if chain.state == ChainState.PLAYED else ""
        trips = [
            ScoredTrip(
                trip.number,
                distances.get(trip.pk),
                trip.measures,
                scored=trip.scored_at is not None,
            )
            for trip in chain.trips.all()
        ]
        row = measured_chain(
            metric.name,
            core_case(chain),
            chain.repeat,
            outcome or ended or Outcome.LOST,
            trips,
            calibration.blank if calibration else None,
            calibration.ladder if calibration else {},
            run.suite.trips,
        )
        if row is None:
            return None
        measured.append((chain, row))
    return measured


def known_at(chain: Chain, metric: MetricVersion) -> int | None:
    """Return the trip at which the chain's result by this metric is known, or None."""
    # Replace the chain's outcome: only its scores may decide its result.
    chains = _with_trips(Chain.objects.filter(pk=chain.pk))
    measured = _measure(chain.run, chains, metric, Outcome.LOST)
    return stopping.known_at(measured[0][1].result) if measured else None


def _write_standings(
    run: Run,
    metric: MetricVersion,
    cases: Sequence[CoreCase],
    measured: Sequence[tuple[Chain, MeasuredChain]],
) -> None:
    trips = run.suite.trips
    standings, values = [], []
    records = list(compute_standings(metric.name, [row for _, row in measured], trips))
    extremes = _extremes(measured, trips, [row.threshold for row, by_case in records if by_case])
    for row, by_case in records:
        numbers = row.model_dump(exclude={"metric"})
        if by_case:
            endings = _endings(measured, trips, row.threshold)
            numbers["details"] |= extremes[row.threshold] | {"endings": endings}
            usable = by_case.aligned(cases)
            values.append(
                CaseValues(
                    run=run, metric=metric, threshold=row.threshold, usable_trips=usable.tobytes()
                )
            )
        standings.append(Standing(run=run, metric=metric, method_version=METHOD_VERSION, **numbers))
    Standing.objects.bulk_create(standings)
    CaseValues.objects.bulk_create(values)


def _extremes(
    measured: Sequence[tuple[Chain, MeasuredChain]], trips: int, thresholds: Sequence[float]
) -> dict[float, dict[str, Any]]:
    """Return the worst and the best cases at each threshold."""
    by_threshold = case_summaries_by_threshold(
        [row.result for _, row in measured], trips, thresholds
    )
    pk = {(row.result.image, row.result.pair): chain.case_id for chain, row in measured}

    def numbers(summaries: Sequence[CaseSummary]) -> list[dict[str, Any]]:
        return [
            {
                "case": pk[case.image, case.pair],
                "auc": case.auc,
                "usable_trips": case.usable_trips,
            }
            for case in summaries
        ]

    return {
        threshold: {"worst": numbers(cases[:EXTREMES]), "best": numbers(cases[::-1][:EXTREMES])}
        for threshold, cases in by_threshold.items()
    }


def _endings(
    measured: Sequence[tuple[Chain, MeasuredChain]], trips: int, threshold: float
) -> dict[str, list[dict[str, int]]]:
    """Return the cases that ended first, by cause, each with the trip in which it ended."""
    by_cause: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for chain, row in measured:
        ended = event(row.result, trips, threshold)
        if ended.cause and chain.repeat == 0:
            by_cause[ended.cause].append((ended.time, chain.case_id))
    return {
        cause: [
            # A threshold is crossed within a trip; any other end comes before the next trip.
            {"case": case, "trip": max(1, math.ceil(time) if cause in CROSSINGS else int(time) + 1)}
            for time, case in sorted(rows)[:ENDINGS]
        ]
        for cause, rows in by_cause.items()
    }


def case_values_by_run(metric: int, threshold: float, runs: Sequence[Run]) -> dict[int, Any]:
    """Return the usable trips by case of each run, in the suite's order."""
    rows = CaseValues.objects.filter(metric=metric, threshold=threshold, run__in=runs)
    return {
        run: np.frombuffer(bytes(data), dtype=np.float64)
        for run, data in rows.values_list("run", "usable_trips")
    }


def _choose_current(suite: Suite) -> None:
    """Make the newest finished public run of each model its current run.

    A run played here takes precedence over runs played elsewhere. Arms of experiments are never
    current.
    """
    newest: dict[int, int] = {}
    finished = suite.runs.counted().outside_experiments().filter(state=RunState.FINISHED)
    ours = ExpressionWrapper(Q(source=Run.Source.OURS), BooleanField())
    finished = finished.order_by(ours, "finished_at", "pk")
    for pk, model in finished.values_list("pk", "editing_model_id"):
        newest[model] = pk
    suite.runs.filter(current=True).exclude(pk__in=newest.values()).update(current=False)
    suite.runs.filter(pk__in=newest.values(), current=False).update(current=True)


def _rank(
    by_scope: Mapping[str, list[Standing]],
    cases: Sequence[CoreCase],
    values: Mapping[int, Any],
    trips: int,
    runs_here: Collection[int],
    now: datetime,
) -> None:
    """Rank the standings of one metric at one threshold, scope by scope.

    `runs_here`: the runs played on this site, which are also ranked without the others.
    """
    changed = []
    for scope, standings in by_scope.items():
        standings_here = [standing for standing in standings if standing.run_id in runs_here]
        ranks = _ranks(scope, standings, cases, values, trips)
        ranks_here = (
            ranks
            if len(standings_here) == len(standings)
            else _ranks(scope, standings_here, cases, values, trips)
        )
        for standing in standings:
            rank = (*ranks[standing.run_id], *ranks_here.get(standing.run_id, NO_RANK))
            if tuple(getattr(standing, name) for name in ALL_RANK_FIELDS) != rank:
                for name, value in zip(ALL_RANK_FIELDS, rank, strict=True):
                    setattr(standing, name, value)
                standing.computed_at = now
                changed.append(standing)
    Standing.objects.bulk_update(changed, [*ALL_RANK_FIELDS, "computed_at"], batch_size=500)


def _ranks(
    scope: str,
    standings: Sequence[Standing],
    cases: Sequence[CoreCase],
    values: Mapping[int, Any],
    trips: int,
) -> dict[int, tuple[Any, ...]]:
    """Return the values of `RANK_FIELDS` of each run, ranked among these standings."""
    # Values that do not match the cases belong to a suite that was changed by hand.
    if not standings or any(len(values.get(s.run_id, ())) != len(cases) for s in standings):
        return {standing.run_id: NO_RANK for standing in standings}
    table = np.column_stack([values[standing.run_id] for standing in standings])
    ranks = rank_scope(
        cases, table, trips, scope, [standing.usable_trips for standing in standings]
    )
    rows = zip(standings, ranks.shared, ranks.sets, ranks.tiers, ranks.p_first, strict=True)
    return {
        standing.run_id: (shared, *between, tier, None if first is None else round(first, 4))
        for standing, shared, between, tier, first in rows
    }


# The history of the board: a record for every change of a model's standing.


def _record_changes(suite: Suite, at: datetime) -> None:
    """Save the changes of the suite's board.

    Excludes reference editors, sealed (secret) suites and results published elsewhere.
    """
    if suite.sealed or suite.published_elsewhere:
        return
    rows = BoardRecord.objects.filter(run__suite=suite).order_by("at", "pk").select_related("run")
    last = {row.run.editing_model_id: row for row in rows.defer("run__provenance")}
    standings = Standing.objects.filter(
        run__in=suite.runs.counted().filter(current=True, editing_model__is_reference=False),
        metric__name=HEADLINE,
        threshold=DEFAULT_THRESHOLD,
        scope="all",
    )
    now = {
        standing.run.editing_model_id: standing
        for standing in standings.select_related("run").defer("details", "run__provenance")
    }
    changes = []
    for model in dict.fromkeys([*now, *last]):
        before, standing = last.get(model), now.get(model)
        # A model that has left the board keeps its last numbers.
        numbers = standing or before
        if numbers and (kind := _change(before, standing)):
            changes.append(
                BoardRecord(
                    run=numbers.run,
                    at=at,
                    kind=kind,
                    rank=standing.rank if standing else None,
                    rank_before=before.rank if before else None,
                    half_life=numbers.half_life,
                    usable_trips=numbers.usable_trips,
                )
            )
    BoardRecord.objects.bulk_create(changes)


def _change(before: BoardRecord | None, now: Standing | None) -> str:
    """Return the kind of change of a standing; empty if unchanged."""
    if now is None:
        has_left = before is None or before.kind == Kind.LEFT
        return "" if has_left else Kind.LEFT
    if before is None or before.kind == Kind.LEFT:
        return Kind.ADDED
    if before.run_id != now.run_id:
        return Kind.AGAIN
    if before.rank != now.rank:
        return Kind.MOVED
    return "" if abs(before.usable_trips - now.usable_trips) < 1e-6 else Kind.NUMBERS


# No-reference metrics.


def quality_metrics(run: Run) -> dict[str, Mapping[str, Any]]:
    """Return the pinned no-reference metrics of a run, played here or imported."""
    # An imported bundle names its judge in the provenance of its scores.
    judge = run.provenance.get("scoring", {}).get("judge")
    return no_reference_pins(run.metrics, {"judge": judge, **run.provenance})


def write_no_reference(run: Run, chains: Iterable[Chain]) -> None:
    """Save the results of the no-reference metrics, which need no source, on these chains.

    Call this in a transaction, after the chains have their results.
    """
    quality_chains = [
        QualityChain(chain.case_id, chain.quality, chain.retention(chain.headline))
        for chain in chains
    ]
    numbers = no_reference_numbers(quality_chains, run.suite.trips, quality_metrics(run))
    if numbers:
        NoReferenceResult.objects.update_or_create(run=run, defaults={"numbers": numbers})
    else:
        NoReferenceResult.objects.filter(run=run).delete()
