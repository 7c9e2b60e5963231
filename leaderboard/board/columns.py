"""Columns of the board and their heads, for the page, the CSV and the API."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from evaluation.analysis import thresholds
from evaluation.records import Played
from leaderboard import formatting
from leaderboard.board.row import BoardFilters, BoardRow, board_order, endless, semantic_of


@dataclass(frozen=True)
class Column:
    """A value that the board shows for each model.

    A column with a `label` is on the page and can be sorted by; others are only in the files.
    Labels are format strings: {life} is the name of the time to the chosen threshold.
    """

    #: Name in addresses (?sort=…) and in the style sheet.
    name: str
    #: Return the value: None if unknown, infinite beyond the suite's trips.
    value: Callable[[BoardRow], Any]
    help: str
    _: KW_ONLY
    #: Name in the CSV and the API, if it differs from `name`.
    field: str = ""
    type: Any = float | None
    #: True for a field of the API's rows; other values are in its models, standings or head.
    in_api: bool = False
    #: Decimals in the CSV; None for all digits.
    decimals: int | None = None

    label: str = ""
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
        words = self.label.format(life=thresholds.life(filters.threshold).lower())
        return words[:1].upper() + words[1:]

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


TIERS = (
    "The first model opens class A; the next class is opened by the first model whose possible "
    "ranks do not overlap with those of the last opener. Filters never change a class."
)
COLUMNS: tuple[Column, ...] = (
    Column("group", lambda row: row.group, "ranked, unranked or reference", in_api=True, type=str),
    Column(
        "rank",
        _standing("rank"),
        f"Models that cannot be distinguished share a rank. The letter is the class. {TIERS}",
        label="Rank",
        largest_first=False,
    ),
    Column("rank_low", _standing("rank_low"), "The best rank that is possible."),
    Column("rank_high", _standing("rank_high"), "The worst rank that is possible."),
    Column("tier", _standing("tier"), TIERS),
    Column(
        "name",
        lambda row: row.model.name,
        "The editing model.",
        field="model",
        label="Model",
        largest_first=False,
        head="",
    ),
    Column("slug", lambda row: row.model.slug, "The model's name in addresses."),
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
        "How the run was played. Run here: weights on our worker, or a vendor’s public "
        "API under our key. Submitted endpoint: we called it, its submitter hosts it. Recomputed: "
        "contributed images, numbers computed here. Reported: figures of others. Only the first "
        "two are ranked. Below: the wire contract, and the longest side of the images that were "
        "sent and returned.",
        in_api=True,
        type=Played,
        label="Played",
        under="name",
        largest_first=False,
    ),
    Column(
        "contract",
        lambda row: row.contract,
        "The wire contract of an endpoint, or the provider’s own API.",
        in_api=True,
        type=str | None,
    ),
    Column(
        "size_sent",
        lambda row: row.filters.suite.size,
        "Longest side of the images sent.",
        in_api=True,
        type=int,
    ),
    Column(
        "size_returned",
        lambda row: row.run.returned,
        "Longest side of most edited images, as the model returned them.",
        in_api=True,
        type=int | None,
    ),
    Column("metric", lambda row: row.filters.metric, "The metric of the half-life."),
    Column(
        "threshold",
        lambda row: row.filters.threshold,
        "The share kept at which an image counts as lost.",
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
    Column("half_life_low", _bound("half_life_low"), "Lower end of the 95 % interval.", decimals=4),
    Column(
        "half_life_high", _bound("half_life_high"), "Upper end of the 95 % interval.", decimals=4
    ),
    Column(
        "semantic_metric",
        lambda row: semantic_of([row]),
        "The metric of the semantic half-life.",
    ),
    Column(
        "semantic",
        lambda row: row.semantic_half_life,
        "The half-life by a metric of the image’s meaning.",
        field="semantic_half_life",
        decimals=4,
        label="Semantic {life}",
        text="{:.1f}".format,
        unknown=formatting.NOT_RUN,
    ),
    Column(
        "usable",
        lambda row: row.usable_trips,
        "Round trips above the chosen threshold, on average over the cases.",
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
        "The share of blind pairs in which people prefer it, ties halved; never part of the "
        "half-life.",
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
        "How a judge, a vision-language model, rates the first edit of each case; a refused edit "
        "counts 0. Shown only if the judge is measured to choose as people do above chance.",
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
        lambda row: row.judge_words or None,
        "The judge of the edit quality, and how often it chooses as people do.",
        in_api=True,
        type=str | None,
    ),
    Column("p_first", _standing("p_first"), "The chance that the model is the best of the board."),
    Column(
        "change_seen",
        lambda row: row.change_seen,
        "The share of trips on which the requested change is seen.",
        in_api=True,
        label="Change seen",
        text=formatting.percent,
        # A long half-life means little if the model makes fewer edits than this.
        low=0.8,
    ),
    Column(
        "refusals",
        lambda row: row.refusals,
        "The share of chains that the model refused.",
        in_api=True,
        label="Refused",
        text=formatting.percent,
        largest_first=False,
    ),
    Column(
        "price",
        lambda row: row.price,
        "USD per edit: as paid in this run, else as listed.",
        field="usd_per_edit",
        in_api=True,
        label="Price",
        text=formatting.usd,
        largest_first=False,
    ),
    Column(
        "seconds",
        lambda row: row.run.progress.median_seconds,
        "Median over the edits; below it, the time within which 95 % of them ended.",
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
        "Seconds that 95 % of the edits took at most.",
        in_api=True,
        decimals=4,
    ),
    Column(
        "usd_per_usable_trip",
        lambda row: row.usd_per_usable_trip,
        "USD per usable trip: all edits of each trip, including the one that failed.",
        in_api=True,
        decimals=4,
    ),
    Column(
        "date",
        lambda row: row.date,
        "When the run ended; below it, when the model was added to this board, if earlier.",
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
    Column("reason", lambda row: row.reason, "Why it is not ranked.", in_api=True, type=str),
)


@dataclass(frozen=True)
class Head:
    """The head of a column: its label, its link, its sort order, its sub-columns."""

    column: Column
    label: str
    query: str
    sorted: str
    under: list[Head]


def sort_columns() -> dict[str, Column]:
    """Return the sortable columns by name: measures first, then the model's."""
    sortable = [column for column in COLUMNS if column.label and column.sortable]
    sortable.sort(key=lambda column: "name" in (column.name, column.under))
    return {column.name: column for column in sortable}


def heads(filters: BoardFilters, rows: Iterable[BoardRow] | None = None) -> list[Head]:
    """Return the heads of the page's columns."""
    return [_head(column, filters) for column in on_page(rows, filters.sort)]


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


def _head(column: Column, filters: BoardFilters) -> Head:
    now, flipped = filters.sort.removeprefix("-"), filters.sort.startswith("-")
    here = column.name == now
    way = "descending" if column.largest_first != flipped else "ascending"
    target = f"-{column.name}" if here and not flipped else column.name
    return Head(
        column,
        column.in_words(filters),
        filters.query(sort=target) if column.sortable else "",
        way if here else "",
        [_head(other, filters) for other in COLUMNS if other.under == column.name],
    )
