"""Cases: the pictures of a chain trip by trip, and of one case across all models."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from leaderboard.models import Case, Chain, Run


@require_safe
def strip(request: HttpRequest, run_id: int, case_id: int) -> HttpResponse:
    """One case in one run: source, Y1, X1, Y2, X2, ..."""
    runs = Run.objects.visible_to(request.user).select_related("editing_model", "suite")
    run = get_object_or_404(runs, pk=run_id)
    case = get_object_or_404(Case.objects.select_related("picture__stored"), pk=case_id)
    chain = get_object_or_404(Chain.objects.filter(run=run, case=case, repeat=0))
    trips = chain.trips.select_related("edited", "restored")
    context = {"run": run, "case": case, "chain": chain, "trips": trips}
    return render(request, "leaderboard/run_case.html", context)


@require_safe
def across_models(request: HttpRequest, case_id: int) -> HttpResponse:
    """One case as every model played it."""
    case = get_object_or_404(Case.objects.select_related("picture__stored", "suite"), pk=case_id)
    runs = Run.objects.visible_to(request.user).filter(current=True, suite=case.suite)
    context = {"case": case, "runs": runs.select_related("editing_model")}
    return render(request, "leaderboard/case.html", context)
