"""Content of a model's page, from the standings of one run.

A standing is what one metric says about a run; a chain is all round trips of one case.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

from evaluation.analysis.edit_quality import RUBRIC
from evaluation.analysis.events import CAUSES, CROSSINGS
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD
from evaluation.content import catalog
from evaluation.content.suites import ticks
from evaluation.estimate import duration
from evaluation.measuring.calibration import LOSSLESS
from evaluation.metrics import HEADLINE, METRICS, full_reference_metrics, in_order
from evaluation.records import RANKED_WAYS
from evaluation.witnesses import WITNESSES, witness_label
from leaderboard import formatting
from leaderboard.board import breakdowns
from leaderboard.board.row import judge_sentence
from leaderboard.endpoints import host_of
from leaderboard.models import (
    Chain,
    EditingModel,
    JudgeAnswer,
    PeopleStanding,
    Run,
    Standing,
    Submission,
    Suite,
    Trip,
)
from leaderboard.models.suites import Category
from leaderboard.pages.charts import value_after
from leaderboard.pages.strips import like_jpeg

#: Plain descriptions of the regimes of a chain.
REGIMES = {
    "idempotent": ("settles at once", "the first trip does nearly all of the damage"),
    "contracting": ("settles", "each trip changes it less than the one before"),
    "wandering": ("wanders", "the trips change it as much as before, in changing directions"),
    "drifting": ("drifts", "the trips change it as much as before, always in one direction"),
    "undetermined": ("is unclear", "the trips are too few or too uneven"),
}
OUTCOMES = {
    "completed": "played to the end",
    "known": "stopped when their result was known",
    "converged": "stopped because nothing changed any more",
    "refused": "refused",
    "blank": "ended by a blank image",
    "failed": "ended without a usable answer",
    "lost": "lost through our fault",
    "change_not_seen": "with a trip where no change was seen",
    "reframed": "with a trip that changed the shape of the image",
    "recovered": "fell below the threshold and rose above it again",
}


@dataclass(frozen=True)
class RunResults:
    """A run's standings on all cases, by metric name, and the name of the metric that is shown."""

    run: Run
    standings: Mapping[str, Standing]
    metric: str

    @classmethod
    def for_run(
        cls, run: Run, standings: Mapping[str, Standing] | None = None, metric: str = ""
    ) -> Self | None:
        """Build a run's results by `metric`, or by the first metric that has a standing.

        Returns None if there is no standing yet.
        """
        if standings is None:
            rows = run.standings.filter(scope="all", threshold=DEFAULT_THRESHOLD).select_related(
                "metric"
            )
            standings = {standing.metric.name: standing for standing in rows}
        names = [name for name in METRICS if name in standings]
        if not names:
            return None
        return cls(run, standings, metric if metric in names else names[0])

    @property
    def names(self) -> list[str]:
        return [name for name in METRICS if name in self.standings]

    @property
    def measured(self) -> dict[str, Standing]:
        """The standings by metric, in display order."""
        return {name: self.standings[name] for name in in_order(self.standings)}

    @property
    def by_metric(self) -> dict[str, Standing | None]:
        """The standings by metric; None for metrics that were not run."""
        names = in_order({*full_reference_metrics(), *self.standings})
        return {name: self.standings.get(name) for name in names}

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
NOTABLE_SHARE = 0.2


def notable_cause(standing: Standing) -> str:
    """Return the cause other than wear that ended most chains; empty if it ended few.

    For example "the edit was not made in 6 of 18 chains".
    """
    chains, counts = standing.counts.get("chains") or 0, standing.counts.get("causes") or {}
    ends = {name: counts.get(name, 0) for name in CAUSES if name not in CROSSINGS}
    most = max(ends, key=lambda name: ends[name])
    if not chains or ends[most] < NOTABLE_SHARE * chains:
        return ""
    return f"{CAUSES[most]} in {ends[most]} of {formatting.count(chains, 'chain')}"


def lifetime_sentence(results: RunResults) -> str:
    """State how long an image lasts."""
    trips, usable = results.trips, results.standing.usable_trips
    cause = notable_cause(results.standing)
    ending = f" {cause[:1].upper()}{cause[1:]}." if cause else ""
    if usable >= trips - 0.05:
        return f"Every image is still usable after {formatting.count(trips, 'round trip')}."
    if usable < 0.05:
        return f"No image outlasts its first round trip.{ending}"
    return (
        f"An image stays usable for {usable:.1f} of {formatting.count(trips, 'round trip')} "
        f"on average.{ending}"
    )


def damage(results: RunResults) -> list[dict[str, Any]]:
    """Return a row for each trip that pages show: retention, JPEG, and each metric's value."""
    curve, jpeg = results.standing.curve, results.standing.details.get("jpeg", {})
    rows = []
    for number in ticks(results.trips):
        mean, low, high = (
            value_after(curve.get(name) or (), number) for name in ("mean", "low", "high")
        )
        rows.append(
            {
                "number": number,
                "kept": mean,
                "around": formatting.interval(low, high, 100, 0),
                "jpeg": like_jpeg(jpeg[str(number)]) if str(number) in jpeg else "–",
                "own": [
                    formatting.metric_value(
                        value_after(standing.curve.get("shown") or (), number), name
                    )
                    for name, standing in results.measured.items()
                ],
            }
        )
    return rows


def jpeg_sentence(results: RunResults) -> str:
    """Compare the loss with JPEG: "The loss after 5 … is like one JPEG save at quality 8."."""
    jpeg = results.standing.details.get("jpeg", {})
    numbers = [n for n in ticks(results.trips) if str(n) in jpeg]
    if not numbers:
        return ""
    number = 5 if 5 in numbers else numbers[-1]
    if jpeg[str(number)] == LOSSLESS:
        return (
            f"Nothing is lost {formatting.after_round_trips(number)}; even the best JPEG "
            "loses more."
        )
    return f"The loss {formatting.after_round_trips(number)} is {like_jpeg(jpeg[str(number)])}."


# How chains end


def shown_endings(standing: Standing) -> Mapping[str, Sequence[Mapping[str, int]]]:
    """Return the endings that the page shows, as cases and trips, by cause."""
    endings: Mapping[str, Sequence[Mapping[str, int]]] = standing.details.get("endings") or {}
    return endings


def causes(
    standing: Standing, chains: Mapping[int, Chain], trips: Mapping[int, Mapping[int, Trip]]
) -> list[dict[str, Any]]:
    """Return the causes that ended the run's chains, the most frequent first.

    The keys of `chains` are cases; those of `trips` are chains, then trip numbers.
    """
    counts, endings = standing.counts.get("causes") or {}, shown_endings(standing)
    rows = [
        {
            "name": name,
            "words": CAUSES[name],
            "count": counts[name],
            "share": counts[name] / standing.counts["chains"],
            "endings": [
                _ending(chain, row["trip"], trips[chain.pk].get(row["trip"]))
                for row in endings.get(name, ())
                if (chain := chains.get(row["case"]))
            ],
        }
        for name in CAUSES
        if counts.get(name)
    ]
    return sorted(rows, key=lambda cause: -cause["count"])


def _ending(chain: Chain, number: int, trip: Trip | None) -> dict[str, Any]:
    """Return an ended chain's last image, and the window of the image that lost most."""
    left, top, right, bottom = (trip and trip.window) or [0] * 4
    return {
        "case": chain.case,
        "image": (trip.restored or trip.edited) if trip else None,
        "words": f"{chain.case.pair_title}, trip {number}",
        "place": {"x": left, "y": top, "width": right - left, "height": bottom - top},
    }


def witnessed(standing: Standing) -> list[tuple[str, str, list[str]]]:
    """Return rows of category, witness and shares of trips, as texts such as "98 % of 42".

    The shares are of edits made, of edits undone, and of trips that kept everything else. A
    witness is an automatic check of an edit, such as a detector.
    """
    by_category: Mapping[str, Mapping[str, Mapping[str, list[int]]]]
    by_category = standing.details.get("witnesses") or {}
    order = {name: index for index, name in enumerate(WITNESSES)}
    return [
        (
            dict(Category.choices).get(category, category),
            witness_label(name),
            [_share_of_judged(counts.get(what)) for what in ("made", "undone", "kept")],
        )
        for category, by_witness in by_category.items()
        for name, counts in sorted(
            by_witness.items(), key=lambda item: order.get(item[0], len(order))
        )
    ]


def edit_quality_words(run: Run, standing: Standing) -> str:
    """Describe the judge (a vision-language model) of a run's edits, or estimate its cost."""
    people: PeopleStanding | None = getattr(run, "people", None)
    rated = standing.counts.get(RUBRIC)
    if rated and people and people.judge_share is not None:
        hidden = (
            "" if people.supports_judge else " The rating is not shown: it needs a higher share."
        )
        return judge_sentence(rated["judge"], people) + hidden
    if rated:
        return "A judge model rated the edits, but its agreement with people is not measured yet."
    if not run.progress.chains_total or run.played not in RANKED_WAYS:
        return ""
    needed = JudgeAnswer.objects.estimate(run.progress.chains_total, run.suite.trips)
    price = "" if needed.usd is None else f", about {formatting.usd(needed.usd)},"
    return (
        f"Not judged: a judge model would need up to {needed.edits:,} calls{price} and "
        f"{duration(needed.seconds)}."
    )


def _share_of_judged(counts: list[int] | None) -> str:
    if not counts:
        return "–"
    yes, judged = counts
    return f"{formatting.percent(yes / judged)} of {judged:,}"


# By part of the suite


def part_lines(
    standings: Sequence[Standing], titles: dict[str, str], results: RunResults
) -> list[dict[str, Any]]:
    """Return heat cells for each part of the suite; for edit pairs only by the chosen metric."""
    by_part = {(s.scope, s.metric.name): s for s in standings}
    by_scope: dict[str, dict[int, Standing]] = {}
    for standing in standings:
        by_scope.setdefault(standing.scope, {})[standing.metric_id] = standing
    longest = breakdowns.longest(by_scope, results.trips)
    lines = []
    for part in breakdowns.parts(by_scope, titles):
        shown = [results.metric] if part.group == breakdowns.PAIRS else results.names
        # A line has one cell per metric. Different metrics cannot be compared, so each cell is a
        # line of its own for `heat_line`, and no cell is marked as best.
        cells = [
            breakdowns.heat_line([by_part.get((part.scope, name))], longest, results.trips)[0]
            for name in shown
        ]
        standing_here = by_part.get((part.scope, results.metric))
        lines.append({"part": part, "standing": standing_here, "cells": cells})
    return lines


def chain_dynamics(details: Mapping[str, Any]) -> dict[str, Any] | None:
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
    sentence = _dynamics_sentence(dynamics, regimes, chains)
    return {**dynamics, "regimes": regimes, "sentence": sentence}


def _dynamics_sentence(
    dynamics: Mapping[str, Any], regimes: Sequence[tuple[str, int, str]], chains: int
) -> str:
    limit = dynamics.get("limit_retention")
    if dynamics.get("contraction") == 0 and dynamics.get("path_efficiency") is None:
        return "Nothing changes: every restored image equals its input."
    if not regimes:
        return ""
    name, count, meaning = regimes[0]
    kept = (
        ""
        if limit is None
        else f" After the last trip, the median chain keeps {formatting.percent(max(0, limit))}."
    )
    if name == "undetermined":
        return f"Where chains end up is unclear: the trips are too few or too uneven.{kept}"
    where = "every chain" if count == chains else f"{count} of {chains} chains"
    return f"In {where} the image {meaning}.{kept}"


def outcomes(counts: Mapping[str, int]) -> list[tuple[str, int, str]]:
    """Return the outcomes of the chains as (name, count, description)."""
    return [(name, counts[name], words) for name, words in OUTCOMES.items() if name in counts]


def repeats_sentence(details: Mapping[str, Any]) -> str:
    """Compare the spread between reruns and between cases; empty without repeats."""
    spread = details.get("repeats") or {}
    rerun, case = spread.get("rerun"), spread.get("case")
    if rerun is None or case is None:
        return ""
    text = (
        f"If the same case is played again, its usable trips vary by {rerun:.1f} (one standard "
        f"deviation); between different cases they vary by {case:.1f}."
    )
    if variance := rerun**2 + case**2:
        share = formatting.percent(case**2 / variance)
        text += (
            f" So {share} of the variance is due to the case, not to luck (intraclass correlation)."
        )
    return text


def reproduce(run: Run) -> str:
    """Return the shell command that plays this run again; empty if no such command exists."""
    model, suite = run.editing_model, run.suite
    if model.access == EditingModel.Access.ENDPOINT or run.source != Run.Source.OURS:
        return ""
    if run.arm_digest:  # the experiment's page offers the file that plays it
        return ""
    play = ["convergebench", "run", "--editor", model.slug, "--suite", shell_name(suite)]
    # A run with several secrets cannot be repeated with one.
    secret = None if run.earlier_secrets else run.published_secret
    return shlex.join([*play, "--secret", secret] if secret else play)


def shell_name(suite: Suite) -> str:
    """Return the `--suite` argument: a shipped suite's name, or else the name of a file."""
    name = suite.key
    return name if suite.content_hash in _shipped() else f"{name}.json"


@cache
def _shipped() -> frozenset[str]:
    """Return the content hashes of the suites that ship with the package."""
    return frozenset(suite.content_hash for suite in catalog.suites())


# Number of attempts, and results on sealed suites (whose images are secret)


def count_attempts(model: EditingModel, suite: Suite) -> dict[str, dict[str, int]]:
    """Count a suite's runs and submissions of this model, at its address, of its organisation.

    Readers need these counts, because the best of many attempts overstates a model's quality.
    """
    ours = Run.objects.outside_experiments().filter(suite=suite, source=Run.Source.OURS)
    names = ("editing_model", "editing_model__options__url", "editing_model__organisation")
    runs = [
        (pk == model.pk, host_of(url or ""), organisation.casefold())
        for pk, url, organisation in ours.values_list(*names)
    ]
    host, own_organisation = next((about for is_model, *about in runs if is_model), ("", ""))
    submitted = Submission.objects.none()
    if host:  # only models with an endpoint can be submitted
        submitted = Submission.objects.filter(suite=suite)
    named = model.name.casefold()
    submissions = [
        (pk == model.pk or name.casefold() == named, host_of(url or ""), organisation.casefold())
        for pk, name, url, organisation in submitted.values_list(
            "editing_model", "name", "endpoint_url", "organisation"
        )
    ]
    return {
        name: {
            "model": sum(is_model for is_model, _, _ in rows),
            "address": sum(bool(host) and other == host for _, other, _ in rows),
            "organisation": sum(
                bool(own_organisation) and other == own_organisation for *_, other in rows
            ),
        }
        for name, rows in (("runs", runs), ("submissions", submissions))
    }


def open_against_sealed(
    runs: Iterable[Run], standings: Mapping[int, Mapping[str, Standing]]
) -> dict[str, Any] | None:
    """Compare usable trips, as shares of N, between the first open and the first sealed suite.

    The images of a sealed suite are secret. Returns None if either suite has no standing. The
    suites share no image, so the half-widths of their intervals add in quadrature. `significant`
    is True if the open suite is significantly easier. Then the model may have been trained on the
    open suite's images.
    """
    by_sealed: dict[bool, tuple[Suite, float, float]] = {}
    for run in runs:
        standing = standings.get(run.pk, {}).get(HEADLINE)
        if run.current and standing and standing.usable_trips_low is not None:
            trips = run.suite.trips
            width = ((standing.usable_trips_high or 0.0) - standing.usable_trips_low) / 2
            shares = (run.suite, standing.usable_trips / trips, width / trips)
            by_sealed.setdefault(run.suite.sealed, shares)
    if len(by_sealed) < 2:
        return None
    (open_suite, on_open, open_width), (sealed_suite, on_sealed, sealed_width) = (
        by_sealed[False],
        by_sealed[True],
    )
    difference, width = on_open - on_sealed, math.hypot(open_width, sealed_width)
    return {
        "open": open_suite,
        "sealed": sealed_suite,
        "difference": difference,
        "low": difference - width,
        "high": difference + width,
        "significant": difference > width,
    }
