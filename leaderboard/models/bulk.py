"""Many rows in one statement, for the place where hundreds of answers arrive in a second.

The ORM's bulk methods build their SQL anew for every call, row by row, which
there costs several times what the database does. Here a statement is built once
and executed for many rows; fields still decide how their values are stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection, connections, models
from django.utils import timezone

Row = Mapping[str, Any]


def insert(model: type[models.Model], rows: Sequence[Row], *, ignore: bool = False) -> None:
    """Add rows, given by their fields; all of the same fields. `ignore`: those there already stay."""
    if not rows:
        return
    database = connections[DEFAULT_DB_ALIAS]
    sql, fields, defaults = _insert(model, tuple(rows[0]), ignore, database.vendor)
    now = timezone.now()
    rest = [
        field.get_db_prep_save(now if _is_made_then(field) else field.get_default(), database)
        for field in defaults
    ]
    with database.cursor() as cursor:
        cursor.executemany(sql, [_values(fields, row, database) + rest for row in rows])


def update(model: type[models.Model], rows: Sequence[Row], by: Sequence[str]) -> None:
    """Change rows that the fields `by` name; all rows change the same fields."""
    if not rows:
        return
    database = connections[DEFAULT_DB_ALIAS]
    names = (*(name for name in rows[0] if name not in by), *by)
    sql, fields = _update(model, names, len(by), database.vendor)
    with database.cursor() as cursor:
        cursor.executemany(sql, [_values(fields, row, database) for row in rows])


def _values(fields: Sequence[Any], row: Row, database: Any) -> list[Any]:
    return [field.get_db_prep_save(row[field.name], database) for field in fields]


def _is_made_then(field: Any) -> bool:
    return bool(getattr(field, "auto_now_add", False))


@lru_cache
def _insert(
    model: type[models.Model], names: tuple[str, ...], ignore: bool, vendor: str
) -> tuple[str, list[Any], list[Any]]:
    meta: Any = model._meta
    quote = connection.ops.quote_name
    fields = [meta.get_field(name) for name in names]
    defaults = [
        field
        for field in meta.concrete_fields
        if field not in fields and not isinstance(field, models.AutoField)
    ]
    columns = ", ".join(quote(field.column) for field in (*fields, *defaults))
    marks = ", ".join(["%s"] * (len(fields) + len(defaults)))
    sql = f"INSERT INTO {quote(meta.db_table)} ({columns}) VALUES ({marks})"  # noqa: S608
    return sql + (" ON CONFLICT DO NOTHING" if ignore else ""), fields, defaults


@lru_cache
def _update(
    model: type[models.Model], names: tuple[str, ...], by: int, vendor: str
) -> tuple[str, list[Any]]:
    meta: Any = model._meta
    quote = connection.ops.quote_name
    fields = [meta.get_field(name) for name in names]
    terms = [f"{quote(field.column)} = %s" for field in fields]
    changes, conditions = ", ".join(terms[:-by]), " AND ".join(terms[-by:])
    return f"UPDATE {quote(meta.db_table)} SET {changes} WHERE {conditions}", fields  # noqa: S608
