"""What finished runs say of a suite's cases."""

from __future__ import annotations

from collections import defaultdict

from evaluation.statistics.events import Case, ChainResult
from evaluation.statistics.item_diagnostics import CaseDiagnosis, diagnose
from evaluation.statistics.standings import chain_of_numbers
from leaderboard.models import Chain, Suite
from leaderboard.models.runs import RunState

#: In this order the first metric that every run has is used.
METRICS = ("picture", "lpips", "ssim", "psnr")


def diagnose_suite(suite: Suite) -> list[CaseDiagnosis]:
    """Every case across the finished runs of real models (yardsticks too while there are none)."""
    runs = suite.runs.filter(state=RunState.FINISHED, complete=True)
    real = runs.filter(editing_model__is_reference=False)
    chosen = list((real if real.exists() else runs).values_list("pk", "metrics"))
    run_by_all = (
        name
        for name in METRICS
        if all("missing" not in pinned.get(name, {"missing": ""}) for _, pinned in chosen)
    )
    metric = next(run_by_all, None)
    if not chosen or metric is None:
        return []
    results: dict[str, list[ChainResult]] = defaultdict(list)
    chains = Chain.objects.filter(run__in=[pk for pk, _ in chosen]).select_related("case__picture")
    for chain in chains.iterator(chunk_size=500):
        numbers = chain.results.get(metric)
        if numbers is None:
            continue
        case = chain.case
        place = Case(case.picture.slug, case.pair_slug, case.category, case.kind)
        results[str(chain.run_id)].append(
            chain_of_numbers(metric, place, chain.repeat, chain.outcome, numbers, suite.trips)
        )
    return diagnose(results, suite.trips)
