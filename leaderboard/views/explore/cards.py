"""The pictures that links to a model, a case or a comparison are shown with elsewhere."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from evaluation.analysis.levels import DEFAULT_LEVEL
from evaluation.metrics import METRICS
from leaderboard import formatting
from leaderboard.board.query import BoardQuery
from leaderboard.board.rows import board_rows, stamp
from leaderboard.models import Case, Chain, EditingModel, Run, Standing, Trip
from leaderboard.page_cache import keep_page, not_kept
from leaderboard.pages import model_page
from leaderboard.pages.explore import cards
from leaderboard.views import compare as comparison
from leaderboard.views.models import by_suite, most_telling
from leaderboard.visitors import limited


@require_safe
@keep_page(stamp, ("suite",))
def model(request: HttpRequest, slug: str) -> HttpResponse:
    """How long a picture lasts with this model, and its curve."""
    models = EditingModel.objects.defer("options", "api_key")
    found = get_object_or_404(models, slug=slug, status=EditingModel.Status.PUBLISHED)
    runs = (
        Run.objects.public()
        .as_the_suite_says()
        .filter(editing_model=found)
        .select_related("suite")
        .defer("provenance", "suite__definition")
    )
    runs = runs.order_by("-suite__importance", "suite__slug", "-suite__version", "-created_at")
    by_key = by_suite(list(runs))
    asked = request.GET.get("suite", "")
    run = by_key.get(asked) or most_telling(by_key)
    finding, about, curve = "How many round trips does a picture last?", "Not measured yet", ()
    standing = _headline(run) if run else None
    if run and standing:
        trips = run.suite.trips
        life = formatting.half_life(standing.half_life, trips)
        rank = f"Rank {standing.rank}, half-life {life}. " if standing.rank else ""
        finding = f"{rank}{model_page.answer(standing, trips)}"
        about = f"{run.suite}, {formatting.metric_label(standing.metric.name)}"
        curve = standing.curve.get("mean", ())
    response = _png(cards.card(found.name, finding, about, [curve]))
    return not_kept(response) if asked not in ("", *by_key) else response


@require_safe
@keep_page(stamp)
def case(request: HttpRequest, case_id: int) -> HttpResponse:
    """The source, and what came back last from the model that keeps it longest and from the worst."""
    cases = Case.objects.filter(suite__sealed=False).select_related("picture__stored", "suite")
    found = get_object_or_404(cases.defer("suite__definition"), pk=case_id)
    chains = Chain.objects.filter(
        case=found, repeat=0, run__in=Run.objects.on_the_board(), usable_trips__isnull=False
    ).select_related("run__editing_model")
    ordered = list(chains.defer("run__provenance").order_by("-usable_trips", "-auc", "pk"))
    ranked = [c for c in ordered if not c.run.editing_model.is_reference] or ordered
    ends = list(dict.fromkeys([ranked[0], ranked[-1]])) if ranked else []
    last = {
        trip.chain_id: trip
        for trip in Trip.objects.filter(chain__in=ends, restored__isnull=False)
        .select_related("restored")
        .defer("loss_map", "evidence")
        .order_by("number")
    }
    pictures = [(cards.read(found.picture.stored), "Source")]
    for chain in ends:
        if trip := last.get(chain.pk):
            words = f"{chain.run.editing_model.name}, trip {trip.number}"
            pictures.append((cards.read(trip.restored), words))
    finding = f"“{found.forward}”, and back."
    if ends:
        usable = ends[0].usable_trips or 0.0
        trips = formatting.count(found.suite.trips, "round trip")
        finding += f" {ends[0].run.editing_model.name} keeps it for {usable:.1f} of {trips}."
    shown = [(picture, words) for picture, words in pictures if picture]
    return _png(cards.card(str(found), finding, str(found.suite), pictures=shown))


@require_safe
def compare(request: HttpRequest) -> HttpResponse:
    """Who lasts longer, in one sentence, and their curves."""
    if too_many := limited(request, "compare_card"):
        return too_many
    asked = BoardQuery.parse(request.GET)
    if asked is None or asked.no_such_suite:
        raise Http404("there is no such suite")
    wanted = request.GET.get("models", "").split(",")[: comparison.MOST]
    known = {row.model.slug: row for row in board_rows(asked.filters, asked.runs) if row.standing}
    rows = [known[slug] for slug in dict.fromkeys(wanted) if slug in known]
    if len(rows) < 2:
        raise Http404("a comparison needs two models")
    found = comparison.page(asked, rows, "")
    ordered = sorted(rows, key=lambda row: row is not found["leader"])
    names = formatting.listed([row.model.name for row in ordered], comparison.MOST)
    curves = [row.standing.curve.get("mean", ()) for row in ordered if row.standing]
    label = formatting.metric_label(asked.filters.metric)
    response = _png(cards.card(names, found["headline"], f"{asked.filters.suite}, {label}", curves))
    response["Cache-Control"] = "public, max-age=3600"
    return response


def _headline(run: Run) -> Standing | None:
    """The run's standing by the first metric it has."""
    rows = Standing.objects.filter(run=run, scope="all", level=DEFAULT_LEVEL)
    known = {row.metric.name: row for row in rows.select_related("metric").defer("details")}
    return next((known[name] for name in METRICS if name in known), None)


def _png(data: bytes) -> HttpResponse:
    return HttpResponse(data, content_type="image/png")
