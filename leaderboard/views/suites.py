"""Suites: what is played, from where it comes, and what changed between versions."""

from __future__ import annotations

import json

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_safe

from leaderboard.models import Suite


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    suites = Suite.objects.frozen().defer("definition")
    return render(request, "leaderboard/suites.html", {"suites": suites})


@require_safe
def latest(request: HttpRequest, slug: str) -> HttpResponse:
    """The newest version of a suite, under its own address."""
    suite = Suite.objects.frozen().defer("definition").filter(slug=slug).first()
    if suite is None:
        raise Http404("no such suite")
    return redirect(suite)


@require_safe
def detail(request: HttpRequest, slug: str, version: int) -> HttpResponse:
    suite = get_object_or_404(
        Suite.objects.frozen().defer("definition"), slug=slug, version=version
    )
    return render(request, "leaderboard/suite.html", {"suite": suite})


@require_safe
def file(request: HttpRequest, slug: str, version: int) -> HttpResponse:
    """The suite file, as the shell plays it."""
    suite = get_object_or_404(Suite.objects.frozen(), slug=slug, version=version)
    if suite.definition is None:
        raise Http404("this suite was published elsewhere")
    text = json.dumps(suite.definition, ensure_ascii=False, indent=1)
    response = HttpResponse(text, content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="{suite.slug}-v{suite.version}.json"'
    return response
