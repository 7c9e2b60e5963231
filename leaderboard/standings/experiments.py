"""Results of experiments: computed when a run ends, and stored for the pages.

An experiment plays a suite in several ways, called arms; the first arm is the baseline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db import transaction
from django.utils import timezone

from evaluation.analysis.events import ChainResult
from evaluation.analysis.experiments import experiment_numbers
from evaluation.analysis.half_life import METHOD_VERSION
from evaluation.metrics import in_order
from leaderboard.models import Chain, EditingModel, Experiment, ExperimentResult, Run
from leaderboard.models.runs import RunState
from leaderboard.standings.stored import chain_result


def refresh_experiments(run: Run) -> None:
    """Compute the results of this run's experiments again."""
    for experiment in Experiment.objects.filter(arms__runs=run).distinct():
        refresh(experiment, run.editing_model)


@transaction.atomic
def refresh(experiment: Experiment, model: EditingModel) -> None:
    """Save the experiment's results for this model; there are none until every arm is played."""
    # If two arms end at the same time, the second waits here until the first is stored.
    Experiment.objects.select_for_update().only("pk").get(pk=experiment.pk)
    runs = arm_runs(experiment, model)
    finished = [run for run in runs.values() if run and run.state == RunState.FINISHED]
    results: dict[str, dict[str, object]] = {}
    if len(finished) == len(runs) > 1:
        named = {name: run for name, run in runs.items() if run}
        chains = _chains(named, experiment.suite.trips, _shared_metrics(list(named.values())))
        for metric, arms in chains.items():
            # A chain that stopped early may not have ended yet by this metric.
            all_decided = all(
                c.is_decided(experiment.suite.trips) for rows in arms.values() for c in rows
            )
            if all_decided and all(arms.values()):
                numbers = experiment_numbers(arms, experiment.suite.trips)
                results[metric] = numbers.to_dict()
    old = ExperimentResult.objects.filter(experiment=experiment, editing_model=model)
    old.exclude(metric__in=results).delete()
    for metric, values in results.items():
        ExperimentResult.objects.update_or_create(
            experiment=experiment,
            editing_model=model,
            metric=metric,
            defaults={"numbers": values, "method_version": METHOD_VERSION},
        )
    # The page cache is keyed by this date.
    Experiment.objects.filter(pk=experiment.pk).update(updated_at=timezone.now())


def arm_runs(experiment: Experiment, model: EditingModel) -> dict[str, Run | None]:
    """Return this model's run of each arm, or None; the baseline is first."""
    by_arm: dict[str, Run | None] = {}
    for arm in experiment.arms.prefetch_related("runs"):
        candidates = [run for run in arm.runs.all() if run.editing_model_id == model.pk]
        by_arm[arm.name] = max(candidates, key=lambda run: run.pk, default=None)
    return by_arm


def _shared_metrics(runs: Sequence[Run]) -> list[str]:
    """Return the metrics that score all runs in the same version, the headline metric first."""
    first, *others = runs
    return in_order(
        name
        for name in first.scored_metrics
        if all(run.metrics.get(name) == first.metrics[name] for run in others)
    )


def _chains(
    runs: Mapping[str, Run], trips: int, metrics: Sequence[str]
) -> dict[str, dict[str, list[ChainResult]]]:
    """Return the chains of each arm, by metric."""
    by_metric: dict[str, dict[str, list[ChainResult]]] = {
        metric: {name: [] for name in runs} for metric in metrics
    }
    names = {run.pk: name for name, run in runs.items()}
    chains = Chain.objects.filter(run__in=names).select_related("case__image")
    for chain in chains.iterator(chunk_size=500):
        for metric in metrics:
            if result := chain_result(chain, metric, trips):
                by_metric[metric][names[chain.run_id]].append(result)
    return by_metric
