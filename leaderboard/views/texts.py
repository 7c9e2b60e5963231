"""Pages to read: how it is measured, who we are, what changed."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from django.conf import settings
from django.db.models import Count, Min
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evaluation.analysis.half_life import METHOD_VERSION
from evaluation.analysis.levels import other_losses
from evaluation.measuring.error_rates import ErrorTable
from leaderboard.board.rows import stamp
from leaderboard.models import MetricVersion, Suite
from leaderboard.page_cache import keep_page
from leaderboard.pages import witnesses, worked_example


def release() -> str:
    """Pages that change only with the code."""
    return ""


@require_safe
@keep_page(release)
def methodology(request: HttpRequest) -> HttpResponse:
    """Every definition, with examples that were measured with the same code."""
    context = {
        "examples": examples(),
        "tricks": tricks(),
        "change_seen_errors": ErrorTable.stored("change_seen"),
        "witnesses": witnesses.known(),
        "witness_errors": witnesses.error_rows(),
        "worked": worked_example.worked_example(),
        "method_version": METHOD_VERSION,
        "other_losses": other_losses(),
    }
    return render(request, "leaderboard/methodology.html", context)


@require_safe
@keep_page(release)
def about(request: HttpRequest) -> HttpResponse:
    return render(request, "leaderboard/about.html", {"contact": settings.CONTACT_EMAIL})


@require_safe
@keep_page(stamp)
def changelog(request: HttpRequest) -> HttpResponse:
    """What changed in the benchmark itself: suites and metrics by version."""
    suites = Suite.objects.frozen().defer("definition").order_by("-frozen_at", "slug", "-version")
    versions = MetricVersion.objects.annotate(
        first=Min("standings__run__finished_at"), runs=Count("standings__run", distinct=True)
    )
    context = {
        "suites": suites.annotate(case_count=Count("cases")),
        "versions": [version for version in versions if version.runs],
        "method_version": METHOD_VERSION,
    }
    return render(request, "leaderboard/changelog.html", context)


@cache
def examples() -> dict[str, Any]:
    """Return what `python -m tools.examples` drew and measured."""
    return _measured("examples")


@cache
def tricks() -> dict[str, Any]:
    """What is left of each trick of the zoo, and of honest editors, as a test measures it."""
    return _measured("tricks")


def _measured(name: str) -> dict[str, Any]:
    path = settings.BASE_DIR / "static" / "img" / "examples" / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found
