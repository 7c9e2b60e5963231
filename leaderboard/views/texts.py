"""Pages to read: how it is measured, who we are, what changed."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard.models import Suite


@require_safe
def methodology(request: HttpRequest) -> HttpResponse:
    return render(request, "leaderboard/methodology.html")


@require_safe
def about(request: HttpRequest) -> HttpResponse:
    return render(request, "leaderboard/about.html")


@require_safe
def changelog(request: HttpRequest) -> HttpResponse:
    """What changed in the benchmark itself: suites and metrics by version."""
    suites = Suite.objects.frozen().defer("definition").order_by("-frozen_at")
    return render(request, "leaderboard/changelog.html", {"suites": suites})
