"""Downloads: scores, citations and badges."""

from __future__ import annotations

from django.core.files.storage import default_storage
from django.http import (
    FileResponse,
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    StreamingHttpResponse,
)
from django.shortcuts import get_object_or_404
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe

from leaderboard.board.query import BoardQuery
from leaderboard.exchange import exports
from leaderboard.models import EditingModel, Run, Standing, Suite


@require_safe
def run_scores(request: HttpRequest, run_id: int, form: str) -> HttpResponseBase:
    """Every score of a public run as CSV or JSON."""
    runs = Run.objects.public().select_related("editing_model", "suite").defer("suite__definition")
    run = get_object_or_404(runs, pk=run_id)
    if form == "csv":
        response = StreamingHttpResponse(
            exports.scores_csv(run), content_type="text/csv; charset=utf-8"
        )
    else:
        response = StreamingHttpResponse(exports.scores_json(run), content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="run-{run.pk}-scores.{form}"'
    return response


@require_safe
def suite_scores(request: HttpRequest, slug: str, version: int) -> HttpResponseBase:
    """All public scores of a suite as Parquet, as the worker last wrote them."""
    suite = get_object_or_404(
        Suite.objects.frozen().defer("definition"), slug=slug, version=version
    )
    name = exports.parquet_name(suite)
    if name is None:
        raise Http404("no run of this suite is public")
    if not default_storage.exists(name):
        raise Http404("a worker is about to write this file; come back in a minute")
    return FileResponse(
        default_storage.open(name),
        as_attachment=True,
        filename=f"convergebench-{suite.key}.parquet",
        content_type="application/vnd.apache.parquet",
    )


@require_safe
def cite(request: HttpRequest) -> HttpResponse:
    """BibTeX of the board as it is filtered now."""
    asked = BoardQuery.parse(request.GET)
    if asked is None:
        raise Http404("there is no suite yet")
    return HttpResponse(exports.bibtex(asked.filters), content_type="text/plain; charset=utf-8")


@require_safe
@cache_control(public=True, max_age=600)
def badge(request: HttpRequest, slug: str) -> HttpResponse:
    """A model's half-life and rank on its most important suite, as an SVG badge."""
    model = get_object_or_404(EditingModel, slug=slug, status=EditingModel.Status.PUBLISHED)
    standings = Standing.objects.filter(
        run__in=Run.objects.on_the_board().filter(editing_model=model),
        run__suite__elsewhere=False,
        metric__name="lpips",
        level=0.5,
        scope="all",
    )
    best = (
        standings.select_related("run__suite")
        .order_by("-run__suite__importance", "-run__suite__version")
        .first()
    )
    response = HttpResponse(exports.badge(best), content_type="image/svg+xml")
    response["Content-Security-Policy"] = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
    return response
