"""Pages for what went wrong."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseServerError
from django.shortcuts import render
from django.template import loader

from convergebench_site.context import site
from leaderboard.models.runs import RunQuerySet


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return render(request, "404.html", status=404)


def withdrawn(request: HttpRequest, runs: RunQuerySet) -> HttpResponse:
    """A page that says since when these runs are gone; Http404 where none was ever public."""
    last = runs.withdrawn().select_related("editing_model", "suite").defer("suite__definition")
    run = last.order_by("-withdrawn_at").first()
    if run is None:
        raise Http404
    response = render(request, "leaderboard/withdrawn.html", {"run": run}, status=410)
    response["X-Robots-Tag"] = "noindex"
    return response


def server_error(request: HttpRequest) -> HttpResponse:
    # Rendered without context processors: whatever failed must not fail again here.
    return HttpResponseServerError(
        loader.get_template("500.html").render({"request": None, **site(request)})
    )
