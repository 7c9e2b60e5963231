"""A model's page: standings of one run in, what is said of them out."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from evaluation.analysis.levels import left
from evaluation.content import catalog
from evaluation.content.suites import ticks
from evaluation.measuring.calibrations.jpeg import LOSSLESS
from evaluation.metrics import METRICS, full_reference_metrics, in_order
from leaderboard import formatting
from leaderboard.board import breakdowns
from leaderboard.models import EditingModel, Run, Standing, Suite
from leaderboard.pages.charts import Chart, Curve, retention_curves, retention_table
from leaderboard.pages.endings import telling
from leaderboard.pages.strips import like_jpeg

#: What each regime of a chain looks like, for people who never heard of a contraction.
REGIMES = {
    "idempotent": ("settles at once", "the first trip does nearly all of the damage"),
    "contracting": ("settles", "each trip changes less than the one before"),
    "wandering": ("wanders", "the steps stay as large, in changing directions"),
    "drifting": ("drifts", "the steps stay as large, always the same way"),
    "undetermined": ("cannot be told", "too few trips, or too uneven ones"),
}
OUTCOMES = {
    "completed": "played to the end",
    "known": "stopped, their end known",
    "converged": "stopped, nothing changed any more",
    "refused": "refused",
    "blank": "ended by a blank picture",
    "failed": "ended without a usable answer",
    "lost": "lost through our fault",
    "change_not_seen": "with a trip where no change was seen",
    "reframed": "with a trip that changed the shape of the picture",
    "recovered": f"came back above {left()} after having lost it",
}


def answer(standing: Standing, trips: int) -> str:
    """How long a picture lasts, in one sentence that is true at both ends of the scale."""
    usable, cause = standing.usable_trips, telling(standing)
    broken = f" {cause[:1].upper()}{cause[1:]}." if cause else ""
    if usable >= trips - 0.05:
        return f"Every picture is still usable after {formatting.count(trips, 'round trip')}."
    if usable < 0.05:
        return f"No picture outlasts its first round trip.{broken}"
    return (
        f"A picture stays usable for {usable:.1f} of {formatting.count(trips, 'round trip')} "
        f"on average.{broken}"
    )


@dataclass(frozen=True)
class MetricLine:
    """One metric on the page: its standing, or none where it was not run."""

    name: str
    label: str
    looks_at: str
    standing: Standing | None
    #: On the metric's own scale, at the trips people read.
    values: Sequence[str]


def metric_lines(standings: Mapping[str, Standing], trips: int) -> list[MetricLine]:
    """Every metric we know, run or not; then those we no longer know."""
    names = in_order({*full_reference_metrics(), *standings})
    return [
        MetricLine(
            name,
            formatting.metric_label(name),
            formatting.looks_at(name),
            standings.get(name),
            own_values(standings[name], trips) if name in standings else (),
        )
        for name in names
    ]


def own_values(standing: Standing, trips: int) -> list[str]:
    """The metric's own value at the trips people read, with its unit."""
    shown, name = standing.curve.get("shown") or [], standing.metric.name
    values = [shown[n] if n < len(shown) else None for n in ticks(trips)]
    return ["–" if value is None else formatting.own_value(value, name) for value in values]


def curves_chart(standings: Mapping[str, Standing], chosen: str, trips: int) -> Chart | None:
    """What is kept by every metric: one scale, so one chart. Only the chosen one has its band."""
    names = [name for name in METRICS if name in standings]
    if not names:
        return None
    names.sort(key=lambda name: name != chosen)
    curves = []
    for name in names:
        curve = standings[name].curve
        band = curve if name == chosen else {"mean": curve.get("mean", ())}
        curves.append(Curve.of(formatting.metric_label(name), band))
    return Chart(
        id="curves",
        title=_finding({name: standings[name] for name in names}, trips),
        subtitle="Share of the picture kept after each round trip, by each metric, mean over the cases. "
        f"The band is the 95\u00a0% interval of {formatting.metric_label(names[0])}. "
        "0\u00a0% is a blank card of the picture’s mean colour.",
        figure=retention_curves(curves, trips),
        table=retention_table(curves, trips),
    )


def _finding(standings: Mapping[str, Standing], trips: int) -> str:
    """What wears out first and what lasts, at the last trip."""
    left = {
        name: max(0, mean[trips] or 0)
        for name, standing in standings.items()
        if len(mean := standing.curve.get("mean", ())) > trips
    }
    if not left:
        return "How much of the picture is kept, trip by trip"
    most, least = max(left, key=lambda n: left[n]), min(left, key=lambda n: left[n])
    start = f"{formatting.after(trips).capitalize()}, {formatting.percent(left[most])} is left of"
    if formatting.percent(left[most]) == formatting.percent(left[least]):
        return f"{start} the picture, by every metric"
    kept, gone = (formatting.looks_at(name) or name for name in (most, least))
    return f"{start} {kept}, {formatting.percent(left[least])} of {gone}"


@dataclass(frozen=True)
class Damage:
    """One line of "damage over trips"."""

    number: int
    kept: float | None
    around: str
    jpeg: str
    own: Sequence[str]


def damage(standing: Standing, lines: Sequence[MetricLine], trips: int) -> list[Damage]:
    """After each trip people read: what is kept, the JPEG of equal loss, every metric's value."""
    curve, jpeg = standing.curve, standing.details.get("jpeg", {})
    found = []
    for place, number in enumerate(ticks(trips)):
        mean, low, high = (
            values[number] if number < len(values := curve.get(name) or ()) else None
            for name in ("mean", "low", "high")
        )
        words = like_jpeg(jpeg[str(number)]) if str(number) in jpeg else "–"
        own = [line.values[place] for line in lines if line.standing]
        found.append(Damage(number, mean, formatting.interval(low, high, 100, 0), words, own))
    return found


def jpeg_sentence(standing: Standing, trips: int) -> str:
    """ "After 5 round trips: like one JPEG save at quality 8."; empty where it is not known."""
    jpeg = standing.details.get("jpeg", {})
    numbers = [n for n in ticks(trips) if str(n) in jpeg]
    if not numbers:
        return ""
    number = 5 if 5 in numbers else numbers[-1]
    if jpeg[str(number)] == LOSSLESS:
        return f"Nothing is lost {formatting.after(number)}: no JPEG save is as good."
    return f"{formatting.after(number).capitalize()}: {like_jpeg(jpeg[str(number)])}."


@dataclass(frozen=True)
class PartLine:
    """A part of the suite: its standing by the chosen metric, and a heat cell per metric."""

    part: breakdowns.Part
    standing: Standing | None
    cells: Sequence[breakdowns.Cell]


def part_lines(
    standings: Sequence[Standing],
    chosen: str,
    names: Sequence[str],
    titles: dict[str, str],
    trips: int,
) -> list[PartLine]:
    """Categories, kinds and pairs of this run; pairs by the chosen metric alone."""
    found = {(s.scope, s.metric.name): s for s in standings}
    by_scope: dict[str, dict[int, Standing]] = {}
    for standing in standings:
        by_scope.setdefault(standing.scope, {})[standing.metric_id] = standing
    longest = breakdowns.longest(by_scope, trips)
    lines = []
    for part in breakdowns.parts(by_scope, titles):
        shown = [chosen] if part.group == "Edit pair" else names
        # One at a time: no metric is the best of a line, they measure different things.
        cells = [
            breakdowns.heat_line([found.get((part.scope, name))], longest, trips)[0]
            for name in shown
        ]
        lines.append(PartLine(part, found.get((part.scope, chosen)), cells))
    return lines


@dataclass(frozen=True)
class Motion:
    """The dynamics card."""

    contraction: float | None
    path_efficiency: float | None
    limit_retention: float | None
    chains: int
    #: Name, number of chains, and what it means.
    regimes: Sequence[tuple[str, int, str]]
    sentence: str


def motion(details: Mapping[str, Any]) -> Motion | None:
    """Where chains end up, in words; None where that was not measured."""
    known = details.get("dynamics") or {}
    counts = known.get("regimes") or {}
    chains = known.get("chains") or sum(counts.values())
    if not chains:
        return None
    regimes = [
        (name, counts[name], f"{verb}: {meaning}")
        for name, (verb, meaning) in REGIMES.items()
        if counts.get(name)
    ]
    regimes.sort(key=lambda regime: (regime[0] == "undetermined", -regime[1]))
    return Motion(
        known.get("contraction"),
        known.get("path_efficiency"),
        known.get("limit_retention"),
        chains,
        regimes,
        _motion_sentence(known, regimes, chains),
    )


def _motion_sentence(
    known: Mapping[str, Any], regimes: Sequence[tuple[str, int, str]], chains: int
) -> str:
    limit = known.get("limit_retention")
    if known.get("contraction") == 0 and known.get("path_efficiency") is None:
        return "Nothing moves: every return is the picture it was made from."
    if not regimes:
        return ""
    name, count, meaning = regimes[0]
    left = (
        "" if limit is None else f" What is left at the end: {formatting.percent(max(0, limit))}."
    )
    if name == "undetermined":
        return f"Where the chains end up cannot be told: too few trips, or too uneven ones.{left}"
    where = "every chain" if count == chains else f"{count} of {chains} chains"
    return f"In {where} the picture {meaning}.{left}"


def shape_sentence(details: Mapping[str, Any]) -> str:
    """How the curve falls, in words; empty where that cannot be told."""
    shape = details.get("shape") or {}
    rate, floor = shape.get("rate"), shape.get("floor")
    if shape.get("shape") == "linear" and rate is not None:
        return f"The curve falls in a line: each trip takes {formatting.percent(rate, 1)} of the picture."
    if shape.get("shape") == "exponential" and rate is not None:
        return f"The curve falls exponentially: each trip takes about {formatting.percent(rate, 1)} of what is left."
    if shape.get("shape") == "plateau" and floor is not None:
        return f"The curve falls to a plateau: it ends near {formatting.percent(floor)}."
    return ""


def outcomes(counts: Mapping[str, int]) -> list[tuple[str, int, str]]:
    """How the chains ended and what happened in them: (name, how many, words)."""
    return [(name, counts[name], words) for name, words in OUTCOMES.items() if name in counts]


def repeats_sentence(details: Mapping[str, Any]) -> str:
    """How much luck matters beside the choice of cases; empty where cases are played once."""
    spread = details.get("repeats") or {}
    rerun, case = spread.get("rerun"), spread.get("case")
    if rerun is None or case is None:
        return ""
    told = (
        f"Played again, the same case ends {rerun:.1f} trips sooner or later (one standard "
        f"deviation); from case to case it is {case:.1f}."
    )
    if whole := rerun**2 + case**2:
        share = formatting.percent(case**2 / whole)
        told += f" So {share} of how chains differ is the case, not luck (intraclass correlation)."
    return told


def reproduce(run: Run) -> str:
    """The line to type in a shell to play this run again; empty where nobody else can."""
    model, suite = run.editing_model, run.suite
    if model.access == EditingModel.Access.ENDPOINT or run.source != Run.Source.OURS:
        return ""
    if run.arm_digest:  # its experiment's page has the file that plays it
        return ""
    play = ["convergebench", "run", "--editor", model.slug, "--suite", shell_name(suite)]
    secret = (
        None if run.earlier_secrets else run.published_secret
    )  # one draws no more than its part
    return shlex.join([*play, "--secret", secret] if secret else play)


def shell_name(suite: Suite) -> str:
    """What `--suite` takes: a name, or the file of a suite that does not come with the package."""
    name = suite.key
    return name if suite.content_hash in _shipped() else f"{name}.json"


@cache
def _shipped() -> frozenset[str]:
    """Hashes of the suites that come with the package."""
    return frozenset(suite.content_hash for suite in catalog.suites())
