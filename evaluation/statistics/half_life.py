"""Retention curves in; usable trips, half-life, AUC, mean curve and causes of the end out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.statistics.case_values import CaseValues, values_of
from evaluation.statistics.events import (
    CAUSES,
    COMPLETED,
    CONVERGED,
    OUTCOMES,
    ChainResult,
    check,
    events_of,
)
from evaluation.statistics.levels import DEFAULT_LEVEL
from evaluation.statistics.survival import Survival

METHOD_VERSION = "2"
# Usable trips of N where the half-life is N itself, with room for a rounding.
LONGEST = 0.5 / math.log(2) + 1e-12


@dataclass(frozen=True)
class Summary:
    """What a set of chains says at one level; ready for JSON: no NaN, no infinity.

    `usable_trips` None = nothing was measured. `auc` None, and `curve` from some trip on:
    chains were stopped there, because their end was known. `half_life` None = longer than `trips`
    ("> N"), `median` None = fewer than half of the cases ended. At n = 0..N: `curve` =
    mean retention, `survival` = share of cases still usable, `incidence` = share ended by
    each cause (they sum to 1 with survival), `usable_by_trip` = usable trips of the first
    n. `causes` counts the chains that each cause ended, `outcomes` how chains ended within
    `trips`; `reframed`, `recovered` and `change_not_seen` count the chains where it happened
    at any trip. `change_seen` is the share of judged trips on which the change was seen,
    `edits_made` and `edits_undone` those in which witnesses saw the thing asked for come
    and go.
    """

    trips: int
    level: float
    cases: int
    chains: int
    usable_trips: float | None
    half_life: float | None
    median: float | None
    auc: float | None
    curve: tuple[float | None, ...]
    survival: tuple[float | None, ...]
    usable_by_trip: tuple[float | None, ...]
    incidence: dict[str, tuple[float | None, ...]]
    causes: dict[str, int]
    outcomes: dict[str, int]
    censored: int
    reframed: int
    recovered: int
    change_not_seen: int
    change_seen: float | None
    edits_made: float | None = None
    edits_undone: float | None = None


def half_life(usable: float, trips: int) -> float | None:
    """The half-life of the exponential decay that is usable for as long within `trips`.

    Solves U = (h / ln 2)(1 - 2^(-N/h)); None where h > N: more than the suite can tell.
    """
    share = usable / trips
    if share > LONGEST:
        return None
    if share < 1e-3:  # exp(-1000) is nothing
        return max(0.0, usable) * math.log(2)
    # x = N ln 2 / h solves 1 - exp(-x) = share * x. Newton from the right: 1/share is
    # beyond the root and the curve is concave, so the steps never overshoot.
    x = 1 / share
    for _ in range(100):
        step = (-math.expm1(-x) - share * x) / (math.exp(-x) - share)
        x -= step
        if abs(step) <= 1e-14 * x:
            break
    return min(trips * math.log(2) / x, float(trips))


def shown_half_life(half_life: float | None, trips: int) -> str:
    """As people read it: "7.3", or "> 20" where it is longer than the suite."""
    return f"> {trips}" if half_life is None else f"{half_life:.1f}"


def summarise(chains: Sequence[ChainResult], trips: int, level: float = DEFAULT_LEVEL) -> Summary:
    """Usable trips, half-life, AUC, mean curve, causes and counts of these chains."""
    return summary_and_values(chains, trips, level)[0]


def summary_and_values(
    chains: Sequence[ChainResult], trips: int, level: float = DEFAULT_LEVEL
) -> tuple[Summary, CaseValues]:
    """The summary with the values of the cases it is the mean of."""
    check(chains, trips)
    events = events_of(chains, trips, level)
    played = [chain for chain in chains if chain.played]
    of_played = [found for chain, found in zip(chains, events, strict=True) if chain.played]
    values = values_of(played, of_played, trips)
    survival = Survival.of(played, of_played, trips)
    numbers = np.arange(trips + 1.0)
    usable = survival.usable_trips(trips) if played else None
    incidence = survival.incidence(numbers)
    causes = Counter(found.cause for found in events)
    ends = Counter(
        c.outcome if len(c.retention) < trips or c.outcome == CONVERGED else COMPLETED
        for c in chains
    )

    def share(flags: Iterable[Sequence[bool | None]]) -> float | None:
        judged = [flag for of_chain in flags for flag in of_chain[:trips] if flag is not None]
        return sum(judged) / len(judged) if judged else None

    def known(values: Iterable[float]) -> tuple[float | None, ...]:
        return tuple(float(value) if played and math.isfinite(value) else None for value in values)

    summary = Summary(
        trips=trips,
        level=level,
        cases=len({chain.case for chain in chains}),
        chains=len(chains),
        usable_trips=usable,
        half_life=None if usable is None else half_life(usable, trips),
        median=survival.median if played else None,
        auc=known([float(values.design.mean(values.auc))])[0],
        curve=known(values.design.mean(values.curve)),
        survival=known(survival.at(numbers)),
        usable_by_trip=known(map(survival.usable_trips, numbers)),
        incidence={cause: known(shares) for cause, shares in incidence.items()},
        causes={cause: causes[cause] for cause in CAUSES},
        outcomes={outcome: ends[outcome] for outcome in OUTCOMES},
        censored=causes[None],
        reframed=sum(any(chain.reframed[:trips]) for chain in chains),
        recovered=sum(found.recovered for found in events),
        change_not_seen=sum(False in chain.change_seen[:trips] for chain in chains),
        change_seen=share(chain.change_seen for chain in chains),
        edits_made=share(chain.edits_made for chain in chains),
        edits_undone=share(chain.edits_undone for chain in chains),
    )
    return summary, values


def survival_steps(
    chains: Sequence[ChainResult], trips: int, level: float = DEFAULT_LEVEL
) -> tuple[list[float], list[float]]:
    """The whole survival curve for drawing: its times, and the share that is usable from each on."""
    played = [chain for chain in chains if chain.played]
    return Survival.of(played, events_of(played, trips, level), trips).steps()
