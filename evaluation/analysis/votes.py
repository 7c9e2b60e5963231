"""People's votes: how far each voter is believed, whom people prefer, who agrees with them.

Strengths are Luce's model by `choix`, whose solver takes counts: "cannot say" is half a vote for
either, so a strength tells the share of pairs won with ties halved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from evaluation.analysis.covariance import CONFIDENCE, SEED, t_quantile
from evaluation.analysis.events import BROKEN, COMPLETED, LOST, ChainResult
from evaluation.analysis.half_life import half_life, summary_and_values
from evaluation.analysis.survival import Floats

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
#: Draws of voters, and as many of cases, behind an interval that is no mean.
DRAWS = 400


@dataclass(frozen=True)
class Ballots:
    """A row for each vote, in numbers that mean something to whoever made them.

    Of pairs, `answer` is 1 for the first, -1 for the second and 0 for "cannot say", `left` the
    same for the sides they stood on, and `first` and `second` are the models where the pair
    compares two after the same trip, else -1. Of a single picture `answer` is 1 for yes and 0
    for no, and `first` the model.
    """

    voter: Ints
    case: Ints
    question: Ints
    first: Ints
    second: Ints
    answer: Floats
    left: Floats

    def __len__(self) -> int:
        return len(self.voter)

    def only(self, rows: Bools) -> Self:
        return type(self)(*(getattr(self, field.name)[rows] for field in fields(self)))


@dataclass(frozen=True)
class Share:
    """A weighted share of votes with its 95 % interval; bounds of None: too few to tell."""

    share: float
    low: float | None
    high: float | None
    votes: int


def weighted_share(values: Floats, weights: Floats, voter: Ints, case: Ints) -> Share | None:
    """The weighted mean of values from 0 to 1; None where nothing weighs anything.

    Its variance is the sum of two, by voter and by case, as that of usable trips is by picture
    and by pair (evaluation.analysis.covariance): nothing is subtracted, which keeps it safe.
    """
    total = weights.sum()
    if total <= 0:
        return None
    share = float(weights @ values / total)
    apart = weights * (values - share) / total
    groups = [np.unique(labels, return_inverse=True)[1] for labels in (voter, case)]
    sizes = [int(codes.max()) + 1 for codes in groups]
    if min(sizes) < 2:
        return Share(share, None, None, len(values))
    variance = sum(
        size / (size - 1) * float(np.square(np.bincount(codes, apart)).sum())
        for codes, size in zip(groups, sizes, strict=True)
    )
    reach = t_quantile((1 + CONFIDENCE) / 2, min(sizes) - 1) * math.sqrt(variance)
    return Share(share, max(0.0, share - reach), min(1.0, share + reach), len(values))


def redrawn(
    estimate: Callable[[Floats], Floats], voter: Ints, case: Ints, draws: int | None = None
) -> tuple[Floats, Floats]:
    """An estimate from votes, and draws of what it might have been: a row for each.

    `estimate` takes how often each vote counts. Voters are drawn anew, and apart from them the
    cases; a draw is off by both.
    """
    random, draws = np.random.default_rng(SEED), draws or DRAWS
    middle = estimate(np.ones(len(voter)))
    found = np.tile(middle, (draws, 1))
    for labels in (voter, case):
        codes = np.unique(labels, return_inverse=True)[1]
        size = int(codes.max()) + 1
        counts = random.multinomial(size, np.full(size, 1 / size), draws)
        found += np.array([estimate(own[codes].astype(float)) for own in counts]) - middle
    return middle, found


def bounds(draws: Floats) -> tuple[Floats, Floats]:
    """The ends of the 95 % intervals of each column."""
    tail = (1 - CONFIDENCE) / 2
    low, high = np.nanquantile(draws, [tail, 1 - tail], axis=0)
    return low, high


EXPECTED_PASSED, EXPECTED_CHECKS = 4.0, 5.0
COIN, FULL = 0.5, 0.85
SIDES_APART, ORDER_APART = 4.0, 3.0
#: With fewer votes neither rule 2 nor rule 3 of `beliefs` can be told from chance.
LEAST_FOR_RULES = 12


@dataclass(frozen=True)
class Checks:
    """A voter's results on known answers and on repeated questions."""

    gold: int = 0
    gold_right: int = 0
    repeats: int = 0
    repeats_same: int = 0

    @property
    def trust(self) -> float:
        passed, made = self.gold_right + self.repeats_same, self.gold + self.repeats
        return (EXPECTED_PASSED + passed) / (EXPECTED_CHECKS + made)


@dataclass(frozen=True)
class Belief:
    """A voter's weight from 0 to 1, and what took it down."""

    weight: float
    reasons: tuple[str, ...] = ()


def by_checks(checks: Checks) -> float:
    return min(1.0, max(0.0, (checks.trust - COIN) / (FULL - COIN)))


def beliefs(
    checks: dict[int, Checks], ballots: Ballots, expected: Floats | None = None
) -> dict[int, Belief]:
    """Return how far each voter is believed, by number. The rule is stated here alone.

    1. Checks. Some questions have a known answer, and some of a voter's pairs come again with
       their sides exchanged. A new voter is expected to pass four of five checks:
       trust = (4 + passed) / (5 + checks). The weight is 1 from 0.85 on, 0 at 0.5 (tossing a
       coin), and linear in between.
    2. Sides. They are drawn by lot. A voter who chose one side so often that chance does so once
       in 16,000 times (4 standard deviations) keeps the weight times twice the share of the
       other side.
    3. The common order. A voter who agrees with it less than chance explains (3 standard
       deviations) keeps the weight times what is left: how far above a coin, of what was
       expected.

    No vote is deleted: a rule that changes gives every vote its new weight.

    `expected`: for each ballot how likely the common order's own choice is the first of its
    pair; NaN where it says nothing.
    """
    found = {}
    for voter in {*checks, *ballots.voter.tolist()}:
        own = ballots.voter == voter
        weight = by_checks(checks.get(voter, Checks()))
        reasons = ["fails checks"] if weight < 0.5 else []
        if (kept := _by_sides(ballots.left[own])) < 1:
            weight *= kept
            reasons.append("chooses a side")
        if expected is not None:
            kept = _by_order(ballots.answer[own], expected[own])
            if kept < 1:
                weight *= kept
                reasons.append("apart from the common order")
        found[voter] = Belief(weight, tuple(reasons))
    return found


def _by_sides(left: Floats) -> float:
    chosen = left[left != 0]
    if len(chosen) < LEAST_FOR_RULES:
        return 1.0
    off = abs(float(chosen.sum()))
    if off <= SIDES_APART * math.sqrt(len(chosen)):
        return 1.0
    return 1 - off / len(chosen)


def _by_order(answers: Floats, expected: Floats) -> float:
    """Return the factor of a voter's weight by the third rule."""
    told = (answers != 0) & ~np.isnan(expected)
    if told.sum() < LEAST_FOR_RULES:
        return 1.0
    likely = np.maximum(expected[told], 1 - expected[told])
    agrees = (answers[told] > 0) == (expected[told] > 0.5)
    hoped, seen = float(likely.sum()), float(agrees.sum())
    spread = math.sqrt(float((likely * (1 - likely)).sum()))
    coin = told.sum() / 2
    if seen >= hoped - ORDER_APART * spread or hoped <= coin:
        return 1.0
    return max(0.0, (seen - coin) / (hoped - coin))


#: Every model begins with one vote that was a tie, spread over the others: who has won all of
#: few votes is not endlessly strong.
PRIOR = 1.0
#: How often weights and strengths are worked out from each other; they settle at once.
ROUNDS = 3
#: From here on a model's number is shown.
LEAST_VOTES, LEAST_VOTERS = 30, 5


@dataclass(frozen=True)
class Strength:
    """One model as people see it: the share of pairs that it wins against the others."""

    share: float
    low: float
    high: float
    #: Of the Bradley-Terry model, in logits around the mean of all.
    strength: float
    strength_low: float
    strength_high: float
    votes: int
    voters: int

    @property
    def enough(self) -> bool:
        return self.votes >= LEAST_VOTES and self.voters >= LEAST_VOTERS


def strengths(
    ballots: Ballots, weights: dict[int, float], models: int, draws: int | None = None
) -> list[Strength] | None:
    """The strength of each model, by number; None where there is nothing to compare."""
    rows = (ballots.first >= 0) & (ballots.second >= 0)
    own = ballots.only(rows)
    weight = np.array([weights.get(voter, 0.0) for voter in own.voter.tolist()])
    if models < 2 or weight.sum() <= 0:
        return None
    middle, drawn = redrawn(
        lambda times: fit(own, weight * times, models), own.voter, own.case, draws
    )
    (low, high), shares = bounds(drawn), won(middle)
    share_low, share_high = bounds(np.array([won(one) for one in drawn]))
    counted = weight > 0
    found = []
    for model in range(models):
        mine = counted & ((own.first == model) | (own.second == model))
        found.append(
            Strength(
                share=float(shares[model]),
                low=float(share_low[model]),
                high=float(share_high[model]),
                strength=float(middle[model]),
                strength_low=float(low[model]),
                strength_high=float(high[model]),
                votes=int(mine.sum()),
                voters=len(np.unique(own.voter[mine])),
            )
        )
    return found


def fit(ballots: Ballots, weights: Floats, models: int) -> Floats:
    """The strengths that explain these votes best, around 0."""
    import choix

    wins = np.full((models, models), PRIOR / 2 / (models - 1))
    first, second = ballots.first, ballots.second
    for one, other, sign in ((first, second, 1), (second, first, -1)):
        gained = weights * np.where(ballots.answer == sign, 1.0, (ballots.answer == 0) / 2)
        wins += np.bincount(one * models + other, gained, models**2).reshape(models, models)
    np.fill_diagonal(wins, 0)
    found = choix.ilsr_pairwise_dense(wins)
    return np.asarray(found - found.mean())


def chance(strength: Floats, ballots: Ballots) -> Floats:
    """Return the chance that the first of each pair wins; NaN without two models."""
    known = (ballots.first >= 0) & (ballots.second >= 0)
    found = np.full(len(ballots), np.nan)
    gap = strength[ballots.first[known]] - strength[ballots.second[known]]
    found[known] = 1 / (1 + np.exp(-gap))
    return found


def won(strength: Floats) -> Floats:
    """The share of pairs that each model wins, against every other alike."""
    table = 1 / (1 + np.exp(strength[None] - strength[:, None]))
    np.fill_diagonal(table, 0)
    return np.asarray(table.sum(axis=1) / (len(strength) - 1))


def believed(ballots: Ballots, checks: dict[int, Checks], models: int) -> dict[int, Belief]:
    """Return each voter's weight by checks, sides and the common order."""
    found = beliefs(checks, ballots)
    rows = (ballots.first >= 0) & (ballots.second >= 0)
    if models < 2 or not rows.any():
        return found
    own = ballots.only(rows)
    for _ in range(ROUNDS):
        weight = np.array([found[voter].weight for voter in own.voter.tolist()])
        if weight.sum() <= 0:
            break
        found = beliefs(checks, ballots, chance(fit(own, weight, models), ballots))
    return found


@dataclass(frozen=True)
class Agreement:
    """Of the votes that chose one of a pair: how often the same was chosen.

    `shared` is the same on the pairs alone that several people were asked about, where the
    people's own agreement is known.
    """

    everywhere: Share | None
    shared: Share | None


def with_people(says: Floats, ballots: Ballots, weights: Floats) -> Agreement:
    """`says`: for each vote 1 for the first, -1 for the second, 0 for a tie, NaN for nothing.

    Who cannot tell two apart is right half of the time.
    """
    told = (ballots.answer != 0) & ~np.isnan(says)
    right = np.where(says == 0, 0.5, says == ballots.answer)

    def share(rows: Bools) -> Share | None:
        own = ballots.only(rows)
        return weighted_share(right[rows], weights[rows], own.voter, own.case)

    return Agreement(share(told), share(told & ~np.isnan(others_agree(ballots, weights))))


def among_people(ballots: Ballots, weights: Floats) -> Share | None:
    """Return how often two people who saw the same pair choose the same."""
    agree = others_agree(ballots, weights)
    there = ~np.isnan(agree)
    own = ballots.only(there)
    return weighted_share(agree[there], weights[there], own.voter, own.case)


def others_agree(ballots: Ballots, weights: Floats) -> Floats:
    """For each vote the weighted share of others who chose the same; NaN without others.

    A voter's own repeat of a question is no other's vote; who cannot say chose nothing.
    """
    found = np.full(len(ballots), np.nan)
    chose = ballots.answer != 0
    order = np.flatnonzero(chose)[np.argsort(ballots.question[chose], kind="stable")]
    if not len(order):
        return found
    parts = np.flatnonzero(np.diff(ballots.question[order])) + 1
    for rows in np.split(order, parts):
        if len(rows) < 2:
            continue
        voters, answers, weight = ballots.voter[rows], ballots.answer[rows], weights[rows]
        other = voters[:, None] != voters[None]
        total = other @ weight
        same = ((answers[:, None] == answers[None]) & other) @ weight
        known = total > 0
        found[rows[known]] = same[known] / total[known]
    return found


#: Holds the slope of a curve where yes and no part without a single exception.
RIDGE = 1e-2


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
    """Return the middle of the logistic curve by Newton's method; NaN if it falls.

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
    """Return the flags up to the trip after the last one that was asked about."""
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
