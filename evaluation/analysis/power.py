"""Power of a suite before it is played: the difference detected with 80 % probability.

Chains are simulated. The lifetime of a chain in trips is the model's median lifetime times five
log-normal factors. Two belong to the image and to the pair and are the same for all models. Two
belong to them too, but each model has its own. The last is chance, drawn for each chain. The
models' own factors limit the power. Their logarithms usually have a standard deviation of 0.2 to
0.3, so power is computed for these two values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from evaluation.analysis.covariance import CONFIDENCE, SEED, Design, t_scale
from evaluation.analysis.events import Case
from evaluation.analysis.survival import Floats
from evaluation.content.suites import Suite

POWER = 0.8
#: The number of models on a simulated board; all pairs of models are compared.
MODELS = 10
BOARDS = 400
DRAWS = 20_000
#: The largest ratio of lifetimes to try.
MAX_RATIO = 100.0


@dataclass(frozen=True)
class Lifetimes:
    """The distribution of lifetimes: the median in trips, and standard deviations of the log.

    The factors `image` and `pair` are shared by all models. Each model has its own factors
    `own_image` and `own_pair`. The factor `chain` is chance.
    """

    median: float
    image: float = 0.4
    pair: float = 0.4
    own_image: float = 0.2
    own_pair: float = 0.2
    chain: float = 0.4

    def draw(
        self, design: Design, random: np.random.Generator, models: int, boards: int = 1
    ) -> Floats:
        """Draw lifetimes; the axes are case, board and model."""

        def factor(spread: float, groups: Sequence[str], *shape: int) -> Floats:
            names, codes = np.unique(groups, return_inverse=True)
            return random.normal(0, spread, (len(names), *shape))[codes]

        images = [case.image for case in design.cases]
        pairs = [case.pair for case in design.cases]
        logs = (
            factor(self.image, images, boards, 1)
            + factor(self.pair, pairs, boards, 1)
            + factor(self.own_image, images, boards, models)
            + factor(self.own_pair, pairs, boards, models)
            + random.normal(0, self.chain, (len(images), boards, models))
        )
        return np.asarray(self.median * np.exp(logs))

    def usable_trips(self, trips: int) -> float:
        """Return the true usable trips of a model with these lifetimes."""
        parts = (self.image, self.pair, self.own_image, self.own_pair, self.chain)
        spread, normal = math.hypot(*parts), NormalDist()
        end = math.log(trips / self.median) / spread
        mean = self.median * math.exp(spread**2 / 2)
        return mean * normal.cdf(end - spread) + trips * (1 - normal.cdf(end))


@dataclass(frozen=True)
class Power:
    """The difference in usable trips that 80 % of boards detect, for the two usual spreads.

    `models_alike` is for the small spread of a model's own factors, `models_differ` for the large
    one. Each is None if the suite has too few images or pairs, or if no difference is large enough.
    """

    models_alike: float | None
    models_differ: float | None


def suite_design(suite: Suite) -> Design:
    """Return the design of a suite's cases, weighted as in its results."""
    return Design([Case.of(suite, case.image, case.pair) for case in suite.cases])


def power(design: Design, trips: int) -> Power:
    """Return the differences that a suite with these cases and trips can detect."""
    return Power(*(detectable_difference(design, trips, spread) for spread in (0.2, 0.3)))


def detectable_difference(
    design: Design, trips: int, own: float, models: int = MODELS
) -> float | None:
    """Return the difference in usable trips of two models that 80 % of boards detect.

    The two lifetimes are around 0.4 N, where usable trips vary most. `own` is the spread of the
    factors of one model. The seed is fixed, so the result is reproducible.
    """
    if not design.enough:
        return None
    random = np.random.default_rng(SEED)
    central = Lifetimes(0.4 * trips, own_image=own, own_pair=own)
    lifetimes = central.draw(design, random, 2, BOARDS)
    errors_needed = _significance_factor(design.freedom, models, random)

    def is_detected(ratio: float) -> bool:
        better, worse = (
            np.minimum(lifetimes[:, :, side] * factor, trips)
            for side, factor in enumerate((math.sqrt(ratio), 1 / math.sqrt(ratio)))
        )
        errors = design.difference_errors(better, worse, trips)
        sure = design.mean(better - worse) > errors_needed * errors
        return bool(sure.mean() >= POWER)

    low, high = 1.0, 1.1
    while not is_detected(high):
        high *= 1.1
        if high > MAX_RATIO:
            return None
    for _ in range(20):
        ratio = math.sqrt(low * high)
        low, high = (low, ratio) if is_detected(ratio) else (ratio, high)
    return difference(central, high, trips)


def difference(central: Lifetimes, ratio: float, trips: int) -> float:
    """Return the difference in usable trips of two models with this ratio of lifetimes."""
    better, worse = (
        replace(central, median=central.median * factor).usable_trips(trips)
        for factor in (math.sqrt(ratio), 1 / math.sqrt(ratio))
    )
    return better - worse


def _significance_factor(freedom: int, models: int, random: np.random.Generator) -> float:
    """Return the number of standard errors from which a difference on a board is significant."""
    drawn = random.standard_normal((DRAWS, models))
    largest = np.ptp(drawn, axis=1) / math.sqrt(2) / t_scale(random, freedom, DRAWS)
    return float(np.quantile(largest, CONFIDENCE))
