"""Pages to contribute a run that was played elsewhere: form, progress and withdrawal."""

from __future__ import annotations

import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from convergebench_site.storage import STORAGE_ERRORS
from leaderboard.contributions.forms import ContributionForm, NotAccepted, accept
from leaderboard.contributions.forms import withdraw as withdraw_run
from leaderboard.models import ContributedRun, EditingModel, Suite
from leaderboard.views.site import noindex
from leaderboard.visitors import client_address, limited

log = structlog.get_logger(__name__)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def index(request: HttpRequest) -> HttpResponse:
    """Show the form. If a file is accepted, redirect to the page that shows its check."""
    if request.method == "POST" and (too_many := limited(request, "contribute")):
        return too_many
    token_before = request.POST.get("of") or request.GET.get("of") or ""
    before = ContributedRun.objects.filter(
        token=token_before[:43],
        state=ContributedRun.State.SHOWN,
        editing_model__status=EditingModel.Status.PUBLISHED,
    ).first()
    if request.method != "POST":
        return _form(request, ContributionForm(before=before))
    form = ContributionForm(request.POST, request.FILES, before=before)
    if not form.is_valid():
        return _form(request, form, status=422)
    try:
        contribution = accept(form, client_address(request))
    except NotAccepted as error:
        return _form(request, form, why=str(error), status=429)
    except STORAGE_ERRORS as error:
        log.error("contributed run not stored", error=str(error))
        why = "Files cannot be stored right now. Please try again later."
        return _form(request, form, why=why, status=503)
    return redirect(contribution)


def _form(
    request: HttpRequest, form: ContributionForm, why: str = "", status: int = 200
) -> HttpResponse:
    context = {
        "form": form,
        "why": why,
        "before": form.before,
        "suites": Suite.objects.playable().defer("definition"),
        "megabytes": settings.CONTRIBUTED_BYTES // 2**20,
        "per_day": settings.CONTRIBUTED_RUNS_PER_DAY,
    }
    return render(request, "leaderboard/contribute.html", context, status=status)


@never_cache
@require_safe
@noindex
def detail(request: HttpRequest, token: str) -> HttpResponse:
    """Show the progress or result of the check.

    The URL is secret: anyone who has it can withdraw the run.
    """
    rows = ContributedRun.objects.select_related("run__suite", "run__editing_model")
    contribution = get_object_or_404(rows.defer("run__suite__definition"), token=token)
    context = {"contribution": contribution, "reasons": contribution.error.splitlines()}
    response = render(request, "leaderboard/contributed_run.html", context)
    # The URL must not reach other sites. "no-referrer" would be too strict: browsers would send
    # the page's form with "Origin: null", which the CSRF check refuses.
    response["Referrer-Policy"] = "same-origin"
    return response


@never_cache
@require_safe
def state(request: HttpRequest, token: str) -> JsonResponse:
    rows = ContributedRun.objects.only("state", "steps_done", "steps_total")
    contribution = get_object_or_404(rows, token=token)
    return JsonResponse(
        {
            "state": contribution.state,
            "done": contribution.steps_done,
            "total": contribution.steps_total,
        }
    )


@require_POST
def withdraw(request: HttpRequest, token: str) -> HttpResponse:
    """Withdraw the run. Its public page then shows the date of withdrawal."""
    if too_many := limited(request, "withdraw_contributed_run"):
        return too_many
    contribution = get_object_or_404(ContributedRun, token=token)
    withdraw_run(contribution)
    return redirect(contribution)
