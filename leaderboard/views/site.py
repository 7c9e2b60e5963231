"""Files for crawlers, error pages, and decorators that control indexing."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias

import structlog
from django.conf import settings
from django.contrib.sitemaps import GenericSitemap, Sitemap
from django.contrib.sitemaps.views import sitemap as django_sitemap
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseServerError
from django.shortcuts import redirect, render
from django.template import loader
from django.template.response import TemplateResponse
from django.templatetags.static import static
from django.urls import reverse
from django.views.decorators.http import require_safe

from convergebench_site.context import site
from leaderboard.models import Case, EditingModel, Experiment, Run, Suite
from leaderboard.models.runs import RunQuerySet

log = structlog.get_logger(__name__)
BARE_ERROR_PAGE = (
    "<!doctype html><title>Something broke</title><h1>Something broke on our side</h1>"
    "<p>The error is recorded. You can try again in a minute.</p>"
)
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
    """Let search engines list a page only at its URL without query parameters."""
    hidden = noindex(view)

    @wraps(view)
    def indexed(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return (hidden if request.GET else view)(request, *args, **kwargs)

    return indexed


@require_safe
def favicon(request: HttpRequest) -> HttpResponse:
    """Redirect to the icon, for pages that do not link to it, such as the admin's."""
    return redirect(static("img/favicon.svg"))


@require_safe
def robots(request: HttpRequest) -> HttpResponse:
    """Let crawlers read all pages except private pages and sorted or filtered variants."""
    lines = [
        "User-agent: *",
        "Disallow: /admin/",
        "Disallow: /submissions/",
        "Disallow: /images/original/",
        "Disallow: /*?*sort=",
        "Disallow: /*?*every=",
        "Disallow: /compare/?*",
        f"Sitemap: {settings.SITE_URL}{reverse('sitemap')}",
    ]
    return HttpResponse("\n".join(lines) + "\n", content_type="text/plain")


class StaticPages(Sitemap):  # type: ignore[type-arg]
    """The pages whose URL has no parameter."""

    def items(self) -> list[str]:
        return [
            "board",
            "compare",
            "categories",
            "value",
            "gallery",
            "reported",
            "experiments",
            "no_reference",
            "news",
            "tour",
            "robustness",
            "vote",
            "agreement",
            "suites",
            "methodology",
            "about",
            "changelog",
        ]

    def location(self, item: str) -> str:
        return reverse(item)


def _sitemap_of(rows: QuerySet[Any], *, dated: bool = True) -> GenericSitemap:  # type: ignore[type-arg]
    """Return the site map of these rows, dated by their last change."""
    options: dict[str, Any] = {"queryset": rows, "date_field": "updated_at" if dated else None}
    return GenericSitemap(options)


def sitemaps() -> dict[str, Any]:
    """Return the site maps by name. Models and cases are listed if they have a run on the board."""
    played = Run.objects.on_the_board()
    models = EditingModel.objects.filter(pk__in=played.values("editing_model")).order_by("slug")
    suites = Suite.objects.frozen().defer("definition").order_by("slug", "version")
    cases = Case.objects.filter(suite__in=played.values("suite")).only("pk").order_by("pk")
    return {
        "pages": StaticPages,
        "models": _sitemap_of(models),
        "suites": _sitemap_of(suites),
        "experiments": _sitemap_of(Experiment.objects.public().order_by("pk")),
        "cases": _sitemap_of(cases, dated=False),
    }


@require_safe
def sitemap(request: HttpRequest) -> TemplateResponse:
    return django_sitemap(request, sitemaps=sitemaps())


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return render(request, "404.html", status=404)


def withdrawn(request: HttpRequest, runs: RunQuerySet) -> HttpResponse:
    """Return a page with the date on which the last of these runs was withdrawn.

    Raises Http404 if no run was withdrawn.
    """
    last = runs.withdrawn().select_related("editing_model", "suite").defer("suite__definition")
    run = last.order_by("-withdrawn_at").first()
    if run is None:
        raise Http404
    response = render(request, "leaderboard/withdrawn.html", {"run": run}, status=410)
    response["X-Robots-Tag"] = "noindex"
    return response


def server_error(request: HttpRequest) -> HttpResponse:
    # Render without context processors, because a context processor may have caused the error.
    try:
        page = loader.get_template("500.html").render({"request": None, **site(request)})
    except Exception:  # such as a broken manifest of static files, which every page needs
        log.exception("error page not rendered")
        page = BARE_ERROR_PAGE
    return HttpResponseServerError(page)
