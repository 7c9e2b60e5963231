"""From a run's scores to the numbers people read, by metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from evaluation.analysis.covariance import Interval
from evaluation.analysis.events import ChainResult, Event, event
from evaluation.analysis.half_life import Summary, shown_half_life
from evaluation.analysis.levels import DEFAULT_LEVEL
from evaluation.analysis.ranking import Bounds, Placing, board
from evaluation.content.suites import Suite
from evaluation.metrics import in_order, metric_class
from evaluation.play.run_folder import chain_slug
from evaluation.play.run_scores import RunScores

shown = shown_half_life


@dataclass(frozen=True)
class MetricResult:
    """One run by one metric; `events` by chain, in the run's order."""

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

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def run_results(
    suite: Suite, scores: RunScores, level: float = DEFAULT_LEVEL
) -> dict[str, MetricResult]:
    """The results of one run, the headline first.

    A metric that was not run is not there, nor one that chains were stopped before: what it
    would say of them is not known.
    """
    found = {}
    for metric in in_order(scores.metrics):
        chains = told(suite, scores, metric, level)
        if not chains:
            continue
        (placing,) = board({"run": chains}, suite.trips, level, keys=keys(suite, scores))
        found[metric] = _result(metric, suite.trips, placing, chains, level)
    return found


def compared(
    suite: Suite, runs: Mapping[str, RunScores], metric: str, level: float = DEFAULT_LEVEL
) -> list[Placing]:
    """Several runs of one suite in the board's order, by a metric that all of them have."""
    chains = {name: told(suite, scores, metric, level) for name, scores in runs.items()}
    if not all(chains.values()):
        return []
    asked = {key for scores in runs.values() for key in keys(suite, scores)}
    return board(chains, suite.trips, level, keys=asked)


def told(
    suite: Suite, scores: RunScores, metric: str, level: float = DEFAULT_LEVEL
) -> list[ChainResult]:
    """The run's chains; none where the end of one is not known by this metric."""
    chains = scores.results(suite, metric)
    return chains if all(chain.tells(suite.trips, level) for chain in chains) else []


def ranks(suite: Suite, runs: Mapping[str, RunScores]) -> list[dict[str, Any]]:
    """The runs in the board's order by the first metric that all of them have, ready for JSON."""
    for metric in in_order(set.intersection(*(set(scores.metrics) for scores in runs.values()))):
        if placings := compared(suite, runs, metric):
            return [
                {
                    "run": placing.run,
                    "rank": placing.rank,
                    "rank_set": placing.rank_set,
                    "metric": metric,
                    "usable_trips": placing.summary.usable_trips,
                    "half_life": placing.summary.half_life,
                    "interval": placing.bounds.half_life and asdict(placing.bounds.half_life),
                    "shown": shown(placing.summary.half_life, suite.trips),
                    "interval_shown": interval_text(placing.bounds.half_life, suite.trips),
                    "complete": placing.complete,
                }
                for placing in placings
            ]
    return []


def keys(suite: Suite, scores: RunScores) -> list[tuple[str, str, int]]:
    """Every chain that the run of these scores was asked for."""
    return [
        (case.picture, case.pair, repeat)
        for case in suite.cases
        for repeat in range(scores.repeats or suite.repeats_of(case))
    ]


def interval_text(interval: Interval | None, trips: int) -> str:
    """ "3.1 – 5.0", "3.1 – > 20"; a dash where the pictures are too few for one."""
    if interval is None:
        return "-"
    return f"{shown(interval.low, trips)} – {shown(interval.high, trips)}"


def _result(
    metric: str, trips: int, placing: Placing, chains: list[ChainResult], level: float
) -> MetricResult:
    kind = metric_class(metric)
    events = {
        chain_slug(str(chain.case), chain.repeat): event(chain, trips, level) for chain in chains
    }
    return MetricResult(
        metric, kind.label, kind.version, trips, placing.summary, placing.bounds, events
    )
