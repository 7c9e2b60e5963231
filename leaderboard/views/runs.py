"""The page of a run: its progress while it is played, then its results."""

from __future__ import annotations

from typing import Any

from django.core.paginator import Paginator
from django.db.models import Count, F, Q, Sum
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe

from evaluation.analysis.events import CAUSES
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD
from evaluation.metrics import HEADLINE
from leaderboard.models import Call, Chain, Run, Trip
from leaderboard.models.runs import RunQuerySet
from leaderboard.pages import model_page, run_page, strips
from leaderboard.pages.model_page import RunResults
from leaderboard.views.site import noindex_variants, withdrawn

#: Chains per page.
PAGE_SIZE = 300
ORDERS = {"worst": "Worst first", "best": "Best first", "suite": "In the suite’s order"}


@require_safe
@noindex_variants
def detail(request: HttpRequest, run_id: int) -> HttpResponse:
    run = _runs(request).filter(pk=run_id).first()
    if run is None:
        return withdrawn(request, Run.objects.filter(pk=run_id))
    trips = run.suite.trips
    results = RunResults.for_run(run)
    metric = results.metric if results else HEADLINE
    order = request.GET.get("order", "worst" if results else "suite")
    cause = request.GET.get("cause", "")
    cause = cause if cause in CAUSES else ""
    chosen = run.chains.filter(cause=cause) if cause else run.chains.all()
    chains = _ordered(list(chosen.select_related("case__image__stored")), metric, order)
    page = Paginator(chains, PAGE_SIZE).get_page(request.GET.get("page"))
    context = {
        "run": run,
        "model": run.editing_model,
        "suite": run.suite,
        "trips": trips,
        # Vertical position of the threshold line in a drawing of height 100.
        "threshold_at": round(100 * (1 - DEFAULT_THRESHOLD)),
        "live": run_page.live(run),
        "metric": metric,
        "results": results,
        "standing": results and results.standing,
        "answer": model_page.lifetime_sentence(results) if results else "",
        "page": page,
        "rows": _rows(run, list(page.object_list), metric),
        "order": order if order in ORDERS else "worst",
        "orders": ORDERS,
        "cause": cause,
        "causes": CAUSES if results else {},
        "compared_orders": run_page.compared_orders(run) if run.orders else [],
        "restoration": run_page.restoration_matrix(chains, metric),
        "ledger": _ledger(run),
        "audits": run_page.audits(run),
        "reproduce": model_page.reproduce(run),
    }
    response = render(request, "leaderboard/run.html", context)
    if not run.is_ended:
        response["X-Robots-Tag"] = "noindex"
    return response


@require_safe
@cache_control(no_cache=True, private=True)
def progress(request: HttpRequest, run_id: int) -> JsonResponse:
    """Serve the run's progress as JSON, for polling."""
    return JsonResponse(run_page.live(get_object_or_404(_runs(request), pk=run_id)))


def _runs(request: HttpRequest) -> RunQuerySet:
    runs = Run.objects.visible_to(request.user).select_related("editing_model", "suite")
    return runs.defer("suite__definition")


def _ordered(chains: list[Chain], metric: str, order: str) -> list[Chain]:
    if order == "suite":
        return chains
    return sorted(chains, key=lambda chain: strips.goodness(chain, metric), reverse=order == "best")


def _rows(run: Run, chains: list[Chain], metric: str) -> list[dict[str, Any]]:
    """Return each chain with its last restored image and its result."""
    last = Trip.objects.filter(chain__in=chains, number=F("chain__trips_played"))
    # The filter on the run helps the database's planner: with ten million trips it would otherwise
    # read the trips of every run.
    last = last.filter(chain__run=run).select_related("restored").only("chain", "restored")
    images = {trip.chain_id: trip.restored for trip in last}
    rows = []
    for chain in chains:
        chain.run = run
        retention = chain.retention(metric)
        rows.append(
            {
                "chain": chain,
                "case": chain.case,
                "source": chain.case.image.stored,
                "last": images.get(chain.pk),
                "kept": retention[-1] if retention else None,
                "verdict": strips.verdict(chain, metric, run.suite.trips),
            }
        )
    return rows


def _ledger(run: Run) -> dict[str, Any]:
    """Return the calls to the model by outcome, with totals."""
    calls = Call.objects.filter(run=run).values("outcome").order_by("outcome")
    rows = list(
        calls.annotate(
            count=Count("pk"),
            retries=Count("pk", filter=Q(attempt__gt=1)),
            cost=Sum("cost"),
            seconds=Sum("seconds"),
        )
    )
    return {
        "rows": rows,
        "calls": sum(row["count"] for row in rows if row["outcome"] != Call.SYNTHETIC),
        "retries": sum(row["retries"] for row in rows),
    }
