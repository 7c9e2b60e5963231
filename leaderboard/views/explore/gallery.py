"""The gallery: strips of all models, by category, by what ended them, best or worst first."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard.board.rows import stamp, suites
from leaderboard.page_cache import keep_page, not_kept
from leaderboard.pages.explore import gallery
from leaderboard.views.crawlers import noindex_variants

CHOICES = ("model", "category", "cause", "label")


@require_safe
@keep_page(stamp, gallery.PARAMETERS)
@noindex_variants
def index(request: HttpRequest) -> HttpResponse:
    # Who published results elsewhere published no pictures.
    offered = [suite for suite in suites() if not suite.published_elsewhere]
    asked = {name: request.GET.get(name, "") for name in gallery.PARAMETERS}
    suite = gallery.chosen_suite(asked["suite"], offered)
    remarks = [] if suite or not asked["suite"] else ["There is no such suite."]
    suite = suite or next(iter(offered), None)
    if suite is None:
        return render(request, "leaderboard/gallery.html", {})
    models = gallery.models_of(suite)
    form = gallery.GalleryForm({**asked, "suite": suite.key})
    form.offer(offered, models)
    form.is_valid()
    remarks += [f"{form.fields[name].label or name}: not known here." for name in form.errors]
    choice = {name: form.cleaned_data.get(name) or "" for name in CHOICES}
    best, number = form.cleaned_data.get("order") == "best", _page(asked["page"])
    of = gallery.runs(suite, models, choice["model"])
    fitting = gallery.chains(**{name: choice[name] for name in ("category", "cause", "label")})
    chains, more = gallery.page(of, fitting, len(models), best, number)
    shown = gallery.GalleryForm(
        initial={**choice, "suite": suite.key, "order": "best" if best else "worst"}
    )
    shown.offer(offered, models)
    names = {one.slug: one.name for one in models} | {gallery.YARDSTICKS: "the yardsticks"}
    context: dict[str, Any] = {
        "form": shown,
        "suite": suite,
        "remarks": remarks,
        "heading": gallery.heading(
            names.get(choice["model"], ""),
            choice["category"],
            choice["cause"],
            best,
            choice["label"],
        ),
        "strips": gallery.strip_rows(chains, suite.trips),
        "number": number,
        "before": _query(suite.key, choice, best, number - 1) if number > 1 else "",
        "after": _query(suite.key, choice, best, number + 1) if more else "",
    }
    response = render(request, "leaderboard/gallery.html", context)
    unknown = asked["page"] not in ("", str(number))
    return not_kept(response) if remarks or unknown or not chains else response


def _page(text: str) -> int:
    """A page's number; the first for all that makes no sense."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 1
    return min(max(1, number), gallery.LAST_PAGE)


def _query(suite: str, choice: dict[str, str], best: bool, number: int) -> str:
    values = {"suite": suite, **choice, "order": "best" if best else "", "page": number}
    return urlencode({name: value for name, value in values.items() if value and value != 1})
