"""The board's columns, named once: the page, the sort choices, the CSV and the API read this list."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from evaluation.statistics import levels
from leaderboard import formatting
from leaderboard.board import people_column
from leaderboard.board.filters import BoardFilters
from leaderboard.models import EditingModel, Run, Standing


@dataclass(frozen=True)
class BoardRow:
    """One model. `reason` says why it is not ranked; a standing of None was not run."""

    group: str
    run: Run
    model: EditingModel
    standing: Standing | None
    semantic: Standing | None
    filters: BoardFilters
    reason: str = ""

    @property
    def provider(self) -> str:
        """Who serves the model; of local weights, who made them."""
        return provider_of(self.model)

    @property
    def half_life(self) -> float | None:
        """Unreached counts as endless, unmeasured as None."""
        return None if self.standing is None else endless(self.standing.half_life)

    @property
    def semantic_half_life(self) -> float | None:
        return None if self.semantic is None else endless(self.semantic.half_life)

    @property
    def usable_trips(self) -> float | None:
        return None if self.standing is None else self.standing.usable_trips

    @property
    def auc(self) -> float | None:
        return None if self.standing is None else self.standing.auc

    @property
    def change_seen(self) -> float | None:
        """The share of judged trips on which the change was seen."""
        return None if self.standing is None else self.standing.counts.get("change_seen")

    @property
    def refusals(self) -> float | None:
        """The share of chains that the model refused; None where nobody wrote it down."""
        if self.standing is None or not self.standing.counts.get("chains"):
            return None
        if self.run.source == Run.Source.PUBLISHED:
            return None
        counts: dict[str, int] = self.standing.counts
        return counts.get("refused", 0) / counts["chains"]

    @property
    def price(self) -> float | None:
        """USD per edit: as paid in this run, else as listed."""
        return price_of(self.run)

    @property
    def usd_per_usable_trip(self) -> float | None:
        """What a trip costs that the picture survives: two edits, and the trip that fails is paid too."""
        usable, price = self.usable_trips, self.price
        if price is None or not usable:
            return None
        return 2 * price * min(usable + 1, self.filters.suite.trips) / usable

    @property
    def seconds(self) -> float | None:
        return self.run.seconds_per_edit

    @property
    def date(self) -> datetime.datetime | None:
        return self.run.finished_at or self.run.started_at

    @property
    def added(self) -> datetime.datetime | None:
        """When the model came onto this board: its first run on the suite ended then."""
        return self.run.added_at or self.run.finished_at


class Served(Protocol):
    """A model, whole or in short, with whoever made and serves it."""

    @property
    def provider(self) -> str: ...
    @property
    def organisation(self) -> str: ...
    @property
    def access(self) -> str: ...


def provider_of(model: Served) -> str:
    """Who serves the model; of local weights, who made them."""
    if model.access == EditingModel.Access.LOCAL:
        return model.organisation or model.provider
    return model.provider or model.organisation


def price_of(run: Run) -> float | None:
    """USD per edit: as paid in this run, else as listed."""
    paid, listed = run.usd_per_edit, run.editing_model.price_per_edit
    return paid if paid is not None else None if listed is None else float(listed)


@dataclass(frozen=True, kw_only=True)
class Column:
    """One thing the board says of each model.

    With a `label` it is on the page and can be sorted by; without, in the files alone.
    Labels are format strings: {life} is the time to the chosen level, {trips} the suite's
    number, {semantic} the metric of the semantic column in brackets.
    """

    #: In addresses (?sort=…) and in the style sheet.
    name: str
    #: None where it is not known; infinite beyond the suite's trips.
    value: Callable[[BoardRow], Any]
    help: str
    #: What the CSV and the API call it, where that is not `name`.
    field: str = ""
    type: Any = float | None
    #: False where the API has it within its model, its standings or at the head of the board.
    in_api: bool = True
    #: The CSV's decimals; None for all there are.
    decimals: int | None = None

    label: str = ""
    #: Added to the label in the head of the table.
    unit: str = ""
    #: The label where each model is a card, on narrow windows.
    short: str = ""
    #: The column in whose head this one is named and in whose cells it is shown.
    under: str = ""
    sortable: bool = True
    #: Which way the first click sorts.
    largest_first: bool = True
    #: What a cell says.
    text: Callable[[Any], str] = str
    #: What it says in grey where the value is not known; without it, what `text` makes of None.
    unknown: str = ""
    #: Only on the page where a model has a value.
    optional: bool = False
    #: Marked below this value.
    low: float = -math.inf
    #: Classes of the head.
    head: str = "num"

    @property
    def file_name(self) -> str:
        return self.field or self.name

    def in_words(self, filters: BoardFilters) -> str:
        """The label, as the sort choices have it."""
        return _filled(self.label, filters)

    def cell(self, row: BoardRow) -> tuple[str, str]:
        """What a cell of numbers says, and its class."""
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
        """For the CSV: empty where it is not known; an unreached half-life says "> N"."""
        value = self.value(row)
        if value is None:
            return ""
        if value == math.inf:
            return f"> {row.filters.suite.trips}"
        if isinstance(value, datetime.datetime):
            return value.date().isoformat()
        return value if self.decimals is None else round(value, self.decimals)


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


def on_page(rows: Iterable[BoardRow] | None = None, sort: str = "") -> list[Column]:
    """The columns of the page's table, in their order; of these rows, if any are given."""
    found = [column for column in COLUMNS if column.label and not column.under]
    if rows is None:
        return found
    rows = list(rows)
    return [
        column
        for column in found
        if not column.optional
        or column.name == sort.removeprefix("-")
        or any(column.value(row) is not None for row in rows)
    ]


def sort_columns() -> dict[str, Column]:
    """What can be sorted by, by name: measures first, then what a model's own cell says."""
    found = [column for column in COLUMNS if column.label and column.sortable]
    found.sort(key=lambda column: "name" in (column.name, column.under))
    return {column.name: column for column in found}


def api_columns() -> list[Column]:
    """The columns that the API's rows have as fields of their own."""
    return [column for column in COLUMNS if column.in_api]


def heads(
    filters: BoardFilters, semantic: str | None, rows: Iterable[BoardRow] | None = None
) -> list[Head]:
    """The heads of the page's columns; `semantic` is the metric of that column."""
    return [_head(column, filters, semantic) for column in on_page(rows, filters.sort)]


def semantic_of(rows: Iterable[BoardRow]) -> str | None:
    """The metric of the semantic column; None when no row has one."""
    return next((row.semantic.metric.name for row in rows if row.semantic), None)


def board_order(row: Any) -> tuple[float, float]:
    """The board's own order: usable trips, then what is kept on average."""
    return -(row.usable_trips or 0), -(row.auc or 0)


Row = TypeVar("Row")


def sorted_rows(rows: Sequence[Row], sort: str) -> list[Row]:
    """By the column asked for; ties by the board's own order, what is unknown last."""
    ordered: list[Any] = sorted(rows, key=_own_order)
    column, flipped = sort_columns()[sort.removeprefix("-")], sort.startswith("-")
    known = [row for row in ordered if column.value(row) is not None]
    known.sort(key=column.sort_key, reverse=column.largest_first != flipped)
    return known + [row for row in ordered if column.value(row) is None]


def _own_order(row: Any) -> tuple[tuple[float, float], str]:
    return board_order(row), row.model.name.casefold()


def _head(column: Column, filters: BoardFilters, semantic: str | None) -> Head:
    now, flipped = filters.sort.removeprefix("-"), filters.sort.startswith("-")
    here = column.name == now
    way = "descending" if column.largest_first != flipped else "ascending"
    target = f"-{column.name}" if here and not flipped else column.name
    return Head(
        column,
        _filled(column.label + column.unit, filters, semantic),
        column.short or column.in_words(filters),
        filters.query(sort=target) if column.sortable else "",
        way if here else "",
        [_head(other, filters, semantic) for other in COLUMNS if other.under == column.name],
    )


def _filled(label: str, filters: BoardFilters, semantic: str | None = None) -> str:
    life, trips = levels.life(filters.level).lower(), filters.suite.trips
    by = f" ({formatting.metric_label(semantic)})" if semantic else ""
    words = label.format(life=life, trips=trips, semantic=by)
    return words[:1].upper() + words[1:]


def endless(half_life: float | None) -> float:
    """A half-life to sort by: what was not reached is longer than all that was."""
    return math.inf if half_life is None else half_life


def _standing(name: str) -> Callable[[BoardRow], Any]:
    """A field of the row's standing; None without one."""
    return lambda row: getattr(row.standing, name, None)


def _bound(name: str) -> Callable[[BoardRow], float | None]:
    """A bound of the half-life's interval; None where there is none."""

    def value(row: BoardRow) -> float | None:
        if row.standing is None or not row.standing.has_interval:
            return None
        return endless(getattr(row.standing, name))

    return value


COLUMNS: tuple[Column, ...] = (
    Column(
        name="group",
        value=lambda row: row.group,
        help="ranked, unranked or yardstick",
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
        value=lambda row: people_column.Preferred.of(row.run),
        help="The share of blind pairs that people decide for it, ties halved; never part of the half-life.",
        decimals=4,
        label="People",
        text=people_column.in_words,
        unknown="–",
        optional=True,
    ),
    Column(
        name="people_low",
        value=lambda row: people_column.low(row.run),
        help="Lower end of the 95 % interval of what people prefer.",
        decimals=4,
    ),
    Column(
        name="people_high",
        value=lambda row: people_column.high(row.run),
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
        # Below this share of edits made, a long life means little.
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
        value=lambda row: row.run.median_seconds,
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
        value=lambda row: row.run.p95_seconds,
        help="Seconds that 95 % of the edits took at most.",
        decimals=2,
    ),
    Column(
        name="usd_per_usable_trip",
        value=lambda row: row.usd_per_usable_trip,
        help="USD per usable trip: two edits each, the trip that failed is paid too.",
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
