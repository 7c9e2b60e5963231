"""While a raced run is played: what is known of its rank after a round."""

from __future__ import annotations

import numpy as np

from evaluation.analysis.half_life import summary_and_values
from evaluation.analysis.levels import DEFAULT_LEVEL
from evaluation.analysis.racing import Look, look
from leaderboard.models import Run
from leaderboard.standings.stored import (
    kept_values,
    measured_chains,
    pinned_metrics,
    suite_cases,
)


def rivals(run: Run) -> list[Run]:
    """The ranked runs of the suite's board, but those of the same model."""
    others = run.suite.runs.counted().filter(current=True).select_related("editing_model")
    others = others.exclude(editing_model=run.editing_model_id)
    return [other for other in others if other.is_ranked]


def race_look(run: Run) -> Look | None:
    """Where the run stands by the headline at the board's level; None where it has no scores.

    Only runs that were scored by the same version of the headline are beside it.
    """
    race, headline = run.core_race, next(iter(pinned_metrics(run)), None)
    if race is None or headline is None:
        return None
    played = run.chains.filter(round__lte=run.race_round)
    measured = measured_chains(run, headline, played)
    if not measured:
        return None
    trips, cases = run.suite.trips, suite_cases(run.suite)
    values = summary_and_values([one.result for _, one in measured], trips, DEFAULT_LEVEL)[1]
    kept = kept_values(headline.pk, DEFAULT_LEVEL, rivals(run))
    columns = [own for own in kept.values() if len(own) == len(cases)]
    table = np.column_stack([*columns, values.aligned(cases)])
    return look(race, run.race_round, cases, table, trips)
