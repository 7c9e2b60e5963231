"""The history of the board: a record for every change of a model's standing."""

from __future__ import annotations

from datetime import datetime

from evaluation.analysis.levels import DEFAULT_LEVEL
from evaluation.metrics import HEADLINE
from leaderboard.models import Standing, Suite
from leaderboard.models.standings import BoardRecord

Kind = BoardRecord.Kind


def record(suite: Suite, at: datetime) -> list[BoardRecord]:
    """Save the changes of the suite's board, and return them.

    Sealed suites and results of others, which have no ranks, are left out, as are reference editors.
    """
    if suite.sealed or suite.published_elsewhere:
        return []
    last = latest(suite)
    standings = Standing.objects.filter(
        run__in=suite.runs.counted().filter(current=True, editing_model__is_reference=False),
        metric__name=HEADLINE,
        level=DEFAULT_LEVEL,
        scope="all",
    ).select_related("run__editing_model", "run__suite")
    now = {standing.run.editing_model_id: standing for standing in standings.defer("details")}
    changes = []
    for model, standing in now.items():
        before = last.get(model)
        kind = _kind(before, standing)
        if kind:
            changes.append(
                BoardRecord(
                    run=standing.run,
                    at=at,
                    kind=kind,
                    rank=standing.rank,
                    rank_before=before.rank if before else None,
                    half_life=standing.half_life,
                    usable_trips=standing.usable_trips,
                )
            )
    for model, before in last.items():
        if model not in now and before.kind != Kind.LEFT:
            changes.append(
                BoardRecord(
                    run=before.run,
                    at=at,
                    kind=Kind.LEFT,
                    rank_before=before.rank,
                    half_life=before.half_life,
                    usable_trips=before.usable_trips,
                )
            )
    return BoardRecord.objects.bulk_create(changes)


def latest(suite: Suite) -> dict[int, BoardRecord]:
    """Return the last record of each model on this suite's board."""
    rows = BoardRecord.objects.filter(run__suite=suite).order_by("at", "pk")
    rows = rows.select_related("run__editing_model", "run__suite")
    return {row.run.editing_model_id: row for row in rows.defer("run__provenance")}


def _kind(before: BoardRecord | None, now: Standing) -> str:
    """Return the kind of change of a standing; empty if there is none."""
    if before is None or before.kind == Kind.LEFT:
        return Kind.ADDED
    if before.run_id != now.run_id:
        return Kind.AGAIN
    if before.rank != now.rank:
        return Kind.MOVED
    return "" if abs(before.usable_trips - now.usable_trips) < 1e-6 else Kind.NUMBERS
