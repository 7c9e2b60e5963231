"""Content of a model's page, from the standings of one run."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

from evaluation.analysis.events import CAUSES, CROSSINGS
from evaluation.analysis.failure_labels import LABELS, LEVELS
from evaluation.analysis.levels import DEFAULT_LEVEL, left
from evaluation.content import catalog
from evaluation.content.suites import ticks
from evaluation.measuring.calibration import LOSSLESS
from evaluation.metrics import HEADLINE, METRICS, full_reference_metrics, in_order
from evaluation.witnesses import WITNESSES, witness_label
from leaderboard import formatting
from leaderboard.board import breakdowns
from leaderboard.endpoints import host_of
from leaderboard.models import (
    Case,
    Chain,
    EditingModel,
    Run,
    Standing,
    StoredImage,
    Submission,
    Suite,
    Trip,
)
from leaderboard.models.suites import Category
from leaderboard.pages.strips import like_jpeg

#: Plain descriptions of the regimes of a chain.
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


@dataclass(frozen=True)
class RunResults:
    """A run's standings on all cases by metric name, and the metric that is shown."""

    run: Run
    standings: Mapping[str, Standing]
    metric: str

    @classmethod
    def of(
        cls, run: Run, standings: Mapping[str, Standing] | None = None, metric: str = ""
    ) -> Self | None:
        """Return the results by this metric, else by the first metric with a standing.

        Returns None if there is no standing yet.
        """
        if standings is None:
            rows = run.standings.filter(scope="all", level=DEFAULT_LEVEL).select_related("metric")
            standings = {standing.metric.name: standing for standing in rows}
        names = [name for name in METRICS if name in standings]
        if not names:
            return None
        return cls(run, standings, metric if metric in names else names[0])

    @property
    def names(self) -> list[str]:
        return [name for name in METRICS if name in self.standings]

    @property
    def standing(self) -> Standing:
        return self.standings[self.metric]

    @property
    def trips(self) -> int:
        return self.run.suite.trips

    @property
    def about(self) -> str:
        """The caption of a downloaded chart."""
        ended = self.run.finished_at
        dated = f", run of {ended:%-d %B %Y}" if ended else ""
        return f"{self.run.editing_model.name} on {self.run.suite}{dated}"


#: Smallest share of chains ended by a cause for the page to name it.
TELLING = 0.2


def telling(standing: Standing) -> str:
    """Name a cause other than wear that ended many chains; empty if none did.

    For example "the edit was not made in 6 of 18 chains".
    """
    chains, counts = standing.counts.get("chains") or 0, standing.counts.get("causes") or {}
    ends = {name: counts.get(name, 0) for name in CAUSES if name not in CROSSINGS}
    most = max(ends, key=lambda name: ends[name])
    if not chains or ends[most] < TELLING * chains:
        return ""
    return f"{CAUSES[most]} in {ends[most]} of {formatting.count(chains, 'chain')}"


def answer(standing: Standing, trips: int) -> str:
    """Return a sentence on how long an image lasts."""
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
    """A metric on the page; `standing` is None if it was not run."""

    name: str
    label: str
    looks_at: str
    standing: Standing | None
    #: Values on the metric's own scale, at the usual trips.
    values: Sequence[str]


def metric_lines(standings: Mapping[str, Standing], trips: int) -> list[MetricLine]:
    """Return a line for every known metric, run or not, then for unknown ones."""
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
    """Return the metric's own value with its unit, at the usual trips."""
    shown, name = standing.curve.get("shown") or [], standing.metric.name
    values = [shown[n] if n < len(shown) else None for n in ticks(trips)]
    return ["–" if value is None else formatting.own_value(value, name) for value in values]


@dataclass(frozen=True)
class Damage:
    """A line of the table "damage over trips"."""

    number: int
    kept: float | None
    around: str
    jpeg: str
    own: Sequence[str]


def damage(standing: Standing, lines: Sequence[MetricLine], trips: int) -> list[Damage]:
    """Return retention, equivalent JPEG and every metric's value at the usual trips."""
    curve, jpeg = standing.curve, standing.details.get("jpeg", {})
    rows = []
    for place, number in enumerate(ticks(trips)):
        mean, low, high = (
            values[number] if number < len(values := curve.get(name) or ()) else None
            for name in ("mean", "low", "high")
        )
        words = like_jpeg(jpeg[str(number)]) if str(number) in jpeg else "–"
        values_here = [line.values[place] for line in lines if line.standing]
        rows.append(
            Damage(number, mean, formatting.interval(low, high, 100, 0), words, values_here)
        )
    return rows


def jpeg_sentence(standing: Standing, trips: int) -> str:
    """Return "After 5 round trips: like one JPEG save at quality 8."; may be empty."""
    jpeg = standing.details.get("jpeg", {})
    numbers = [n for n in ticks(trips) if str(n) in jpeg]
    if not numbers:
        return ""
    number = 5 if 5 in numbers else numbers[-1]
    if jpeg[str(number)] == LOSSLESS:
        return f"Nothing is lost {formatting.after(number)}: no JPEG save is as good."
    return f"{formatting.after(number).capitalize()}: {like_jpeg(jpeg[str(number)])}."


# How chains end and fail


@dataclass(frozen=True)
class Ending:
    """A chain at its last trip; `trip` is None if it has no image."""

    case: Case
    number: int
    trip: Trip | None

    @property
    def picture(self) -> StoredImage | None:
        """Last image of that trip."""
        return (self.trip.restored or self.trip.edited) if self.trip else None

    @property
    def words(self) -> str:
        return f"{self.case.pair_title}, trip {self.number}"

    @property
    def place(self) -> Sequence[float]:
        """x, y, width and height of the worst region as shares; empty without one."""
        box = self.trip.worst_place if self.trip else None
        if not box:
            return ()
        left, top, right, bottom = box[:4]
        return left, top, right - left, bottom - top


@dataclass(frozen=True)
class Cause:
    """A cause that ended some of the chains, with a few of its endings."""

    name: str
    count: int
    share: float
    endings: Sequence[Ending]

    @property
    def words(self) -> str:
        return CAUSES[self.name]


def shown_endings(standing: Standing) -> Mapping[str, Sequence[Mapping[str, int]]]:
    """Return the case and trip of the endings that the page shows, by cause."""
    endings: Mapping[str, Sequence[Mapping[str, int]]] = standing.details.get("endings") or {}
    return endings


def causes(
    standing: Standing, chains: Mapping[int, Chain], trips: Mapping[int, Mapping[int, Trip]]
) -> list[Cause]:
    """Return the causes that ended the run's chains, the most frequent first.

    `chains` are by case, `trips` by chain and number.
    """
    counts, endings = standing.counts.get("causes") or {}, shown_endings(standing)
    rows = [
        Cause(
            name,
            counts[name],
            counts[name] / standing.counts["chains"],
            [
                Ending(chain.case, row["trip"], trips[chain.pk].get(row["trip"]))
                for row in endings.get(name, ())
                if (chain := chains.get(row["case"]))
            ],
        )
        for name in CAUSES
        if counts.get(name)
    ]
    return sorted(rows, key=lambda cause: -cause.count)


@dataclass(frozen=True)
class Label:
    """A failure label and its number of chains."""

    name: str
    count: int
    share: float

    @property
    def words(self) -> str:
        return LABELS[self.name]


def labels(standing: Standing) -> dict[str, list[Label]]:
    """Return the failure labels of the chains, under the heads of the page's cards."""
    counts, chains = standing.details.get("labels") or {}, standing.counts["chains"]
    rows = [Label(name, counts[name], counts[name] / chains) for name in LABELS if name in counts]
    cards = {
        "What is hit": [label for label in rows if label.name in LEVELS],
        "What is seen": [label for label in rows if label.name not in LEVELS],
    }
    return {title: card for title, card in cards.items() if card}


@dataclass(frozen=True)
class Witnessed:
    """Counts of a witness on a category: "98 % of 42", or a dash without any."""

    category: str
    witness: str
    made: str
    undone: str
    kept: str


def witnessed(standing: Standing) -> list[Witnessed]:
    """Return by category and witness the shares made, undone and kept."""
    by_category: Mapping[str, Mapping[str, Mapping[str, list[int]]]]
    by_category = standing.details.get("witnesses") or {}
    order = list(WITNESSES)
    return [
        Witnessed(
            dict(Category.choices).get(category, category),
            witness_label(name),
            *(_of_judged(counts.get(what)) for what in ("made", "undone", "kept")),
        )
        for category, by_witness in by_category.items()
        for name, counts in sorted(
            by_witness.items(),
            key=lambda item: order.index(item[0]) if item[0] in order else len(order),
        )
    ]


def _of_judged(counts: list[int] | None) -> str:
    if not counts:
        return "–"
    yes, judged = counts
    return f"{formatting.percent(yes / judged)} of {judged:,}"


# By part of the suite


@dataclass(frozen=True)
class PartLine:
    """A part of the suite: its standing by the chosen metric, and its heat cells."""

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
    """Return categories, kinds and pairs; pairs only by the chosen metric."""
    by_part = {(s.scope, s.metric.name): s for s in standings}
    by_scope: dict[str, dict[int, Standing]] = {}
    for standing in standings:
        by_scope.setdefault(standing.scope, {})[standing.metric_id] = standing
    longest = breakdowns.longest(by_scope, trips)
    lines = []
    for part in breakdowns.parts(by_scope, titles):
        shown = [chosen] if part.group == "Edit pair" else names
        # Each metric is its own line: metrics measure different things, so none is the best.
        cells = [
            breakdowns.heat_line([by_part.get((part.scope, name))], longest, trips)[0]
            for name in shown
        ]
        lines.append(PartLine(part, by_part.get((part.scope, chosen)), cells))
    return lines


@dataclass(frozen=True)
class Motion:
    """Content of the dynamics card."""

    contraction: float | None
    path_efficiency: float | None
    limit_retention: float | None
    chains: int
    #: Name, number of chains and description.
    regimes: Sequence[tuple[str, int, str]]
    sentence: str


def motion(details: Mapping[str, Any]) -> Motion | None:
    """Return the dynamics of the chains; None if they were not measured."""
    dynamics = details.get("dynamics") or {}
    counts = dynamics.get("regimes") or {}
    chains = dynamics.get("chains") or sum(counts.values())
    if not chains:
        return None
    regimes = [
        (name, counts[name], f"{verb}: {meaning}")
        for name, (verb, meaning) in REGIMES.items()
        if counts.get(name)
    ]
    regimes.sort(key=lambda regime: (regime[0] == "undetermined", -regime[1]))
    return Motion(
        dynamics.get("contraction"),
        dynamics.get("path_efficiency"),
        dynamics.get("limit_retention"),
        chains,
        regimes,
        _motion_sentence(dynamics, regimes, chains),
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
    """Return a sentence on how the curve falls; empty if undetermined."""
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
    """Return the outcomes of the chains as (name, count, words)."""
    return [(name, counts[name], words) for name, words in OUTCOMES.items() if name in counts]


def repeats_sentence(details: Mapping[str, Any]) -> str:
    """Return a comparison of rerun and case spread; empty without repeats."""
    spread = details.get("repeats") or {}
    rerun, case = spread.get("rerun"), spread.get("case")
    if rerun is None or case is None:
        return ""
    text = (
        f"Played again, the same case ends {rerun:.1f} trips sooner or later (one standard "
        f"deviation); from case to case it is {case:.1f}."
    )
    if whole := rerun**2 + case**2:
        share = formatting.percent(case**2 / whole)
        text += f" So {share} of how chains differ is the case, not luck (intraclass correlation)."
    return text


def reproduce(run: Run) -> str:
    """Return the shell command that plays this run again; empty if impossible."""
    model, suite = run.editing_model, run.suite
    if model.access == EditingModel.Access.ENDPOINT or run.source != Run.Source.OURS:
        return ""
    if run.arm_digest:  # its experiment's page has the file to play it
        return ""
    play = ["convergebench", "run", "--editor", model.slug, "--suite", shell_name(suite)]
    secret = (
        None if run.earlier_secrets else run.published_secret
    )  # one secret plays only a part of the run
    return shlex.join([*play, "--secret", secret] if secret else play)


def shell_name(suite: Suite) -> str:
    """Return the `--suite` argument: a shipped suite's name, else its file."""
    name = suite.key
    return name if suite.content_hash in _shipped() else f"{name}.json"


@cache
def _shipped() -> frozenset[str]:
    """Return the hashes of the suites in the package."""
    return frozenset(suite.content_hash for suite in catalog.suites())


# Number of attempts, and results on sealed suites


@dataclass(frozen=True)
class Tried:
    """Counts for this model, for its address and for its organisation."""

    model: int
    address: int
    organisation: int

    @classmethod
    def count(cls, rows: Iterable[tuple[bool, str, str]], host: str, organisation: str) -> Self:
        """Count rows of (is this model, host, organisation)."""
        rows = list(rows)
        return cls(
            model=sum(is_model for is_model, _, _ in rows),
            address=sum(bool(host) and other == host for _, other, _ in rows),
            organisation=sum(bool(organisation) and who == organisation for *_, who in rows),
        )


@dataclass(frozen=True)
class Tries:
    """Attempts of a model on a suite: the best of many looks better than it is."""

    runs: Tried
    submissions: Tried


def tries(model: EditingModel, suite: Suite) -> Tries:
    """Count all runs on the suite and all submissions for it."""
    ours = Run.objects.as_the_suite_says().filter(suite=suite, source=Run.Source.OURS)
    names = ("editing_model", "editing_model__options__url", "editing_model__organisation")
    runs = [
        (pk == model.pk, host_of(url or ""), who.casefold())
        for pk, url, who in ours.values_list(*names)
    ]
    host, who = next((about for is_model, *about in runs if is_model), ("", ""))
    submitted = Submission.objects.none()
    if host:  # models of providers are not submitted
        submitted = Submission.objects.filter(suite=suite)
    named = model.name.casefold()
    submissions = [
        (pk == model.pk or name.casefold() == named, host_of(url or ""), organisation.casefold())
        for pk, name, url, organisation in submitted.values_list(
            "editing_model", "name", "endpoint_url", "organisation"
        )
    ]
    return Tries(Tried.count(runs, host, who), Tried.count(submissions, host, who))


@dataclass(frozen=True)
class OpenAgainstSealed:
    """Difference between an open and a sealed suite, in shares of N."""

    open: Suite
    sealed: Suite
    difference: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """Return True if the open suite is surely easier for the model.

        The model may then have been trained on its images.
        """
        return self.low > 0


def open_against_sealed(
    runs: Iterable[Run], standings: Mapping[int, Mapping[str, Standing]]
) -> OpenAgainstSealed | None:
    """Return the difference on the most important open and sealed suite.

    Returns None if one of them has no standing. The two suites share no image, so the widths of
    their intervals add as squares.
    """
    by_sealed: dict[bool, tuple[Suite, Standing]] = {}
    for run in runs:
        standing = standings.get(run.pk, {}).get(HEADLINE)
        if run.current and standing and standing.usable_trips_low is not None:
            by_sealed.setdefault(run.suite.sealed, (run.suite, standing))
    if len(by_sealed) < 2:
        return None
    (open_suite, open_standing), (sealed_suite, sealed_standing) = by_sealed[False], by_sealed[True]
    difference = (
        open_standing.usable_trips / open_suite.trips
        - sealed_standing.usable_trips / sealed_suite.trips
    )
    width = math.hypot(
        _half_width(open_standing, open_suite), _half_width(sealed_standing, sealed_suite)
    )
    return OpenAgainstSealed(
        open_suite, sealed_suite, difference, difference - width, difference + width
    )


def _half_width(standing: Standing, suite: Suite) -> float:
    low, high = standing.usable_trips_low or 0.0, standing.usable_trips_high or 0.0
    return (high - low) / 2 / suite.trips
