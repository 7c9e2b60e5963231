"""Simulate experiments with planted effects, and count true and false findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from evaluation.analysis.covariance import Design
from evaluation.analysis.events import ChainResult
from evaluation.analysis.experiment_words import SIGNIFICANT
from evaluation.analysis.experiments import ExperimentNumbers, experiment_numbers
from evaluation.analysis.power import Lifetimes
from evaluation.testing.chains import halving

#: The method's limit: the share of experiments without an effect that may report one.
FALSE_POSITIVES = 0.05
ARMS = ("plain", "short", "long", "colloquial")


@dataclass(frozen=True)
class Simulation:
    """Shares of simulated experiments, each of which runs a suite in several ways (arms).

    A planted arm has a true effect. `exact`: exactly the planted arms were found. `false`: an arm
    was found that was not planted. `friedman`: the rank test found that arms differ. `covered`: the
    interval of a planted arm's effect contains the true effect.
    """

    exact: float
    false: float
    friedman: float
    covered: float | None


def drawn(
    design: Design,
    trips: int,
    lifetimes: Lifetimes,
    random: np.random.Generator,
    planted: Mapping[str, float],
    repeats: int = 1,
) -> dict[str, list[ChainResult]]:
    """Draw an experiment's chains; `planted` has the factors by which arms' lifetimes change."""
    by_arm = lifetimes.draw(design, random, len(ARMS))[:, 0]
    luck = np.exp(random.normal(0, lifetimes.chain, (len(design.cases), len(ARMS), repeats)))
    return {
        arm: [
            halving(
                float(by_arm[row, column] * luck[row, column, repeat] * planted.get(arm, 1.0)),
                trips,
                **case._asdict(),
                repeat=repeat,
            )
            for row, case in enumerate(design.cases)
            for repeat in range(repeats)
        ]
        for column, arm in enumerate(ARMS)
    }


def simulate(
    design: Design,
    trips: int,
    lifetimes: Lifetimes,
    experiments: int,
    planted: Mapping[str, float] | None = None,
    *,
    repeats: int = 1,
    seed: int = 0,
) -> Simulation:
    """Simulate experiments; return in which shares of them effects were found."""
    random, planted = np.random.default_rng(seed), planted or {}
    found: list[ExperimentNumbers] = [
        experiment_numbers(
            drawn(design, trips, lifetimes, random, planted, repeats), trips, seed=number
        )
        for number in range(experiments)
    ]
    claimed = [{effect.arm for effect in numbers.sure_effects} for numbers in found]
    p_values = [numbers.ranks.p for numbers in found if numbers.ranks.p is not None]
    covered = None
    if planted:
        truth = {arm: _true(trips, lifetimes, factor) for arm, factor in planted.items()}
        within = [
            effect.low <= truth[effect.arm] <= effect.high
            for numbers in found
            for effect in numbers.effects
            if effect.arm in truth and effect.low is not None and effect.high is not None
        ]
        covered = float(np.mean(within)) if within else None
    return Simulation(
        exact=float(np.mean([arms == set(planted) for arms in claimed])),
        false=float(np.mean([bool(arms - set(planted)) for arms in claimed])),
        friedman=float(np.mean([rank_p < SIGNIFICANT for rank_p in p_values])),
        covered=covered,
    )


def _true(trips: int, lifetimes: Lifetimes, factor: float, cases: int = 200_000) -> float:
    """Return the true effect of a factor over all images and pairs, from a large sample."""
    random = np.random.default_rng(1)
    parts = ("image", "pair", "own_image", "own_pair", "chain", "chain")
    spread = np.sqrt(sum(getattr(lifetimes, part) ** 2 for part in parts))
    times = lifetimes.median * np.exp(random.normal(0, spread, cases))
    return float(np.mean(_crossing(times * factor, trips) - _crossing(times, trips)))


def _crossing(times: np.ndarray, trips: int) -> np.ndarray:
    """Return the interpolated trip at which chains with these halving times reach one half."""
    after = np.ceil(times)
    high, low = 0.5 ** ((after - 1) / times), 0.5 ** (after / times)
    return np.asarray(np.minimum(after - 1 + (high - 0.5) / (high - low), trips))
