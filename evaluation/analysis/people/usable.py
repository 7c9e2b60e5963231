"""When people no longer use a picture: the retention at which half of them say no, and the
half-life that their votes give by the same survival code as any metric's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluation.analysis.covariance import CONFIDENCE, SEED, t_quantile
from evaluation.analysis.events import BROKEN, COMPLETED, LOST, ChainResult
from evaluation.analysis.half_life import half_life, summary_and_values
from evaluation.analysis.people.ballots import (
    Ballots,
    Bools,
    Ints,
    bounds,
    redrawn,
)
from evaluation.analysis.survival import Floats

#: Holds the slope of a curve where yes and no part without a single exception.
RIDGE = 1e-2
LEAST_VOTES, LEAST_VOTERS = 30, 5


@dataclass(frozen=True)
class Level:
    """The retention at which half of the people say "no longer usable", with its interval."""

    level: float
    low: float
    high: float
    votes: int


def half_say_no(
    kept: Floats, ballots: Ballots, weights: Floats, draws: int | None = None
) -> Level | None:
    """By one metric's retention; None where votes are few, all alike, or it does not matter.

    A logistic curve of yes over what is kept. One below which people use a picture more often
    than above has no such level.
    """
    rows = ~np.isnan(kept) & (weights > 0)
    own, x, w = ballots.only(rows), kept[rows], weights[rows]
    yes = own.answer
    if len(own) < LEAST_VOTES or len(np.unique(own.voter)) < LEAST_VOTERS or len(set(yes)) < 2:
        return None

    def estimate(times: Floats) -> Floats:
        return np.array([_middle(x, yes, w * times)])

    middle, drawn = redrawn(estimate, own.voter, own.case, draws)
    if not math.isfinite(middle[0]):
        return None
    (low,), (high,) = bounds(np.where(np.isfinite(drawn), drawn, np.nan))
    return Level(float(middle[0]), float(low), float(high), len(own))


def _middle(x: Floats, yes: Floats, weights: Floats) -> float:
    """Where the logistic curve is 1/2, by Newton's method; NaN where it does not rise.

    Two numbers, fitted hundreds of times for an interval: a library's solver takes longer to
    start than this takes to end.
    """
    centre = float(weights @ x / weights.sum()) if weights.sum() > 0 else math.nan
    if not math.isfinite(centre):
        return math.nan
    design = np.column_stack([np.ones(len(x)), x - centre])
    found = np.zeros(2)
    for _ in range(30):
        p = 1 / (1 + np.exp(-np.clip(design @ found, -30, 30)))
        slope = design.T @ (weights * (yes - p)) - RIDGE * found
        curve = (design * (weights * p * (1 - p))[:, None]).T @ design + RIDGE * np.eye(2)
        step = np.linalg.solve(curve, slope)
        found += np.clip(step, -5, 5)
        if np.abs(step).max() < 1e-8:
            break
    return centre - found[0] / found[1] if found[1] > 0 else math.nan


@dataclass(frozen=True)
class Asked:
    """A chain whose returns people were asked about: who said what after which trip."""

    chain: ChainResult
    trip: Ints
    voter: Ints
    yes: Floats


@dataclass(frozen=True)
class HumanLife:
    """Usable trips and half-life by people's own word; a half-life of None is beyond N.

    Bounds of a half-life of None lie beyond N, too; `has_interval` tells.
    """

    usable_trips: float
    usable_trips_low: float | None
    usable_trips_high: float | None
    half_life: float | None
    half_life_low: float | None
    half_life_high: float | None
    has_interval: bool
    chains: int
    votes: int
    voters: int

    @property
    def enough(self) -> bool:
        return self.votes >= LEAST_VOTES and self.voters >= LEAST_VOTERS


def human_life(
    asked: Sequence[Asked], weights: Mapping[int, float], trips: int, draws: int = 100
) -> HumanLife | None:
    """Of one model's chains on one suite; None where nobody who counts was asked.

    The interval speaks of other pictures, other edits and other voters: the variance is that
    of usable trips by any metric, and beside it what other voters would have changed.
    """
    voters = sorted({voter for one in asked for voter in one.voter.tolist()})
    own = np.array([weights.get(voter, 0.0) for voter in voters])
    place = {voter: row for row, voter in enumerate(voters)}
    chains = _curves(asked, own, place, trips)
    if not chains:
        return None
    summary, values = summary_and_values(chains, trips)
    usable = summary.usable_trips
    if usable is None:
        return None
    low = high = None
    design = values.design
    if design.enough:
        random = np.random.default_rng(SEED)
        counts = random.multinomial(len(voters), np.full(len(voters), 1 / len(voters)), draws)
        drawn = []
        for times in counts:
            again = _curves(asked, own * times, place, trips)
            if again and (found := summary_and_values(again, trips)[0].usable_trips) is not None:
                drawn.append(found)
        variance = float(design.standard_errors(values.usable[:, None])[0]) ** 2
        variance += float(np.var(drawn)) if drawn else 0.0
        reach = t_quantile((1 + CONFIDENCE) / 2, design.freedom) * math.sqrt(variance)
        low, high = max(0.0, usable - reach), min(float(trips), usable + reach)
    counted = {voter for voter in voters if own[place[voter]] > 0}
    return HumanLife(
        usable_trips=usable,
        usable_trips_low=low,
        usable_trips_high=high,
        half_life=half_life(usable, trips),
        half_life_low=None if low is None else half_life(low, trips),
        half_life_high=None if high is None else half_life(high, trips),
        has_interval=low is not None,
        chains=len(chains),
        votes=sum(int(np.isin(one.voter, list(counted)).sum()) for one in asked),
        voters=len(counted),
    )


def _curves(
    asked: Sequence[Asked], weights: Floats, place: Mapping[int, int], trips: int
) -> list[ChainResult]:
    """Each chain with the share of yes in place of a metric's retention.

    Shares never rise with the trips (isotonic regression); between two trips that were asked
    about they lie on a line, and after the last the chain is censored, as one that we lost.
    """
    from scipy.optimize import isotonic_regression

    found = []
    for one in asked:
        weight = weights[[place[voter] for voter in one.voter.tolist()]]
        numbers = np.unique(one.trip[weight > 0])
        if not len(numbers):
            continue
        sums = [(weight[one.trip == n], one.yes[one.trip == n]) for n in numbers]
        total = np.array([w.sum() for w, _ in sums])
        shares = np.array([w @ yes / w.sum() for w, yes in sums])
        smooth = isotonic_regression(shares, weights=total, increasing=False).x
        last = int(numbers[-1])
        curve = np.interp(np.arange(1, last + 1), [0, *numbers], [1.0, *np.clip(smooth, 0, 1)])
        chain = one.chain
        # A chain that broke did so after its own last trip, if people were asked so far.
        broke = chain.outcome in BROKEN and last >= len(chain.retention)
        outcome = chain.outcome if broke else COMPLETED if last >= trips else LOST
        found.append(
            replace(
                chain,
                retention=tuple(float(q) for q in curve[:trips]),
                outcome=outcome,
                because=(),
                cause="whole",
                change_seen=_until(chain.change_seen, last),
                made=_until(chain.made, last),
                undone=_until(chain.undone, last)[:last],
                reframed=(),
                edits_made=(),
                edits_undone=(),
            )
        )
    return found


def _until(flags: tuple[bool | None, ...], last: int) -> tuple[bool | None, ...]:
    """What was judged up to the trip after the last that people were asked about."""
    return flags[: last + 1]


def yes_by_retention(
    kept: Floats, ballots: Ballots, weights: Floats, bins: int = 10
) -> list[dict[str, float]]:
    """The share of yes where so much is kept, for a chart: bins of equal numbers of votes."""
    rows: Bools = ~np.isnan(kept) & (weights > 0)
    order = np.flatnonzero(rows)[np.argsort(kept[rows], kind="stable")]
    parts = [part for part in np.array_split(order, bins) if len(part)]
    return [
        {
            "kept": float(np.average(kept[part], weights=weights[part])),
            "yes": float(np.average(ballots.answer[part], weights=weights[part])),
            "votes": len(part),
        }
        for part in parts
    ]
