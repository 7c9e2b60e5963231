"""How far metrics, witnesses and judges agree with people."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evaluation.analysis.people import strengths, voters
from leaderboard.board import rows
from leaderboard.models import PeopleReport
from leaderboard.page_cache import keep_page
from leaderboard.pages.people import agreement
from leaderboard.views.crawlers import noindex_variants


def stamp() -> str:
    """Changes with the numbers, and with what is public."""
    written = PeopleReport.objects.order_by("pk").values_list("computed_at", flat=True).first()
    return f"{written}|{rows.stamp()}"


@require_safe
@keep_page(stamp)
@noindex_variants
def index(request: HttpRequest) -> HttpResponse:
    report = PeopleReport.objects.order_by("pk").first()
    context = agreement.context(report) if report else {}
    context["rule"] = {
        "expected": f"{voters.EXPECTED_PASSED:g} of {voters.EXPECTED_CHECKS:g}",
        "full": voters.FULL,
        "sides": voters.SIDES_APART,
        "order": voters.ORDER_APART,
        "votes": strengths.LEAST_VOTES,
        "voters": strengths.LEAST_VOTERS,
    }
    return render(request, "leaderboard/agreement.html", context)
