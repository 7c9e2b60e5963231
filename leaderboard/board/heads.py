"""The heads of the board's table: what they say, where a click leads, how rows are sorted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leaderboard.board import columns
from leaderboard.board.board_row import BoardRow, board_order
from leaderboard.board.columns import Column, filled, on_page
from leaderboard.board.filters import BoardFilters


@dataclass(frozen=True)
class Head:
    """The head of a column: where a click leads, which way it is sorted now, who shares it."""

    column: Column
    label: str
    #: On a model's card, in narrow windows.
    short: str
    query: str
    sorted: str
    under: list[Head]


def sort_columns() -> dict[str, Column]:
    """What can be sorted by, by name: measures first, then what a model's own cell says."""
    found = [column for column in columns.COLUMNS if column.label and column.sortable]
    found.sort(key=lambda column: "name" in (column.name, column.under))
    return {column.name: column for column in found}


def heads(
    filters: BoardFilters, semantic: str | None, rows: Iterable[BoardRow] | None = None
) -> list[Head]:
    """The heads of the page's columns; `semantic` is the metric of that column."""
    return [_head(column, filters, semantic) for column in on_page(rows, filters.sort)]


def sorted_rows(rows: Sequence[BoardRow], sort: str) -> list[BoardRow]:
    """By the column asked for; ties by the board's own order, what is unknown last."""
    ordered = sorted(rows, key=_own_order)
    column, flipped = sort_columns()[sort.removeprefix("-")], sort.startswith("-")
    known = [row for row in ordered if column.value(row) is not None]
    known.sort(key=column.sort_key, reverse=column.largest_first != flipped)
    return known + [row for row in ordered if column.value(row) is None]


def _own_order(row: BoardRow) -> tuple[tuple[float, float], str]:
    return board_order(row), row.model.name.casefold()


def _head(column: Column, filters: BoardFilters, semantic: str | None) -> Head:
    now, flipped = filters.sort.removeprefix("-"), filters.sort.startswith("-")
    here = column.name == now
    way = "descending" if column.largest_first != flipped else "ascending"
    target = f"-{column.name}" if here and not flipped else column.name
    return Head(
        column,
        filled(column.label + column.unit, filters, semantic),
        column.short or column.in_words(filters),
        filters.query(sort=target) if column.sortable else "",
        way if here else "",
        [
            _head(other, filters, semantic)
            for other in columns.COLUMNS
            if other.under == column.name
        ],
    )
