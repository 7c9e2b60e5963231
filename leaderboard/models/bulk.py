"""Many rows in one statement, for the place where hundreds of answers arrive in a second.

The ORM builds its SQL anew for every call, which there costs several times what
the database does. Here a statement is built once and executed for many rows;
fields still decide how their values are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection, connections, models
from django.utils import timezone

Row = Mapping[str, Any]
#: Values that every field but JSON's stores as they are.
PLAIN = frozenset({int, float, str, type(None)})


@contextmanager
def together() -> Iterator[None]:
    """Inside, PostgreSQL is sent these statements without waiting for each: one wait for all.

    For statements of this module alone: the ORM asks how many rows each of its own changed, which
    is not known before the end. What went wrong is raised there, too.
    """
    database = connections[DEFAULT_DB_ALIAS]
    if database.vendor != "postgresql":
        yield
        return
    database.ensure_connection()
    with database.wrap_database_errors, database.connection.pipeline():
        yield


def insert(
    model: type[models.Model], rows: Sequence[Row], *, ignore: bool = False, touch: str = ""
) -> None:
    """Add rows, given by their fields; all of the same fields.

    `ignore`: those there already stay as they are; `touch`: but for this field, as if new.
    """
    if not rows:
        return
    database = connections[DEFAULT_DB_ALIAS]
    sql, fields, defaults = _insert(model, tuple(rows[0]), ignore, touch, database.vendor)
    now = timezone.now()
    rest = [
        field.get_db_prep_save(
            now if getattr(field, "auto_now_add", False) else field.get_default(), database
        )
        for field in defaults
    ]
    with database.cursor() as cursor:
        cursor.executemany(sql, [row + rest for row in _values(fields, rows, database)])


def update(model: type[models.Model], rows: Sequence[Row], by: Sequence[str]) -> None:
    """Change rows that the fields `by` name; all rows change the same fields."""
    if not rows:
        return
    database = connections[DEFAULT_DB_ALIAS]
    names = (*(name for name in rows[0] if name not in by), *by)
    sql, fields = _update(model, names, len(by), database.vendor)
    with database.cursor() as cursor:
        cursor.executemany(sql, list(_values(fields, rows, database)))


def add(
    model: type[models.Model], pk: int, sums: Mapping[str, float | Decimal], **new: Any
) -> None:
    """Add to a row's numbers, and set other fields of it anew."""
    database = connections[DEFAULT_DB_ALIAS]
    sql, fields = _add(model, tuple(sums), tuple(new), database.vendor)
    with database.cursor() as cursor:
        cursor.execute(sql, *_values(fields, [{**sums, **new, "id": pk}], database))


def locked_keys(model: type[models.Model], **equal: Any) -> set[int]:
    """The keys of the rows that equal this, locked until the transaction ends."""
    database = connections[DEFAULT_DB_ALIAS]
    sql, fields = _locked_keys(model, tuple(equal), database.vendor)
    with database.cursor() as cursor:
        cursor.execute(sql, *_values(fields, [equal], database))
        return {key for (key,) in cursor.fetchall()}


def _values(fields: Sequence[Any], rows: Iterable[Row], database: Any) -> Iterator[list[Any]]:
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
            elif kind not in PLAIN or is_json:
                value = field.get_db_prep_save(value, database)
            values.append(value)
        yield values


def _fields(model: type[models.Model], names: Sequence[str]) -> list[Any]:
    options = model._meta
    return [options.pk if name == "pk" else options.get_field(name) for name in names]


def _terms(fields: Sequence[Any]) -> list[str]:
    return [f"{connection.ops.quote_name(field.column)} = %s" for field in fields]


@lru_cache
def _insert(
    model: type[models.Model], names: tuple[str, ...], ignore: bool, touch: str, vendor: str
) -> tuple[str, list[Any], list[Any]]:
    quote, fields = connection.ops.quote_name, _fields(model, names)
    defaults: list[Any] = [
        field
        for field in model._meta.concrete_fields
        if field not in fields and not isinstance(field, models.AutoField)
    ]
    columns = ", ".join(quote(field.column) for field in (*fields, *defaults))
    marks = ", ".join(["%s"] * (len(fields) + len(defaults)))
    sql = f"INSERT INTO {quote(model._meta.db_table)} ({columns}) VALUES ({marks})"  # noqa: S608
    if touch:
        key, column = (quote(field.column) for field in _fields(model, ("pk", touch)))
        sql += f" ON CONFLICT ({key}) DO UPDATE SET {column} = EXCLUDED.{column}"
    elif ignore:
        sql += " ON CONFLICT DO NOTHING"
    return sql, fields, defaults


@lru_cache
def _update(
    model: type[models.Model], names: tuple[str, ...], by: int, vendor: str
) -> tuple[str, list[Any]]:
    table, fields = connection.ops.quote_name(model._meta.db_table), _fields(model, names)
    terms = _terms(fields)
    changes, conditions = ", ".join(terms[:-by]), " AND ".join(terms[-by:])
    return f"UPDATE {table} SET {changes} WHERE {conditions}", fields  # noqa: S608


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


@lru_cache
def _locked_keys(
    model: type[models.Model], names: tuple[str, ...], vendor: str
) -> tuple[str, list[Any]]:
    table, fields = connection.ops.quote_name(model._meta.db_table), _fields(model, names)
    lock = " FOR UPDATE" if connection.features.has_select_for_update else ""
    return f"SELECT id FROM {table} WHERE {' AND '.join(_terms(fields))}{lock}", fields  # noqa: S608
