"""Bring a run that was played elsewhere: the form, how far its check is, and the way back."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from leaderboard.exchange import brought_runs
from leaderboard.exchange.brought_runs import BringForm, NotTaken
from leaderboard.models import BroughtRun, EditingModel, Suite
from leaderboard.views.crawlers import noindex
from leaderboard.visitors import client_address, limited


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def index(request: HttpRequest) -> HttpResponse:
    """The form; a file that may be a bundle leads to its own page at once."""
    if request.method == "POST" and (too_many := limited(request, "bring_run")):
        return too_many
    of = request.POST.get("of") or request.GET.get("of") or ""
    before = BroughtRun.objects.filter(
        token=of[:43],
        state=BroughtRun.State.SHOWN,
        editing_model__status=EditingModel.Status.PUBLISHED,
    ).first()
    if request.method != "POST":
        return _form(request, BringForm(before=before))
    form = BringForm(request.POST, request.FILES, before=before)
    if not form.is_valid():
        return _form(request, form, status=422)
    try:
        brought = brought_runs.take(form, client_address(request))
    except NotTaken as error:
        return _form(request, form, why=str(error), status=429)
    return redirect(brought)


def _form(request: HttpRequest, form: BringForm, why: str = "", status: int = 200) -> HttpResponse:
    context = {
        "form": form,
        "why": why,
        "before": form.before,
        "suites": Suite.objects.playable().defer("definition"),
        "megabytes": settings.BROUGHT_BYTES // 2**20,
        "per_day": settings.BROUGHT_RUNS_PER_DAY,
    }
    return render(request, "leaderboard/bring_run.html", context, status=status)


@never_cache
@require_safe
@noindex
def detail(request: HttpRequest, token: str) -> HttpResponse:
    """How far the check is, or what came of it; whoever has the address may take the run back."""
    rows = BroughtRun.objects.select_related("run__suite", "run__editing_model")
    brought = get_object_or_404(rows.defer("run__suite__definition"), token=token)
    context = {"brought": brought, "reasons": brought.error.splitlines()}
    response = render(request, "leaderboard/brought_run.html", context)
    # Not "no-referrer": the form on the page would then be sent without an origin.
    response["Referrer-Policy"] = "same-origin"
    return response


@never_cache
@require_safe
def state(request: HttpRequest, token: str) -> JsonResponse:
    rows = BroughtRun.objects.only("state", "steps_done", "steps_total")
    brought = get_object_or_404(rows, token=token)
    return JsonResponse(
        {"state": brought.state, "done": brought.steps_done, "total": brought.steps_total}
    )


@require_POST
def withdraw(request: HttpRequest, token: str) -> HttpResponse:
    """Take the run back; its public address says since when it is gone."""
    if too_many := limited(request, "withdraw_brought_run"):
        return too_many
    brought = get_object_or_404(BroughtRun, token=token)
    brought_runs.withdraw(brought)
    return redirect(brought)
