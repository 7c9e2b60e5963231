"""Downloads: scores, bundles (zip files to verify a run), citations and badges."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator

from django.core.files.storage import default_storage
from django.http import (
    FileResponse,
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    JsonResponse,
    StreamingHttpResponse,
)
from django.shortcuts import get_object_or_404
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe

from evaluation.analysis.thresholds import DEFAULT_THRESHOLD
from evaluation.bundle.document import BundleError
from evaluation.metrics import HEADLINE
from leaderboard.board import citations
from leaderboard.board.query import BoardQuery
from leaderboard.exports import bundles, catalogues, scores
from leaderboard.models import EditingModel, Run, Standing, Suite
from leaderboard.text import attachment
from leaderboard.visitors import limited

#: Largest size of the images in a download: more would keep a web process busy for minutes.
MAX_IMAGE_BYTES = 300 * 2**20


@require_safe
def run_scores(request: HttpRequest, run_id: int, form: str) -> HttpResponseBase:
    """Serve every score of a public run as CSV or JSON."""
    if too_many := limited(request, "run_scores"):
        return too_many
    runs = Run.objects.public().select_related("editing_model", "suite").defer("suite__definition")
    run = get_object_or_404(runs, pk=run_id)
    lines = scores.scores_csv(run) if form == "csv" else scores.scores_json(run)
    return _stream(lines, f"run-{run.pk}-scores.{form}")


@require_safe
def run_quality(request: HttpRequest, run_id: int) -> HttpResponseBase:
    """Serve the values of no-reference metrics on a public run's images as CSV."""
    if too_many := limited(request, "run_quality"):
        return too_many
    run = get_object_or_404(Run.objects.public(), pk=run_id)
    return _stream(scores.quality_csv(run), f"run-{run.pk}-no-reference.csv")


@require_safe
def run_record(request: HttpRequest, run_id: int) -> HttpResponse:
    """Serve a public run as a record of the catalogue Every Eval Ever."""
    record = catalogues.every_eval_ever(_with_results(run_id))
    headers = attachment(f"convergebench-run-{run_id}-every-eval-ever.json")
    return JsonResponse(record, headers=headers)


@require_safe
def run_eval_results(request: HttpRequest, run_id: int) -> HttpResponse:
    """Serve a public run in Hugging Face's `.eval_results` format for the given `?dataset=`."""
    run, dataset = _with_results(run_id), request.GET.get("dataset", "")
    if not re.fullmatch(r"[\w.-]{1,96}/[\w.-]{1,96}", dataset, re.ASCII):
        return HttpResponse(
            "Name the suite's data set on the Hub: ?dataset=OWNER/NAME\n",
            status=422,
            content_type="text/plain; charset=utf-8",
        )
    text = catalogues.hugging_face(run, dataset) + "\n"
    return HttpResponse(text, content_type="text/plain; charset=utf-8")


def _with_results(run_id: int) -> Run:
    """Return a public run that has standings and was not published elsewhere. Raises Http404."""
    runs = Run.objects.public().exclude(source=Run.Source.PUBLISHED)
    run = get_object_or_404(runs.select_related("editing_model", "suite"), pk=run_id)
    if not catalogues.standings_of(run):
        raise Http404("This run has no results.")
    return run


def _stream(lines: Iterator[str], name: str) -> StreamingHttpResponse:
    """Stream a CSV or JSON file."""
    content_type = "text/csv; charset=utf-8" if name.endswith(".csv") else "application/json"
    return StreamingHttpResponse(lines, content_type=content_type, headers=attachment(name))


@require_safe
def bundle(request: HttpRequest, run_id: int) -> HttpResponseBase:
    """Serve a public run's bundle; `?images=1` adds the images if they are not too large."""
    # Writing a bundle is the most expensive request that a visitor can make.
    if too_many := limited(request, "run_bundle"):
        return too_many
    runs = Run.objects.public().select_related("editing_model", "suite")
    run = get_object_or_404(runs, pk=run_id)
    images = request.GET.get("images") == "1"
    if images and (size := bundles.images_size(run)) > MAX_IMAGE_BYTES:
        return HttpResponse(
            f"The images of this run take {size / 2**20:,.0f} MB; the limit for downloads is "
            f"{MAX_IMAGE_BYTES / 2**20:.0f} MB. Leave out ?images=1 for the bundle "
            "without images, or ask the operators of this site to run: "
            f"manage.py export_results bundle {run.pk}\n",
            status=413,
            content_type="text/plain; charset=utf-8",
        )
    # Larger bundles are written to disk instead of memory.
    file = tempfile.SpooledTemporaryFile(max_size=8 * 2**20)  # noqa: SIM115
    try:
        bundles.write(run, file, images=images)
    except BundleError as error:
        file.close()
        raise Http404(str(error)) from None
    file.seek(0)
    return FileResponse(
        file,
        as_attachment=True,
        filename=f"convergebench-run-{run.pk}{'-images' if images else ''}.zip",
        content_type="application/zip",
    )


@require_safe
def suite_scores(request: HttpRequest, slug: str, version: int) -> HttpResponseBase:
    """Serve the Parquet file of a suite's public scores, which a worker writes."""
    if too_many := limited(request, "suite_scores"):
        return too_many
    suite = get_object_or_404(
        Suite.objects.frozen().defer("definition"), slug=slug, version=version
    )
    name = scores.file_name(suite)
    if name is None:
        raise Http404("No run of this suite is public.")
    if not default_storage.exists(name):
        raise Http404("A worker is writing this file. Please try again in a minute.")
    return FileResponse(
        default_storage.open(name),
        as_attachment=True,
        filename=f"convergebench-{suite.key}.parquet",
        content_type="application/vnd.apache.parquet",
    )


@require_safe
def cite(request: HttpRequest) -> HttpResponse:
    """Serve a BibTeX citation of the board with the current filters."""
    query = BoardQuery.parse(request.GET)
    if query is None or query.no_such_suite:
        raise Http404("There is no such suite.")
    return HttpResponse(citations.bibtex(query.filters), content_type="text/plain; charset=utf-8")


@require_safe
@cache_control(public=True, max_age=600)
def badge(request: HttpRequest, slug: str) -> HttpResponse:
    """Serve a model's half-life and rank on its most important suite as SVG."""
    model = get_object_or_404(EditingModel, slug=slug, status=EditingModel.Status.PUBLISHED)
    standings = Standing.objects.filter(
        run__in=Run.objects.on_the_board().filter(editing_model=model),
        run__suite__published_elsewhere=False,
        metric__name=HEADLINE,
        threshold=DEFAULT_THRESHOLD,
        scope="all",
    )
    best = (
        standings.select_related("run__suite")
        .order_by("-run__suite__importance", "-run__suite__version")
        .first()
    )
    response = HttpResponse(citations.badge(best), content_type="image/svg+xml")
    response["Content-Security-Policy"] = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
    return response
