"""Invented boards of any size: a few runs are made one by one, all others are copies by SQL.

Ten million trips take minutes that way, and hours through the ORM. A copy has every row of its
original (chains, trips, scores, standings) under a model of its own, with strengths of its own
where pages sort by them. Works on whatever columns the tables have, on SQLite and PostgreSQL.
Never on a real site.
"""

from __future__ import annotations

import copy
import datetime
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from django.db import connection, models
from django.db.backends.utils import CursorWrapper

from evaluation.analysis.levels import LEVELS
from leaderboard.models import (
    CaseValues,
    Chain,
    EditingModel,
    MetricVersion,
    Run,
    RunProgress,
    RunReview,
    Score,
    Standing,
    Suite,
    Trip,
)
from leaderboard.testing.large_board.invented import invent_board, rank

#: Runs that are made one by one; the others repeat them.
ORIGINALS = 2
#: What pages and ranks go by: a copy has from half to all of what its original has.
STRENGTHS = frozenset(("half_life", "usable_trips", "auc"))
STRENGTH = "(0.5 + (c.run * 7919 % 1000) / 2000.0)"


def fill(models_count: int, cases: int, trips: int, rows: int, slug: str = "invented") -> Suite:
    """A board of so many models with `rows` trips in all.

    More than these models have are of earlier runs of theirs; where there are fewer, the last
    models have chains and standings only.
    """
    originals = min(ORIGINALS, models_count)
    suite = invent_board(slug, models=originals, cases=cases, trips=trips)
    first = list(suite.runs.select_related("editing_model").order_by("pk"))
    fresh = _models(first, models_count)
    runs = _runs(first, fresh, current=True)
    wanted = max(originals, rows // (cases * trips))
    earlier = max(0, wanted - models_count) if fresh else 0
    runs += _runs(first, (fresh * (1 + earlier // max(1, len(fresh))))[:earlier], current=False)
    _copy(runs, with_trips=wanted - originals)
    _case_values(suite, cases)
    rank(suite)
    return suite


def _case_values(suite: Suite, cases: int) -> None:
    """Usable trips of each case of all runs on the board, which ranks are computed from."""
    random = np.random.default_rng(suite.trips)
    hard = np.exp(random.normal(0, 0.5, cases))  # of a case, for everybody
    runs = list(suite.runs.filter(current=True).order_by("pk"))
    metrics = list(MetricVersion.objects.filter(standings__run=runs[0]).distinct())
    CaseValues.objects.bulk_create(
        (
            CaseValues(
                run=run,
                metric=metric,
                level=level,
                usable_trips=np.minimum(
                    suite.trips, strength * hard * np.exp(random.normal(0, 0.5, cases))
                ).tobytes(),
            )
            for run, strength in zip(runs, np.geomspace(1, suite.trips, len(runs)), strict=True)
            for metric in metrics
            for level in LEVELS
        ),
        batch_size=1_000,
    )


def _models(first: Sequence[Run], count: int) -> list[EditingModel]:
    made = []
    for number in range(len(first), count):
        model = copy.copy(first[number % len(first)].editing_model)
        model.pk, model.slug = None, f"{first[0].suite.slug}-{number}"
        model.name = f"Invented model {number}"
        model.provider = model.organisation = f"Provider {number % 9}"
        made.append(model)
    return EditingModel.objects.bulk_create(made, batch_size=500)


def _runs(
    first: Sequence[Run], editing_models: Sequence[EditingModel], *, current: bool
) -> list[tuple[int, Run]]:
    """A run of each of these models, with the key of the one that it repeats."""
    pairs = []
    for number, model in enumerate(editing_models):
        original = first[number % len(first)]
        run = copy.copy(original)
        run.pk, run.editing_model, run.current = None, model, current
        if not current and original.finished_at:
            run.finished_at = original.finished_at - datetime.timedelta(days=30)
        pairs.append((original.pk, run))
    Run.objects.bulk_create([run for _, run in pairs], batch_size=500)
    parts: tuple[Any, ...] = (RunProgress, RunReview)
    for part in parts:
        rows = part.objects.in_bulk()
        copied = [copy.copy(rows[original]) for original, _ in pairs]
        for row, (_, run) in zip(copied, pairs, strict=True):
            row.pk = run.pk
        part.objects.bulk_create(copied, batch_size=500)
    return pairs


def _copy(runs: Sequence[tuple[int, Run]], with_trips: int) -> None:
    """Every row of the originals again, for each of the new runs; trips of the first so many."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE copied (original bigint, run bigint)")
        pairs = [(original, run.pk) for original, run in runs]
        cursor.executemany("INSERT INTO copied VALUES (%s, %s)", pairs)
        with without_indexes(cursor, Standing, Chain):
            for one in (Standing, Chain):
                rows = "copied c JOIN {t} t ON t.run_id = c.original"
                _insert(cursor, one, "run_id", "c.run", rows, STRENGTHS)
        last = runs[:with_trips][-1][1].pk if runs[:with_trips] else 0
        cursor.execute("DELETE FROM copied WHERE run > %s", [last])
        # Tables of their own, so that the database sees how little there is to look up.
        cursor.execute(
            "CREATE TEMPORARY TABLE copied_chain AS SELECT n.id AS fresh, o.id AS original "
            "FROM copied c JOIN leaderboard_chain o ON o.run_id = c.original JOIN leaderboard_chain n "
            "ON n.run_id = c.run AND n.case_id = o.case_id AND n.repeat = o.repeat"
        )
        cursor.execute(
            "CREATE TEMPORARY TABLE copied_trip AS SELECT id, chain_id, number "
            "FROM leaderboard_trip WHERE chain_id IN (SELECT original FROM copied_chain)"
        )
        _analyze(cursor)
        _copy_trips(cursor)
        for table in ("copied", "copied_chain", "copied_trip"):
            cursor.execute(f"DROP TABLE {table}")
        _analyze(cursor)


def _copy_trips(cursor: CursorWrapper) -> None:
    """The trips of every copied chain, and their scores."""
    with without_indexes(cursor, Trip, Score):
        rows = "copied_chain m JOIN {t} t ON t.chain_id = m.original"
        _insert(cursor, Trip, "chain_id", "m.fresh", rows)
        _analyze(cursor)
        rows = (
            "leaderboard_trip q JOIN copied_chain m ON m.fresh = q.chain_id "
            "JOIN copied_trip p ON p.chain_id = m.original AND p.number = q.number "
            "JOIN {t} t ON t.trip_id = p.id"
        )
        _insert(cursor, Score, "trip_id", "q.id", rows)


def _analyze(cursor: CursorWrapper) -> None:
    """Tell the database how many rows there are now: it plans the next step by that."""
    if connection.vendor == "postgresql":
        cursor.execute("ANALYZE")


def _insert(
    cursor: CursorWrapper,
    model: type[models.Model],
    owner: str,
    value: str,
    rows: str,
    scaled: Collection[str] = (),
) -> None:
    """Rows of `model` as they are in `rows`, where it is called t; `owner` becomes `value`.

    Columns that are `scaled` have a strength of their run's own.
    """
    columns = [
        f'"{field.column}"'
        for field in model._meta.concrete_fields
        if not field.primary_key and field.column != owner
    ]
    table = f'"{model._meta.db_table}"'
    taken = [
        f"t.{column} * {STRENGTH}" if column.strip('"') in scaled else f"t.{column}"
        for column in columns
    ]
    cursor.execute(
        f"INSERT INTO {table} ({owner}, {', '.join(columns)}) "
        f"SELECT {value}, {', '.join(taken)} "
        f"FROM {rows.format(t=table)}"
    )


@contextmanager
def without_indexes(cursor: CursorWrapper, *of: type[models.Model]) -> Iterator[None]:
    """Within it rows are only written, and what finds them is built once, at the end.

    Only where the database is PostgreSQL and ours alone: it needs the rights of its owner.
    """
    tables = [model._meta.db_table for model in of]
    cursor.execute(
        "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"
        if connection.vendor == "postgresql"
        else "SELECT 0"
    )
    (owns,) = cursor.fetchone()
    if not owns or connection.in_atomic_block:
        yield
        return
    cursor.execute("SET session_replication_role = replica")  # nor are foreign keys looked at
    # Not valid either: a plan that goes by them would not find the new rows.
    mark = (
        "UPDATE pg_index SET indisready = false, indisvalid = false WHERE indrelid = %s::regclass"
    )
    for table in tables:
        cursor.execute(mark, [table])
    yield
    for table in tables:
        cursor.execute(f"REINDEX TABLE {connection.ops.quote_name(table)}")
    cursor.execute("SET session_replication_role = origin")
