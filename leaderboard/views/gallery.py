"""The gallery: the best or worst strips, filtered by model, category and ending.

A strip is the row of images of one chain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.db.models import F, OuterRef, QuerySet, Subquery, Window
from django.db.models.functions import RowNumber
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evaluation.analysis.events import CAUSES
from evaluation.content.suites import find_suite
from leaderboard import formatting
from leaderboard.board.query import set_choices
from leaderboard.board.rows import played_suites, stamp
from leaderboard.models import Chain, EditingModel, Run, Suite
from leaderboard.models.suites import Category
from leaderboard.page_cache import cached_page, uncached
from leaderboard.pages import strips
from leaderboard.views.site import noindex_variants

#: Strips per page.
SHOWN = 24
CHOICES = ("model", "category", "cause")
PARAMETERS = ("suite", *CHOICES, "order", "page")
#: Value of `model` for all reference editors.
REFERENCE_EDITORS = "references"
LAST_PAGE = 500


class GalleryForm(forms.Form):
    """The filters of the gallery. Suites and models are those on the board."""

    suite = forms.ChoiceField(required=False)
    model = forms.ChoiceField(required=False)
    category = forms.ChoiceField(
        required=False, choices=[("", "Every category"), *Category.choices]
    )
    cause = forms.ChoiceField(
        required=False,
        label="How the chain ended",
        choices=[("", "Any ending"), *CAUSES.items(), ("censored", "usable to the end")],
    )
    order = forms.ChoiceField(
        required=False, choices=[("worst", "Worst first"), ("best", "Best first")]
    )

    def __init__(
        self, data: Mapping[str, str], suites: Sequence[Suite], models: Sequence[EditingModel]
    ) -> None:
        super().__init__(data)
        references = [(m.slug, m.name) for m in models if m.is_reference]
        set_choices(self, "suite", [(suite.key, str(suite)) for suite in suites])
        set_choices(
            self,
            "model",
            [
                ("", "Every model"),
                *((m.slug, m.name) for m in models if not m.is_reference),
                *([(REFERENCE_EDITORS, "The reference editors")] if references else []),
                *references,
            ],
        )


@require_safe
@cached_page(stamp, PARAMETERS)
@noindex_variants
def index(request: HttpRequest) -> HttpResponse:
    offered = played_suites()
    query = {name: request.GET.get(name, "") for name in PARAMETERS}
    suite = find_suite(query["suite"], offered) if query["suite"] else None
    remarks = ["There is no such suite."] if query["suite"] and not suite else []
    suite = suite or next(iter(offered), None)
    if suite is None:
        return render(request, "leaderboard/gallery.html", {})
    shown_runs = Run.objects.on_the_board().filter(suite=suite)
    models = list(
        EditingModel.objects.filter(pk__in=shown_runs.values("editing_model"))
        .defer("options", "api_key")
        .order_by("name")
    )
    form = GalleryForm({**query, "suite": suite.key}, offered, models)
    form.is_valid()
    remarks += [
        f"{form.fields[name].label or name}: not a valid choice, ignored." for name in form.errors
    ]
    choice = {name: form.cleaned_data.get(name) or "" for name in CHOICES}
    best, number = form.cleaned_data.get("order") == "best", _number(query["page"])
    chains, more = _page(
        _runs(suite, models, choice["model"]), _chains(choice), len(models), best, number
    )
    names = {model.slug: model.name for model in models} | {
        REFERENCE_EDITORS: "the reference editors"
    }
    context: dict[str, Any] = {
        "form": form,
        "suite": suite,
        "remarks": remarks,
        "heading": _heading(names.get(choice["model"], ""), choice, best),
        "strips": strips.short_strips(chains, suite.trips),
        "number": number,
        "before": _query(suite.key, choice, best, number - 1) if number > 1 else "",
        "after": _query(suite.key, choice, best, number + 1) if more else "",
    }
    response = render(request, "leaderboard/gallery.html", context)
    unknown = query["page"] not in ("", str(number))
    return uncached(response) if remarks or unknown or not chains else response


def _number(text: str) -> int:
    """Parse a page number. Invalid numbers give the first page."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 1
    return min(max(1, number), LAST_PAGE)


def _query(suite: str, choice: Mapping[str, str], best: bool, number: int) -> str:
    values = {"suite": suite, **choice, "order": "best" if best else "", "page": number}
    return urlencode({name: value for name, value in values.items() if value and value != 1})


def _runs(suite: Suite, models: Sequence[EditingModel], model: str) -> QuerySet[Run]:
    """Return the runs to show. Reference editors appear if chosen, or if nothing else ran."""
    runs = Run.objects.on_the_board().filter(suite=suite)
    if model == REFERENCE_EDITORS:
        return runs.filter(editing_model__is_reference=True)
    if model:
        return runs.filter(editing_model__slug=model)
    if any(not editor.is_reference for editor in models):
        return runs.filter(editing_model__is_reference=False)
    return runs


def _chains(choice: Mapping[str, str]) -> QuerySet[Chain]:
    """Return the scored chains that match the filters, of all runs."""
    chains = Chain.objects.filter(repeat=0, usable_trips__isnull=False)
    if choice["category"]:
        chains = chains.filter(case__category=choice["category"])
    return chains.filter(cause=choice["cause"]) if choice["cause"] else chains


def _page(
    runs: QuerySet[Run], matching: QuerySet[Chain], models: int, best: bool, number: int
) -> tuple[list[Chain], bool]:
    """Return the chains of this page, and True if more pages follow.

    The first chain of each model comes before the second chain of any model. With many models the
    page contains only first chains, which the database reads from an index.
    """
    sign = "-" if best else ""
    order = (f"{sign}usable_trips", f"{sign}auc", "pk")
    start = SHOWN * (number - 1)
    keys: list[int] = []
    if models > start + SHOWN:
        first = matching.filter(run=OuterRef("pk")).order_by(*order).values("pk")[:1]
        firsts = Chain.objects.filter(pk__in=runs.values_list(Subquery(first))).order_by(*order)
        keys = list(firsts.values_list("pk", flat=True)[start : start + SHOWN + 1])
    if len(keys) <= SHOWN:
        rank_in_run = Window(RowNumber(), partition_by=F("run"), order_by=order)
        ordered = (
            matching.filter(run__in=runs)
            .annotate(rank_in_run=rank_in_run)
            .order_by("rank_in_run", *order)
        )
        keys = list(ordered.values_list("pk", flat=True)[start : start + SHOWN + 1])
    rows = (
        Chain.objects.select_related("case__image__stored", "run__editing_model", "run__suite")
        .defer(
            "run__provenance",
            "run__suite__definition",
            "run__editing_model__options",
            "run__editing_model__api_key",
        )
        .in_bulk(keys[:SHOWN])
    )
    return [rows[key] for key in keys[:SHOWN] if key in rows], len(keys) > SHOWN


def _heading(model: str, choice: Mapping[str, str], best: bool) -> str:
    """Return the heading, such as "The worst cases of A, object edits"."""
    category, cause = choice["category"], choice["cause"]
    words = f"The {'best' if best else 'worst'} cases of {model or 'every model'}"
    if category:
        words += f", {formatting.edits(category).lower()}"
    if cause:
        words += ", usable to the end" if cause == "censored" else f", where {CAUSES[cause]}"
    return words
