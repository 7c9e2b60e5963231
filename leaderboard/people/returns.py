"""Returns as they are compared with people: what each metric keeps of them, and what witnesses say."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.metrics import METRICS
from leaderboard.models import Chain, Trip

#: The flags of a witness that speak for a return.
FLAGS = ("undone", "kept")


@dataclass(frozen=True)
class Return:
    """One return of one chain, with all that was measured of it."""

    trip: int
    number: int
    chain: int
    run: int
    case: int
    suite: int
    repeat: int
    model: str
    name: str
    picture: str
    kept: Mapping[str, float]
    evidence: Sequence[Mapping[str, Any]]

    @property
    def headline(self) -> float | None:
        return headline(self.kept)

    def said(self, witness: str) -> dict[str, bool]:
        """What a witness says for or against it, of what it could tell."""
        return {
            flag: bool(one[flag])
            for one in self.evidence
            if one.get("witness") == witness
            for flag in FLAGS
            if one.get(flag) is not None
        }


def headline(kept: Mapping[str, float]) -> float | None:
    """What is kept by the headline, or by the first metric that was run."""
    return next((kept[name] for name in METRICS if name in kept), None)


def returns(trips: Iterable[int]) -> dict[int, Return]:
    """These returns by the keys of their trips; those that are gone are not among them."""
    found = {}
    for keys in _batches(sorted(set(trips))):
        rows = Trip.objects.filter(pk__in=keys).select_related("chain__run__editing_model")
        rows = rows.select_related("chain__case").defer("loss_map", "change_measure", "damage")
        for trip in rows:
            chain: Chain = trip.chain
            model = chain.run.editing_model
            found[trip.pk] = Return(
                trip=trip.pk,
                number=trip.number,
                chain=chain.pk,
                run=chain.run_id,
                case=chain.case_id,
                suite=chain.case.suite_id,
                repeat=chain.repeat,
                model=model.slug,
                name=model.name,
                picture=trip.restored_id or "",
                kept=chain.retentions_after(trip.number),
                evidence=trip.evidence,
            )
    return found


def metric_says(metric: str, first: Return, second: Return) -> float:
    """1 where the first keeps more, -1 for the second, 0 for both alike, NaN where it was not run."""
    if metric not in first.kept or metric not in second.kept:
        return math.nan
    gap = first.kept[metric] - second.kept[metric]
    return float((gap > 0) - (gap < 0))


def witness_says(witness: str, first: Return, second: Return) -> float:
    """1 or -1 where it speaks for one alone; NaN where it cannot tell them apart."""
    one, other = first.said(witness), second.said(witness)
    shared = one.keys() & other.keys()
    gap = sum(one[flag] - other[flag] for flag in shared)
    return float((gap > 0) - (gap < 0)) if gap else math.nan


def _batches(keys: Sequence[int], size: int = 500) -> Iterable[Sequence[int]]:
    return (keys[start : start + size] for start in range(0, len(keys), size))
