"""Pages of experiments: the effects of playing the same suite in several ways, called arms.

Visitors see only runs that they may see; all numbers come from stored rows.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml
from django.db.models import Count, Max, Prefetch, Q, Sum
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evaluation.analysis import experiment_words as words
from evaluation.analysis.half_life import METHOD_VERSION
from evaluation.arms import DEFAULT, Arm
from evaluation.content.suites import ticks
from evaluation.metrics import in_order
from leaderboard import formatting
from leaderboard.board.rows import stamp as board_stamp
from leaderboard.models import (
    Case,
    Chain,
    EditingModel,
    Experiment,
    ExperimentArm,
    ExperimentResult,
    Run,
)
from leaderboard.models.suites import Category
from leaderboard.page_cache import cached_page, uncached
from leaderboard.pages.charts import (
    Chart,
    Curve,
    Figure,
    Table,
    layout,
    plain,
    retention_curves,
    retention_finding,
    retention_table,
)
from leaderboard.pages.model_page import shell_name
from leaderboard.pages.strips import short_strips
from leaderboard.text import safe_cell
from leaderboard.views.site import noindex_variants

#: The number of a case's trips that are shown, few enough to fit on one line.
MAX_TRIPS_SHOWN = 5
#: Number of cases to choose from; cases on which the arms differ most come first.
MAX_CASES = 8


@dataclass
class ModelView:
    """One model's part of an experiment: its runs by arm, and its results by metric."""

    model: EditingModel
    runs: dict[str, Run] = field(default_factory=dict)
    results: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def finding(self) -> str:
        numbers = next(iter(self.results.values()), None)
        return words.finding(numbers) if numbers else ""

    @property
    def under_way(self) -> list[tuple[str, Run]]:
        """Each arm's name and run, until the model has results."""
        return [] if self.results else list(self.runs.items())


@dataclass
class ExperimentView:
    """The part of an experiment that a visitor may see."""

    experiment: Experiment
    arms: list[ExperimentArm]
    models: list[ModelView]

    @property
    def arm_descriptions(self) -> dict[str, str]:
        return {arm.name: str(arm.core) for arm in self.arms}

    @property
    def finding(self) -> str:
        """The finding for the list of experiments: the finding of the first model with results."""
        return next((model.finding for model in self.models if model.finding), "")


def stamp() -> str:
    """Return a text that changes whenever the content of these pages changes."""
    values = Experiment.objects.aggregate(
        newest=Max("updated_at"), all=Count("pk"), public=Sum("pk", filter=Q(published=True))
    )
    return f"{board_stamp()}|{'|'.join(map(str, values.values()))}"


def views(user: Any, slug: str = "") -> list[ExperimentView]:
    """Return the experiments that this visitor may see, newest first.

    A model is included only if the visitor may see a run of every arm.
    """
    rows = Experiment.objects.visible_to(user).select_related("suite").defer("suite__definition")
    if slug:
        rows = rows.filter(slug=slug)
    runs = Run.objects.all() if user.is_staff else Run.objects.public()
    runs = runs.select_related("editing_model").defer("provenance", "editing_model__options")
    results = ExperimentResult.objects.filter(method_version=METHOD_VERSION)
    rows = rows.prefetch_related(
        Prefetch("arms__runs", runs.order_by("pk")), Prefetch("results", results)
    )
    return [_view(experiment) for experiment in rows.order_by("-started_at", "-pk")]


def _view(experiment: Experiment) -> ExperimentView:
    arms = list(experiment.arms.all())
    models: dict[int, ModelView] = {}
    for arm in arms:
        arm.experiment = experiment
        for run in arm.runs.all():
            run.suite = experiment.suite
            view = models.setdefault(run.editing_model_id, ModelView(run.editing_model))
            view.runs[arm.name] = run
    complete = [model for model in models.values() if len(model.runs) == len(arms)]
    for model in complete:
        by_metric = {
            row.metric: row.numbers
            for row in experiment.results.all()
            if row.editing_model_id == model.model.pk
        }
        model.results = {metric: by_metric[metric] for metric in in_order(by_metric)}
    return ExperimentView(experiment, arms, sorted(complete, key=lambda model: model.model.name))


def effect_chart(view: ExperimentView, model: ModelView, metric: str) -> Chart:
    """Return the chart of each arm's effect with its interval."""
    numbers = model.results[metric]
    others = numbers["effects"][1:]
    return Chart(
        id="effects",
        title=words.finding(numbers),
        subtitle=f"Usable trips ({formatting.metric_label(metric)}) of each arm minus those of "
        f"{numbers['baseline']}, over {numbers['cases']} cases. The 95\u00a0% intervals hold "
        "for all arms together; an interval that excludes 0 shows an effect.",
        figure=_effects(others),
        table=Table(
            ["Arm", "Usable trips", "Effect", "95\u00a0% interval"],
            [
                [
                    e["arm"],
                    f"{e['usable_trips']:.2f}",
                    words.signed(e["difference"], 2),
                    _interval_text(e),
                ]
                for e in numbers["effects"]
            ],
        ),
        height="short",
        about=f"{view.experiment.suite}, {model.model.name}",
        file_name=f"{view.experiment.slug}-{model.model.slug}-effects",
    )


def _effects(effects: Sequence[Mapping[str, Any]]) -> Figure:
    shown = list(reversed(effects))  # plotly draws the first one at the bottom
    zero = {"color": "var(--ink-3)", "width": 1, "dash": "dot"}
    return {
        "data": [
            _markers([e for e in shown if e["sure"] is sure], colour)
            for sure, colour in ((False, "var(--ink-3)"), (True, "var(--accent)"))
        ],
        "layout": layout(
            xaxis={"title": {"text": "usable trips gained or lost"}, "rangemode": "tozero"},
            yaxis={
                "type": "category",
                "automargin": True,
                "range": [-0.6, len(shown) - 0.4],
                "categoryorder": "array",
                "categoryarray": [plain(effect["arm"]) for effect in shown],
            },
            shapes=[
                {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": 0, "x1": 0, "line": zero}
            ],
        ),
    }


def _markers(effects: Sequence[Mapping[str, Any]], colour: str) -> Figure:
    trace: Figure = {
        "type": "scatter",
        "mode": "markers",
        "name": "effect",
        "x": [round(effect["difference"], 4) for effect in effects],
        "y": [plain(effect["arm"]) for effect in effects],
        "text": [f"<b>{plain(e['arm'])}</b><br>{words.difference(e)}" for e in effects],
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"color": colour, "size": 11},
    }
    if all(effect["low"] is not None for effect in effects):
        trace["error_x"] = {
            "type": "data",
            "symmetric": False,
            "array": [round(e["high"] - e["difference"], 4) for e in effects],
            "arrayminus": [round(e["difference"] - e["low"], 4) for e in effects],
            "color": colour,
            "thickness": 1.6,
        }
    return trace


def _interval_text(effect: Mapping[str, Any]) -> str:
    if effect["low"] is None or effect["low"] == effect["high"]:
        return "–"
    return f"{words.signed(effect['low'], 2)} to {words.signed(effect['high'], 2)}"


def curves_chart(view: ExperimentView, model: ModelView, metric: str) -> Chart:
    numbers, trips = model.results[metric], view.experiment.suite.trips
    curves = [Curve.from_json(arm, curve) for arm, curve in numbers["curves"].items()]
    return Chart(
        id="curves",
        title=retention_finding(curves, trips),
        subtitle=f"Share kept ({formatting.metric_label(metric)}), mean over cases with 95\u00a0% "
        "band.",
        figure=retention_curves(curves, trips),
        table=retention_table(curves, trips),
        about=f"{view.experiment.suite}, {model.model.name}",
        file_name=f"{view.experiment.slug}-{model.model.slug}-curves",
    )


def effect_rows(view: ExperimentView, numbers: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the table of arms and their effects."""
    descriptions = view.arm_descriptions
    return [
        effect
        | {
            "how": descriptions.get(effect["arm"], ""),
            "effect": "" if position == 0 else words.signed(effect["difference"], 2),
            "around": _interval_text(effect),
            "auc_effect": ""
            if position == 0 or effect["auc_difference"] is None
            else words.signed(effect["auc_difference"], 3),
            "rank": numbers["ranks"]["mean_ranks"][effect["arm"]],
            "rerun": numbers["reruns"][effect["arm"]],
        }
        for position, effect in enumerate(numbers["effects"])
    ]


def sensitivity(numbers: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return how much the arms differ in each category, the largest range first."""
    rows = [
        row
        | {
            "category": Category(row["category"]).label
            if row["category"] in Category.values
            else row["category"],
            "cells": [row["usable_trips"][e["arm"]] for e in numbers["effects"]],
        }
        for row in numbers["sensitivity"]
    ]
    return sorted(rows, key=lambda row: -row["range"])


def by_metric(model: ModelView) -> list[dict[str, Any]]:
    """Return a row for each metric with the effects of all arms."""
    return [
        {
            "metric": metric,
            "cells": [
                (words.signed(e["difference"], 2), e["sure"]) for e in numbers["effects"][1:]
            ],
            "p": "–" if numbers["ranks"]["p"] is None else words.p_value(numbers["ranks"]["p"]),
        }
        for metric, numbers in model.results.items()
    ]


def strips(view: ExperimentView, model: ModelView, metric: str, case_key: str) -> dict[str, Any]:
    """Return the images of a case in all arms; by default the case on which arms differ most."""
    runs = {run.pk: name for name, run in model.runs.items()}
    chains = list(
        Chain.objects.filter(run__in=runs, repeat=0, usable_trips__isnull=False).only(
            "run", "case", "usable_trips"
        )
    )
    usable: dict[int, list[float]] = {}
    for chain in chains:
        usable.setdefault(chain.case_id, []).append(chain.usable_trips or 0.0)
    order = sorted(usable, key=lambda case: (min(usable[case]) - max(usable[case]), case))
    valid = case_key.isascii() and case_key.isdigit() and len(case_key) < 10
    requested = int(case_key) if valid else None
    chosen = requested if requested in usable else next(iter(order), None)
    if chosen is None:
        return {}
    offered = (
        order[:MAX_CASES] if chosen in order[:MAX_CASES] else [chosen, *order[: MAX_CASES - 1]]
    )
    cases = Case.objects.select_related("image__stored").in_bulk(offered)
    case, last = cases[chosen], view.experiment.suite.trips
    numbers = ticks(last)[-MAX_TRIPS_SHOWN:]
    of_case = Chain.objects.filter(run__in=runs, case=case, repeat=0)
    by_run = {chain.run_id: chain for chain in of_case.select_related("case__image__stored")}
    arms = [name for run, name in runs.items() if run in by_run]
    prompts = [
        model.runs[name].core_arm.pair_prompts(case.pair_slug, case.forward, case.backward)
        for name in arms
    ]
    shown = short_strips(
        [by_run[run] for run in runs if run in by_run], last, metric, numbers=numbers, every=True
    )
    return {
        "case": case,
        "numbers_shown": numbers,
        "strips": list(zip(arms, prompts, shown, strict=True)),
        "cases": [cases[key] for key in offered],
    }


# Downloads.

COLUMNS = (
    *("experiment", "suite", "model", "metric", "arm", "settings", "baseline", "cases"),
    *("usable_trips", "usable_trips_low", "usable_trips_high", "difference", "low", "high", "sure"),
    *("auc", "auc_difference", "mean_rank", "friedman_p", "rerun_sd", "rerun_icc", "run"),
)


def table_rows(view: ExperimentView) -> Iterator[list[Any]]:
    """Yield a row for each model, metric and arm."""
    descriptions = view.arm_descriptions
    for model in view.models:
        for metric, numbers in model.results.items():
            ranks = numbers["ranks"]
            for effect in numbers["effects"]:
                interval, rerun = effect["interval"] or {}, numbers["reruns"][effect["arm"]]
                yield [
                    view.experiment.slug,
                    view.experiment.suite.key,
                    model.model.slug,
                    metric,
                    effect["arm"],
                    descriptions.get(effect["arm"], ""),
                    numbers["baseline"],
                    numbers["cases"],
                    effect["usable_trips"],
                    interval.get("low"),
                    interval.get("high"),
                    effect["difference"],
                    effect["low"],
                    effect["high"],
                    "yes" if effect["sure"] else "no",
                    effect["auc"],
                    effect["auc_difference"],
                    ranks["mean_ranks"][effect["arm"]],
                    ranks["p"],
                    rerun["rerun"],
                    rerun["icc"],
                    model.runs[effect["arm"]].pk,
                ]


def as_csv(view: ExperimentView) -> str:
    """Return all numbers of the experiment as CSV."""
    table = io.StringIO(newline="")
    writer = csv.writer(table)
    writer.writerow(COLUMNS)
    for row in table_rows(view):
        writer.writerow(["" if value is None else safe_cell(value) for value in row])
    return table.getvalue()


def as_yaml(view: ExperimentView) -> str:
    """Return the experiment as a file for `convergebench experiment`."""
    experiment = view.experiment
    data: dict[str, Any] = {
        "title": experiment.title,
        "slug": experiment.slug,
        "question": experiment.question,
        "suite": shell_name(experiment.suite),
        "models": [model.model.slug for model in view.models],
    }
    if experiment.repeats:
        data["repeats"] = experiment.repeats
    data["arms"] = {arm.name: settings(arm.core) for arm in view.arms}
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=90)


def settings(arm: Arm) -> dict[str, Any]:
    """Return an arm's settings as an experiment file writes them."""
    options = {name: value for name, value in arm.to_dict().items() if name != "repeats"}
    if sizes := options.pop("sizes", None):
        options["size"] = sizes[0] if len(sizes) == 1 else sizes
    return {name: value for name, value in options.items() if value != getattr(DEFAULT, name, None)}


PARAMETERS = ("model", "metric", "case")


@require_safe
@cached_page(stamp)
@noindex_variants
def index(request: HttpRequest) -> HttpResponse:
    return render(request, "leaderboard/experiments.html", {"views": views(request.user)})


@require_safe
@cached_page(stamp, PARAMETERS)
@noindex_variants
def detail(request: HttpRequest, slug: str) -> HttpResponse:
    view = _view_or_404(request, slug)
    query = {name: request.GET.get(name, "") for name in PARAMETERS}
    with_results = [part for part in view.models if part.results]
    by_slug = {part.model.slug: part for part in with_results}
    model = by_slug.get(query["model"]) or next(iter(with_results), None)
    context: dict[str, Any] = {
        "view": view,
        "experiment": view.experiment,
        "suite": view.experiment.suite,
        "trips": view.experiment.suite.trips,
        "with_results": with_results,
        "under_way": [part for part in view.models if not part.results],
        "chosen": model,
    }
    cacheable = {"", *by_slug}
    if model:
        metric = query["metric"] if query["metric"] in model.results else next(iter(model.results))
        numbers = model.results[metric]
        shown = strips(view, model, metric, query["case"])
        cacheable |= {*model.results, *(str(case.pk) for case in shown.get("cases", ()))}
        context |= shown | {
            "metrics": list(model.results),
            "metric": metric,
            "numbers": numbers,
            "effects": effect_rows(view, numbers),
            "effect_chart": effect_chart(view, model, metric),
            "curves_chart": curves_chart(view, model, metric),
            "rank_words": words.rank_words(numbers["ranks"]),
            "pair_words": words.pair_words(numbers["ranks"]),
            "sensitivity": sensitivity(numbers),
            "by_metric": by_metric(model),
            "rerun_words": words.rerun_words(numbers["reruns"]),
        }
        context["sensitivity_words"] = words.sensitivity_words(context["sensitivity"])
    response = render(request, "leaderboard/experiment.html", context)
    return response if set(query.values()) <= cacheable else uncached(response)


@require_safe
def table(request: HttpRequest, slug: str) -> HttpResponse:
    """Serve all numbers of the experiment as CSV."""
    text = as_csv(_view_or_404(request, slug))
    return _file(text, f"{slug}.csv", "text/csv; charset=utf-8")


@require_safe
def file(request: HttpRequest, slug: str) -> HttpResponse:
    """Serve the experiment as a file for `convergebench experiment FILE`."""
    text = as_yaml(_view_or_404(request, slug))
    return _file(text, f"{slug}.yaml", "application/yaml; charset=utf-8")


def _file(text: str, name: str, kind: str) -> HttpResponse:
    disposition = f'attachment; filename="{name}"'
    return HttpResponse(text, content_type=kind, headers={"Content-Disposition": disposition})


def _view_or_404(request: HttpRequest, slug: str) -> ExperimentView:
    for view in views(request.user, slug):
        return view
    raise Http404("there is no such experiment")
