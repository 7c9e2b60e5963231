"""A model's page: its half-life, its failures and its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evaluation.analysis.thresholds import DEFAULT_THRESHOLD
from evaluation.metrics import METRICS, semantic_metrics
from leaderboard.board.breakdowns import PAIRS, pair_titles
from leaderboard.board.row import edit_quality_of
from leaderboard.board.rows import stamp
from leaderboard.models import EditingModel, Run, Standing
from leaderboard.page_cache import cached_page, uncached
from leaderboard.pages import model_page, strips
from leaderboard.pages.charts import axis_ticks
from leaderboard.pages.model_charts import floor_sentence, floor_standing
from leaderboard.pages.model_page import RunResults
from leaderboard.standings import changes
from leaderboard.views.site import noindex_variants, withdrawn

#: Number of best and of worst cases shown; maximum number of edit pairs shown unfolded.
EXTREMES, OPEN_PAIRS = 3, 12


@require_safe
@cached_page(stamp, ("suite", "metric"))
@noindex_variants
def detail(request: HttpRequest, slug: str) -> HttpResponse:
    models = EditingModel.objects.defer("options", "api_key")
    if not request.user.is_staff:
        models = models.filter(status=EditingModel.Status.PUBLISHED)
    model = models.filter(slug=slug).first()
    if model is None:
        return withdrawn(request, Run.objects.filter(editing_model__slug=slug))
    runs = runs_of(model, request.user)
    run_by_suite = by_suite(runs)
    suite, metric = (request.GET.get(name, "") for name in ("suite", "metric"))
    run = run_by_suite.get(suite) or main_run(run_by_suite)
    context: dict[str, Any] = {"model": model, "runs": runs, "run": run}
    change = changes.last_change(model) if model.canary else None
    context["change"] = change if change and change.is_public else None
    context["suites"] = [(key, item.suite) for key, item in run_by_suite.items()]
    if run:
        # Visitors see results on sealed suites, whose cases are secret, only as a difference from
        # those on the open suite.
        sealed = Run.objects.counted().filter(editing_model=model, suite__sealed=True, current=True)
        counted = [*runs, *sealed.select_related("suite").defer("suite__definition")]
        standings = _standings(counted)
        context |= {
            "suite": run.suite,
            "trips": run.suite.trips,
            "reproduce": model_page.reproduce(run),
            "attempts": model_page.count_attempts(model, run.suite),
            "history": _history(runs, standings),
            "sealed": model_page.open_against_sealed(counted, standings),
        }
        if results := RunResults.for_run(run, standings.get(run.pk, {}), metric):
            context |= results_context(results)
            if floor := floor_standing(results, request.user):
                context |= {"floor": floor, "floor_sentence": floor_sentence(results, floor)}
    unknown = {suite, metric} - {"", *run_by_suite, *context.get("metrics", ())}
    context["unknown"] = sorted(item[:60] for item in unknown)
    response = render(request, "leaderboard/model.html", context)
    return uncached(response) if unknown else response


def runs_of(model: EditingModel, user: Any) -> list[Run]:
    """Return the model's runs that this user may see, most important suite first."""
    runs = Run.objects.visible_to(user).outside_experiments().filter(editing_model=model)
    order = ("-suite__importance", "suite__slug", "-suite__version", "-created_at")
    runs = runs.select_related("suite", "people").defer("suite__definition").order_by(*order)
    for run in runs:
        run.editing_model = model
    return list(runs)


def _standings(runs: Sequence[Run]) -> dict[int, dict[str, Standing]]:
    """Return the standings on all cases by run and metric name."""
    rows = Standing.objects.filter(
        run__in=[run.pk for run in runs], scope="all", threshold=DEFAULT_THRESHOLD
    )
    by_run: dict[int, dict[str, Standing]] = {}
    for standing in rows.select_related("metric"):
        by_run.setdefault(standing.run_id, {})[standing.metric.name] = standing
    return by_run


def results_context(results: RunResults) -> dict[str, Any]:
    """Return the context for a run with results."""
    run, standing, trips = results.run, results.standing, results.trips
    parts = _parts(results)
    pairs = [line for line in parts if line["part"].group == PAIRS]
    worst, best = (
        [row["case"] for row in standing.details.get(end, [])[:EXTREMES]]
        for end in ("worst", "best")
    )
    endings = [row for rows in model_page.shown_endings(standing).values() for row in rows]
    chains = {
        chain.case_id: chain
        for chain in run.chains.filter(
            case__in={*worst, *best, *(row["case"] for row in endings)}, repeat=0
        ).select_related("case__image__stored")
    }
    played = strips.played_trips(
        chains.values(), {*strips.short_numbers(trips), *(row["trip"] for row in endings)}
    )

    def short_strips(cases: Sequence[int]) -> list[strips.ShortStrip]:
        shown = [chains[case] for case in cases if case in chains]
        return strips.short_strips(shown, trips, results.metric, played=played)

    return {
        "results": results,
        "metrics": results.names,
        "metric": results.metric,
        "standing": standing,
        "semantic": next(
            (results.standings[n] for n in semantic_metrics() if n in results.standings), None
        ),
        "ranked": _ranked_models(run, standing) if standing.rank else 0,
        "refused": _share(standing.counts, "refused"),
        "answer": model_page.lifetime_sentence(results),
        "damage": model_page.damage(results),
        "jpeg": model_page.jpeg_sentence(results),
        "parts": [line for line in parts if line["part"].group != PAIRS],
        "pairs": sorted(pairs, key=lambda line: _life(line["standing"])),
        "open_pairs": len(pairs) <= OPEN_PAIRS,
        "worst": short_strips(worst),
        "best": short_strips(best),
        "motion": model_page.chain_dynamics(standing.details),
        "repeats": model_page.repeats_sentence(standing.details),
        "causes": model_page.causes(standing, chains, played),
        "witnessed": model_page.witnessed(standing),
        "judge": run.provenance.get("judge") or {},
        "edit_quality": edit_quality_of(run, standing),
        "edit_quality_words": model_page.edit_quality_words(run, standing),
        "outcomes": model_page.outcomes(standing.counts),
        "axis": axis_ticks(trips),
    }


def _history(
    runs: Sequence[Run], standings: Mapping[int, Mapping[str, Standing]]
) -> list[dict[str, Any]]:
    """Return the model's runs, newest first, each with its standing by the first metric run."""
    lines = []
    for run in sorted(runs, key=lambda run: run.created_at, reverse=True):
        by_metric = standings.get(run.pk, {})
        name = next((name for name in METRICS if name in by_metric), None)
        lines.append({"run": run, "metric": name, "standing": by_metric[name] if name else None})
    return lines


def by_suite(runs: Sequence[Run]) -> dict[str, Run]:
    """Return by suite the model's current run, or else its newest run on that suite.

    The runs are expected in order of the suites' importance.
    """
    by_key: dict[str, Run] = {}
    for run in runs:
        key = run.suite.key
        if key not in by_key or (run.current and not by_key[key].current):
            by_key[key] = run
    return by_key


def main_run(runs: dict[str, Run]) -> Run | None:
    """Return the current run on the most important suite, or else the first run."""
    current = [run for run in runs.values() if run.current]
    return next(iter(current or runs.values()), None)


def _parts(results: RunResults) -> list[dict[str, Any]]:
    run, metric = results.run, results.standing.metric
    of_all = Q(scope__startswith="category:") | Q(scope__startswith="kind:")
    of_chosen = Q(scope__startswith="pair:", metric=metric)
    rows = run.standings.filter(of_all | of_chosen, threshold=DEFAULT_THRESHOLD).select_related(
        "metric"
    )
    titles = pair_titles(run.suite_id)
    return model_page.part_lines(list(rows.defer("curve", "details")), titles, results)


def _ranked_models(run: Run, standing: Standing) -> int:
    """Count the models in this standing's ranking."""
    return Standing.objects.filter(
        run__suite=run.suite_id,
        run__current=True,
        metric=standing.metric_id,
        threshold=standing.threshold,
        scope=standing.scope,
        rank__isnull=False,
    ).count()


def _share(counts: dict[str, int], name: str) -> float | None:
    return counts[name] / counts["chains"] if counts.get("chains") and name in counts else None


def _life(standing: Standing | None) -> float:
    return float("inf") if standing is None or standing.half_life is None else standing.half_life
