"""Files for crawlers, error pages and decorators."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias

from django.conf import settings
from django.contrib.sitemaps.views import sitemap as django_sitemap
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseServerError
from django.shortcuts import redirect, render
from django.template import loader
from django.template.response import TemplateResponse
from django.templatetags.static import static
from django.urls import reverse
from django.views.decorators.http import require_safe

from convergebench_site.context import site
from leaderboard.exports.sitemaps import SITEMAPS
from leaderboard.models.runs import RunQuerySet

View: TypeAlias = Callable[..., HttpResponse]


def noindex(view: View) -> View:
    """Mark a page that search engines must not list."""

    @wraps(view)
    def hidden(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        response = view(request, *args, **kwargs)
        response["X-Robots-Tag"] = "noindex"
        return response

    return hidden


def noindex_variants(view: View) -> View:
    """Let search engines list a page only without a query."""
    hidden = noindex(view)

    @wraps(view)
    def indexed(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return (hidden if request.GET else view)(request, *args, **kwargs)

    return indexed


@require_safe
def favicon(request: HttpRequest) -> HttpResponse:
    """Redirect to the icon, for pages that name none, such as the admin's."""
    return redirect(static("img/favicon.svg"))


@require_safe
def robots(request: HttpRequest) -> HttpResponse:
    """Allow everything except private pages and sorted views."""
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


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return render(request, "404.html", status=404)


def withdrawn(request: HttpRequest, runs: RunQuerySet) -> HttpResponse:
    """Return a page with the date on which these runs were withdrawn.

    Raises Http404 if none of them was public.
    """
    last = runs.withdrawn().select_related("editing_model", "suite").defer("suite__definition")
    run = last.order_by("-withdrawn_at").first()
    if run is None:
        raise Http404
    response = render(request, "leaderboard/withdrawn.html", {"run": run}, status=410)
    response["X-Robots-Tag"] = "noindex"
    return response


def server_error(request: HttpRequest) -> HttpResponse:
    # Rendered without context processors, because the error may be in one of them.
    return HttpResponseServerError(
        loader.get_template("500.html").render({"request": None, **site(request)})
    )
