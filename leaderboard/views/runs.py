"""A run: how far it is while it plays, then what came out."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from leaderboard import progress as run_progress
from leaderboard.models import Run


@require_safe
def detail(request: HttpRequest, run_id: int) -> HttpResponse:
    run = _run(request, run_id)
    context = {"run": run, "progress": run_progress.progress(run)}
    return render(request, "leaderboard/run.html", context)


@require_safe
def progress(request: HttpRequest, run_id: int) -> JsonResponse:
    """What the page polls."""
    return JsonResponse(run_progress.progress(_run(request, run_id)))


def _run(request: HttpRequest, run_id: int) -> Run:
    runs = Run.objects.visible_to(request.user).select_related("editing_model", "suite")
    return get_object_or_404(runs, pk=run_id)
