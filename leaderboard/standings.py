"""Standings of the site's runs: computed by the core, stored and ranked here.

`rebuild(run)` writes a run's numbers with their intervals, `refresh_ranks(suite)`
ranks all runs of a suite from the resamples that `rebuild` kept. Both can be
repeated at any time and give the same rows.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from django.db import transaction
from django.db.models import BooleanField, ExpressionWrapper, Prefetch, Q
from django.utils import timezone

from evaluation.statistics.breakdown import CaseSummary, case_summaries
from evaluation.statistics.half_life import METHOD_VERSION
from evaluation.statistics.ranking import MIN_PICTURES, Ranks, board_key
from evaluation.statistics.resampling import Replicates
from evaluation.statistics.standings import (
    MeasuredChain,
    Place,
    ScoredTrip,
    chain_numbers,
    measured_chain,
)
from evaluation.statistics.standings import standings as computed
from leaderboard import queue
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
        for chain, one in zip(chains, measured, strict=True):
            results[chain.pk][metric.name] = chain_numbers(one, trips)
        played = {one.result.key for one in measured if one.result.played}
        complete = complete or wanted <= played
        _write_standings(run, metric, chains, measured)
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
        queue.enqueue(suite.pk, queue.EXPORT, queue.GPU)


def _chains(run: Run) -> list[Chain]:
    trips = Prefetch("trips", Trip.objects.order_by("number"))
    return list(run.chains.select_related("case__picture").prefetch_related(trips))


def _wanted_keys(suite: Suite) -> set[tuple[str, str, int]]:
    cases = Case.objects.filter(suite=suite).values_list("picture__slug", "pair_slug")
    return {(*case, repeat) for case in cases for repeat in range(suite.repeats)}


def pinned_metrics(run: Run) -> list[MetricVersion]:
    """The metric versions this run is scored with; those that were not run are not among them."""
    found = []
    for name in run.scored_metrics:
        pinned = run.metrics[name]
        metric = MetricVersion.objects.filter(
            name=name,
            version=pinned["version"],
            weights_sha256=pinned.get("weights_sha256") or "",
        ).first()
        if metric:
            found.append(metric)
    return found


def _measure(
    run: Run, chains: Sequence[Chain], metric: MetricVersion
) -> list[MeasuredChain] | None:
    """Every chain by this metric; None where the metric does not cover the suite's pictures."""
    pixels = {chain.case.picture.pixels_sha256 for chain in chains}
    calibrations = {
        row.pixels_sha256: row
        for row in Calibration.objects.filter(metric=metric, pixels_sha256__in=pixels)
    }
    scores = Score.objects.filter(trip__chain__run=run, metric=metric)
    distances = dict(scores.values_list("trip_id", "distance"))
    measured = []
    for chain in chains:
        calibration = calibrations.get(chain.case.picture.pixels_sha256)
        one = measured_chain(
            _place(chain),
            # A chain still in play is censored where it stands.
            (chain.outcome if chain.state == ChainState.PLAYED else "") or Outcome.LOST,
            [
                ScoredTrip(
                    trip.number, distances.get(trip.pk), trip, scored=trip.scored_at is not None
                )
                for trip in chain.trips.all()
            ],
            calibration.blank if calibration else None,
            calibration.ladder if calibration else {},
        )
        if one is None:
            return None
        measured.append(one)
    return measured


def _place(chain: Chain) -> Place:
    case = chain.case
    return Place(case.picture.slug, case.pair_slug, case.category, case.kind, chain.repeat)


def _write_standings(
    run: Run, metric: MetricVersion, chains: Sequence[Chain], measured: Sequence[MeasuredChain]
) -> None:
    trips = run.suite.trips
    standings, resamples = [], []
    for found in computed(metric.name, measured, trips):
        standing = Standing(
            run=run,
            metric=metric,
            level=found.level,
            scope=found.scope,
            method_version=METHOD_VERSION,
            **found.numbers,
        )
        if found.scope == "all":
            standing.details |= _extremes(chains, measured, trips, found.level)
        standings.append(standing)
        if found.replicates:
            resamples.append(_packed(standing, found.replicates))
    Standing.objects.bulk_create(standings)
    Resamples.objects.bulk_create(resamples)


def _extremes(
    chains: Sequence[Chain], measured: Sequence[MeasuredChain], trips: int, level: float
) -> dict[str, Any]:
    """The worst and the best cases, by the keys they have here."""
    results = [one.result for one in measured]
    cases = case_summaries(results, trips, level)
    pk = {(r.picture, r.pair): c.case_id for c, r in zip(chains, results, strict=True)}

    def numbers(some: Sequence[CaseSummary]) -> list[dict[str, Any]]:
        return [
            {
                "case": pk[case.picture, case.pair],
                "auc": case.summary.auc,
                "usable_trips": case.summary.usable_trips,
            }
            for case in some
        ]

    return {"worst": numbers(cases[:EXTREMES]), "best": numbers(cases[::-1][:EXTREMES])}


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
