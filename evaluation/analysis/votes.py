"""Votes of people: weights of voters, strengths of models, agreement.

Strengths follow the Bradley-Terry-Luce model, fitted by `choix`. The solver of `choix` takes counts
of wins, so "cannot say" counts as half a win for each side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from evaluation.analysis.case_values import case_values
from evaluation.analysis.covariance import CONFIDENCE, SEED, Interval, t_quantile
from evaluation.analysis.events import BROKEN, COMPLETED, LOST, ChainResult
from evaluation.analysis.half_life import summary_and_values
from evaluation.analysis.ranking import half_life_interval
from evaluation.analysis.survival import Floats

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
#: How often voters, and how often cases, are resampled for estimates that are not means.
DRAWS = 400
#: How often voters are resampled for usable trips; less often, as each draw recomputes all chains.
USABLE_TRIPS_DRAWS = 100


@dataclass(frozen=True)
class Ballots:
    """Votes as columns, with one row per vote. Voters, cases, questions and models are numbers.

    For two images (a pair), `answer` is 1 for the first image, -1 for the second and 0 for "cannot
    say". `left` is 1 if the left image was chosen, -1 for the right one and 0 for "cannot say". If
    the pair shows two models after the same trip, `first` and `second` are these models; otherwise
    both are -1. For a single image, `answer` is 1 for yes and 0 for no, and `first` is the model.
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
    """A weighted share of votes with its 95 % interval; no bounds with one voter or one case."""

    share: float
    low: float | None
    high: float | None
    votes: int


def weighted_share(values: Floats, weights: Floats, voter: Ints, case: Ints) -> Share | None:
    """Return the weighted mean of values from 0 to 1; None if all weights are 0.

    The variance between voters and the variance between cases are added. The interval is therefore
    rather too wide, because both contain the variance of single votes.
    """
    total = weights.sum()
    if total <= 0:
        return None
    share = float(weights @ values / total)
    deviations = weights * (values - share) / total
    groups = [np.unique(labels, return_inverse=True)[1] for labels in (voter, case)]
    sizes = [int(codes.max()) + 1 for codes in groups]
    if min(sizes) < 2:
        return Share(share, None, None, len(values))
    variance = sum(
        size / (size - 1) * float(np.square(np.bincount(codes, deviations)).sum())
        for codes, size in zip(groups, sizes, strict=True)
    )
    half_width = t_quantile((1 + CONFIDENCE) / 2, min(sizes) - 1) * math.sqrt(variance)
    return Share(share, max(0.0, share - half_width), min(1.0, share + half_width), len(values))


def bootstrap(
    estimate: Callable[[Floats], Floats], voter: Ints, case: Ints
) -> tuple[Floats, Floats]:
    """Return an estimate from votes and its bootstrap draws, one per row.

    `estimate` takes one number per vote: how many times the vote counts. Voters and cases are
    resampled independently; each draw adds the two deviations.
    """
    random = np.random.default_rng(SEED)
    estimated = estimate(np.ones(len(voter)))
    drawn = np.tile(estimated, (DRAWS, 1))
    for labels in (voter, case):
        codes = np.unique(labels, return_inverse=True)[1]
        size = int(codes.max()) + 1
        counts = random.multinomial(size, np.full(size, 1 / size), DRAWS)
        drawn += np.array([estimate(times[codes].astype(float)) for times in counts]) - estimated
    return estimated, drawn


def bounds(draws: Floats) -> tuple[Floats, Floats]:
    """Return the lower and upper ends of each column's 95 % interval."""
    tail = (1 - CONFIDENCE) / 2
    low, high = np.nanquantile(draws, [tail, 1 - tail], axis=0)
    return low, high


PRIOR_PASSED, PRIOR_CHECKS = 4.0, 5.0
COIN_TRUST, FULL_TRUST = 0.5, 0.85
SIDE_DEVIATIONS, ORDER_DEVIATIONS = 4.0, 3.0
#: Rules 2 and 3 of `weigh_voters` apply from this number of votes on; fewer votes prove little.
MIN_VOTES_FOR_RULES = 12


@dataclass(frozen=True)
class Checks:
    """A voter's results on gold questions, whose answer is known, and on repeated questions."""

    gold: int = 0
    gold_right: int = 0
    repeats: int = 0
    repeats_same: int = 0

    @property
    def weight(self) -> float:
        """Return the weight by the first rule of `weigh_voters`."""
        passed, total = self.gold_right + self.repeats_same, self.gold + self.repeats
        trust = (PRIOR_PASSED + passed) / (PRIOR_CHECKS + total)
        return min(1.0, max(0.0, (trust - COIN_TRUST) / (FULL_TRUST - COIN_TRUST)))


@dataclass(frozen=True)
class VoterWeight:
    """A voter's weight from 0 to 1, with the reasons that lowered it."""

    weight: float
    reasons: tuple[str, ...] = ()


def weigh_voters(
    checks: dict[int, Checks], ballots: Ballots, expected: Floats | None = None
) -> dict[int, VoterWeight]:
    """Return each voter's weight, by voter number, from three rules.

    1. Checks. Some questions have a known answer, and some of a voter's pairs are repeated with the
       sides swapped. A new voter starts as if four of five checks had been passed: trust = (4 +
       passed) / (5 + checks). The weight is 0 at a trust of 0.5 (a coin toss), 1 from 0.85 on, and
       linear in between.
    2. Sides. Images are assigned to sides at random. If a voter chose one side more often than
       expected by over 4 standard deviations (a chance of 1 in 16,000), the weight is multiplied by
       twice the share of votes for the other side.
    3. The common order of models, by strength. If a voter agrees with it less than expected by over
       3 standard deviations, the weight is multiplied by (agreement - coin) / (expected agreement -
       coin), where coin is the expected agreement of coin tosses.

    No vote is deleted: if a rule changes, the weights of all voters are computed again.

    `expected` has one probability per ballot: that the pair's first image wins by the common
    order; NaN if unknown.
    """
    by_voter = {}
    for voter in {*checks, *ballots.voter.tolist()}:
        rows = ballots.voter == voter
        weight = checks.get(voter, Checks()).weight
        reasons = ["fails checks"] if weight < 0.5 else []
        if (factor := _side_factor(ballots.left[rows])) < 1:
            weight *= factor
            reasons.append("chooses a side")
        if expected is not None:
            factor = _order_factor(ballots.answer[rows], expected[rows])
            if factor < 1:
                weight *= factor
                reasons.append("apart from the common order")
        by_voter[voter] = VoterWeight(weight, tuple(reasons))
    return by_voter


def _side_factor(left: Floats) -> float:
    """Return the factor of a voter's weight by the second rule."""
    chosen = left[left != 0]
    if len(chosen) < MIN_VOTES_FOR_RULES:
        return 1.0
    off = abs(float(chosen.sum()))
    if off <= SIDE_DEVIATIONS * math.sqrt(len(chosen)):
        return 1.0
    return 1 - off / len(chosen)


def _order_factor(answers: Floats, expected: Floats) -> float:
    """Return the factor of a voter's weight by the third rule."""
    decided = (answers != 0) & ~np.isnan(expected)
    if decided.sum() < MIN_VOTES_FOR_RULES:
        return 1.0
    likely = np.maximum(expected[decided], 1 - expected[decided])
    agrees = (answers[decided] > 0) == (expected[decided] > 0.5)
    expected_agreement, agreement = float(likely.sum()), float(agrees.sum())
    spread = math.sqrt(float((likely * (1 - likely)).sum()))
    coin = decided.sum() / 2
    if agreement >= expected_agreement - ORDER_DEVIATIONS * spread or expected_agreement <= coin:
        return 1.0
    return max(0.0, (agreement - coin) / (expected_agreement - coin))


#: Every model begins with one tied vote, spread over its opponents. Otherwise a model that won all
#: its votes would have an infinite strength.
PRIOR = 1.0
#: How many times weights and strengths are estimated in turn; both converge quickly.
ROUNDS = 3
#: A result is shown only if it is based on at least this many votes and voters.
MIN_VOTES, MIN_VOTERS = 30, 5


def enough(votes: int, voters: int) -> bool:
    """Return True if a result based on this many votes and voters may be shown."""
    return votes >= MIN_VOTES and voters >= MIN_VOTERS


@dataclass(frozen=True)
class Strength:
    """The strength of one model according to votes, with 95 % intervals."""

    #: The share of pairs that the model is expected to win against the other models.
    share: float
    share_low: float
    share_high: float
    #: The Bradley-Terry strength, in logits around the mean of all models.
    strength: float
    strength_low: float
    strength_high: float
    votes: int
    voters: int


def strengths(ballots: Ballots, weights: Mapping[int, float], models: int) -> list[Strength] | None:
    """Return the strength of each model, by model number; None if no comparison has weight."""
    rows = (ballots.first >= 0) & (ballots.second >= 0)
    pairs = ballots.only(rows)
    weight = np.array([weights.get(voter, 0.0) for voter in pairs.voter.tolist()])
    if models < 2 or weight.sum() <= 0:
        return None
    estimated, drawn = bootstrap(
        lambda times: fit(pairs, weight * times, models), pairs.voter, pairs.case
    )
    (low, high), shares = bounds(drawn), win_shares(estimated)
    share_low, share_high = bounds(np.array([win_shares(draw) for draw in drawn]))
    counted = weight > 0
    by_model = []
    for model in range(models):
        votes = counted & ((pairs.first == model) | (pairs.second == model))
        by_model.append(
            Strength(
                share=float(shares[model]),
                share_low=float(share_low[model]),
                share_high=float(share_high[model]),
                strength=float(estimated[model]),
                strength_low=float(low[model]),
                strength_high=float(high[model]),
                votes=int(votes.sum()),
                voters=len(np.unique(pairs.voter[votes])),
            )
        )
    return by_model


def fit(ballots: Ballots, weights: Floats, models: int) -> Floats:
    """Return the strengths that explain these votes best, centred on 0."""
    import choix

    wins = np.full((models, models), PRIOR / 2 / (models - 1))
    first, second = ballots.first, ballots.second
    for winner, loser, sign in ((first, second, 1), (second, first, -1)):
        gained = weights * np.where(ballots.answer == sign, 1.0, (ballots.answer == 0) / 2)
        wins += np.bincount(winner * models + loser, gained, models**2).reshape(models, models)
    np.fill_diagonal(wins, 0)
    strength = choix.ilsr_pairwise_dense(wins)
    return np.asarray(strength - strength.mean())


def win_chances(strength: Floats, ballots: Ballots) -> Floats:
    """Return the probability that each pair's first image wins; NaN if it shows no two models."""
    compared = (ballots.first >= 0) & (ballots.second >= 0)
    chances = np.full(len(ballots), np.nan)
    gap = strength[ballots.first[compared]] - strength[ballots.second[compared]]
    chances[compared] = 1 / (1 + np.exp(-gap))
    return chances


def win_shares(strength: Floats) -> Floats:
    """Return each model's expected share of wins, with equal weight for every opponent."""
    table = 1 / (1 + np.exp(strength[None] - strength[:, None]))
    np.fill_diagonal(table, 0)
    return np.asarray(table.sum(axis=1) / (len(strength) - 1))


def weigh_voters_with_order(
    ballots: Ballots, checks: dict[int, Checks], models: int
) -> dict[int, VoterWeight]:
    """Return each voter's weight by all three rules, estimating the common order."""
    weights = weigh_voters(checks, ballots)
    rows = (ballots.first >= 0) & (ballots.second >= 0)
    if models < 2 or not rows.any():
        return weights
    pairs = ballots.only(rows)
    for _ in range(ROUNDS):
        weight = np.array([weights[voter].weight for voter in pairs.voter.tolist()])
        if weight.sum() <= 0:
            break
        weights = weigh_voters(checks, ballots, win_chances(fit(pairs, weight, models), ballots))
    return weights


def agreement_with_people(
    choices: Floats, ballots: Ballots, weights: Floats
) -> tuple[Share | None, Share | None]:
    """Return the shares of votes that agree with a metric or a judge.

    The first share covers all pairs. The second covers only pairs with several voters, for which
    the agreement among people is known too. `choices` has the metric's choice for each vote: 1
    for the first image, -1 for the second, 0 for a tie (counted as half), NaN without a choice.
    """
    decided = (ballots.answer != 0) & ~np.isnan(choices)
    right = np.where(choices == 0, 0.5, choices == ballots.answer)

    def share(rows: Bools) -> Share | None:
        selected = ballots.only(rows)
        return weighted_share(right[rows], weights[rows], selected.voter, selected.case)

    return share(decided), share(decided & ~np.isnan(agreement_with_others(ballots, weights)))


def agreement_among_people(ballots: Ballots, weights: Floats) -> Share | None:
    """Return the share of agreement between two people who judged the same pair."""
    agree = agreement_with_others(ballots, weights)
    has_others = ~np.isnan(agree)
    selected = ballots.only(has_others)
    return weighted_share(agree[has_others], weights[has_others], selected.voter, selected.case)


def agreement_with_others(ballots: Ballots, weights: Floats) -> Floats:
    """Return for each vote the weighted share of other voters who chose the same image.

    The share is NaN without other voters. "Cannot say" is ignored, as are the voter's own repeated
    answers.
    """
    shares = np.full(len(ballots), np.nan)
    chose = ballots.answer != 0
    order = np.flatnonzero(chose)[np.argsort(ballots.question[chose], kind="stable")]
    if not len(order):
        return shares
    parts = np.flatnonzero(np.diff(ballots.question[order])) + 1
    for rows in np.split(order, parts):
        if len(rows) < 2:
            continue
        voters, answers, weight = ballots.voter[rows], ballots.answer[rows], weights[rows]
        other = voters[:, None] != voters[None]
        total = other @ weight
        same = ((answers[:, None] == answers[None]) & other) @ weight
        has_others = total > 0
        shares[rows[has_others]] = same[has_others] / total[has_others]
    return shares


#: Keeps the slope of a logistic curve finite if yes and no are perfectly separated.
RIDGE = 1e-2


@dataclass(frozen=True)
class Threshold:
    """The retention at which half of the people answer "no longer usable"."""

    threshold: float
    low: float
    high: float
    votes: int


def unusable_threshold(retention: Floats, ballots: Ballots, weights: Floats) -> Threshold | None:
    """Return the retention at which half of the people answer no.

    This is the midpoint of a logistic curve of the share of yes over retention. Returns None if
    there are too few votes, if all answers are equal, or if the share of yes falls as retention
    rises.
    """
    rows = ~np.isnan(retention) & (weights > 0)
    selected, x, w = ballots.only(rows), retention[rows], weights[rows]
    yes = selected.answer
    if not enough(len(selected), len(np.unique(selected.voter))) or len(set(yes)) < 2:
        return None

    def estimate(times: Floats) -> Floats:
        return np.array([_logistic_midpoint(x, yes, w * times)])

    estimated, drawn = bootstrap(estimate, selected.voter, selected.case)
    if not math.isfinite(estimated[0]):
        return None
    (low,), (high,) = bounds(np.where(np.isfinite(drawn), drawn, np.nan))
    return Threshold(float(estimated[0]), float(low), float(high), len(selected))


def _logistic_midpoint(x: Floats, yes: Floats, weights: Floats) -> float:
    """Return the midpoint of a logistic curve; NaN if the curve falls.

    Newton's method is written out because an interval takes hundreds of fits of two parameters, for
    which a library's solver is too slow.
    """
    centre = float(weights @ x / weights.sum()) if weights.sum() > 0 else math.nan
    if not math.isfinite(centre):
        return math.nan
    design = np.column_stack([np.ones(len(x)), x - centre])
    coefficients = np.zeros(2)
    for _ in range(30):
        p = 1 / (1 + np.exp(-np.clip(design @ coefficients, -30, 30)))
        slope = design.T @ (weights * (yes - p)) - RIDGE * coefficients
        curve = (design * (weights * p * (1 - p))[:, None]).T @ design + RIDGE * np.eye(2)
        step = np.linalg.solve(curve, slope)
        coefficients += np.clip(step, -5, 5)
        if np.abs(step).max() < 1e-8:
            break
    return centre - coefficients[0] / coefficients[1] if coefficients[1] > 0 else math.nan


@dataclass(frozen=True)
class JudgedChain:
    """A chain that people judged, with the trip, voter and answer of each vote."""

    chain: ChainResult
    trip: Ints
    voter: Ints
    yes: Floats


@dataclass(frozen=True)
class UsableTripsByVotes:
    """Usable trips and half-life according to votes.

    If `half_life` is None, the half-life is longer than the suite's N trips. A bound of None is
    also longer than N if `has_interval` is True; otherwise it is unknown.
    """

    usable_trips: float
    usable_trips_low: float | None
    usable_trips_high: float | None
    half_life: float | None
    half_life_low: float | None
    half_life_high: float | None
    has_interval: bool
    usable_votes: int
    usable_voters: int


def usable_trips_by_votes(
    judged_chains: Sequence[JudgedChain], weights: Mapping[int, float], trips: int
) -> UsableTripsByVotes | None:
    """Return the usable trips of a model's chains according to votes; None if no vote has weight.

    Intervals allow for the choice of images, edits and voters: the variance between resampled
    voters is added to the usual variance of usable trips (evaluation.analysis.covariance).
    """
    voters = sorted({voter for judged in judged_chains for voter in judged.voter.tolist()})
    voter_weights = np.array([weights.get(voter, 0.0) for voter in voters])
    row_by_voter = {voter: row for row, voter in enumerate(voters)}
    chains = _curves(judged_chains, voter_weights, row_by_voter, trips)
    if not chains:
        return None
    summary, values = summary_and_values(chains, trips)
    usable = summary.usable_trips
    if usable is None:
        return None
    low = high = None
    half_life_bounds = Interval(None, None)
    design = values.design
    if design.enough:
        random = np.random.default_rng(SEED)
        chances = np.full(len(voters), 1 / len(voters))
        counts = random.multinomial(len(voters), chances, USABLE_TRIPS_DRAWS)
        drawn = []
        for times in counts:
            drawn_chains = _curves(judged_chains, voter_weights * times, row_by_voter, trips)
            if drawn_chains:
                redrawn = case_values(drawn_chains, trips)
                drawn.append(
                    [
                        redrawn.design.mean(redrawn.usable),
                        *redrawn.survival_at(values.ends),
                    ]
                )
        scale_end = np.array([trips, *np.ones(len(values.ends))])
        columns = np.column_stack([values.usable, values.survival])
        variances = np.square(design.standard_errors(columns, scale_end))
        variances += np.var(drawn, axis=0) if drawn else 0.0
        half_width = t_quantile((1 + CONFIDENCE) / 2, design.freedom) * np.sqrt(variances)
        low = max(0.0, usable - float(half_width[0]))
        high = min(float(trips), usable + float(half_width[0]))
        half_life_bounds = half_life_interval(
            values.ends, design.mean(values.survival), half_width[1:]
        )
    voters_with_weight = {voter for voter in voters if voter_weights[row_by_voter[voter]] > 0}
    return UsableTripsByVotes(
        usable_trips=usable,
        usable_trips_low=low,
        usable_trips_high=high,
        half_life=summary.half_life,
        half_life_low=half_life_bounds.low,
        half_life_high=half_life_bounds.high,
        has_interval=low is not None,
        usable_votes=sum(
            int(np.isin(judged.voter, list(voters_with_weight)).sum()) for judged in judged_chains
        ),
        usable_voters=len(voters_with_weight),
    )


def _curves(
    judged_chains: Sequence[JudgedChain],
    weights: Floats,
    row_by_voter: Mapping[int, int],
    trips: int,
) -> list[ChainResult]:
    """Return each chain with the share of yes instead of a metric's retention.

    Isotonic regression makes the shares fall from trip to trip. Between judged trips they are
    interpolated. After the last judged trip the chain is censored, like an interrupted chain.
    """
    from scipy.optimize import isotonic_regression

    chains = []
    for judged in judged_chains:
        weight = weights[[row_by_voter[voter] for voter in judged.voter.tolist()]]
        numbers = np.unique(judged.trip[weight > 0])
        if not len(numbers):
            continue
        sums = [(weight[judged.trip == n], judged.yes[judged.trip == n]) for n in numbers]
        total = np.array([w.sum() for w, _ in sums])
        shares = np.array([w @ yes / w.sum() for w, yes in sums])
        smooth = isotonic_regression(shares, weights=total, increasing=False).x
        last = int(numbers[-1])
        curve = np.interp(np.arange(1, last + 1), [0, *numbers], [1.0, *np.clip(smooth, 0, 1)])
        chain = judged.chain
        # A chain counts as broken only if its last trip was judged.
        broke = chain.outcome in BROKEN and last >= len(chain.retention)
        outcome = chain.outcome if broke else COMPLETED if last >= trips else LOST
        chains.append(
            replace(
                chain,
                retention=tuple(float(q) for q in curve[:trips]),
                outcome=outcome,
                because=(),
                cause="whole",
                # Keep the flags of one more trip: its forward edit may end the chain.
                change_seen=chain.change_seen[: last + 1],
                made=chain.made[: last + 1],
                undone=chain.undone[:last],
                reframed=(),
                edits_made=(),
                edits_undone=(),
            )
        )
    return chains


def yes_by_retention(
    retention: Floats, ballots: Ballots, weights: Floats, bins: int = 10
) -> list[dict[str, float]]:
    """Return the share of yes by retention, in bins with equal numbers of votes."""
    rows: Bools = ~np.isnan(retention) & (weights > 0)
    order = np.flatnonzero(rows)[np.argsort(retention[rows], kind="stable")]
    parts = [part for part in np.array_split(order, bins) if len(part)]
    return [
        {
            "kept": float(np.average(retention[part], weights=weights[part])),
            "yes": float(np.average(ballots.answer[part], weights=weights[part])),
            "votes": len(part),
        }
        for part in parts
    ]
