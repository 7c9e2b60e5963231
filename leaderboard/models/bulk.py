"""Many rows in one statement, for the place where hundreds of answers arrive in a second.

The ORM builds its SQL anew for every call, which there costs several times what
the database does. Here a statement is built once for so many rows; fields still
decide how their values are stored.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from typing import Any
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, DataError, connection, connections, models
from django.utils import timezone

Row = Mapping[str, Any]
#: Values that every field but JSON's stores as they are.
PLAIN = frozenset({int, float, str, type(None)})
#: So many are kept: one for each number of rows, and a job has at most some dozens of chains.
STATEMENTS = 512

#: What the block of `together` that we are in has written so far.
_written: ContextVar[list[tuple[str, list[Any]]] | None] = ContextVar("written", default=None)


class NotHeld(Exception):
    """Rows are not as they must be, and nothing was written."""


@dataclass(frozen=True)
class Held:
    """Rows that must be as told: these keys of a model, whose fields equal this."""

    model: type[models.Model]
    keys: Collection[int]
    equal: Mapping[str, Any]


def can_write_at_once() -> bool:
    """Whether `together` needs no transaction around it, since it is one statement."""
    database = connections[DEFAULT_DB_ALIAS]
    return database.vendor == "postgresql" and not database.in_atomic_block


@contextmanager
def together(only_if: Held | None = None) -> Iterator[None]:
    """What is written inside is one statement for PostgreSQL, at the end of the block.

    What goes wrong is raised there, too. No two writes of a block may concern the same row.
    `only_if`, which asks for `can_write_at_once`: NotHeld where its rows are not as told; those
    that are stay locked until all is written.
    """
    if connections[DEFAULT_DB_ALIAS].vendor != "postgresql":
        yield
        return
    written: list[tuple[str, list[Any]]] = []
    before = _written.set(written)
    try:
        yield
    finally:
        _written.reset(before)
    if not written:
        return
    parts = [(f"part{n}", *part) for n, part in enumerate(written)]
    asked, sought = "SELECT 1", []
    if only_if:
        parts.append(("held", *_locked(only_if)))
        # Read before any part is written; where rows are missing this divides by zero, and an
        # error takes back the statement as a whole.
        asked, sought = "SELECT 1 / (count(*) = %s)::int FROM held", [len(only_if.keys)]
    named = ", ".join(f"{name} AS ({sql})" for name, sql, _ in parts)
    values = [value for _, _, values in parts for value in values]
    try:
        _write(f"WITH {named} {asked}", [*values, *sought])
    except DataError as error:
        if only_if and type(error.__cause__).__name__ == "DivisionByZero":
            raise NotHeld from error
        raise


def insert(
    model: type[models.Model], rows: Sequence[Row], *, ignore: bool = False, touch: str = ""
) -> None:
    """Add rows, given by their fields; all of the same fields.

    `ignore`: those there already stay as they are; `touch`: but for this field, as if new.
    """
    if not rows:
        return
    database = connections[DEFAULT_DB_ALIAS]
    vendor = database.vendor
    sql, fields, defaults = _insert(
        model, tuple(rows[0]), _count(rows, vendor), ignore, touch, vendor
    )
    now = timezone.now()
    rest = {
        field.name: now if getattr(field, "auto_now_add", False) else field.get_default()
        for field in defaults
    }
    _execute(database, sql, [*fields, *defaults], [{**row, **rest} for row in rows])


def update(model: type[models.Model], rows: Sequence[Row], by: Sequence[str]) -> None:
    """Change rows that the fields `by` name; all rows change the same fields.

    Of several that name the same one, the last counts.
    """
    if not rows:
        return
    database = connections[DEFAULT_DB_ALIAS]
    names = (*(name for name in rows[0] if name not in by), *by)
    last = list({tuple(row[name] for name in by): row for row in rows}.values())
    vendor = database.vendor
    sql, fields = _update(model, names, len(by), _count(last, vendor), vendor)
    _execute(database, sql, fields, last)


def add(
    model: type[models.Model], pk: int, sums: Mapping[str, float | Decimal], **new: Any
) -> None:
    """Add to a row's numbers, and set other fields of it anew."""
    database = connections[DEFAULT_DB_ALIAS]
    sql, fields = _add(model, tuple(sums), tuple(new), database.vendor)
    _write(sql, *_values(fields, [{**sums, **new, "id": pk}], database))


def locked_keys(held: Held) -> set[int]:
    """Of its keys those whose rows are as told, locked until the transaction ends."""
    if not held.keys:
        return set()
    with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
        cursor.execute(*_locked(held))
        return {key for (key,) in cursor.fetchall()}


def _locked(held: Held) -> tuple[str, list[Any]]:
    """A query of the keys of those rows that are as told, and its values."""
    database = connections[DEFAULT_DB_ALIAS]
    sql, fields = _locked_keys(held.model, tuple(held.equal), len(held.keys), database.vendor)
    (values,) = _values(fields, [held.equal], database)
    return sql, [*values, *held.keys]


def _execute(database: Any, sql: str, fields: Sequence[Any], rows: Sequence[Row]) -> None:
    """Execute a statement whose rows are given as `_new_rows` wants them."""
    as_json = database.vendor == "postgresql"
    values = _values(fields, rows, database, within_json=as_json)
    if as_json:
        names = [f"column{n}" for n in range(1, len(fields) + 1)]
        told = [dict(zip(names, row, strict=True)) for row in values]
        _write(sql, [json.dumps(told, default=_as_text), len(told)])
    else:
        _write(sql, list(chain.from_iterable(values)))


def _write(sql: str, values: list[Any]) -> None:
    """Execute a statement, or keep it for the end of the block."""
    if (written := _written.get()) is not None:
        written.append((sql, values))
        return
    with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
        cursor.execute(sql, values)


def _values(
    fields: Sequence[Any], rows: Iterable[Row], database: Any, *, within_json: bool = False
) -> Iterator[list[Any]]:
    """Of each row what the database takes for its fields."""
    names = [(field, field.name, isinstance(field, models.JSONField)) for field in fields]
    times: dict[datetime, Any] = {}  # those of one moment are many
    for row in rows:
        values = []
        for field, name, is_json in names:
            value = row[name]
            kind = type(value)
            if kind is datetime:
                if value not in times:
                    times[value] = field.get_db_prep_save(value, database)
                value = times[value]
            elif is_json and within_json:
                pass
            elif kind not in PLAIN or is_json:
                value = field.get_db_prep_save(value, database)
            values.append(value)
        yield values


def _as_text(value: object) -> str:
    """What JSON has no word for, as PostgreSQL reads it."""
    if isinstance(value, datetime | Decimal | UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be stored here")


def _fields(model: type[models.Model], names: Sequence[str]) -> list[Any]:
    options = model._meta
    return [options.pk if name == "pk" else options.get_field(name) for name in names]


def _terms(fields: Sequence[Any]) -> list[str]:
    return [f"{connection.ops.quote_name(field.column)} = %s" for field in fields]


def _count(rows: Sequence[Row], vendor: str) -> int:
    """How many rows the statement is to name."""
    return 1 if vendor == "postgresql" else len(rows)


def _new_rows(fields: Sequence[Any], rows: int, vendor: str) -> str:
    """Given rows as a table `new` of column1, column2 and so on.

    PostgreSQL is told all of them in one value: to put thousands of them into the text of
    statements takes psycopg longer than all that the database has to do.
    """
    if vendor == "postgresql":
        columns = (f"column{n} {f.cast_db_type(connection)}" for n, f in enumerate(fields, 1))
        told = f"json_to_recordset(%s) AS told({', '.join(columns)})"
        # The limit says how many they are: for the hundred that are assumed, all of a table's
        # rows would be read rather than its index.
        return f"(SELECT * FROM {told} LIMIT %s) AS new"  # noqa: S608
    marks = ", ".join([f"({', '.join(['%s'] * len(fields))})"] * rows)
    return f"(VALUES {marks}) AS new"


@lru_cache(maxsize=STATEMENTS)
def _insert(
    model: type[models.Model],
    names: tuple[str, ...],
    rows: int,
    ignore: bool,
    touch: str,
    vendor: str,
) -> tuple[str, list[Any], list[Any]]:
    quote, fields = connection.ops.quote_name, _fields(model, names)
    defaults: list[Any] = [
        field
        for field in model._meta.concrete_fields
        if field not in fields
        and not isinstance(field, models.AutoField)
        # Where nothing is said of a column that may be empty, it is.
        and not (field.null and field.get_default() is None)
    ]
    every = [*fields, *defaults]
    columns = ", ".join(quote(field.column) for field in every)
    values = ", ".join(f"new.column{n}" for n in range(1, len(every) + 1))
    sql = (
        f"INSERT INTO {quote(model._meta.db_table)} ({columns}) "  # noqa: S608
        # SQLite takes what follows for a join's condition where no WHERE stands between.
        f"SELECT {values} FROM {_new_rows(every, rows, vendor)} WHERE true"
    )
    if touch:
        key, column = (quote(field.column) for field in _fields(model, ("pk", touch)))
        sql += f" ON CONFLICT ({key}) DO UPDATE SET {column} = EXCLUDED.{column}"
    elif ignore:
        sql += " ON CONFLICT DO NOTHING"
    return sql, fields, defaults


@lru_cache(maxsize=STATEMENTS)
def _update(
    model: type[models.Model], names: tuple[str, ...], by: int, rows: int, vendor: str
) -> tuple[str, list[Any]]:
    quote, fields = connection.ops.quote_name, _fields(model, names)
    table = quote(model._meta.db_table)
    columns = [quote(field.column) for field in fields]
    changes = ", ".join(f"{name} = new.column{n}" for n, name in enumerate(columns[:-by], 1))
    conditions = " AND ".join(
        f"{table}.{name} = new.column{n}"
        for n, name in enumerate(columns[-by:], len(columns) - by + 1)
    )
    return (
        f"UPDATE {table} SET {changes} "  # noqa: S608
        f"FROM {_new_rows(fields, rows, vendor)} WHERE {conditions}"
    ), fields


@lru_cache
def _add(
    model: type[models.Model], sums: tuple[str, ...], new: tuple[str, ...], vendor: str
) -> tuple[str, list[Any]]:
    quote, fields = connection.ops.quote_name, _fields(model, (*sums, *new, "id"))
    columns = [quote(field.column) for field in fields]
    grown = [f"{column} = {column} + %s" for column in columns[: len(sums)]]
    changes = ", ".join([*grown, *_terms(fields[len(sums) : -1])])
    table = quote(model._meta.db_table)
    return f"UPDATE {table} SET {changes} WHERE {columns[-1]} = %s", fields  # noqa: S608


@lru_cache(maxsize=STATEMENTS)
def _locked_keys(
    model: type[models.Model], names: tuple[str, ...], among: int, vendor: str
) -> tuple[str, list[Any]]:
    table, fields = connection.ops.quote_name(model._meta.db_table), _fields(model, names)
    conditions = [*_terms(fields), f"id IN ({', '.join(['%s'] * among)})"]
    lock = " FOR UPDATE" if connection.features.has_select_for_update else ""
    return f"SELECT id FROM {table} WHERE {' AND '.join(conditions)}{lock}", fields  # noqa: S608
