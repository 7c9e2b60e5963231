"""A model's page: standings of one run in, what is said of them out."""

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
        """Return the results by this metric, else by the first there is; None before any."""
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


#: The share of chains from which on a cause is part of how long a model lasts.
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
    """Say how long an image lasts in one sentence, true at both ends of the scale."""
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


# How chains end and fail


@dataclass(frozen=True)
class Ending:
    """A chain at the trip where it ended; `trip` is None if nothing came back."""

    case: Case
    number: int
    trip: Trip | None

    @property
    def picture(self) -> StoredImage | None:
        """The last picture there is of that trip."""
        return (self.trip.restored or self.trip.edited) if self.trip else None

    @property
    def words(self) -> str:
        return f"{self.case.pair_title}, trip {self.number}"

    @property
    def place(self) -> Sequence[float]:
        """x, y, width and height of the worst region as shares; empty if there is none."""
        box = self.trip.worst_place if self.trip else None
        if not box:
            return ()
        left, top, right, bottom = box[:4]
        return left, top, right - left, bottom - top


@dataclass(frozen=True)
class Cause:
    """A cause that ended some of the chains, with a few of them."""

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
    """Return what ended the run's chains, the most frequent first, each with a few endings.

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
    """One way to fail, and how many chains failed so."""

    name: str
    count: int
    share: float

    @property
    def words(self) -> str:
        return LABELS[self.name]


def labels(standing: Standing) -> dict[str, list[Label]]:
    """Return how the chains fail, under the heads of the page's two cards."""
    counts, chains = standing.details.get("labels") or {}, standing.counts["chains"]
    rows = [Label(name, counts[name], counts[name] / chains) for name in LABELS if name in counts]
    cards = {
        "What is hit": [label for label in rows if label.name in LEVELS],
        "What is seen": [label for label in rows if label.name not in LEVELS],
    }
    return {title: card for title, card in cards.items() if card}


@dataclass(frozen=True)
class Witnessed:
    """One witness on one category: "98 % of 42", or a dash if it could not tell."""

    category: str
    witness: str
    made: str
    undone: str
    kept: str


def witnessed(standing: Standing) -> list[Witnessed]:
    """Return by category and witness how often the edit was made and undone, the rest kept."""
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
    """Summarise the dynamics of the chains; None if they were not measured."""
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
    """Describe how the curve falls; empty if its shape is undetermined."""
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
    """Compare rerun spread with case spread; empty if cases are played once."""
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
    """Return the `--suite` argument: a shipped suite's name, else its file."""
    name = suite.key
    return name if suite.content_hash in _shipped() else f"{name}.json"


@cache
def _shipped() -> frozenset[str]:
    """Hashes of the suites that come with the package."""
    return frozenset(suite.content_hash for suite in catalog.suites())


# How often it was tried, and how it does on sealed suites


@dataclass(frozen=True)
class Tried:
    """Counts for this model, all at its address, all of its organisation."""

    model: int
    address: int
    organisation: int

    @classmethod
    def count(cls, rows: Iterable[tuple[bool, str, str]], host: str, organisation: str) -> Self:
        """Of rows that say whether it was this model, at which host and whose."""
        rows = list(rows)
        return cls(
            model=sum(own for own, _, _ in rows),
            address=sum(bool(host) and other == host for _, other, _ in rows),
            organisation=sum(bool(organisation) and who == organisation for *_, who in rows),
        )


@dataclass(frozen=True)
class Tries:
    """Tries of a model on a suite: the best of many looks better than it is."""

    runs: Tried
    submissions: Tried


def tries(model: EditingModel, suite: Suite) -> Tries:
    """Runs on the suite, and submissions for it, whatever became of them."""
    ours = Run.objects.as_the_suite_says().filter(suite=suite, source=Run.Source.OURS)
    names = ("editing_model", "editing_model__options__url", "editing_model__organisation")
    runs = [
        (pk == model.pk, host_of(url or ""), who.casefold())
        for pk, url, who in ours.values_list(*names)
    ]
    host, who = next((about for own, *about in runs if own), ("", ""))
    submitted = Submission.objects.none()
    if host:  # models of providers are submitted by nobody
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
        """True if the open suite is surely easier: the model may know its images."""
        return self.low > 0


def open_against_sealed(
    runs: Iterable[Run], standings: Mapping[int, Mapping[str, Standing]]
) -> OpenAgainstSealed | None:
    """The difference on the most important suites of both kinds; None where one is lacking.

    The two have no picture in common, so the widths of their intervals add as squares.
    """
    found: dict[bool, tuple[Suite, Standing]] = {}
    for run in runs:
        standing = standings.get(run.pk, {}).get(HEADLINE)
        if run.current and standing and standing.usable_trips_low is not None:
            found.setdefault(run.suite.sealed, (run.suite, standing))
    if len(found) < 2:
        return None
    (open_suite, one), (sealed_suite, other) = found[False], found[True]
    difference = one.usable_trips / open_suite.trips - other.usable_trips / sealed_suite.trips
    width = math.hypot(_half_width(one, open_suite), _half_width(other, sealed_suite))
    return OpenAgainstSealed(
        open_suite, sealed_suite, difference, difference - width, difference + width
    )


def _half_width(standing: Standing, suite: Suite) -> float:
    low, high = standing.usable_trips_low or 0.0, standing.usable_trips_high or 0.0
    return (high - low) / 2 / suite.trips
