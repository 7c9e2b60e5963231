"""Reports on a suite: its statistical power, and the robustness of its board's order.

A worker writes them when ranks have changed; pages only read them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import asdict
from typing import Any

import numpy as np
from django.db.models import Max
from django.utils import timezone

from evaluation.analysis.events import ChainResult
from evaluation.analysis.half_life import METHOD_VERSION
from evaluation.analysis.power import power, suite_design
from evaluation.analysis.robustness import Choice, Usable, retest, robustness
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD
from evaluation.metrics import in_order
from leaderboard.models import CaseValues, Chain, Run, Standing, Suite, SuiteReport
from leaderboard.standings.stored import chain_result, suite_cases


def stale() -> list[Suite]:
    """Return this site's suites whose report is missing or older than their standings."""
    suites = Suite.objects.playable().defer("definition").select_related("report")
    written = Standing.objects.values_list("run__suite").annotate(Max("computed_at"))
    newest = dict(written.order_by())
    return [
        suite
        for suite in suites
        if not hasattr(suite, "report")
        or suite.report.method_version != METHOD_VERSION
        or (suite.pk in newest and suite.report.computed_at < newest[suite.pk])
    ]


def write(suite: Suite) -> None:
    """Write the suite's report again; the power of a frozen suite is computed once."""
    began = timezone.now()
    report = SuiteReport.objects.filter(suite=suite, method_version=METHOD_VERSION).first()
    SuiteReport.objects.update_or_create(
        suite=suite,
        defaults={
            "power": report.power if report else _power(suite),
            "robustness": _robustness(suite),
            "method_version": METHOD_VERSION,
            "computed_at": began,
        },
    )
    # The page cache is keyed by this date.
    Suite.objects.filter(pk=suite.pk).update(updated_at=timezone.now())


def _power(suite: Suite) -> dict[str, float | None]:
    if not suite.definition:
        return {}
    return asdict(power(suite_design(suite.core), suite.trips))


def _robustness(suite: Suite) -> dict[str, Any]:
    """Compare the board's order with its order by other metrics, thresholds and trips.

    With fewer than two ranked models, reference editors are compared instead.
    """
    complete = Run.objects.on_the_board().filter(suite=suite, complete=True)
    runs = list(complete.select_related("editing_model"))
    entrants = [run for run in runs if run.is_ranked]
    references = [run for run in runs if run.editing_model.is_reference]
    compared = entrants if len(entrants) > 1 else references
    boards = _boards(suite, compared)
    metrics = in_order({metric for metric, _ in boards})
    headline = (metrics[0], DEFAULT_THRESHOLD) if metrics else None
    if headline is None or len(boards.get(headline, {})) < 2:
        return {}
    by_trip = Standing.objects.filter(
        run__in=compared, metric__name=headline[0], threshold=headline[1], scope="all"
    )
    usable = {str(run): shares for run, shares in by_trip.values_list("run", "usable_by_trip")}
    again = retest(_chains(suite, compared, headline[0]), suite.trips)
    return {
        "metric": headline[0],
        "threshold": headline[1],
        "references": compared is references,
        "runs": len(boards[headline]),
        "agreements": [asdict(row) for row in robustness(boards, headline, usable)],
        "retest": asdict(again) if again else None,
    }


def _boards(suite: Suite, runs: list[Run]) -> dict[Choice, dict[str, Usable]]:
    """Return each run's usable trips by case, for every metric and threshold."""
    cases = suite_cases(suite)
    boards: dict[Choice, dict[str, Usable]] = defaultdict(dict)
    rows = CaseValues.objects.filter(run__in=runs).values_list(
        "metric__name", "threshold", "run", "usable_trips"
    )
    for metric, threshold, run, data in rows:
        usable = np.frombuffer(bytes(data), dtype=np.float64).tolist()
        if len(usable) != len(cases):
            continue  # the suite was changed by hand
        of_run = zip(cases, usable, strict=True)
        if played := {case: value for case, value in of_run if not math.isnan(value)}:
            boards[metric, threshold][str(run)] = played
    return boards


def _chains(suite: Suite, runs: list[Run], metric: str) -> dict[str, list[ChainResult]]:
    """Return the chains of cases that were played repeatedly, by run."""
    again = Chain.objects.filter(run__in=runs, repeat__gt=0).values("case")
    chains = Chain.objects.filter(run__in=runs, case__in=again).select_related("case__image")
    by_run: dict[str, list[ChainResult]] = defaultdict(list)
    for chain in chains:
        if result := chain_result(chain, metric, suite.trips):
            by_run[str(chain.run_id)].append(result)
    return by_run
