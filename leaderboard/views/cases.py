"""Pages of a case: its images trip by trip in one run, and its row of images of each model."""

from __future__ import annotations

from django.core.cache import cache
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from evaluation.images import encode_jpeg
from evaluation.metrics import HEADLINE, in_order
from leaderboard.board.rows import stamp
from leaderboard.models import Calibration, Case, Chain, Run, StoredImage, SuiteImage
from leaderboard.models.images import decoding
from leaderboard.page_cache import cached_page, uncached
from leaderboard.pages import strips
from leaderboard.views.images import with_image_headers
from leaderboard.views.site import noindex_variants
from leaderboard.visitors import limited

#: Strips shown before "show all", to keep the page small.
FIRST_STRIPS = 40


@require_safe
@noindex_variants
def strip(request: HttpRequest, run_id: int, case_id: int) -> HttpResponse:
    """Show a case of a run: its source, then the edited and restored image of each trip."""
    runs = Run.objects.visible_to(request.user).select_related("editing_model", "suite")
    run = get_object_or_404(runs.defer("suite__definition"), pk=run_id)
    cases = Case.objects.select_related("image__stored").filter(suite=run.suite)
    case = get_object_or_404(cases, pk=case_id)
    case.forward, case.backward = run.core_arm.pair_prompts(
        case.pair_slug, case.forward, case.backward
    )
    chains = list(run.chains.filter(case=case).order_by("repeat"))
    chain = _chosen(chains, request.GET.get("repeat", ""))
    if chain is None:
        raise Http404("This run did not play this case.")
    names = chain.scored_by
    metric = _metric(request, names)
    trips = list(chain.trips.select_related("edited", "restored"))
    distances = chain.distances()
    ladder = _ladder(run, case, metric)
    frames = strips.frames(chain, trips, metric, distances.get(metric, {}), ladder, case)
    # The links skip cases of the suite that the run did not play.
    before, after, place, count = _neighbours(case, cases.filter(chains__run=run).distinct())
    context = {
        "case": case,
        "source": case.image.stored,
        "run": run,
        "model": run.editing_model,
        "suite": run.suite,
        "chain": chain,
        "chains": chains,
        "frames": frames,
        "last": next((frame for frame in reversed(frames) if frame.trip.restored), None),
        "metric": metric,
        "metrics": names,
        "table": strips.table(chain, frames, names, distances),
        "verdict": strips.verdict(chain, metric, run.suite.trips),
        "before": before,
        "after": after,
        "place": place,
        "count": count,
    }
    return render(request, "leaderboard/run_case.html", context)


@require_safe
@cached_page(stamp, ("metric", "every"))
@noindex_variants
def across_models(request: HttpRequest, case_id: int) -> HttpResponse:
    """Show a case's strip (row of images) of every model, the best first."""
    cases = Case.objects.filter(suite__sealed=False)
    cases = cases.select_related("image__stored", "suite").defer("suite__definition")
    case = get_object_or_404(cases, pk=case_id)
    chains = list(
        Chain.objects.filter(case=case, repeat=0, run__in=Run.objects.on_the_board())
        .select_related("run__editing_model")
        .defer("run__provenance", "run__editing_model__options", "run__editing_model__api_key")
    )
    names = in_order(name for chain in chains for name in chain.scored_by)
    metric = _metric(request, names)
    chains.sort(key=lambda chain: strips.goodness(chain, metric), reverse=True)
    every = request.GET.get("every") == "1"
    shown = chains if every else chains[:FIRST_STRIPS]
    for chain in shown:
        chain.case = case
    before, after, place, count = _neighbours(case, Case.objects.filter(suite=case.suite_id))
    context = {
        "case": case,
        "source": case.image.stored,
        "suite": case.suite,
        "strips": strips.short_strips(shown, case.suite.trips, metric, every=True),
        "more": len(chains) - len(shown),
        "total": len(chains),
        "metric": metric,
        "metrics": names,
        "before": before,
        "after": after,
        "place": place,
        "count": count,
    }
    response = render(request, "leaderboard/case.html", context)
    parameters = {request.GET.get("metric", ""), request.GET.get("every", "")}
    return uncached(response) if parameters - {"", "1", *names} else response


@require_safe
def jpeg(request: HttpRequest, sha256: str, quality: str) -> HttpResponse:
    """Serve a source image saved once as JPEG, as a familiar example of loss.

    The JPEG is not encoded again for display, because that would add loss.
    """
    if int(quality) not in strips.JPEG_QUALITIES:
        raise Http404("JPEG qualities range from 1 to 95.")
    key = f"jpeg/{sha256}/{quality}"
    data = cache.get(key)
    if data is None:
        if too_many := limited(request, "jpeg"):
            return too_many
        # Only images of public suites are encoded for visitors.
        if not SuiteImage.objects.filter(stored=sha256, suite__sealed=False).exists():
            raise Http404("No public suite has this image.")
        stored = get_object_or_404(StoredImage, pk=sha256)
        try:
            with decoding:
                data = encode_jpeg(stored.read().decoded, int(quality))
        except FileNotFoundError:
            raise Http404("This image is not in storage.") from None
        cache.set(key, data, 3600)
    return with_image_headers(
        HttpResponse(data, content_type="image/jpeg"), f"jpeg-{quality}", sha256
    )


def _chosen(chains: list[Chain], repeat: str) -> Chain | None:
    """Return the chain of the requested repeat, or else the first."""
    by_repeat = {str(chain.repeat): chain for chain in chains}
    return by_repeat.get(repeat) or (chains[0] if chains else None)


def _metric(request: HttpRequest, names: list[str]) -> str:
    name = request.GET.get("metric", "")
    return name if name in names else names[0] if names else HEADLINE


def _ladder(run: Run, case: Case, metric: str) -> dict[str, float]:
    """Return the source's JPEG ladder: its distance after one save, by JPEG quality.

    The distances are by the run's version of the metric. Returns {} if not stored.
    """
    pinned = run.metrics.get(metric, {})
    row = Calibration.objects.filter(
        pixels_sha256=case.image.pixels_sha256,
        metric__name=metric,
        metric__version=pinned.get("version", ""),
        metric__weights_sha256=pinned.get("weights_sha256") or "",
    ).first()
    return row.ladder if row else {}


def _neighbours(case: Case, among: QuerySet[Case]) -> tuple[int | None, int | None, int, int]:
    """Return the previous and the next case, this case's position, and the number of cases."""
    keys = list(among.values_list("pk", flat=True))
    place = keys.index(case.pk)
    before = keys[place - 1] if place else None
    after = keys[place + 1] if place + 1 < len(keys) else None
    return before, after, place + 1, len(keys)
