"""From the scores in a bundle's lines to its chains' results and its standings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from evaluation.analysis.events import Case
from evaluation.analysis.standings import MeasuredChain, ScoredTrip, measured_chain
from evaluation.bundle.format import CalibrationLine, ChainLine
from evaluation.content.suites import Suite
from evaluation.metrics import METRICS, metric_class

#: A side of a picture.
MOST_PIXELS = 65_536


def measured(
    suite: Suite,
    metric: str,
    calibrations: Mapping[str, CalibrationLine],
    chains: Sequence[ChainLine],
) -> list[tuple[ChainLine, MeasuredChain]] | None:
    """Every chain that this metric speaks of; None where it does not cover what was scored.

    `calibrations` are the metric's own, by picture. KeyError for a case that the suite has not.
    """
    cases = {case.slug: case for case in suite.cases}
    selective = metric in METRICS and metric_class(metric).selective
    found = []
    for line in chains:
        case = cases[line.case]
        pair, kind = suite.pair_by_slug[case.pair], suite.picture_by_slug[case.picture].kind
        calibration = calibrations.get(case.picture)
        if calibration is None and selective:
            continue  # such as identity, where there is no face
        chain = measured_chain(
            metric,
            Case(case.picture, case.pair, pair.category, kind),
            line.repeat,
            line.outcome,
            [
                ScoredTrip(t.number, t.scores.get(metric), t, scored=t.step is not None)
                for t in line.trips
            ],
            calibration.blank if calibration else None,
            calibration.ladder if calibration else {},
            suite.trips,
        )
        if chain is None:
            return None
        found.append((line, chain))
    return found or None


def without_names(found: Mapping[str, Any]) -> dict[str, Any]:
    """How much is kept, without which metric and which place keep least, but that these are some."""
    kept = dict(found)
    if "because" in kept:
        kept["because"] = kept["because"] in ("", *METRICS)
    if place := kept.get("worst_place"):
        inside = all(0 <= side <= MOST_PIXELS for side in place[:-1])
        kept["worst_place"] = [len(place), inside, place[-1]]
    return kept


def as_kept(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON gives it back: tuples are lists there."""
    kept: dict[str, Any] = json.loads(json.dumps(numbers))
    return kept
