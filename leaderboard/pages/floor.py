"""The floor under a local model: what its autoencoder alone keeps, which no prompt can beat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evaluation.arms import FLOOR
from leaderboard import formatting
from leaderboard.models import EditingModel, Run, Standing
from leaderboard.models.runs import RunState
from leaderboard.pages.charts import Chart, Curve, retention_curves, retention_table

#: Models whose weights are at hand.
HAVE_ONE = (EditingModel.Access.LOCAL, EditingModel.Access.REFERENCE)


@dataclass(frozen=True)
class Floor:
    """A finished run of the autoencoder alone, by the metric that is shown."""

    run: Run
    standing: Standing
    words: str
    chart: Chart


def floor_of(run: Run, standing: Standing, user: Any) -> Floor | None:
    """The newest floor of this run's model on the same suite; None where none was played."""
    if run.editing_model.access not in HAVE_ONE:
        return None  # whose autoencoder nobody here can play
    found = (
        Standing.objects.filter(
            run__in=Run.objects.visible_to(user).filter(
                editing_model=run.editing_model_id,
                suite=run.suite_id,
                arm_digest=FLOOR.digest,
                state=RunState.FINISHED,
            ),
            metric=standing.metric_id,
            level=standing.level,
            scope="all",
        )
        .select_related("run")
        .order_by("-run__finished_at", "-run")
        .first()
    )
    if found is None:
        return None
    name, trips = run.editing_model.name, run.suite.trips
    curves = [
        Curve.of(name, standing.curve),
        Curve.of(f"floor of {name}", found.curve),
    ]
    chart = Chart(
        id="floor",
        title=_finding(name, standing.curve, found.curve, trips),
        subtitle=f"By {formatting.metric_label(standing.metric.name)}. The floor makes no edit: every "
        "step is one pass through the model’s autoencoder. It is never ranked.",
        figure=retention_curves(curves, trips),
        table=retention_table(curves, trips),
        height="short",
        about=f"{run.suite}, {name}",
        file_name=f"{run.editing_model.slug}-{run.suite.key}-floor",
    )
    return Floor(found.run, found, _words(standing, found, trips), chart)


def _words(standing: Standing, floor: Standing, trips: int) -> str:
    own, alone = standing.usable_trips, floor.usable_trips
    return (
        f"Its autoencoder alone, without any edit, keeps a picture usable for {alone:.1f} of "
        f"{formatting.count(trips, 'round trip')}; with edits it is {own:.1f}. "
        + (
            "No prompt can beat the first number."
            if own <= alone
            else "The edits are kinder than the passes: they change less of the picture."
        )
    )


def _finding(name: str, own: Mapping[str, Any], floor: Mapping[str, Any], trips: int) -> str:
    ends = [curve.get("mean", ())[trips : trips + 1] for curve in (own, floor)]
    if not all(ends) or None in (ends[0][0], ends[1][0]):
        return f"What the autoencoder of {name} costs on its own"
    lost = [1 - max(0.0, end[0]) for end in ends]
    if lost[0] <= 0:
        return f"{name} loses nothing"
    part = min(1.0, lost[1] / lost[0])
    return (
        f"{formatting.percent(part)} of what {name} loses after "
        f"{formatting.count(trips, 'round trip')} is lost by its autoencoder alone"
    )
