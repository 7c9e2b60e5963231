"""For those who fetch pages for others: search engines and link previews."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias

from django.conf import settings
from django.contrib.sitemaps.views import sitemap as django_sitemap
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.templatetags.static import static
from django.urls import reverse
from django.views.decorators.http import require_safe

from leaderboard.board.picture import draw
from leaderboard.board.query import PARAMETERS, BoardQuery
from leaderboard.board.rows import RANKED, UNRANKED, board_rows, stamp
from leaderboard.exports.sitemaps import SITEMAPS
from leaderboard.page_cache import keep_page, not_kept

View: TypeAlias = Callable[..., HttpResponse]


def noindex(view: View) -> View:
    """A page that search engines shall not show."""

    @wraps(view)
    def hidden(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        response = view(request, *args, **kwargs)
        response["X-Robots-Tag"] = "noindex"
        return response

    return hidden


def noindex_variants(view: View) -> View:
    """One page for search engines, not one for each way of sorting it: none with a query."""
    hidden = noindex(view)

    @wraps(view)
    def indexed(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return (hidden if request.GET else view)(request, *args, **kwargs)

    return indexed


@require_safe
def favicon(request: HttpRequest) -> HttpResponse:
    """For pages that name no icon, such as the admin's: browsers then ask for this one."""
    return redirect(static("img/favicon.svg"))


@require_safe
def robots(request: HttpRequest) -> HttpResponse:
    """Everything may be read, but nobody needs every way of sorting it."""
    lines = [
        "User-agent: *",
        "Disallow: /admin/",
        "Disallow: /submissions/",
        "Disallow: /pictures/original/",
        "Disallow: /*?*sort=",
        "Disallow: /*?*every=",
        "Disallow: /compare/?*",
        f"Sitemap: {settings.SITE_URL}{reverse('sitemap')}",
    ]
    return HttpResponse("\n".join(lines) + "\n", content_type="text/plain")


@require_safe
def sitemap(request: HttpRequest) -> TemplateResponse:
    return django_sitemap(request, sitemaps=SITEMAPS)


@require_safe
@keep_page(stamp, PARAMETERS)
def board_picture(request: HttpRequest) -> HttpResponse:
    """The board as a PNG; takes the board's parameters."""
    asked = BoardQuery.parse(request.GET)
    if asked and asked.no_such_suite:
        raise Http404("there is no such suite")
    rows = board_rows(asked.filters, asked.runs) if asked else []
    ranked = [row for row in rows if row.group == RANKED]
    shown = ranked or [row for row in rows if row.group != UNRANKED]
    picture = draw(shown, asked.filters if asked else None)
    response = HttpResponse(picture, content_type="image/png")
    return response if not asked or asked.is_kept else not_kept(response)
