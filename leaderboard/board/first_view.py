"""The board as it opens: of many models, only those that it shows are read whole.

All others are there as short lines, enough to order and count them. The rules of
ranks, groups and order are those of `rows` and `columns`.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

from django.contrib.auth.models import AnonymousUser

from evaluation.metrics import semantic_metrics
from leaderboard.board.board_row import BoardRow, endless
from leaderboard.board.filters import BoardFilters
from leaderboard.board.heads import sorted_rows
from leaderboard.board.rows import (
    DEFERRED,
    RANKED,
    group_of,
    latest_versions,
    rows_of,
    semantic_metric,
    standings_of,
)
from leaderboard.models import Run, Standing, Suite
from leaderboard.models.runs import ACTIVE_STATES, RunState


class ModelLine(NamedTuple):
    """What is read of every model."""

    name: str
    provider: str
    organisation: str
    access: str
    is_reference: bool


@dataclass(slots=True)
class RunLine:
    """What is read of every run; it ranks and is offered as a whole run is."""

    editing_model: ModelLine
    pk: int
    editing_model_id: int
    state: str
    source: str
    verified: bool | None
    arm_digest: str
    published: bool
    current: bool
    complete: bool
    cleared: bool
    flags: list[Any]
    metrics: dict[str, Any]
    edits_done: int
    finished_at: datetime.datetime | None
    added_at: datetime.datetime | None = None

    Source = Run.Source
    is_ranked = Run.is_ranked
    scored_metrics = Run.scored_metrics


RUN = (
    *(
        "pk",
        "editing_model_id",
        "state",
        "source",
        "verified",
        "arm_digest",
        "published",
        "current",
        "complete",
    ),
    *("cleared", "flags", "metrics", "edits_done", "finished_at"),
)
MODEL = tuple(f"editing_model__{name}" for name in ModelLine._fields)


@dataclass(frozen=True)
class Lines:
    """The runs of a suite: one per model, and those under way, which may be of anybody."""

    runs: list[RunLine]
    under_way: list[RunLine]


class StandingLine(NamedTuple):
    run_id: int
    metric_id: int
    metric: str
    half_life: float | None
    usable_trips: float
    auc: float
    rank: int | None


@dataclass(frozen=True, slots=True)
class Place:
    """A ranked model as `sorted_rows` orders it."""

    run: RunLine
    standing: StandingLine

    @property
    def model(self) -> ModelLine:
        return self.run.editing_model

    @property
    def half_life(self) -> float:
        return endless(self.standing.half_life)

    @property
    def usable_trips(self) -> float:
        return self.standing.usable_trips

    @property
    def auc(self) -> float:
        return self.standing.auc


@dataclass(frozen=True)
class FirstView:
    rows: list[BoardRow]
    #: How many models are ranked, and how many of them first.
    ranked: int
    leaders: int
    #: Runs that are played or scored now, the furthest first.
    under_way: list[Run]


def lines_of(suite: Suite) -> Lines:
    """Every run of the suite that visitors may see, in short."""
    found = (
        Run.objects.visible_to(AnonymousUser())
        .filter(suite=suite)
        .exclude(state=RunState.CANCELLED, current=False)
        .order_by("-current", "-created_at")
        .values_list(*RUN, *MODEL)
    )
    runs: dict[int, RunLine] = {}
    under_way = []
    for values in found:
        of_run, of_model = values[: len(RUN)], values[len(RUN) :]
        line = RunLine(ModelLine(*of_model), *of_run)
        if line.state in ACTIVE_STATES:
            under_way.append(line)
        if line.published and not line.arm_digest:  # an arm stands for no model
            first = runs.setdefault(line.editing_model_id, line)
            first.added_at = min(filter(None, (first.added_at, line.finished_at)), default=None)
    under_way.sort(key=lambda line: (-line.edits_done, line.pk))
    return Lines(list(runs.values()), under_way)


def first_view(lines: Lines, filters: BoardFilters, count: int) -> FirstView:
    """The first `count` ranked models in the board's own order, and all that are not ranked."""
    standings, versions = _standings(lines.runs, filters)
    chosen = standings.get(filters.metric, {})
    semantic = semantic_metric(lines.runs, standings)
    places, others = [], []
    for line in lines.runs:
        standing = chosen.get(line.pk)
        if standing and group_of(line, standing) == RANKED:
            places.append(Place(line, standing))
        else:
            others.append(line)
    first = [place.run for place in sorted_rows(places, filters.sort)[:count]]
    under_way = lines.under_way[:count]
    runs = _whole([*first, *others, *under_way])
    shown = []
    for line in (*first, *others):
        run = runs[line.pk]
        run.added_at = line.added_at
        shown.append(run)
    for run in runs.values():
        run.suite = filters.suite
    names = {filters.metric, *([semantic] if semantic else [])}
    whole = standings_of(shown, filters.level, filters.scope, names, versions=versions)
    return FirstView(
        rows_of(shown, whole, semantic, filters, measured=bool(chosen)),
        len(places),
        sum(place.standing.rank == 1 for place in places),
        [runs[line.pk] for line in under_way],
    )


def _standings(
    runs: Sequence[RunLine], filters: BoardFilters
) -> tuple[dict[str, dict[int, StandingLine]], Mapping[str, int]]:
    """Short standings by metric and run, and the version of each metric that counts."""
    found = [
        StandingLine(*values)
        for values in Standing.objects.filter(
            run__in=[run.pk for run in runs],
            level=filters.level,
            scope=filters.scope,
            metric__name__in={filters.metric, *semantic_metrics()},
        ).values_list(
            *("run_id", "metric_id", "metric__name", "half_life", "usable_trips", "auc", "rank")
        )
    ]
    versions = latest_versions((line.metric, line.metric_id) for line in found)
    by_metric: dict[str, dict[int, StandingLine]] = {name: {} for name in versions}
    for line in found:
        if versions[line.metric] == line.metric_id:
            by_metric[line.metric][line.run_id] = line
    return by_metric, versions


def _whole(lines: Sequence[RunLine]) -> dict[int, Run]:
    """These runs with their models, by key; one query."""
    wanted = {line.pk for line in lines}
    if not wanted:
        return {}
    runs = (
        Run.objects.filter(pk__in=wanted).select_related("editing_model", "people").defer(*DEFERRED)
    )
    return {run.pk: run for run in sorted(runs, key=attrgetter("pk"))}
