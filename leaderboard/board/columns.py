"""Columns of the board and their heads, for the page, the CSV and the API."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.analysis import levels
from leaderboard import formatting
from leaderboard.board.row import BoardFilters, BoardRow, board_order, endless, semantic_of


@dataclass(frozen=True, kw_only=True)
class Column:
    """A value that the board shows for each model.

    A column with a `label` is on the page and can be sorted by; others are only in the files.
    Labels are format strings: {life} is the time to the chosen threshold, {trips} the suite's
    number of trips, {semantic} the metric of the semantic column in brackets.
    """

    #: Name in addresses (?sort=…) and in the style sheet.
    name: str
    #: Return the value: None if unknown, infinite beyond the suite's trips.
    value: Callable[[BoardRow], Any]
    help: str
    #: Name in the CSV and the API, if it differs from `name`.
    field: str = ""
    type: Any = float | None
    #: False if the API has it in the model, the standings or the head of the board.
    in_api: bool = True
    #: Decimals in the CSV; None for all digits.
    decimals: int | None = None

    label: str = ""
    #: Appended to the label in the head of the table.
    unit: str = ""
    #: Label on a model's card, in narrow windows.
    short: str = ""
    #: Name of the column whose head and cells also show this column.
    under: str = ""
    sortable: bool = True
    #: Direction in which the first click sorts.
    largest_first: bool = True
    #: Format a value as the text of a cell.
    text: Callable[[Any], str] = str
    #: Grey text for an unknown value; if empty, `text(None)` is used.
    unknown: str = ""
    #: Show the column only if a model has a value.
    optional: bool = False
    #: Values below this are marked.
    low: float = -math.inf
    #: CSS classes of the head.
    head: str = "num"

    @property
    def file_name(self) -> str:
        return self.field or self.name

    def in_words(self, filters: BoardFilters) -> str:
        """Return the label for the sort choices."""
        return filled(self.label, filters)

    def cell(self, row: BoardRow) -> tuple[str, str]:
        """Return the text of a cell and its class."""
        value = self.value(row)
        if value is None and self.unknown:
            return self.unknown, "muted"
        if value == math.inf:
            return formatting.half_life(None, row.filters.suite.trips), ""
        return self.text(value), "low" if value is not None and value < self.low else ""

    def sort_key(self, row: BoardRow) -> Any:
        value = self.value(row)
        return value.casefold() if isinstance(value, str) else value

    def written(self, row: BoardRow) -> Any:
        """Return the value for the CSV: "" if unknown, "> N" if not reached."""
        value = self.value(row)
        if value is None:
            return ""
        if value == math.inf:
            return f"> {row.filters.suite.trips}"
        if isinstance(value, datetime.datetime):
            return value.date().isoformat()
        return value if self.decimals is None else round(value, self.decimals)


def on_page(rows: Iterable[BoardRow] | None = None, sort: str = "") -> list[Column]:
    """Return the columns of the page's table, in order.

    With `rows`, optional columns without a value in these rows are left out.
    """
    labelled = [column for column in COLUMNS if column.label and not column.under]
    if rows is None:
        return labelled
    rows = list(rows)
    return [
        column
        for column in labelled
        if not column.optional
        or column.name == sort.removeprefix("-")
        or any(column.value(row) is not None for row in rows)
    ]


def api_columns() -> list[Column]:
    """Return the columns that are fields of the API's rows."""
    return [column for column in COLUMNS if column.in_api]


def filled(label: str, filters: BoardFilters, semantic: str | None = None) -> str:
    """Return a column's label with the chosen filters filled in."""
    life, trips = levels.life(filters.level).lower(), filters.suite.trips
    by = f" ({formatting.metric_label(semantic)})" if semantic else ""
    words = label.format(life=life, trips=trips, semantic=by)
    return words[:1].upper() + words[1:]


def _standing(name: str) -> Callable[[BoardRow], Any]:
    """Return a getter of a field of the row's standing; None without a standing."""
    return lambda row: getattr(row.standing, name, None)


def _bound(name: str) -> Callable[[BoardRow], float | None]:
    """Return a getter of a bound of the half-life's interval; None without one."""

    def value(row: BoardRow) -> float | None:
        if row.standing is None or not row.standing.has_interval:
            return None
        return endless(getattr(row.standing, name))

    return value


COLUMNS: tuple[Column, ...] = (
    Column(
        name="group",
        value=lambda row: row.group,
        help="ranked, unranked or reference",
        type=str,
    ),
    Column(
        name="rank",
        value=_standing("rank"),
        help="Models that the cases cannot tell apart share a rank.",
        in_api=False,
        label="Rank",
        sortable=False,
    ),
    Column(
        name="rank_low",
        value=_standing("rank_low"),
        help="The best rank that is possible.",
        in_api=False,
    ),
    Column(
        name="rank_high",
        value=_standing("rank_high"),
        help="The worst rank that is possible.",
        in_api=False,
    ),
    Column(
        name="name",
        field="model",
        value=lambda row: row.model.name,
        help="The editing model.",
        in_api=False,
        label="Model",
        largest_first=False,
        head="",
    ),
    Column(
        name="slug",
        value=lambda row: row.model.slug,
        help="The model's name in addresses.",
        in_api=False,
    ),
    Column(
        name="provider",
        value=lambda row: row.provider,
        help="Who serves the model; of local weights, who made them.",
        in_api=False,
        label="Provider",
        under="name",
        largest_first=False,
    ),
    Column(
        name="weights",
        field="open_weights",
        value=lambda row: row.model.open_weights,
        help="Whether the model's weights are open.",
        in_api=False,
        label="Weights",
        under="name",
    ),
    Column(
        name="metric",
        value=lambda row: row.filters.metric,
        help="What the half-life is measured by.",
        in_api=False,
    ),
    Column(
        name="level",
        value=lambda row: row.filters.level,
        help="The share of the picture that is left when the clock stops.",
        in_api=False,
    ),
    Column(
        name="cases",
        value=lambda row: row.filters.scope,
        help="all, category:…, kind:… or pair:…",
        in_api=False,
    ),
    Column(
        name="trips",
        value=lambda row: row.filters.suite.trips,
        help="How many round trips the suite has.",
        in_api=False,
    ),
    Column(
        name="half_life",
        value=lambda row: row.half_life,
        help="How many round trips a picture lasts: the half-life of the decay with as many usable trips.",
        in_api=False,
        decimals=4,
        label="{life}",
        unit=", in round trips",
        head="life",
    ),
    Column(
        name="half_life_low",
        value=_bound("half_life_low"),
        help="Lower end of the 95 % interval.",
        in_api=False,
        decimals=4,
    ),
    Column(
        name="half_life_high",
        value=_bound("half_life_high"),
        help="Upper end of the 95 % interval.",
        in_api=False,
        decimals=4,
    ),
    Column(
        name="semantic_metric",
        value=lambda row: semantic_of([row]),
        help="What the semantic half-life is measured by.",
        in_api=False,
    ),
    Column(
        name="semantic",
        field="semantic_half_life",
        value=lambda row: row.semantic_half_life,
        help="The same by a metric that looks at what the picture means.",
        in_api=False,
        decimals=4,
        label="Semantic {life}",
        unit="{semantic}",
        short="Semantic",
        text="{:.1f}".format,
        unknown=formatting.NOT_RUN,
    ),
    Column(
        name="usable",
        field="usable_trips",
        value=lambda row: row.usable_trips,
        help="Round trips above the chosen level, on average over the cases.",
        in_api=False,
        decimals=4,
        label="Usable trips",
        unit=" of {trips}",
        text="{:.1f}".format,
        unknown="–",
    ),
    Column(
        name="curve",
        field="auc",
        value=lambda row: row.auc,
        help="The share of the picture that is kept, on average over all trips.",
        in_api=False,
        decimals=4,
        label="Picture kept",
        head="",
    ),
    Column(
        name="people",
        field="people_prefer",
        value=lambda row: row.people and row.people.share,
        help="The share of blind pairs that people decide for it, ties halved; never part of the half-life.",
        decimals=4,
        label="People",
        unknown="–",
        optional=True,
    ),
    Column(
        name="people_low",
        value=lambda row: row.people and row.people.share_low,
        help="Lower end of the 95 % interval of what people prefer.",
        decimals=4,
    ),
    Column(
        name="people_high",
        value=lambda row: row.people and row.people.share_high,
        help="Upper end of the 95 % interval of what people prefer.",
        decimals=4,
    ),
    Column(
        name="p_first",
        value=_standing("p_first"),
        help="How likely the model is the best of the board.",
        in_api=False,
    ),
    Column(
        name="change_seen",
        value=lambda row: row.change_seen,
        help="The share of trips on which the change that was asked for is seen.",
        label="Change seen",
        text=formatting.percent,
        # A long half-life means little if the model makes fewer edits than this.
        low=0.8,
    ),
    Column(
        name="refusals",
        value=lambda row: row.refusals,
        help="The share of chains that the model refused.",
        label="Refused",
        text=formatting.percent,
        largest_first=False,
    ),
    Column(
        name="price",
        field="usd_per_edit",
        value=lambda row: row.price,
        help="USD per edit: as paid in this run, else as listed.",
        label="Price per edit",
        text=formatting.usd,
        largest_first=False,
    ),
    Column(
        name="seconds",
        field="median_seconds",
        value=lambda row: row.run.progress.median_seconds,
        help="Half of the edits took no longer; below it, the time that 95 % of them kept to.",
        decimals=2,
        label="Time per edit",
        text=formatting.seconds,
        largest_first=False,
    ),
    Column(
        name="mean_seconds",
        field="seconds_per_edit",
        value=lambda row: row.seconds,
        help="Time per edit in seconds, on average over the run.",
    ),
    Column(
        name="p95_seconds",
        value=lambda row: row.run.progress.p95_seconds,
        help="Seconds that 95 % of the edits took at most.",
        decimals=2,
    ),
    Column(
        name="usd_per_usable_trip",
        value=lambda row: row.usd_per_usable_trip,
        help="USD per usable trip: all of its edits; the trip that failed is paid too.",
        decimals=4,
    ),
    Column(
        name="date",
        value=lambda row: row.date,
        help="When the run ended; below it, when the model came onto this board, if that was earlier.",
        type=datetime.datetime | None,
        label="Run",
    ),
    Column(
        name="added",
        value=lambda row: row.added,
        help="When the model came onto this board: its first run on the suite ended then.",
        type=datetime.datetime | None,
        label="Added",
        under="date",
    ),
    Column(
        name="run",
        value=lambda row: row.run.pk,
        help="The run's number.",
        type=int,
    ),
    Column(
        name="reason",
        value=lambda row: row.reason,
        help="Why it is not ranked.",
        type=str,
    ),
)


@dataclass(frozen=True)
class Head:
    """The head of a column: its label, its link, its sort order, its sub-columns."""

    column: Column
    label: str
    #: Label on a model's card, in narrow windows.
    short: str
    query: str
    sorted: str
    under: list[Head]


def sort_columns() -> dict[str, Column]:
    """Return the sortable columns by name: measures first, then the model's."""
    sortable = [column for column in COLUMNS if column.label and column.sortable]
    sortable.sort(key=lambda column: "name" in (column.name, column.under))
    return {column.name: column for column in sortable}


def heads(
    filters: BoardFilters, semantic: str | None, rows: Iterable[BoardRow] | None = None
) -> list[Head]:
    """Return the heads of the page's columns; `semantic` is that column's metric."""
    return [_head(column, filters, semantic) for column in on_page(rows, filters.sort)]


def sorted_rows(rows: Sequence[BoardRow], sort: str) -> list[BoardRow]:
    """Return the rows sorted by this column; rows without a value come last.

    Ties are sorted in the default order.
    """
    ordered = sorted(rows, key=_default_order)
    column, flipped = sort_columns()[sort.removeprefix("-")], sort.startswith("-")
    with_value = [row for row in ordered if column.value(row) is not None]
    with_value.sort(key=column.sort_key, reverse=column.largest_first != flipped)
    return with_value + [row for row in ordered if column.value(row) is None]


def _default_order(row: BoardRow) -> tuple[tuple[float, float], str]:
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
        [_head(other, filters, semantic) for other in COLUMNS if other.under == column.name],
    )
