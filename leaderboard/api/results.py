"""API endpoints for the results that the pages show. Reading needs no account."""

from typing import Annotated, Any

from django.contrib.auth.models import AnonymousUser
from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Path, Query, Router
from ninja.errors import HttpError
from ninja.pagination import LimitOffsetPagination, paginate

from evaluation.analysis.thresholds import DEFAULT_THRESHOLD, THRESHOLDS
from evaluation.content.suites import find_suite
from evaluation.records import Played
from leaderboard.api.schemas import (
    BoardOut,
    CaseOut,
    ChainOut,
    ExperimentOut,
    ModelOut,
    Problem,
    PublishedFigureOut,
    RunOut,
    RunStatusOut,
    StandingOut,
    SuiteOut,
    TripOut,
    run_progress,
)
from leaderboard.board.query import BoardQuery
from leaderboard.board.rows import suites
from leaderboard.experiments.pages import views
from leaderboard.models import (
    Case,
    Chain,
    EditingModel,
    PeopleReport,
    PublishedFigure,
    Run,
    Standing,
    Suite,
    Trip,
    Vote,
)
from leaderboard.people.vote_rows import VoteOut, with_related

#: An id in a URL, within the range of the database's integers.
Id = Annotated[int, Path(ge=1, le=2**31 - 1)]
Slug = Annotated[str, Path(max_length=80, pattern=r"^[-a-zA-Z0-9_]+$")]

#: Errors that every request can return: not found, invalid, too many requests.
PROBLEMS = {404: Problem, 422: Problem, 429: Problem}

#: The valid thresholds, for the documentation.
ONE_OF = f"One of {', '.join(f'{n:g}' for n in THRESHOLDS)}."

router = Router(tags=["results"])


class Page(LimitOffsetPagination):
    """Pagination by `limit` (at most 200) and `offset`, with the total count."""

    class Input(LimitOffsetPagination.Input):
        limit: int = Query(50, ge=1, le=200)
        offset: int = Query(0, ge=0, le=10_000_000)


@router.get("/leaderboard", response={200: BoardOut, **PROBLEMS}, summary="The board")
def leaderboard(
    request: HttpRequest,
    suite: str = Query("", max_length=80, description="smoke-v2, or smoke for its newest version."),
    metric: str = Query("", max_length=20),
    threshold: str = Query("", max_length=8, description=ONE_OF),
    cases: str = Query(
        "", max_length=100, description="all, category:…, kind:…, origin:… or pair:…"
    ),
    q: str = Query("", max_length=60, description="Words in the model's name or provider."),
    provider: str = Query("", max_length=120),
    weights: str = Query("", max_length=8, description="open or closed."),
    played: str = Query("", max_length=20, description=", ".join(Played) + "."),
    price: str = Query("", max_length=8, description="Highest price per edit in USD."),
    since: str = Query(
        "", max_length=10, description="Only models added on or after this day, such as 2026-11-17."
    ),
    ranks: str = Query("", max_length=8, description="here: rank only models that were run here."),
    sort: str = Query("", max_length=20),
) -> Any:
    """Return the same rows and numbers as the page, with the same filters."""
    query = BoardQuery.parse(request.GET.dict())
    if query is None:
        raise HttpError(404, "There is no suite yet: run `manage.py load_benchmark`.")
    if query.no_such_suite:
        raise HttpError(404, "There is no such suite; /api/v1/suites lists them.")
    return query


@router.get("/models", response={200: list[ModelOut], **PROBLEMS}, summary="Editing models")
@paginate(Page)
def models(request: HttpRequest) -> Any:
    return _models().order_by("name", "pk")


@router.get("/models/{slug}", response={200: ModelOut, **PROBLEMS})
def model(request: HttpRequest, slug: Slug) -> Any:
    return _first_or_404(_models().filter(slug=slug), "model")


@router.get("/suites", response={200: list[SuiteOut], **PROBLEMS}, summary="Frozen suites")
@paginate(Page)
def suite_list(request: HttpRequest) -> Any:
    return Suite.objects.frozen().defer("definition")


@router.get("/suites/{key}", response={200: dict[str, Any], **PROBLEMS}, summary="A suite's file")
def suite(request: HttpRequest, key: Slug) -> Any:
    """Return the suite as a file for `convergebench run --suite FILE`."""
    match = find_suite(key, suites())
    if match is None:
        raise HttpError(404, "There is no such suite; /api/v1/suites lists them.")
    return Suite.objects.get(pk=match.pk).definition or {}


@router.get("/cases", response={200: list[CaseOut], **PROBLEMS}, summary="Cases of a suite")
@paginate(Page)
def cases(request: HttpRequest, suite: str = Query(..., max_length=80)) -> Any:
    match = find_suite(suite, suites())
    if match is None:
        raise HttpError(404, "There is no such suite; /api/v1/suites lists them.")
    return _cases().filter(suite=match).order_by("position", "pk")


@router.get("/cases/{case_id}", response={200: CaseOut, **PROBLEMS})
def case(request: HttpRequest, case_id: Id) -> Any:
    return _first_or_404(_cases().filter(pk=case_id, suite__status=Suite.Status.FROZEN), "case")


@router.get("/runs", response={200: list[RunOut], **PROBLEMS}, summary="Public runs")
@paginate(Page)
def runs(
    request: HttpRequest,
    model: str = Query("", max_length=80),
    suite: str = Query("", max_length=80),
) -> Any:
    rows = _runs().order_by("-created_at", "-pk")
    if model:
        rows = rows.filter(editing_model__slug=model)
    if suite:
        match = find_suite(suite, suites())
        rows = rows.filter(suite=match) if match else rows.none()
    return rows


@router.get("/runs/{run_id}", response={200: RunOut, **PROBLEMS})
def run(request: HttpRequest, run_id: Id) -> Any:
    return _run(run_id)


@router.get("/runs/{run_id}/status", response={200: RunStatusOut, **PROBLEMS})
def run_status(request: HttpRequest, run_id: Id) -> Any:
    """Return a run's progress: edits, scored trips, place in the queue, time left."""
    runs = Run.objects.visible_to(AnonymousUser()).select_related("editing_model", "suite")
    return run_progress(_first_or_404(runs.defer("suite__definition").filter(pk=run_id), "run"))


@router.get("/runs/{run_id}/standings", response={200: list[StandingOut], **PROBLEMS})
@paginate(Page)
def standings(
    request: HttpRequest,
    run_id: Id,
    metric: str = Query("", max_length=20),
    threshold: float = Query(DEFAULT_THRESHOLD, description=ONE_OF),
) -> Any:
    """List the run's standings (half-life, usable trips, curve) on all cases and parts of them."""
    rows = Standing.objects.filter(run=_run(run_id), threshold=threshold).select_related("metric")
    if metric:
        rows = rows.filter(metric__name=metric)
    return rows.order_by("metric", "scope", "pk")


@router.get("/runs/{run_id}/chains", response={200: list[ChainOut], **PROBLEMS})
@paginate(Page)
def chains(request: HttpRequest, run_id: Id) -> Any:
    """List the run's chains with their retention by trip."""
    rows = Chain.objects.filter(run=_run(run_id)).select_related("case")
    return rows.order_by("case__position", "repeat", "pk")


@router.get("/runs/{run_id}/cases/{case_id}/trips", response={200: list[TripOut], **PROBLEMS})
@paginate(Page)
def trips(request: HttpRequest, run_id: Id, case_id: Id) -> Any:
    """List the trips of a case with their images and scores."""
    rows = (
        Trip.objects.filter(chain__run=_run(run_id), chain__case_id=case_id)
        .select_related("chain", "edited", "restored")
        .prefetch_related("scores__metric", "chain__steps__image")
    )
    return rows.order_by("chain__repeat", "number", "pk")


@router.get(
    "/published-figures",
    response={200: list[PublishedFigureOut], **PROBLEMS},
    summary="Published elsewhere",
    url_name="published_figures",
)
@paginate(Page)
def published_figures(request: HttpRequest, metric: str = Query("", max_length=20)) -> Any:
    """List numbers published by others, with their sources. Charts show them for context."""
    rows = PublishedFigure.objects.order_by("model_name", "metric", "trip", "pk")
    return rows.filter(metric=metric) if metric else rows


@router.get("/experiments", response={200: list[ExperimentOut], **PROBLEMS})
@paginate(Page)
def experiments(request: HttpRequest) -> Any:
    """List experiments, in which a suite is run in several ways, with their effects."""
    return list(views(AnonymousUser()))


@router.get(
    "/experiments/{slug}",
    response={200: ExperimentOut, **PROBLEMS},
    url_name="experiment",
)
def experiment(request: HttpRequest, slug: Slug) -> Any:
    for view in views(AnonymousUser(), slug):
        return view
    raise HttpError(404, "There is no such experiment.")


@router.get(
    "/votes",
    response={200: list[VoteOut], **PROBLEMS},
    summary="People's votes",
    url_name="votes",
    tags=["people"],
)
@paginate(Page)
def votes(
    request: HttpRequest,
    kind: str = Query("", max_length=8, description="pair or usable."),
    suite: str = Query("", max_length=80),
) -> Any:
    """List the votes on public runs, oldest first.

    Each image has its retention by metric and the evidence of witnesses (automatic checks).
    """
    rows = with_related(Vote.objects.public())
    if kind:
        rows = rows.filter(kind=kind)
    if suite:
        match = find_suite(suite, suites())
        rows = rows.filter(question__case__suite=match) if match else rows.none()
    return rows


@router.get(
    "/agreement",
    response={200: dict[str, Any], **PROBLEMS},
    summary="Agreement with people",
    tags=["people"],
)
def agreement(request: HttpRequest) -> Any:
    """Return how often metrics and witnesses (automatic checks of edits) agree with people."""
    report = PeopleReport.objects.order_by("pk").first()
    return report.numbers | {"computed_at": report.computed_at.isoformat()} if report else {}


def _models() -> QuerySet[EditingModel]:
    return EditingModel.objects.filter(status=EditingModel.Status.PUBLISHED)


def _cases() -> QuerySet[Case]:
    cases = Case.objects.filter(suite__sealed=False)
    return cases.select_related("suite", "image__stored").defer("suite__definition")


def _runs() -> QuerySet[Run]:
    return Run.objects.public().select_related("editing_model", "suite").defer("suite__definition")


def _run(run_id: int) -> Run:
    return _first_or_404(_runs().filter(pk=run_id), "run")


def _first_or_404(rows: QuerySet[Any], what: str) -> Any:
    row = rows.first()
    if row is None:
        raise HttpError(404, f"There is no such {what}.")
    return row
