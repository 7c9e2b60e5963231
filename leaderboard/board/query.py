"""The board's filters as a form. Invalid values are ignored and reported, never an error."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any, Self

from django import forms

from evaluation.analysis import thresholds
from evaluation.content.suites import find_suite
from evaluation.metrics import HEADLINE, full_reference_metrics
from evaluation.records import Played
from leaderboard import formatting
from leaderboard.board.breakdowns import PAIRS, parts
from leaderboard.board.columns import sort_columns
from leaderboard.board.row import NO_MODEL_FILTERS, BoardFilters, BoardRow, provider_of
from leaderboard.board.rows import board_rows, metrics_of, runs_of, suites
from leaderboard.models import Case, Run, Suite

#: Choices of the filter on the highest price per edit, in USD.
PRICES = (0.01, 0.02, 0.05, 0.1, 0.2)


class BoardForm(forms.Form):
    """The board's filters. `offer` sets the choices that depend on the database."""

    q = forms.CharField(
        required=False,
        label="Search",
        max_length=60,
        widget=forms.TextInput({"type": "search", "placeholder": "Name, provider"}),
    )
    suite = forms.ChoiceField(required=False, label="Suite")
    metric = forms.ChoiceField(required=False, label="Metric")
    threshold = forms.TypedChoiceField(
        required=False, label="Until", coerce=float, empty_value=None
    )
    cases = forms.ChoiceField(required=False, label="Cases")
    weights = forms.ChoiceField(
        required=False,
        label="Weights",
        choices=[("", "Open or closed"), ("open", "Open weights"), ("closed", "Closed")],
    )
    provider = forms.ChoiceField(required=False, label="Provider")
    played = forms.ChoiceField(
        required=False,
        label="How it was played",
        choices=[("", "Any way"), *((way, way.capitalize()) for way in Played)],
    )
    price = forms.TypedChoiceField(
        required=False,
        label="Price per edit",
        coerce=float,
        empty_value=None,
        choices=[("", "Any price"), *((f"{usd:g}", f"up to ${usd:.2f}") for usd in PRICES)],
    )
    since = forms.DateField(
        required=False, label="Added since", widget=forms.DateInput({"type": "date"}, "%Y-%m-%d")
    )
    ranks = forms.ChoiceField(
        required=False,
        label="Ranks",
        choices=[("", "Run here and submitted endpoints"), ("here", "Run here only")],
        # Set by a switch above the table.
        widget=forms.HiddenInput,
    )
    sort = forms.ChoiceField(required=False, label="Sort by")
    every = forms.ChoiceField(required=False, choices=[("1", "")])

    def offer(
        self,
        suites: Sequence[Suite],
        metrics: Sequence[str],
        scopes: Any,
        providers: Sequence[str],
    ) -> None:
        """Set the choices that depend on the database."""
        set_choices(
            self, "provider", [("", "All providers"), *((name, name) for name in providers)]
        )
        set_choices(self, "suite", [(suite.key, str(suite)) for suite in suites])
        set_choices(self, "metric", [(name, formatting.metric_choice(name)) for name in metrics])
        set_choices(
            self,
            "threshold",
            [(f"{n:g}", thresholds.named(n)) for n in reversed(thresholds.THRESHOLDS)],
        )
        set_choices(self, "cases", scopes)
        set_choices(
            self, "sort", [(sign + name, name) for name in sort_columns() for sign in ("", "-")]
        )

    def offer_sorts(self, filters: BoardFilters) -> None:
        """Offer each column once, and the present order too if it is a reversed one."""
        labels = {name: column.label_for(filters) for name, column in sort_columns().items()}
        if filters.sort.startswith("-"):
            labels[filters.sort] = f"{labels[filters.sort[1:]]}, reversed"
        set_choices(self, "sort", list(labels.items()))


def set_choices(form: forms.Form, name: str, choices: Any) -> None:
    """Set the choices of a form's field."""
    field = form.fields[name]
    assert isinstance(field, forms.ChoiceField)  # noqa: S101
    field.choices = choices


#: Query parameters of the board's URL; others are ignored.
PARAMETERS = tuple(BoardForm.base_fields)


@dataclass(frozen=True)
class BoardQuery:
    """A parsed URL: filters, the form to change them, and remarks on ignored values."""

    filters: BoardFilters
    form: BoardForm
    #: Runs of the suite, one per model.
    runs: list[Run]
    remarks: list[str]
    #: The newest version of the suite; None if it is the version shown.
    newer: Suite | None
    #: True if the requested suite does not exist. Then pages show another suite, and downloads an
    #: error.
    no_such_suite: bool = False
    #: True if no suite has results except self-tests (small suites that show that the site works).
    only_self_test: bool = False

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> Self | None:
        """Parse the query parameters. Returns None if the site has no suite."""
        offered = suites()
        if not offered:
            return None
        parameters = {name: query.get(name, "") for name in PARAMETERS}
        suite = find_suite(parameters["suite"], offered)
        no_such_suite = suite is None and bool(parameters["suite"])
        suite = suite or offered[0]
        remarks = (
            [f"There is no suite “{parameters['suite'][:60]}”. {suite} is shown instead."]
            if no_such_suite
            else []
        )
        runs = runs_of(suite)
        metrics = metrics_of(runs) or [HEADLINE]
        scopes = _scopes(suite.pk, suite.updated_at)
        providers = _providers(runs)
        form = BoardForm({**parameters, "suite": suite.key})
        form.offer(offered, metrics, scopes, providers)
        form.is_valid()
        remarks += [
            _remark(form, name, parameters[name], suite, metrics[0]) for name in form.errors
        ]
        values = form.cleaned_data
        filters = BoardFilters(
            suite=suite,
            metric=values.get("metric") or metrics[0],
            threshold=values.get("threshold") or thresholds.DEFAULT_THRESHOLD,
            scope=values.get("cases") or "all",
            search=values.get("q") or "",
            provider=values.get("provider") or "",
            weights=values.get("weights") or "",
            played=values.get("played") or "",
            price=values.get("price"),
            since=values.get("since"),
            ranks=values.get("ranks") or "",
            sort=values.get("sort") or "rank",
            every=bool(values.get("every")),
        )
        shown = BoardForm(initial=filters.values)
        shown.offer(offered, metrics, _without_pairs(scopes, filters.scope), providers)
        shown.offer_sorts(filters)
        del shown.fields["every"]  # after a change of filters, only the first rows are shown
        newest = find_suite(suite.slug, offered)
        return cls(
            filters,
            shown,
            runs,
            remarks,
            newest if newest and newest.version > suite.version else None,
            no_such_suite,
            not any(
                getattr(choice, "has_results", False) and not choice.is_self_test
                for choice in offered
            ),
        )

    @property
    def context(self) -> dict[str, Any]:
        """Template context that all pages of the board share."""
        return {
            "board": self,
            "filters": self.filters,
            "suite": self.filters.suite,
            "trips": self.filters.suite.trips,
        }

    def rows(self) -> list[BoardRow]:
        return board_rows(self.filters, self.runs)

    @property
    def is_cacheable(self) -> bool:
        """Return True if the page may be cached. There are too many searches to cache them."""
        return not (self.remarks or self.filters.search or self.filters.since)

    @property
    def uses_more_filters(self) -> bool:
        """Return True if a filter under "More filters" is set."""
        filters = self.filters
        return bool(filters.provider or filters.played or filters.price or filters.since)

    @property
    def active_filters(self) -> list[tuple[str, str]]:
        """Labels of the active filters on models, each with the query that removes it."""
        filters, fields = self.filters, self.form.fields
        labels = [("search", f"“{filters.search}”")] if filters.search else []
        labels += [("provider", filters.provider)] if filters.provider else []
        for name in ("weights", "played", "price"):
            field = fields[name]
            assert isinstance(field, forms.ChoiceField)  # noqa: S101
            options = dict(field.choices)  # type: ignore[arg-type]
            value = self.form.initial[name]
            labels += [(name, str(options[value]))] if value else []
        labels += [("since", f"since {filters.since:%-d %B %Y}")] if filters.since else []
        return [(label, filters.query(**{name: NO_MODEL_FILTERS[name]})) for name, label in labels]


def _providers(runs: Sequence[Run]) -> list[str]:
    """Return the providers of these runs' models in alphabetical order."""
    names = {provider_of(r.editing_model) for r in runs if not r.editing_model.is_reference}
    return sorted(names - {""}, key=str.casefold)


def _remark(form: BoardForm, name: str, value: str, suite: Suite, metric: str) -> str:
    """Return the remark on an ignored value."""
    if name == "metric" and value in full_reference_metrics():
        missing, shown = formatting.metric_label(value), formatting.metric_label(metric)
        return f"{suite} has no results by {missing} yet; these are by {shown}."
    label = form.fields[name].label or name
    return f"{label}: “{value[:60]}” is not a valid choice and was ignored."


@lru_cache(maxsize=64)
def _scopes(suite: int, updated_at: datetime.datetime) -> list[Any]:
    """Return the choices of the filter on cases: all, then by category, kind, origin and pair.

    A frozen suite never changes, so the result is cached.
    """
    titles: dict[str, str] = {}
    scopes: set[str] = set()
    rows = Case.objects.filter(suite=suite).order_by("pair_title").distinct()
    for category, kind, origin, pair, title in rows.values_list(
        "category", "kind", "origin", "pair_slug", "pair_title"
    ):
        scopes |= {f"category:{category}", f"kind:{kind}", f"origin:{origin}", f"pair:{pair}"}
        titles[pair] = title
    groups = groupby(parts(scopes, titles), key=lambda part: part.group)
    return [
        ("all", "All cases"),
        *((group, [(part.scope, part.label) for part in members]) for group, members in groups),
    ]


def _without_pairs(scopes: list[Any], chosen: str) -> list[Any]:
    """Return the scopes without edit pairs, except for the chosen pair.

    A suite has too many pairs for this list; the breakdown page lists them.
    """
    choices = [(name, group) for name, group in scopes if name != PAIRS]
    if chosen.startswith("pair:"):
        choices.append((PAIRS, [(chosen, _labels(scopes)[chosen])]))
    return choices


def _labels(scopes: list[Any]) -> dict[str, str]:
    """Return the label of each scope."""
    (all_cases, label), *groups = scopes
    return {all_cases: label} | {scope: label for _, group in groups for scope, label in group}
