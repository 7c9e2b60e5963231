"""A row of the board, and the board's filters."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from evaluation.analysis.edit_quality import RUBRIC, EditQuality
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD
from evaluation.metrics import HEADLINE
from evaluation.records import RANKED_WAYS, Played
from leaderboard import formatting
from leaderboard.models import EditingModel, PeopleStanding, Run, Standing, Suite


@dataclass(frozen=True)
class BoardFilters:
    """Suite, metric and threshold of a board, and the filters on cases and models.

    `scope` names the part of the suite, such as "category:objects". `weights` is "", "open" or
    "closed". `played` is a value of `Played` or "". `price` is the highest price per edit in USD.
    `ranks` is "here" to rank only runs that were run here. `sort` is the name of a column, with the
    prefix "-" if reversed.
    """

    suite: Suite
    metric: str = HEADLINE
    threshold: float = DEFAULT_THRESHOLD
    scope: str = "all"
    search: str = ""
    provider: str = ""
    weights: str = ""
    played: str = ""
    price: float | None = None
    since: datetime.date | None = None
    ranks: str = ""
    sort: str = "rank"
    #: Show every model, not only the first page.
    every: bool = False

    @property
    def values(self) -> dict[str, str]:
        """Query parameters, which are also the values of the form."""
        return {
            "suite": self.suite.key,
            "metric": self.metric,
            "threshold": f"{self.threshold:g}",
            "cases": self.scope,
            "q": self.search,
            "provider": self.provider,
            "weights": self.weights,
            "played": self.played,
            "price": "" if self.price is None else f"{self.price:g}",
            "since": self.since.isoformat() if self.since else "",
            "ranks": self.ranks,
            "sort": self.sort,
            "every": "1" if self.every else "",
        }

    def query(self, **changes: Any) -> str:
        """Return the query string with these changes; defaults are left out."""
        values = replace(self, **changes).values
        defaults = {"threshold": f"{DEFAULT_THRESHOLD:g}", "cases": "all", "sort": "rank"}
        return urlencode({k: v for k, v in values.items() if v and v != defaults.get(k)}, safe=":")

    def without_model_filters(self) -> BoardFilters:
        """Return the same board without filters on models."""
        return replace(self, **NO_MODEL_FILTERS)

    @property
    def ranks_here(self) -> bool:
        """Return True if only models that were run here are ranked."""
        return self.ranks == "here"

    @property
    def ranked_ways(self) -> tuple[Played, ...]:
        """The ways of playing whose runs are ranked."""
        return (Played.HERE,) if self.ranks_here else RANKED_WAYS

    @property
    def ranking_note(self) -> str:
        """The note above the table on which rows are ranked."""
        listed_only = [way for way in Played if way not in self.ranked_ways]
        return (
            f"Only rows marked {_quoted(self.ranked_ways)} are ranked. "
            f"Rows marked {_quoted(listed_only)} are listed without a rank."
        )

    @property
    def has_model_filters(self) -> bool:
        return self != self.without_model_filters()


def _quoted(ways: Iterable[Played]) -> str:
    *most, last = (f"“{way}”" for way in ways)
    return " or ".join([", ".join(most), last] if most else [last])


#: Filters on models, with values that exclude no model.
NO_MODEL_FILTERS: dict[str, Any] = {
    "search": "",
    "provider": "",
    "weights": "",
    "played": "",
    "price": None,
    "since": None,
}


@dataclass(frozen=True)
class BoardRow:
    """A model on the board. `standing` is None if the metric was not run."""

    group: str
    run: Run
    model: EditingModel
    standing: Standing | None
    semantic: Standing | None
    filters: BoardFilters
    #: Why the model has no rank; empty if it is ranked.
    reason: str = ""

    @property
    def provider(self) -> str:
        """Provider of the model, or maker of its local weights."""
        return provider_of(self.model)

    @property
    def half_life(self) -> float | None:
        """Half-life: infinite if it was not reached, None if not measured."""
        return None if self.standing is None else infinite_if_none(self.standing.half_life)

    @property
    def semantic_half_life(self) -> float | None:
        return None if self.semantic is None else infinite_if_none(self.semantic.half_life)

    @property
    def usable_trips(self) -> float | None:
        return None if self.standing is None else self.standing.usable_trips

    @property
    def auc(self) -> float | None:
        return None if self.standing is None else self.standing.auc

    @property
    def change_seen(self) -> float | None:
        """Share of judged trips on which the edit visibly changed the image."""
        return None if self.standing is None else self.standing.counts.get("change_seen")

    @property
    def refusals(self) -> float | None:
        """Share of chains that the model refused; None if not recorded."""
        if self.standing is None or not self.standing.counts.get("chains"):
            return None
        if self.run.source == Run.Source.PUBLISHED:
            return None
        counts: dict[str, int] = self.standing.counts
        return counts.get("refused", 0) / counts["chains"]

    @property
    def price(self) -> float | None:
        """Price per edit in USD: the price paid in this run, or else the listed price."""
        return price_of(self.run)

    @property
    def usd_per_usable_trip(self) -> float | None:
        """Price of a usable trip in USD. The edits of the trip that fails are counted too."""
        usable, price, suite = self.usable_trips, self.price, self.filters.suite
        if price is None or not usable:
            return None
        return suite.edits_per_trip * price * min(usable + 1, suite.trips) / usable

    @property
    def contract(self) -> str | None:
        """API format, or else our editor's name; None if a reference editor or not played here."""
        if self.model.is_reference or self.run.source != Run.Source.OURS:
            return None
        return self.run.contract or self.model.editor

    @property
    def contract_and_sizes(self) -> str:
        """`contract`, size sent and size returned as a text; empty without a contract."""
        if not self.contract:
            return ""
        sent, returned = self.filters.suite.size, self.run.returned
        sizes = f"sent at {sent:,}, returned at {returned:,}" if returned else f"sent at {sent:,}"
        return f"{self.contract}, {sizes} px"

    @property
    def people(self) -> PeopleStanding | None:
        """Standing by people's votes; None if too few pairs were decided."""
        # A run without votes has no related row, and Django then raises AttributeError.
        votes: PeopleStanding | None = getattr(self.run, "people", None)
        return votes if votes and votes.share is not None else None

    @property
    def edit_quality(self) -> EditQuality | None:
        """The judge's rating of the edits, if the judge agrees with people."""
        return edit_quality_of(self.run, self.standing) if self.standing else None

    @property
    def judge_sentence(self) -> str:
        """A sentence on the judge of the edit quality; empty if no rating is shown."""
        quality = self.edit_quality
        return judge_sentence(quality.judge, self.run.people) if quality else ""

    @property
    def date(self) -> datetime.datetime | None:
        return self.run.finished_at or self.run.started_at

    @property
    def added(self) -> datetime.datetime | None:
        """When the model's first run on the suite ended."""
        return self.run.added_at or self.run.finished_at


def edit_quality_of(run: Run, standing: Standing) -> EditQuality | None:
    """Return the judge's rating of a run's edits, or None if it must not be shown.

    A rating is shown only if this site queried the judge and the judge agrees with people's
    votes more often than chance.
    """
    rated = standing.counts.get(RUBRIC)
    people: PeopleStanding | None = getattr(run, "people", None)
    if not rated or not people or not people.supports_judge or run.source != Run.Source.OURS:
        return None
    return EditQuality(**rated)


def judges_of(rows: Iterable[BoardRow]) -> list[str]:
    """Return a sentence for each judge that rated these rows."""
    return sorted({row.judge_sentence for row in rows} - {""})


def judge_sentence(judge: str, people: PeopleStanding) -> str:
    """Return a sentence on how often the judge agrees with people."""
    interval = formatting.interval(people.judge_low, people.judge_high, 100, 0)
    return (
        f"Judge {judge} chooses as people do in {formatting.percent(people.judge_share)}"
        f"{f' ({interval})' if interval else ''} of {people.judge_votes:,} votes on pairs of "
        "restored images; chance is 50\u00a0%."
    )


def provider_of(model: EditingModel) -> str:
    """Return the model's provider, or the maker of its local weights."""
    if model.access == EditingModel.Access.LOCAL:
        return model.organisation or model.provider
    return model.provider or model.organisation


def price_of(run: Run) -> float | None:
    """Return the price per edit in USD: the price paid in this run, or else the listed price."""
    paid, listed = run.progress.usd_per_edit, run.editing_model.price_per_edit
    return paid if paid is not None else None if listed is None else float(listed)


def semantic_of(rows: Iterable[BoardRow]) -> str | None:
    """Return the metric of the semantic column, or None if no row has a semantic half-life."""
    return next((row.semantic.metric.name for row in rows if row.semantic), None)


def board_order(row: BoardRow) -> tuple[float, float]:
    """Return the default sort key: usable trips, then mean retention."""
    return -(row.usable_trips or 0), -(row.auc or 0)


def infinite_if_none(half_life: float | None) -> float:
    """Return the half-life, which is None in the database if it was not reached."""
    return math.inf if half_life is None else half_life
