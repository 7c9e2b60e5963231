"""Each paper's tables with ours beside them. Numbers come from standings; none is computed twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from evaluation.analysis.levels import DEFAULT_LEVEL
from evaluation.content.edit_types import TYPES
from evaluation.metrics import HEADLINE
from leaderboard import formatting
from leaderboard.exchange.documents.blocks import Table
from leaderboard.exchange.reproduction.facts import Facts
from leaderboard.exchange.reproduction.needs import Need
from leaderboard.exchange.reproduction.restoration import restoration
from leaderboard.models import PublishedFigure, Run, Standing, Suite

NOTHING = "–"
#: The trips at which Banana100 asks its metrics.
ASKED = (5, 10, 20)


def forerunner(facts: Facts, found: Sequence[Need], suite: Suite) -> list[Table]:
    """Mean scores after each round, as published and as measured here."""
    source = facts.stated["figures"]
    rows: dict[tuple[str, str, int], float] = {
        (figure.model_name, figure.metric, figure.trip): figure.value
        for figure in PublishedFigure.objects.filter(source=source)
    }
    ours = {need.called or need.model.name: need for need in found if need.done}
    lines = []
    for (model, metric, trip), value in sorted(rows.items()):
        need = ours.get(model)
        here = _own_value(need.run, metric, trip) if need else None
        lines.append(
            [
                f"{model}, {formatting.metric_label(metric)}, {formatting.after_trips(trip)}",
                f"{value:.3f}",
                _number(here),
                _difference(here, value),
            ]
        )
    for need in found:
        if need.done and need.called not in facts.models:
            lines += _alone(need, {(metric, trip) for _, metric, trip in rows})
    return [
        Table(
            "scores",
            "Mean score after so many round trips, as published and as measured here",
            ["Model, metric", "Published", "Here", "Difference"],
            lines,
            note="Other pictures, other edits, and there no check that an edit was made: a "
            "difference is no error of either.",
        ),
        _by_our_method(facts, found),
    ]


def _alone(need: Need, asked: set[tuple[str, int]]) -> list[list[str]]:
    """A model that the paper did not play: ours alone."""
    return [
        [
            f"{need.model.name}, {formatting.metric_label(metric)}, {formatting.after_trips(trip)}",
            NOTHING,
            _number(_own_value(need.run, metric, trip)),
            NOTHING,
        ]
        for metric, trip in sorted(asked)
    ]


def _by_our_method(facts: Facts, found: Sequence[Need]) -> Table:
    """Usable trips by SSIM: of their rows where these were imported, and of our runs."""
    theirs = Standing.objects.filter(
        run__suite__slug=facts.stated["figures"],
        run__source=Run.Source.PUBLISHED,
        metric__name="ssim",
        level=DEFAULT_LEVEL,
        scope="all",
    ).select_related("run__editing_model", "run__suite")
    lines = [
        [s.run.editing_model.name, f"{s.usable_trips:.1f} of {s.run.suite.trips}", NOTHING]
        for s in theirs.order_by("-usable_trips")
    ]
    for need in found:
        standing = _standing(need.run, "ssim") if need.done else None
        if standing and need.run:
            usable = f"{standing.usable_trips:.1f} of {need.run.suite.trips}"
            lines.append([need.model.name, NOTHING, usable])
    return Table(
        "usable",
        "Usable trips by SSIM: their rows by our method, and our runs",
        ["Model", "Their rows", "Our run"],
        lines,
        note=""
        if theirs
        else "Their rows are not here: manage.py import_edit_converge_bench results.csv brings them.",
    )


def banana100(facts: Facts, found: Sequence[Need], suite: Suite) -> list[Table]:
    """Does any no-reference metric notice the wear? Their verdict of each metric, and our counts."""
    told = [(need, _quality(need.run)) for need in found if need.done]
    verdicts = []
    for metric in facts.stated["metrics"]:
        cells = [
            metric["name"],
            metric["range"],
            "higher" if metric["higher_is_better"] else "lower",
            "notices every one" if metric["succeeds"] else "fails on some",
        ]
        key = metric.get("ours") or metric["name"].lower()
        cells += [_noticed(numbers.get(key), suite.trips) for _, numbers in told]
        verdicts.append(cells)
    gaps = [
        [
            f"{need.model.name}, {numbers[name].get('label', name)}",
            *(_gap(numbers[name], n) for n in ASKED),
        ]
        for need, numbers in told
        for name in numbers
    ]
    stated = facts.stated["brisque"]
    brisque = [
        [
            "As published (one image)",
            f"{stated['first']:g}",
            f"{stated['then']:g}",
            f"{stated['then'] - stated['first']:+.1f}",
        ],
        *(
            [need.model.name, *_fall(numbers["brisque"], stated["after"])]
            for need, numbers in told
            if "brisque" in numbers
        ),
    ]
    return [
        Table(
            "metrics",
            "Which metrics call the picture worse after 5, 10 and 20 steps in every case",
            ["Metric", "Usual range", "Better", "There", *(need.model.name for need, _ in told)],
            verdicts,
            note="Here: cases called worse than the first return at each of the asked trips, of "
            "all. A metric that was not run says so: BRISQUE, NIQE and PIQE run here, others come "
            "by a score file (convergebench import-scores).",
        ),
        Table(
            "gaps",
            "Mean change of a metric since the first return, in points of its usual range",
            ["Model, metric", *(f"Step {n}" for n in ASKED)],
            gaps,
            note="Above 0: the metric praises the damage. There: positive somewhere for every one "
            "of 21 metrics.",
        ),
        Table(
            "brisque",
            f"BRISQUE of the source and after {stated['after']} steps (lower is meant to be better)",
            ["Model", "Source", f"Step {stated['after']}", "Change"],
            brisque,
            note=f"There: {stated['where']}.",
        ),
    ]


def _quality(run: Run | None) -> Mapping[str, Any]:
    result = getattr(run, "no_reference", None)
    return result.numbers if result else {}


def _noticed(numbers: Mapping[str, Any] | None, trips: int) -> str:
    """ "at 5: 3 of 12, at 10: 4 of 12": cases that are called worse than the first return."""
    if not numbers:
        return formatting.NOT_RUN
    told = []
    for trip in (n for n in ASKED if n <= trips):
        counts = (numbers["trips"].get(str(trip)) or {}).get("first")
        if counts:
            told.append(f"at {trip}: {counts['worse']} of {counts['returns']}")
    return ", ".join(told) or NOTHING


def _gap(numbers: Mapping[str, Any], trip: int) -> str:
    counts = (numbers["trips"].get(str(trip)) or {}).get("first")
    gap = counts and counts.get("gap")
    return NOTHING if gap is None else f"{gap:+.1f}".replace("-", "−")


def _fall(numbers: Mapping[str, Any], trip: int) -> list[str]:
    values = numbers.get("value") or []
    first = values[0] if values else None
    then = values[trip] if len(values) > trip else None
    change = None if first is None or then is None else then - first
    return [
        NOTHING if first is None else f"{first:.1f}",
        NOTHING if then is None else f"{then:.1f}",
        NOTHING if change is None else f"{change:+.1f}".replace("-", "−"),
    ]


def pico(facts: Facts, found: Sequence[Need], suite: Suite) -> list[Table]:
    """The share of good edits by type: published, and seen made here."""
    pairs: dict[str, str] = {pair.slug: pair.type for pair in suite.core.pairs}
    done = [need for need in found if need.done]
    made = {need.model.slug: _made_by_type(need.run, pairs) for need in done}
    present = set(pairs.values())
    lines = []
    for kind in sorted(TYPES.values(), key=lambda kind: -(kind.success or 0)):
        if kind.success is None and kind.key not in present:
            continue
        cells = [
            kind.title,
            NOTHING if kind.success is None else f"{kind.success:.4f}",
            str(sum(one == kind.key for one in pairs.values())),
        ]
        for need in done:
            here = made[need.model.slug].get(kind.key)
            cells += [_number(here), _difference(here, kind.success)]
        lines.append(cells)
    composition = [list(map(str, row)) for row in facts.stated["composition"]]
    heads = [head for need in done for head in (need.model.name, "Difference")]
    return [
        Table(
            "types",
            "Share of good edits by type: published for Nano Banana, and here",
            ["Type of edit", "Published", "Pairs here", *heads],
            lines,
            note="Here: the share of forward edits that were made, as witnesses saw it, else by "
            "pixels; mean over the pairs of the type. The paper publishes nine of its 35 types.",
        ),
        Table(
            "composition",
            "What the data set is made of",
            ["Part", "Size", "Share"],
            composition,
            note="A fact of the data set: there is nothing to measure of it here. Our own chains "
            "leave as preferences and sequences by manage.py export_dataset.",
        ),
    ]


def _made_by_type(run: Run | None, pairs: Mapping[str, str]) -> dict[str, float]:
    shares: dict[str, list[float]] = defaultdict(list)
    standings = Standing.objects.filter(
        run=run, metric__name__in=_headlines(run), level=DEFAULT_LEVEL, scope__startswith="pair:"
    )
    for standing in standings:
        seen = standing.counts.get("edits_made")
        seen = standing.counts.get("change_seen") if seen is None else seen
        kind = pairs.get(standing.scope.removeprefix("pair:"))
        if seen is not None and kind:
            shares[kind].append(seen)
    return {kind: fmean(found) for kind, found in shares.items()}


def _headlines(run: Run | None) -> list[str]:
    """The headline metric, or the first that the run was scored by."""
    scored = run.scored_metrics if run else []
    return [HEADLINE] if HEADLINE in scored else scored[:1]


def _standing(run: Run | None, metric: str) -> Standing | None:
    rows = Standing.objects.filter(
        run=run, metric__name=metric, level=DEFAULT_LEVEL, scope="all"
    ).select_related("metric")
    return rows.order_by("-pk").first()


def _own_value(run: Run | None, metric: str, trip: int) -> float | None:
    """The metric's own value after so many trips, mean over cases."""
    standing = _standing(run, metric)
    shown = (standing.curve.get("shown") or []) if standing else []
    return shown[trip] if trip < len(shown) else None


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}"


def _difference(here: float | None, there: float | None) -> str:
    if here is None or there is None:
        return NOTHING
    return f"{here - there:+.3f}".replace("-", "−")


Comparison = Callable[[Facts, Sequence[Need], Suite], list[Table]]
COMPARISONS: Mapping[str, Comparison] = {
    "forerunner": forerunner,
    "banana100": banana100,
    "restoration": restoration,
    "pico": pico,
}
