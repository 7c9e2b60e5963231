"""Invented boards of any size: a few runs are made one by one, all others are copies by SQL.

Ten million trips take minutes that way, and hours through the ORM. A copy has every row of its
original (chains, trips, scores, standings, values of cases) under a model of its own. Works
on whatever columns the tables have, on SQLite and PostgreSQL. Never on a real site.
"""

from __future__ import annotations

import copy
import datetime
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from django.core.management import call_command
from django.db import connection, models
from django.db.backends.utils import CursorWrapper

from evaluation.statistics.levels import LEVELS
from leaderboard.management.commands.generate_board import rank
from leaderboard.models import (
    CaseValues,
    Chain,
    EditingModel,
    MetricVersion,
    Run,
    Score,
    Standing,
    Suite,
    Trip,
)

#: Runs that are made one by one; the others repeat them.
ORIGINALS = 2


def fill(models_count: int, cases: int, trips: int, rows: int, slug: str = "invented") -> Suite:
    """A board of so many models with `rows` trips in all.

    More than these models have are of earlier runs of theirs; where there are fewer, the last
    models have chains and standings only.
    """
    originals = min(ORIGINALS, models_count)
    call_command(
        "generate_board", slug=slug, models=originals, cases=cases, trips=trips, verbosity=0
    )
    suite = Suite.objects.get(slug=slug)
    first = list(suite.runs.select_related("editing_model").order_by("pk"))
    for run in first:
        _case_values(run, cases)
    fresh = _models(first, models_count)
    runs = _runs(first, fresh, current=True)
    wanted = max(originals, rows // (cases * trips))
    earlier = max(0, wanted - models_count) if fresh else 0
    runs += _runs(first, (fresh * (1 + earlier // max(1, len(fresh))))[:earlier], current=False)
    _copy(runs, with_trips=wanted - originals)
    rank(suite)
    return suite


def _case_values(run: Run, cases: int) -> None:
    """Usable trips of each case, which ranks are computed from."""
    random = np.random.default_rng(run.pk)
    CaseValues.objects.bulk_create(
        CaseValues(
            run=run,
            metric=metric,
            level=level,
            usable_trips=random.uniform(0, run.suite.trips, cases).tobytes(),
        )
        for metric in MetricVersion.objects.filter(standings__run=run).distinct()
        for level in LEVELS
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
    return pairs


def _copy(runs: Sequence[tuple[int, Run]], with_trips: int) -> None:
    """Every row of the originals again, for each of the new runs; trips of the first so many."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE copied (original bigint, run bigint)")
        pairs = [(original, run.pk) for original, run in runs]
        cursor.executemany("INSERT INTO copied VALUES (%s, %s)", pairs)
        for one in (Standing, CaseValues, Chain):
            _insert(cursor, one, "run_id", "c.run", "copied c JOIN {t} t ON t.run_id = c.original")
        chains = (
            "copied c JOIN leaderboard_chain o ON o.run_id = c.original "
            "JOIN leaderboard_chain n "
            "ON n.run_id = c.run AND n.case_id = o.case_id AND n.repeat = o.repeat "
        )
        last = runs[:with_trips][-1][1].pk if runs[:with_trips] else 0
        cursor.execute("DELETE FROM copied WHERE run > %s", [last])
        with without_indexes(cursor, Trip, Score):
            _insert(cursor, Trip, "chain_id", "n.id", chains + "JOIN {t} t ON t.chain_id = o.id")
            trips = (
                chains + "JOIN leaderboard_trip p ON p.chain_id = o.id "
                "JOIN leaderboard_trip q ON q.chain_id = n.id AND q.number = p.number "
            )
            _insert(cursor, Score, "trip_id", "q.id", trips + "JOIN {t} t ON t.trip_id = p.id")
        cursor.execute("DROP TABLE copied")
        if connection.vendor == "postgresql":
            cursor.execute("ANALYZE")


def _insert(
    cursor: CursorWrapper, model: type[models.Model], owner: str, value: str, rows: str
) -> None:
    """Rows of `model` as they are in `rows`, where it is called t; `owner` becomes `value`."""
    columns = [
        f'"{field.column}"'
        for field in model._meta.concrete_fields
        if not field.primary_key and field.column != owner
    ]
    table = f'"{model._meta.db_table}"'
    cursor.execute(
        f"INSERT INTO {table} ({owner}, {', '.join(columns)}) "
        f"SELECT {value}, {', '.join(f't.{column}' for column in columns)} "
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
