"""Do no-reference metrics notice the wear in a run? (The question of the Banana100 paper.)

A no-reference metric rates an image without comparing it with the source. For each such metric, we
count the restored images of trips 5, 10 and 20 that are rated below the source, and those rated
below the first restored image. The second count follows the paper and ignores what the first trip
changes, such as cropping. Curves show the metric's values from trip to trip, together with the loss
by the headline metric.
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
#: The number of example cases stored for each comparison.
EXAMPLES = 8
SOURCE, FIRST = "source", "first"


@dataclass(frozen=True)
class QualityChain:
    """One chain: its case, its values by no-reference metrics, its retention."""

    case: Any
    #: For each metric, the values of the source and each restored image; None if not measured.
    quality: Mapping[str, Sequence[float | None]]
    #: The headline metric's retention of each restored image.
    retention: Sequence[float]

    def pair(self, metric: str, begin: int, number: int) -> tuple[float, float] | None:
        """Return the values of images `begin` and `number` (0: source); None if one is missing."""
        values = self.quality.get(metric, ())
        if len(values) <= number:
            return None
        before, after = values[begin], values[number]
        return None if before is None or after is None else (before, after)


def reported_trips(trips: int) -> list[int]:
    """Return the trips to report: the trips of Banana100 that the suite has, and the last trip."""
    return sorted({*(n for n in DELTAS if n <= trips), trips})


def no_reference_numbers(
    chains: Sequence[QualityChain], trips: int, pinned: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the results of each no-reference metric that measured at least one source image.

    `pinned` has the run's metrics with their versions.
    """
    numbers = {}
    for name in no_reference_in_order(pinned):
        pin = pinned[name]
        scale = value_scale(name, pin)
        if scale is None or all(c.pair(name, 0, 0) is None for c in chains):
            continue
        numbers[name] = {
            "label": scale.label,
            "higher_is_better": scale.higher_is_better,
            "version": pin.get("version", ""),
            "imported": "file" in pin,
            # True: gains are in percent of the usual range; False: in the metric's own unit.
            "in_points": scale.points(0, 0) is not None,
            **_curves(name, scale, chains, trips),
            "trips": {
                str(n): {
                    SOURCE: _count_rated(name, scale, chains, 0, n),
                    FIRST: _count_rated(name, scale, chains, 1, n) if n > 1 else None,
                    **_examples(name, scale, chains, n),
                }
                for n in reported_trips(trips)
            },
        } | ({"by_kept": _worn_by_retention(chains)} if name == WORN else {})
    return numbers


def _worn_by_retention(chains: Sequence[QualityChain]) -> list[dict[str, Any]]:
    """Count restored images by range of retention: those judged, and those judged worn."""
    answers = [
        (chain.retention[n - 1], value)
        for chain in chains
        for n, value in enumerate(chain.quality.get(WORN, ()))
        if n and value is not None and n <= len(chain.retention)
    ]
    rows = []
    for low, high in zip((0.75, 0.5, 0.25, -math.inf), (math.inf, 0.75, 0.5, 0.25), strict=True):
        worn = [value for q, value in answers if low <= q < high]
        least, most = max(low, 0.0), min(high, 1.0)
        rows.append({"least": least, "most": most, "asked": len(worn), "worn": int(sum(worn))})
    return rows


def _gain(scale: ValueScale, pair: tuple[float, float]) -> float:
    points = scale.points(*pair)
    return scale.gained(*pair) if points is None else points


def _curves(
    name: str, scale: ValueScale, chains: Sequence[QualityChain], trips: int
) -> dict[str, list[float | None]]:
    """Return, for n = 0..N, the mean value, the mean gain over the source and the mean loss."""
    value: list[float | None] = []
    gained: list[float | None] = []
    lost: list[float | None] = []
    for n in range(trips + 1):
        pairs = [(chain, pair) for chain in chains if (pair := chain.pair(name, 0, n))]
        value.append(_mean(pair[1] for _, pair in pairs))
        gained.append(_mean(_gain(scale, pair) for _, pair in pairs))
        retentions = [
            1.0 if n == 0 else c.retention[n - 1] for c, _ in pairs if n <= len(c.retention)
        ]
        lost.append(_mean(1 - min(1.0, max(0.0, q)) for q in retentions))
    return {"value": value, "gained": gained, "lost": lost}


def _count_rated(
    name: str, scale: ValueScale, chains: Sequence[QualityChain], begin: int, number: int
) -> dict[str, Any]:
    """Count restored images rated worse and better than image `begin`; add the mean gain."""
    pairs = [pair for chain in chains if (pair := chain.pair(name, begin, number))]
    gains = [scale.gained(*pair) for pair in pairs]
    return {
        "restored": len(gains),
        "worse": sum(gain < 0 for gain in gains),
        "better": sum(gain > 0 for gain in gains),
        "gap": _mean(_gain(scale, pair) for pair in pairs),
    }


def _examples(
    name: str, scale: ValueScale, chains: Sequence[QualityChain], number: int
) -> dict[str, list[Any]]:
    """Return the cases whose restored image is rated furthest above the source, and below it."""
    gains: dict[Any, float] = {}
    for chain in chains:
        if pair := chain.pair(name, 0, number):
            gains.setdefault(chain.case, scale.gained(*pair))
    better = sorted((case for case in gains if gains[case] > 0), key=lambda case: -gains[case])
    worse = sorted((case for case in gains if gains[case] < 0), key=lambda case: gains[case])
    return {"better_cases": better[:EXAMPLES], "worse_cases": worse[:EXAMPLES]}


def _mean(values: Iterable[float]) -> float | None:
    present = list(values)
    return round(statistics.fmean(present), 4) if present else None


def share(counted: Mapping[str, Any], rating: str = "worse") -> float | None:
    """Return the share of restored images with this rating; None without restored images."""
    return counted[rating] / counted["restored"] if counted["restored"] else None
