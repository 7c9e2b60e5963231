"""Sensitivity of no-reference metrics to wear in one run (Banana100's question).

By each metric: the number of restored images of trip 5, 10 and 20 that it rates below the source,
and below the first restored image (as in the paper, so that cropping at the first step does not
count); and its gain while the image is lost, trip by trip.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.metrics.no_reference import (
    WORN,
    ValueScale,
    no_reference_in_order,
    value_scale,
)

DELTAS = (5, 10, 20)
#: The number of example cases stored for each answer.
EXAMPLES = 8
SOURCE, FIRST = "source", "first"


@dataclass(frozen=True)
class QualityChain:
    """One chain: its case for pages, its values from the source on, its retention."""

    case: Any
    #: By metric: the value of the source, then of each restored image; None without a value.
    quality: Mapping[str, Sequence[float | None]]
    #: By restored image, of the headline metric.
    retention: Sequence[float]

    def pair(self, metric: str, begin: int, number: int) -> tuple[float, float] | None:
        """Return the values of two images; None if one is missing."""
        values = self.quality.get(metric, ())
        if len(values) <= number:
            return None
        before, after = values[begin], values[number]
        return None if before is None or after is None else (before, after)


def reported_trips(trips: int) -> list[int]:
    """Return the trips of Banana100 that a suite has, and its last."""
    return sorted({*(n for n in DELTAS if n <= trips), trips})


def no_reference_numbers(
    chains: Sequence[QualityChain], trips: int, pinned: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the numbers on this run's returns, by pinned metric that was run."""
    numbers = {}
    for name in no_reference_in_order(pinned):
        pin = pinned[name]
        about = value_scale(name, pin)
        if about is None or all(c.pair(name, 0, 0) is None for c in chains):
            continue
        numbers[name] = {
            "label": about.label,
            "higher_is_better": about.higher_is_better,
            "version": pin.get("version", ""),
            "imported": "file" in pin,
            # In percent of the usual range; without one, in the metric's own unit.
            "in_points": about.points(0, 0) is not None,
            **_curves(name, about, chains, trips),
            "trips": {
                str(n): {
                    SOURCE: _counted(name, about, chains, 0, n),
                    FIRST: _counted(name, about, chains, 1, n) if n > 1 else None,
                    **_examples(name, about, chains, n),
                }
                for n in reported_trips(trips)
            },
        } | ({"by_kept": _by_kept(chains)} if name == WORN else {})
    return numbers


def _by_kept(chains: Sequence[QualityChain]) -> list[dict[str, Any]]:
    """Count restored images judged and called worn, by range of retention."""
    judged = [
        (chain.retention[n - 1], value)
        for chain in chains
        for n, value in enumerate(chain.quality.get(WORN, ()))
        if n and value is not None and n <= len(chain.retention)
    ]
    rows = []
    for low, high in zip((0.75, 0.5, 0.25, -math.inf), (math.inf, 0.75, 0.5, 0.25), strict=True):
        worn = [value for q, value in judged if low <= q < high]
        least, most = max(low, 0.0), min(high, 1.0)
        rows.append({"least": least, "most": most, "asked": len(worn), "worn": int(sum(worn))})
    return rows


def _gain(about: ValueScale, pair: tuple[float, float]) -> float:
    points = about.points(*pair)
    return about.gained(*pair) if points is None else points


def _curves(
    name: str, about: ValueScale, chains: Sequence[QualityChain], trips: int
) -> dict[str, list[float | None]]:
    """Return mean value, gain since the source and share lost, for n = 0..N."""
    value: list[float | None] = []
    gained: list[float | None] = []
    lost: list[float | None] = []
    for n in range(trips + 1):
        pairs = [(chain, pair) for chain in chains if (pair := chain.pair(name, 0, n))]
        value.append(_mean(pair[1] for _, pair in pairs))
        gained.append(_mean(_gain(about, pair) for _, pair in pairs))
        retentions = [
            1.0 if n == 0 else c.retention[n - 1] for c, _ in pairs if n <= len(c.retention)
        ]
        lost.append(_mean(1 - min(1.0, max(0.0, q)) for q in retentions))
    return {"value": value, "gained": gained, "lost": lost}


def _counted(
    name: str, about: ValueScale, chains: Sequence[QualityChain], begin: int, number: int
) -> dict[str, Any]:
    """Count restored images rated worse and better, with the mean gap."""
    pairs = [pair for chain in chains if (pair := chain.pair(name, begin, number))]
    gains = [about.gained(*pair) for pair in pairs]
    return {
        "restored": len(gains),
        "worse": sum(gain < 0 for gain in gains),
        "better": sum(gain > 0 for gain in gains),
        "gap": _mean(_gain(about, pair) for pair in pairs),
    }


def _examples(
    name: str, about: ValueScale, chains: Sequence[QualityChain], number: int
) -> dict[str, list[Any]]:
    """Return the cases with the largest wrong and the largest right difference."""
    gains: dict[Any, float] = {}
    for chain in chains:
        if pair := chain.pair(name, 0, number):
            gains.setdefault(chain.case, about.gained(*pair))
    better = sorted((case for case in gains if gains[case] > 0), key=lambda case: -gains[case])
    worse = sorted((case for case in gains if gains[case] < 0), key=lambda case: gains[case])
    return {"better_cases": better[:EXAMPLES], "worse_cases": worse[:EXAMPLES]}


def _mean(values: Iterable[float]) -> float | None:
    present = list(values)
    return round(statistics.fmean(present), 4) if present else None


def share(counted: Mapping[str, Any], what: str = "worse") -> float | None:
    """Return the share of the restored images that it rates worse; None without any."""
    return counted[what] / counted["restored"] if counted["restored"] else None
