"""Pages for what went wrong."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseServerError
from django.shortcuts import render
from django.template import loader

from convergebench_site.context import site


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return render(request, "404.html", status=404)


def server_error(request: HttpRequest) -> HttpResponse:
    # Rendered without context processors: whatever failed must not fail again here.
    return HttpResponseServerError(
        loader.get_template("500.html").render({"request": None, **site(request)})
    )
