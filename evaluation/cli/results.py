"""Results of a run by metric, computed from the run's scores: as records and as tables.

The headline is the metric that ranks runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from evaluation.analysis.covariance import Interval
from evaluation.analysis.events import ChainResult, Event, event
from evaluation.analysis.half_life import Summary, shown_half_life
from evaluation.analysis.no_reference import share
from evaluation.analysis.ranking import Bounds, Placing, board
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD, life
from evaluation.cli.printing import table
from evaluation.content.suites import Suite
from evaluation.metrics import in_order, metric_class
from evaluation.play.run_folder import chain_slug
from evaluation.play.run_scores import RunScores


@dataclass(frozen=True)
class MetricResult:
    """The result of a run by one metric; `events` are by chain, in the run's order."""

    metric: str
    label: str
    version: str
    trips: int
    summary: Summary
    bounds: Bounds
    events: Mapping[str, Event]

    @property
    def half_life_interval(self) -> str:
        return interval_text(self.bounds.half_life, self.trips)


#: The results of a run by metric, the headline metric first.
Results = Mapping[str, MetricResult]


class Rank(BaseModel):
    """The rank of a run among the compared runs."""

    run: str
    rank: int | None
    rank_set: tuple[int, int] | None = Field(
        description="The lowest and the highest possible rank."
    )
    metric: str
    usable_trips: float | None
    half_life: float | None = Field(description="None if longer than the suite can measure.")
    interval: Interval | None
    shown: str
    interval_shown: str
    complete: bool


class Strict(BaseModel):
    """A part of an output; unknown fields are forbidden."""

    model_config = ConfigDict(extra="forbid")


class RestoredVerdicts(Strict):
    """The verdicts of a no-reference metric on the restored images of one trip."""

    restored: int
    worse: int
    better: int
    gap: float | None = Field(
        description="Mean difference; above 0 if the metric prefers the restored images."
    )


class TripVerdicts(Strict):
    """The restored images of one trip, compared with the source and the first restored image."""

    source: RestoredVerdicts = Field(description="Compared with the source.")
    first: RestoredVerdicts | None = Field(description="Compared with the first restored image.")
    better_cases: list[str]
    worse_cases: list[str]


class NoReference(Strict):
    """The results of a no-reference metric, which rates an image without its source.

    Each list has an entry for every trip 0..N.
    """

    label: str
    higher_is_better: bool
    version: str
    imported: bool = Field(description="True if the values were imported from a score file.")
    in_points: bool = Field(
        description="True if gaps are in hundredths of the metric's usual range, false if they are "
        "in the metric's own unit."
    )
    value: list[float | None] = Field(description="Mean over chains.")
    gained: list[float | None] = Field(
        description="Mean change since the source; above 0 is better."
    )
    lost: list[float | None] = Field(description="Mean loss by the headline metric: 1 - retention.")
    trips: dict[str, TripVerdicts]
    by_kept: list[dict[str, float]] = Field(
        default=[],
        description="Only for the judge: by range of retention, how many restored images it judged "
        "and how many of these it called worn.",
    )


def run_results(suite: Suite, scores: RunScores, threshold: float = DEFAULT_THRESHOLD) -> Results:
    """Return the results of one run, the headline metric first.

    Leaves out metrics that were not run, and metrics by which a stopped chain was still usable.
    """
    results = {}
    for metric in in_order(scores.metrics):
        chains = conclusive_chains(suite, scores, metric, threshold)
        if not chains:
            continue
        (placing,) = board({"run": chains}, suite.trips, threshold, keys=_keys(suite, scores))
        results[metric] = _result(metric, suite.trips, placing, chains, threshold)
    return results


def _result(
    metric: str, trips: int, placing: Placing, chains: list[ChainResult], threshold: float
) -> MetricResult:
    kind = metric_class(metric)
    events = {
        chain_slug(str(chain.case), chain.repeat): event(chain, trips, threshold)
        for chain in chains
    }
    return MetricResult(
        metric, kind.label, kind().running_version, trips, placing.summary, placing.bounds, events
    )


def compare_runs(
    suite: Suite, runs: Mapping[str, RunScores], metric: str, threshold: float = DEFAULT_THRESHOLD
) -> list[Placing]:
    """Compare runs of one suite by a shared metric, in the board's order."""
    chains = {
        name: conclusive_chains(suite, scores, metric, threshold) for name, scores in runs.items()
    }
    if not all(chains.values()):
        return []
    keys = {key for scores in runs.values() for key in _keys(suite, scores)}
    return board(chains, suite.trips, threshold, keys=keys)


def conclusive_chains(
    suite: Suite, scores: RunScores, metric: str, threshold: float = DEFAULT_THRESHOLD
) -> list[ChainResult]:
    """Return the run's chains; empty if a chain was stopped while usable by this metric."""
    chains = scores.results(suite, metric)
    return chains if all(chain.is_decided(suite.trips, threshold) for chain in chains) else []


def ranks(suite: Suite, runs: Mapping[str, RunScores]) -> list[Rank]:
    """Rank the runs by the first metric that all of them have."""
    for metric in in_order(set.intersection(*(set(scores.metrics) for scores in runs.values()))):
        if placings := compare_runs(suite, runs, metric):
            return [
                Rank(
                    run=placing.run,
                    rank=placing.rank,
                    rank_set=placing.rank_set,
                    metric=metric,
                    usable_trips=placing.summary.usable_trips,
                    half_life=placing.summary.half_life,
                    interval=placing.bounds.half_life,
                    shown=shown_half_life(placing.summary.half_life, suite.trips),
                    interval_shown=interval_text(placing.bounds.half_life, suite.trips),
                    complete=placing.complete,
                )
                for placing in placings
            ]
    return []


def _keys(suite: Suite, scores: RunScores) -> list[tuple[str, str, int]]:
    """Return the keys of all chains that a run with these scores should have."""
    return [
        (case.image, case.pair, repeat)
        for case in suite.cases
        for repeat in range(scores.repeats or suite.repeats_of(case))
    ]


def interval_text(interval: Interval | None, trips: int) -> str:
    """Format an interval: "3.1 – 5.0", "3.1 – > 20"; a dash if the interval is None."""
    if interval is None:
        return "-"
    return f"{shown_half_life(interval.low, trips)} – {shown_half_life(interval.high, trips)}"


# Tables.


def results_table(results: Results) -> str:
    """Format the results of one run, a row for each metric."""
    if not results:
        return (
            "No metric can be computed for these chains: their source images are a single colour."
        )
    head = ["metric", life().lower(), "95 % interval", "usable trips", "AUC", "after 1", "after N"]
    rows = [
        [
            result.label,
            shown_half_life(result.summary.half_life, result.trips),
            result.half_life_interval,
            _number(result.summary.usable_trips),
            _number(result.summary.auc, 3),
            _number(result.summary.curve[1], 3),
            _number(result.summary.curve[-1], 3),
        ]
        for result in results.values()
    ]
    summary = next(iter(results.values())).summary
    seen = summary.change_seen
    lines = [
        table(head, rows),
        "",
        f"{_count(summary.cases, 'case')}, {_count(summary.chains, 'chain')} of "
        f"{_count(summary.trips, 'trip')}; "
        f"visible edits in {'no judged trip' if seen is None else f'{seen:.0%} of judged trips'}; "
        + ", ".join(f"{count} {name}" for name, count in summary.outcomes.items() if count),
        '"after n" is retention: 1 = identical, 0 = no better than a blank card',
    ]
    if summary.outcomes["known"]:
        lines.append(
            "chains were stopped once their result was known: usable trips and half-life equal "
            "those of a full run, but AUC, the end of the curve and slower metrics are unknown"
        )
    return "\n".join(lines)


def ranks_table(ranked: Sequence[Rank]) -> str:
    """Format several runs of one suite, in the board's order."""
    if not ranked:
        return "No metric could be computed for all of these runs."
    label = metric_class(ranked[0].metric).label
    head = ["rank", "run", f"{life().lower()} ({label})", "95 % interval", "usable trips"]
    rows = [
        [
            "-" if row.rank is None else str(row.rank),
            row.run,
            row.shown,
            row.interval_shown,
            _number(row.usable_trips),
        ]
        for row in ranked
    ]
    return table(head, rows)


def no_reference_table(numbers: Mapping[str, Mapping[str, Any]]) -> str:
    """Format no-reference metrics, with the loss of the image for comparison."""
    trips = sorted({int(n) for metric in numbers.values() for n in metric["trips"]})
    head = ["no-reference metric", "source", f"trip {trips[-1]}", "image lost"]
    head += [f"called worse at {n}" for n in trips]
    rows = []
    for metric in numbers.values():
        shares = [metric["lost"][-1]]
        shares += [share(metric["trips"][str(n)]["source"]) for n in trips]
        rows.append(
            [
                f"{metric['label']} "
                f"({'higher' if metric['higher_is_better'] else 'lower'} is better)",
                _number(metric["value"][0], 2),
                _number(metric["value"][-1], 2),
                *("–" if part is None else f"{part:.0%}" for part in shares),
            ]
        )
    return table(head, rows)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
