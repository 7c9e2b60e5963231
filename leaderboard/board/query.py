"""The board's choices as a form: reads any address, never fails, says what it ignored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from django import forms

from evaluation.content.suites import find_suite
from leaderboard import formatting
from leaderboard.board.columns import sort_columns
from leaderboard.board.filters import BoardFilters
from leaderboard.board.rows import metrics_of, runs_of, suites
from leaderboard.models import Case, Run, Suite
from leaderboard.models.standings import LEVELS
from leaderboard.models.suites import Category, Kind

#: What an address may carry; anything else in it is ignored.
PAIRS = "Edit pair"
PARAMETERS = ("suite", "metric", "level", "cases", "weights", "sort", "every")


class BoardForm(forms.Form):
    """Choices that depend on what the database holds."""

    suite = forms.ChoiceField(required=False)
    metric = forms.ChoiceField(required=False)
    level = forms.ChoiceField(required=False, label="Until")
    cases = forms.ChoiceField(required=False)
    weights = forms.ChoiceField(
        required=False, choices=[("", "All models"), ("open", "Open weights"), ("closed", "Closed")]
    )
    sort = forms.ChoiceField(required=False, label="Sort by")
    every = forms.ChoiceField(required=False, choices=[("1", "")])

    def offer(self, suites: Sequence[Suite], metrics: Sequence[str], scopes: Any) -> None:
        """Fill in what can be chosen."""
        self._choices("suite", [(suite.key, str(suite)) for suite in suites])
        self._choices("metric", [(name, formatting.metric_choice(name)) for name in metrics])
        self._choices(
            "level", [(f"{n:g}", f"{formatting.lost(n)} is lost") for n in reversed(LEVELS)]
        )
        self._choices("cases", scopes)
        self._choices(
            "sort", [(sign + name, name) for name in sort_columns() for sign in ("", "-")]
        )

    def offer_sorts(self, filters: BoardFilters) -> None:
        """Each column once, the one that is sorted by now also the other way round."""
        labels = {name: column.in_words(filters) for name, column in sort_columns().items()}
        if filters.sort.startswith("-"):
            labels[filters.sort] = f"{labels[filters.sort[1:]]}, reversed"
        self._choices("sort", list(labels.items()))

    def _choices(self, name: str, choices: Any) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101
        field.choices = choices


@dataclass(frozen=True)
class BoardQuery:
    """What an address asks for, how to change it, and what of it made no sense."""

    filters: BoardFilters
    form: BoardForm
    runs: list[Run]
    remarks: list[str]
    #: A later version of the suite; its cases are other cases.
    newer: Suite | None

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> Self | None:
        """Understand an address; None while there is no suite at all."""
        offered = suites()
        if not offered:
            return None
        asked = {name: query.get(name, "") for name in PARAMETERS}
        suite = find_suite(asked["suite"], offered)
        remarks = (
            [] if suite or not asked["suite"] else [f"There is no suite “{asked['suite'][:60]}”."]
        )
        suite = suite or offered[0]
        runs = runs_of(suite)
        metrics = metrics_of(runs) or ["picture"]
        scopes = _scopes(suite)
        form = BoardForm({**asked, "suite": suite.key})
        form.offer(offered, metrics, scopes)
        form.is_valid()
        for name in form.errors:
            label = form.fields[name].label or name
            remarks.append(f"{label}: “{asked[name][:60]}” is not known here and was ignored.")
        values = form.cleaned_data
        filters = BoardFilters(
            suite=suite,
            metric=values.get("metric") or metrics[0],
            level=float(values.get("level") or 0.5),
            scope=values.get("cases") or "all",
            weights=values.get("weights") or "",
            sort=values.get("sort") or "half_life",
            every=bool(values.get("every")),
        )
        shown = BoardForm(
            initial={
                "suite": suite.key,
                "metric": filters.metric,
                "level": f"{filters.level:g}",
                "cases": filters.scope,
                "weights": filters.weights,
                "sort": filters.sort,
            }
        )
        shown.offer(offered, metrics, _without_pairs(scopes, filters.scope))
        shown.offer_sorts(filters)
        del shown.fields["every"]  # a new choice starts with the first rows again
        newest = find_suite(suite.slug, offered)
        return cls(
            filters,
            shown,
            runs,
            remarks,
            newest if newest and newest.version > suite.version else None,
        )


def _scopes(suite: Suite) -> list[Any]:
    """Everything, then by category, kind and pair: whatever the suite has."""
    rows = list(
        Case.objects.filter(suite=suite)
        .order_by("pair_title")
        .values_list("category", "kind", "pair_slug", "pair_title")
        .distinct()
    )
    categories = {category for category, _, _, _ in rows}
    kinds = {kind for _, kind, _, _ in rows}
    pairs = {slug: title for _, _, slug, title in rows}
    groups = [
        (
            "Category",
            [(f"category:{v}", label) for v, label in Category.choices if v in categories],
        ),
        ("Kind of picture", [(f"kind:{v}", label) for v, label in Kind.choices if v in kinds]),
        (PAIRS, [(f"pair:{slug}", title) for slug, title in pairs.items()]),
    ]
    return [("all", "All cases"), *(group for group in groups if group[1])]


def _without_pairs(scopes: list[Any], chosen: str) -> list[Any]:
    """Pairs are many, and have their own page: only the one that is chosen is listed."""
    kept = [(name, part) for name, part in scopes if name != PAIRS]
    if chosen.startswith("pair:"):
        kept.append((PAIRS, [(chosen, _labels(scopes)[chosen])]))
    return kept


def _labels(scopes: list[Any]) -> dict[str, str]:
    """What each scope is called."""
    (everything, label), *groups = scopes
    return {everything: label} | {value: label for _, part in groups for value, label in part}
