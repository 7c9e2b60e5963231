"""The page on no-reference metrics: their values while images wear out."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evaluation.analysis.no_reference import SOURCE, asked_trips
from leaderboard.board.rows import suites
from leaderboard.models import Suite
from leaderboard.page_cache import keep_page, not_kept
from leaderboard.pages.explore import no_reference as pages
from leaderboard.views.site import noindex_variants


@require_safe
@keep_page(pages.stamp, pages.PARAMETERS)
@noindex_variants
def index(request: HttpRequest) -> HttpResponse:
    offered = _offered()
    suite, valid = _chosen(request, offered)
    context: dict[str, Any] = {"suites": offered, "suite": suite}
    if suite:
        page, understood = _page(request, suite)
        context |= page
        valid = valid and understood
    response = render(request, "leaderboard/no_reference.html", context)
    return response if valid else not_kept(response)


@require_safe
def table(request: HttpRequest) -> HttpResponse:
    """Serve all numbers of a suite as CSV."""
    suite, _ = _chosen(request, _offered())
    text = pages.as_csv(suite, pages.lines_of(suite)) if suite else ""
    name = f"no-reference-{suite.key}.csv" if suite else "no-reference.csv"
    disposition = f'attachment; filename="{name}"'
    return HttpResponse(
        text, content_type="text/csv; charset=utf-8", headers={"Content-Disposition": disposition}
    )


def _offered() -> list[Suite]:
    """Return the suites whose images were played here."""
    return [suite for suite in suites() if not suite.published_elsewhere]


def _chosen(request: HttpRequest, offered: list[Suite]) -> tuple[Suite | None, bool]:
    """Return the requested suite or the first, and True if the request is valid."""
    suite_key = request.GET.get("suite", "")
    requested = next((suite for suite in offered if suite.key == suite_key), None)
    return requested or next(iter(offered), None), requested is not None or not suite_key


def _page(request: HttpRequest, suite: Suite) -> tuple[dict[str, Any], bool]:
    parameters = {name: request.GET.get(name, "") for name in pages.PARAMETERS}
    lines = pages.lines_of(suite)
    metrics, trips = pages.metrics_of(lines), asked_trips(suite.trips)
    trip = next((n for n in trips if str(n) == parameters["trip"]), trips[-1])
    since = parameters["since"] if parameters["since"] in pages.SINCE else SOURCE
    models = {line.run.editing_model.slug for line in lines}
    valid = (
        parameters["trip"] in ("", *map(str, trips))
        and parameters["since"] in ("", *pages.SINCE)
        and parameters["metric"] in ("", *metrics)
        and parameters["model"] in ("", *models)
    )
    cell = pages.opened(lines, metrics, trip, parameters["model"], parameters["metric"])
    shown = pages.judged(*cell, trip) if cell else []
    return {
        "lines": lines,
        "metrics": [(name, pages.label(name, lines)) for name in metrics],
        "trips": trips,
        "trip": trip,
        "since": since,
        "since_choices": pages.SINCE.items() if trip > 1 else (),
        "since_words": pages.SINCE[since],
        "heat": pages.heat(lines, metrics, trip, since),
        "totals": pages.totals(lines, metrics, trip, since),
        "finding": pages.finding(lines, metrics, trip),
        "chart": pages.plane(lines, cell[1], suite) if cell else None,
        "opened": cell[0] if cell else None,
        "metric": cell[1] if cell else "",
        "metric_label": pages.label(cell[1], lines) if cell else "",
        "judged": shown,
        "about": pages.about_metrics(lines, metrics),
        "asked": pages.asked_outright(lines),
    }, valid
