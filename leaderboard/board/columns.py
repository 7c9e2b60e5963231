"""The board's columns, for the page, the CSV file and the API."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from evaluation.analysis import thresholds
from evaluation.records import Played
from leaderboard import formatting
from leaderboard.board.row import BoardFilters, BoardRow, board_order, infinite_if_none, semantic_of


@dataclass(frozen=True)
class Column:
    """A value that the board shows for each model.

    Columns with a `label` are on the page; the others are only in the CSV and the API. In a
    label, {life} is replaced by the lifetime's name at the chosen threshold: "half-life" at 0.5.
    """

    #: Name in URLs (?sort=…) and in the style sheet.
    name: str
    #: Returns a row's value: None if unknown, infinite if not reached within the suite's trips.
    value: Callable[[BoardRow], Any]
    help: str
    _: KW_ONLY
    #: Name in the CSV and the API, if it differs from `name`.
    field: str = ""
    type: Any = float | None
    #: True if the API's rows have this field; False if the row's model or standing has it.
    in_api: bool = False
    #: Decimals in the CSV; None: all digits.
    decimals: int | None = None

    label: str = ""
    #: Name of the column whose cells also show this value, in small print.
    under: str = ""
    sortable: bool = True
    #: Sort direction of the first click.
    largest_first: bool = True
    #: Formats a value as a cell's text.
    text: Callable[[Any], str] = str
    #: Grey text for an unknown value; if empty, `text(None)` is shown.
    unknown: str = ""
    #: True to hide the column if no model has a value.
    optional: bool = False
    #: Values below this limit are highlighted.
    low: float = -math.inf
    #: CSS class of the header cell.
    head: str = "num"

    @property
    def file_name(self) -> str:
        return self.field or self.name

    def label_for(self, filters: BoardFilters) -> str:
        """Return the label under these filters, with a capital letter."""
        label = self.label.format(life=thresholds.life(filters.threshold).lower())
        return label[:1].upper() + label[1:]

    def cell(self, row: BoardRow) -> tuple[str, str]:
        """Return a cell's text and CSS class."""
        value = self.value(row)
        if value is None and self.unknown:
            return self.unknown, "muted"
        if value == math.inf:
            return formatting.half_life(None, row.filters.suite.trips), ""
        return self.text(value), "low" if value is not None and value < self.low else ""

    def sort_key(self, row: BoardRow) -> Any:
        value = self.value(row)
        return value.casefold() if isinstance(value, str) else value

    def csv_value(self, row: BoardRow) -> Any:
        """Return the value for the CSV: "" if unknown, "> N" if not reached in N trips."""
        value = self.value(row)
        if value is None:
            return ""
        if value == math.inf:
            return f"> {row.filters.suite.trips}"
        if isinstance(value, datetime.datetime):
            return value.date().isoformat()
        return value if self.decimals is None else round(value, self.decimals)


def page_columns(rows: Iterable[BoardRow] | None = None, sort: str = "") -> list[Column]:
    """Return the columns of the page's table in order.

    If `rows` are given, optional columns without any value are left out, except the column that
    the table is sorted by.
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
    """Return the columns that the API shows as fields of its rows."""
    return [column for column in COLUMNS if column.in_api]


def _standing_field(name: str) -> Callable[[BoardRow], Any]:
    """Return a function that reads a field of a row's standing; None without a standing."""
    return lambda row: getattr(row.standing, name, None)


def _half_life_bound(name: str) -> Callable[[BoardRow], float | None]:
    """Return a function that reads a bound of a row's half-life; None without an interval."""

    def value(row: BoardRow) -> float | None:
        if row.standing is None or not row.standing.has_interval:
            return None
        return infinite_if_none(getattr(row.standing, name))

    return value


CLASS = (
    "Class A is the best model and the models after it, as long as their possible ranks overlap "
    "with its own. The next model begins class B. Filters never change a class."
)
COLUMNS: tuple[Column, ...] = (
    Column("group", lambda row: row.group, "ranked, unranked or reference", in_api=True, type=str),
    Column(
        "rank",
        _standing_field("rank"),
        "Models that cannot be distinguished share a rank. A letter (A, B, …) names the model’s "
        f"class. {CLASS}",
        label="Rank",
        largest_first=False,
    ),
    Column("rank_low", _standing_field("rank_low"), "The best possible rank."),
    Column("rank_high", _standing_field("rank_high"), "The worst possible rank."),
    Column("tier", _standing_field("tier"), f"The letter of the model’s class. {CLASS}"),
    Column(
        "name",
        lambda row: row.model.name,
        "The editing model.",
        field="model",
        label="Model",
        largest_first=False,
        head="",
    ),
    Column("slug", lambda row: row.model.slug, "The model's name in URLs."),
    Column(
        "provider",
        lambda row: row.provider,
        "Who hosts the model, or made the weights.",
        label="Provider",
        under="name",
        largest_first=False,
    ),
    Column(
        "weights",
        lambda row: row.model.open_weights,
        "Whether the model’s weights are open.",
        field="open_weights",
        label="Weights",
        under="name",
    ),
    Column(
        "played",
        lambda row: row.run.played,
        "How the model’s edits were made. Run here: by the model’s weights on our worker, or by a "
        "vendor’s public API under our key. Submitted endpoint: by an endpoint that its submitter "
        "hosts. Recomputed: elsewhere, but we computed all scores from the images. Reported: "
        "elsewhere, and we did not reproduce all scores. Only the first two are ranked. The small "
        "print has the API format and the image sizes: “sent at 1,024 px” means at most 1,024 × 1,024 "
        "pixels; “returned at 1,024 px” means that the longest side of most answers was 1,024 pixels.",
        in_api=True,
        type=Played,
        label="Played",
        under="name",
        largest_first=False,
    ),
    Column(
        "contract",
        lambda row: row.contract,
        "The API format of an endpoint, or else the name of the editor that we run.",
        in_api=True,
        type=str | None,
    ),
    Column(
        "size_sent",
        lambda row: row.filters.suite.size,
        "Size of the images sent: 1024 means at most 1024 × 1024 pixels in all, in any aspect ratio.",
        in_api=True,
        type=int,
    ),
    Column(
        "size_returned",
        lambda row: row.run.returned,
        "The most common longest side of the edited images, as the model returned them.",
        in_api=True,
        type=int | None,
    ),
    Column("metric", lambda row: row.filters.metric, "The metric of the half-life."),
    Column(
        "threshold",
        lambda row: row.filters.threshold,
        "An image counts as lost when the share kept falls to this threshold.",
    ),
    Column("cases", lambda row: row.filters.scope, "all, category:…, kind:…, origin:… or pair:…"),
    Column("trips", lambda row: row.filters.suite.trips, "The suite's number of round trips."),
    Column(
        "half_life",
        lambda row: row.half_life,
        "Half of the images are no longer usable after this many round trips.",
        decimals=4,
        label="{life}",
        head="life",
    ),
    Column(
        "half_life_low",
        _half_life_bound("half_life_low"),
        "Lower end of the 95 % interval.",
        decimals=4,
    ),
    Column(
        "half_life_high",
        _half_life_bound("half_life_high"),
        "Upper end of the 95 % interval.",
        decimals=4,
    ),
    Column(
        "semantic_metric",
        lambda row: semantic_of([row]),
        "The metric behind the semantic half-life.",
    ),
    Column(
        "semantic",
        lambda row: row.semantic_half_life,
        "The half-life by a metric that compares what the image shows, not its pixels.",
        field="semantic_half_life",
        decimals=4,
        label="Semantic {life}",
        text="{:.1f}".format,
        unknown=formatting.NOT_RUN,
    ),
    Column(
        "usable",
        lambda row: row.usable_trips,
        "Round trips until an image has the damage chosen under “Until” or the model stops making "
        "the edit, averaged over the cases.",
        field="usable_trips",
        decimals=4,
        label="Usable trips",
        text="{:.1f}".format,
        unknown="–",
    ),
    Column(
        "curve",
        lambda row: row.auc,
        "The share of the image kept, averaged over all trips.",
        field="auc",
        decimals=4,
        label="Image kept",
        head="",
    ),
    Column(
        "people",
        lambda row: row.people and row.people.share,
        "The share of people’s blind comparisons that the model won; a tie counts as half. Not part "
        "of the half-life.",
        field="people_prefer",
        in_api=True,
        decimals=4,
        label="People",
        unknown="–",
        optional=True,
    ),
    Column(
        "people_low",
        lambda row: row.people and row.people.share_low,
        "Lower end of the 95 % interval of what people prefer.",
        in_api=True,
        decimals=4,
    ),
    Column(
        "people_high",
        lambda row: row.people and row.people.share_high,
        "Upper end of the 95 % interval of what people prefer.",
        in_api=True,
        decimals=4,
    ),
    Column(
        "edit_quality",
        lambda row: row.edit_quality and row.edit_quality.score,
        "Rating of the first edit of each case by a judge, a vision-language model. A refused edit "
        "counts 0. Shown only if the judge agrees with people more often than chance.",
        in_api=True,
        decimals=4,
        label="Edit quality",
        unknown=formatting.NOT_JUDGED,
        optional=True,
    ),
    Column(
        "edit_quality_low",
        lambda row: row.edit_quality and row.edit_quality.low,
        "Lower end of the 95 % interval of edit quality.",
        in_api=True,
        decimals=4,
    ),
    Column(
        "edit_quality_high",
        lambda row: row.edit_quality and row.edit_quality.high,
        "Upper end of the 95 % interval of edit quality.",
        in_api=True,
        decimals=4,
    ),
    Column(
        "judge",
        lambda row: row.judge_sentence or None,
        "The judge of the edit quality, and how often it agrees with people.",
        in_api=True,
        type=str | None,
    ),
    Column(
        "p_first",
        _standing_field("p_first"),
        "The probability that the model is the best on the board.",
    ),
    Column(
        "change_seen",
        lambda row: row.change_seen,
        "The share of trips on which the edit visibly changed the image.",
        in_api=True,
        label="Change seen",
        text=formatting.percent,
        # Below this share of edits made, a long half-life means little.
        low=0.8,
    ),
    Column(
        "refusals",
        lambda row: row.refusals,
        "The share of chains in which the model refused an edit. A chain is all round trips of one "
        "case.",
        in_api=True,
        label="Refused",
        text=formatting.percent,
        largest_first=False,
    ),
    Column(
        "price",
        lambda row: row.price,
        "USD per edit: as paid in this run, or else the listed price.",
        field="usd_per_edit",
        in_api=True,
        label="Price",
        text=formatting.usd,
        largest_first=False,
    ),
    Column(
        "seconds",
        lambda row: row.run.progress.median_seconds,
        "Median time per edit. The small print is the time within which 95 % of the edits ended.",
        field="median_seconds",
        in_api=True,
        decimals=4,
        label="Time",
        text=formatting.seconds,
        largest_first=False,
    ),
    Column(
        "p95_seconds",
        lambda row: row.run.progress.p95_seconds,
        "Seconds within which 95 % of the edits ended.",
        in_api=True,
        decimals=4,
    ),
    Column(
        "usd_per_usable_trip",
        lambda row: row.usd_per_usable_trip,
        "USD per usable trip, for all edits of all trips, including the trip that failed.",
        in_api=True,
        decimals=4,
    ),
    Column(
        "date",
        lambda row: row.date,
        "When the run ended. The small print is when the model was added to this board, if that was "
        "earlier.",
        in_api=True,
        type=datetime.datetime | None,
        label="Run",
    ),
    Column(
        "added",
        lambda row: row.added,
        "When the model was added to this board: the end of its first run on the suite.",
        in_api=True,
        type=datetime.datetime | None,
        label="Added",
        under="date",
    ),
    Column("run", lambda row: row.run.pk, "The run's number.", in_api=True, type=int),
    Column("reason", lambda row: row.reason, "Why the model is not ranked.", in_api=True, type=str),
)


@dataclass(frozen=True)
class Head:
    """A column's header cell, with the headers of its small-print columns in `under`."""

    column: Column
    label: str
    #: Query string of the link that sorts by this column.
    query: str
    #: "ascending" or "descending" if the table is sorted by this column, else "".
    sorted: str
    under: list[Head]


def sort_columns() -> dict[str, Column]:
    """Return the sortable columns by name; the columns on the model itself come last."""
    sortable = [column for column in COLUMNS if column.label and column.sortable]
    sortable.sort(key=lambda column: "name" in (column.name, column.under))
    return {column.name: column for column in sortable}


def heads(filters: BoardFilters, rows: Iterable[BoardRow] | None = None) -> list[Head]:
    """Return the header cells of the page's table."""
    return [_head(column, filters) for column in page_columns(rows, filters.sort)]


def sorted_rows(rows: Sequence[BoardRow], sort: str) -> list[BoardRow]:
    """Return the rows sorted by this column, ties in the default order.

    Rows without a value come last.
    """
    ordered = sorted(rows, key=_default_order)
    column, is_reversed = sort_columns()[sort.removeprefix("-")], sort.startswith("-")
    with_value = [row for row in ordered if column.value(row) is not None]
    with_value.sort(key=column.sort_key, reverse=column.largest_first != is_reversed)
    return with_value + [row for row in ordered if column.value(row) is None]


def _default_order(row: BoardRow) -> tuple[tuple[float, float], str]:
    return board_order(row), row.model.name.casefold()


def _head(column: Column, filters: BoardFilters) -> Head:
    current, is_reversed = filters.sort.removeprefix("-"), filters.sort.startswith("-")
    is_current = column.name == current
    direction = "descending" if column.largest_first != is_reversed else "ascending"
    target = f"-{column.name}" if is_current and not is_reversed else column.name
    return Head(
        column,
        column.label_for(filters),
        filters.query(sort=target) if column.sortable else "",
        direction if is_current else "",
        [_head(other, filters) for other in COLUMNS if other.under == column.name],
    )
