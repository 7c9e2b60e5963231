"""What finished runs say of a suite's cases."""

from __future__ import annotations

from collections import defaultdict

from evaluation.analysis.diagnostics.item_diagnostics import CaseDiagnosis, diagnose
from evaluation.analysis.events import Case, ChainResult
from evaluation.analysis.standings import chain_of_numbers
from evaluation.metrics import METRICS, in_order, scored_metrics
from leaderboard.models import Chain, Suite
from leaderboard.models.runs import RunState


def diagnose_suite(suite: Suite) -> list[CaseDiagnosis]:
    """Every case across the finished runs of real models (yardsticks too while there are none)."""
    runs = suite.runs.as_the_suite_says().filter(state=RunState.FINISHED, complete=True)
    real = runs.filter(editing_model__is_reference=False)
    chosen = list((real if real.exists() else runs).values_list("pk", "metrics"))
    run_by_all = set(METRICS).intersection(*(scored_metrics(pinned) for _, pinned in chosen))
    if not chosen or not run_by_all:
        return []
    metric = in_order(run_by_all)[0]
    results: dict[str, list[ChainResult]] = defaultdict(list)
    chains = Chain.objects.filter(run__in=[pk for pk, _ in chosen]).select_related("case__picture")
    for chain in chains.iterator(chunk_size=500):
        numbers = chain.numbers(metric)
        if not numbers:
            continue
        case = chain.case
        place = Case(case.picture.slug, case.pair_slug, case.category, case.kind)
        results[str(chain.run_id)].append(
            chain_of_numbers(metric, place, chain.repeat, chain.outcome, numbers, suite.trips)
        )
    return diagnose(results, suite.trips)
