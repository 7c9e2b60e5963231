"""A model: how long it keeps a picture, where it fails, and how that was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evaluation.analysis.levels import DEFAULT_LEVEL
from evaluation.metrics import METRICS, semantic_metrics
from leaderboard.board.news import records_of
from leaderboard.board.rows import stamp
from leaderboard.models import Case, EditingModel, Run, Standing, Trip
from leaderboard.page_cache import keep_page, not_kept
from leaderboard.pages import (
    endings,
    inline_svg,
    model_page,
    published,
    review,
    strips,
    witnesses,
)
from leaderboard.pages.charts import Chart
from leaderboard.pages.explore import past_chart
from leaderboard.pages.floor import floor_of
from leaderboard.views.crawlers import noindex_variants
from leaderboard.views.errors import withdrawn

#: Cases shown at either end, and pairs before they are folded away.
EXTREMES, OPEN_PAIRS = 3, 12


@require_safe
@keep_page(stamp, ("suite", "metric"))
@noindex_variants
def detail(request: HttpRequest, slug: str) -> HttpResponse:
    models = EditingModel.objects.defer("options", "api_key")
    if not request.user.is_staff:
        models = models.filter(status=EditingModel.Status.PUBLISHED)
    model = models.filter(slug=slug).first()
    if model is None:
        return withdrawn(request, Run.objects.filter(editing_model__slug=slug))
    runs = list(
        Run.objects.visible_to(request.user)
        .as_the_suite_says()
        .filter(editing_model=model)
        .select_related("suite", "people")
        .defer("suite__definition")
        .order_by("-suite__importance", "suite__slug", "-suite__version", "-created_at")
    )
    for one in runs:
        one.editing_model = model
    standing_runs = by_suite(runs)
    suite, metric = (request.GET.get(name, "") for name in ("suite", "metric"))
    run = standing_runs.get(suite) or most_telling(standing_runs)
    context: dict[str, Any] = {"model": model, "runs": runs, "run": run}
    context["suites"] = [(key, one.suite) for key, one in standing_runs.items()]
    if run:
        # Of runs on sealed suites a visitor sees the difference, and nothing else.
        sealed = Run.objects.counted().filter(editing_model=model, suite__sealed=True, current=True)
        counted = [*runs, *sealed.select_related("suite").defer("suite__definition")]
        known = _standings(counted)
        context |= run_context(run, known.get(run.pk, {}), metric) | history(runs, known)
        context["sealed"] = review.open_against_sealed(counted, known)
        if standing := context.get("standing"):
            context["floor"] = floor_of(run, standing, request.user)
    unknown = {suite, metric} - {"", *standing_runs, *context.get("metrics", ())}
    context["unknown"] = sorted(one[:60] for one in unknown)
    response = render(request, "leaderboard/model.html", context)
    return not_kept(response) if unknown else response


def _standings(runs: Sequence[Run]) -> dict[int, dict[str, Standing]]:
    """What each run reached on all cases, by the metric's name."""
    found = Standing.objects.filter(
        run__in=[run.pk for run in runs], scope="all", level=DEFAULT_LEVEL
    )
    by_run: dict[int, dict[str, Standing]] = {}
    for standing in found.select_related("metric"):
        by_run.setdefault(standing.run_id, {})[standing.metric.name] = standing
    return by_run


def run_context(run: Run, standings: Mapping[str, Standing], asked: str) -> dict[str, Any]:
    """Everything that is said of one run."""
    trips = run.suite.trips
    names = [name for name in METRICS if name in standings]
    common = {
        "suite": run.suite,
        "trips": trips,
        "metrics": names,
        "reproduce": model_page.reproduce(run),
        "tries": review.tries(run.editing_model, run.suite),
    }
    if not names:
        return common
    chosen = asked if asked in names else names[0]
    standing = standings[chosen]
    lines = model_page.metric_lines(standings, trips)
    parts = _parts(run, standing, names)
    pairs = [line for line in parts if line.part.group == "Edit pair"]
    extremes = {name: standing.details.get(name, [])[:EXTREMES] for name in ("worst", "best")}
    ends = endings.wanted(standing)
    keys = [row["case"] for rows in extremes.values() for row in rows]
    cases, trips_of = _pictures(run, [*keys, *(case for case, _ in ends)], {n for _, n in ends})
    shown = _strips(run, chosen, {key: cases[key] for key in keys if key in cases}, trips_of)
    return common | {
        "metric": chosen,
        "standing": standing,
        "semantic": next(
            (standings[name] for name in semantic_metrics() if name in standings), None
        ),
        "ranked": _ranked(run, standing) if standing.rank else 0,
        "refused": _share(standing.counts, "refused"),
        "answer": model_page.answer(standing, trips),
        "lines": lines,
        "chart": _travelling(model_page.curves_chart(standings, chosen, trips), run, chosen),
        "published": _published(run, standings, chosen),
        "damage": model_page.damage(standing, lines, trips),
        "jpeg": model_page.jpeg_sentence(standing, trips),
        "parts": [line for line in parts if line.part.group != "Edit pair"],
        "pairs": sorted(pairs, key=lambda line: _life(line.standing)),
        "open_pairs": len(pairs) <= OPEN_PAIRS,
        "worst": [row | shown[row["case"]] for row in extremes["worst"] if row["case"] in shown],
        "best": [row | shown[row["case"]] for row in extremes["best"] if row["case"] in shown],
        "motion": model_page.motion(standing.details),
        "shape": model_page.shape_sentence(standing.details),
        "repeats": model_page.repeats_sentence(standing.details),
        "endings_chart": endings.chart(standing, trips),
        "causes": endings.causes(standing, cases, trips_of),
        "labels": witnesses.labels(standing),
        "witnessed": witnesses.lines(standing),
        "judge": witnesses.judge(run),
        "outcomes": model_page.outcomes(standing.counts),
        "axis": inline_svg.axis_ticks(trips),
        "past": past_chart.chart(
            records_of(run.editing_model, run.suite), run.editing_model.name, run.suite
        ),
    }


def _travelling(chart: Chart | None, run: Run, metric: str) -> Chart | None:
    """The chart with what its picture says of itself when it is downloaded."""
    if chart is None:
        return None
    model, ended = run.editing_model, run.finished_at
    about = f"{model.name} on {run.suite}" + (f", run of {ended:%-d %B %Y}" if ended else "")
    return replace(
        chart, about=about, file_name=f"{model.slug}-{run.suite.key}-{metric}-{chart.id}"
    )


def _published(run: Run, standings: Mapping[str, Standing], chosen: str) -> Chart | None:
    """The model's values beside those that others published; theirs come as a suite, too."""
    if run.suite.published_elsewhere:
        return None
    shown = {name: known.curve.get("shown") or () for name, known in standings.items()}
    return published.chart(run.editing_model.name, shown, chosen, run.suite.trips)


def history(runs: Sequence[Run], standings: Mapping[int, Mapping[str, Standing]]) -> dict[str, Any]:
    """Every run of the model with its half-life by the first metric it has."""
    lines = []
    for run in sorted(runs, key=lambda run: run.created_at, reverse=True):
        known = standings.get(run.pk, {})
        name = next((name for name in METRICS if name in known), None)
        lines.append({"run": run, "metric": name, "standing": known[name] if name else None})
    return {"history": lines}


def by_suite(runs: Sequence[Run]) -> dict[str, Run]:
    """The run that stands for the model on each suite, else its newest; most important first."""
    found: dict[str, Run] = {}
    for run in runs:
        key = run.suite.key
        if key not in found or (run.current and not found[key].current):
            found[key] = run
    return found


def most_telling(runs: dict[str, Run]) -> Run | None:
    """The run on the most important suite that has results, else any."""
    done = [run for run in runs.values() if run.current]
    return next(iter(done or runs.values()), None)


def _parts(run: Run, standing: Standing, names: Sequence[str]) -> list[model_page.PartLine]:
    of_all = Q(scope__startswith="category:") | Q(scope__startswith="kind:")
    of_chosen = Q(scope__startswith="pair:", metric=standing.metric_id)
    found = run.standings.filter(of_all | of_chosen, level=DEFAULT_LEVEL).select_related("metric")
    cases = Case.objects.filter(suite=run.suite_id).order_by("pair_title")
    titles = dict(cases.values_list("pair_slug", "pair_title").distinct())
    rows = list(found.defer("curve", "details"))
    return model_page.part_lines(rows, standing.metric.name, names, titles, run.suite.trips)


def _pictures(
    run: Run, keys: Sequence[int], numbers: set[int]
) -> tuple[dict[int, Case], dict[tuple[int, int], Trip]]:
    """These cases, and their trips by case and number: those of strips, and `numbers`."""
    cases = Case.objects.select_related("picture__stored").in_bulk(keys)
    trips = Trip.objects.filter(
        chain__run=run,
        chain__case__in=keys,
        chain__repeat=0,
        number__in=numbers.union(strips.short_numbers(run.suite.trips)),
    ).select_related("chain", "restored", "edited")
    by_place = {(trip.chain.case_id, trip.number): trip for trip in trips.order_by("number")}
    return cases, by_place


def _strips(
    run: Run, metric: str, cases: Mapping[int, Case], trips: Mapping[tuple[int, int], Trip]
) -> dict[int, dict[str, Any]]:
    """Mini strips of these cases: the source, a few returns with what they keep, how it went."""
    numbers = strips.short_numbers(run.suite.trips)
    returns: dict[int, list[tuple[Trip, float | None]]] = {}
    verdicts: dict[int, str] = {}
    for (case_id, number), trip in trips.items():
        if case_id not in cases or number not in numbers:
            continue
        chain = trip.chain
        share = chain.retention_after(metric, number)
        returns.setdefault(chain.case_id, []).append((trip, share))
        verdicts[chain.case_id] = strips.verdict(chain, metric, run.suite.trips)
    return {
        pk: {
            "case": case,
            "source": case.picture.stored,
            "trips": returns.get(pk, []),
            "verdict": verdicts.get(pk, ""),
        }
        for pk, case in cases.items()
    }


def _ranked(run: Run, standing: Standing) -> int:
    """How many models share this ranking."""
    return Standing.objects.filter(
        run__suite=run.suite_id,
        run__current=True,
        metric=standing.metric_id,
        level=standing.level,
        scope=standing.scope,
        rank__isnull=False,
    ).count()


def _share(counts: dict[str, int], name: str) -> float | None:
    return counts[name] / counts["chains"] if counts.get("chains") and name in counts else None


def _life(standing: Standing | None) -> float:
    return float("inf") if standing is None or standing.half_life is None else standing.half_life
