"""Do no-reference metrics notice that pictures wear out?"""

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
    suite, known = _chosen(request, offered)
    context: dict[str, Any] = {"suites": offered, "suite": suite}
    if suite:
        page, understood = _page(request, suite)
        context |= page
        known = known and understood
    response = render(request, "leaderboard/no_reference.html", context)
    return response if known else not_kept(response)


@require_safe
def table(request: HttpRequest) -> HttpResponse:
    """All numbers of a suite as CSV."""
    suite, _ = _chosen(request, _offered())
    text = pages.as_csv(suite, pages.lines_of(suite)) if suite else ""
    name = f"no-reference-{suite.key}.csv" if suite else "no-reference.csv"
    disposition = f'attachment; filename="{name}"'
    return HttpResponse(
        text, content_type="text/csv; charset=utf-8", headers={"Content-Disposition": disposition}
    )


def _offered() -> list[Suite]:
    """Suites whose pictures were played here."""
    return [suite for suite in suites() if not suite.published_elsewhere]


def _chosen(request: HttpRequest, offered: list[Suite]) -> tuple[Suite | None, bool]:
    """The suite asked for, or the first; and whether what was asked is known."""
    asked = request.GET.get("suite", "")
    found = next((suite for suite in offered if suite.key == asked), None)
    return found or next(iter(offered), None), found is not None or not asked


def _page(request: HttpRequest, suite: Suite) -> tuple[dict[str, Any], bool]:
    asked = {name: request.GET.get(name, "") for name in pages.PARAMETERS}
    lines = pages.lines_of(suite)
    metrics, trips = pages.metrics_of(lines), asked_trips(suite.trips)
    trip = next((n for n in trips if str(n) == asked["trip"]), trips[-1])
    since = asked["since"] if asked["since"] in pages.SINCE else SOURCE
    models = {line.run.editing_model.slug for line in lines}
    known = (
        asked["trip"] in ("", *map(str, trips))
        and asked["since"] in ("", *pages.SINCE)
        and asked["metric"] in ("", *metrics)
        and asked["model"] in ("", *models)
    )
    cell = pages.opened(lines, metrics, trip, asked["model"], asked["metric"])
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
    }, known
