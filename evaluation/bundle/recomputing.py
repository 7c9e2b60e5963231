"""A bundle's curves, half-lives and intervals, made anew from its scores alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from evaluation.bundle.format import Bundle, ChainLine
from evaluation.statistics.standings import MeasuredChain, Place, ScoredTrip, measured_chain
from evaluation.statistics.standings import standings as compute


def metrics_run(bundle: Bundle) -> list[str]:
    """The metrics that this run was scored by, those that were not run left out."""
    return [name for name, pinned in bundle.document.run.metrics.items() if "missing" not in pinned]


def measured(bundle: Bundle, metric: str) -> list[tuple[ChainLine, MeasuredChain]] | None:
    """Every chain by this metric; None where the metric does not cover what was scored."""
    document, suite = bundle.document, bundle.suite
    calibrations = {row.picture: row for row in document.calibrations if row.metric == metric}
    cases = {case.slug: case for case in suite.cases}
    found = []
    for line in document.chains:
        case = cases[line.case]
        calibration = calibrations.get(case.picture)
        chain = measured_chain(
            Place(
                case.picture,
                case.pair,
                suite.pair_by_slug[case.pair].category,
                suite.picture_by_slug[case.picture].kind,
                line.repeat,
            ),
            line.outcome,
            [
                ScoredTrip(
                    trip.number,
                    trip.step is not None,
                    trip.scores.get(metric),
                    trip.change_seen,
                    trip.reframed,
                    trip.step,
                    trip.from_source,
                )
                for trip in line.trips
            ],
            calibration.blank if calibration else None,
            calibration.ladder if calibration else {},
        )
        if chain is None:
            return None
        found.append((line, chain))
    return found


def standings(
    metric: str, chains: Sequence[MeasuredChain], trips: int
) -> Iterator[tuple[tuple[str, float, str], dict[str, Any]]]:
    """Every standing of a run by this metric: (metric, level, scope) and its numbers."""
    for found in compute(metric, chains, trips):
        # As JSON gives it back: tuples are lists there.
        yield (metric, found.level, found.scope), json.loads(json.dumps(found.numbers))
