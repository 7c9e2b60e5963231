"""Experiments: the same suite played in several ways, and what that changes."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evaluation.analysis.experiments import words
from leaderboard.page_cache import keep_page, not_kept
from leaderboard.pages.explore import experiments as pages
from leaderboard.pages.explore.experiments import ExperimentView
from leaderboard.views.crawlers import noindex_variants

PARAMETERS = ("model", "metric", "case")


@require_safe
@keep_page(pages.stamp)
@noindex_variants
def index(request: HttpRequest) -> HttpResponse:
    return render(request, "leaderboard/experiments.html", {"views": pages.views(request.user)})


@require_safe
@keep_page(pages.stamp, PARAMETERS)
@noindex_variants
def detail(request: HttpRequest, slug: str) -> HttpResponse:
    view = _found(request, slug)
    asked = {name: request.GET.get(name, "") for name in PARAMETERS}
    told = [one for one in view.models if one.results]
    by_slug = {one.model.slug: one for one in told}
    model = by_slug.get(asked["model"]) or next(iter(told), None)
    context: dict[str, Any] = {
        "view": view,
        "experiment": view.experiment,
        "suite": view.experiment.suite,
        "trips": view.experiment.suite.trips,
        "told": told,
        "under_way": [one for one in view.models if not one.results],
        "chosen": model,
    }
    known = {"", *by_slug}
    if model:
        metric = asked["metric"] if asked["metric"] in model.results else next(iter(model.results))
        numbers = model.results[metric]
        shown = pages.strips(view, model, metric, asked["case"])
        known |= {*model.results, *(str(case.pk) for case in shown.get("cases", ()))}
        context |= shown | {
            "metrics": list(model.results),
            "metric": metric,
            "numbers": numbers,
            "effects": pages.effect_rows(view, numbers),
            "effect_chart": pages.effect_chart(view, model, metric),
            "curves_chart": pages.curves_chart(view, model, metric),
            "rank_words": words.rank_words(numbers["ranks"]),
            "pair_words": words.pair_words(numbers["ranks"]),
            "sensitivity": pages.sensitivity(numbers),
            "by_metric": pages.by_metric(model),
            "rerun_words": words.rerun_words(numbers["reruns"]),
        }
        context["sensitivity_words"] = words.sensitivity_words(context["sensitivity"])
    response = render(request, "leaderboard/experiment.html", context)
    return response if set(asked.values()) <= known else not_kept(response)


@require_safe
def table(request: HttpRequest, slug: str) -> HttpResponse:
    """All its numbers as CSV."""
    text = pages.as_csv(_found(request, slug))
    return _file(text, f"{slug}.csv", "text/csv; charset=utf-8")


@require_safe
def file(request: HttpRequest, slug: str) -> HttpResponse:
    """The file that plays it: `convergebench experiment FILE`."""
    text = pages.as_yaml(_found(request, slug))
    return _file(text, f"{slug}.yaml", "application/yaml; charset=utf-8")


def _file(text: str, name: str, kind: str) -> HttpResponse:
    disposition = f'attachment; filename="{name}"'
    return HttpResponse(text, content_type=kind, headers={"Content-Disposition": disposition})


def _found(request: HttpRequest, slug: str) -> ExperimentView:
    for view in pages.views(request.user, slug):
        return view
    raise Http404("there is no such experiment")
