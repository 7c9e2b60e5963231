"""Simulate boards of equal models, and check intervals and ranks against the truth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from scipy.optimize import brentq

from evaluation.analysis.covariance import CONFIDENCE, Design, t_quantile
from evaluation.analysis.power import MAX_RATIO, MODELS, Lifetimes, difference
from evaluation.analysis.ranking import half_life_interval, rank_board
from evaluation.analysis.survival import Floats

#: The method's limits: the coverage of 95 % intervals, and the share of boards that distinguish
#: equal models.
COVERAGE = (0.93, 0.999)
TOLD_APART = 0.05
#: Random draws for the ranks of one board; the site uses more.
DRAWS = 1_000


@dataclass(frozen=True)
class Setting:
    """The distribution of lifetimes of equal models.

    `median` is a share of the trips. `own` is how much images and pairs differ for one model only,
    not for all models alike. `at_once` and `never` are the shares of chains that end at once or
    never; with `lost_by` "image" or "pair", all chains of an image or pair do. Which of them do is
    random for each model.
    """

    name: str
    median: float = 0.4
    own: tuple[float, float] = (0.2, 0.2)
    at_once: float = 0.0
    never: float = 0.0
    lost_by: str = "case"

    def lifetimes(self, trips: int) -> Lifetimes:
        return Lifetimes(self.median * trips, own_image=self.own[0], own_pair=self.own[1])

    def draw(
        self, design: Design, trips: int, random: np.random.Generator, models: int, boards: int = 1
    ) -> Floats:
        """Draw usable trips by case, board and model."""
        times = self.lifetimes(trips).draw(design, random, models, boards)
        names = [
            case if self.lost_by == "case" else getattr(case, self.lost_by) for case in design.cases
        ]
        place = {name: row for row, name in enumerate(dict.fromkeys(names))}
        luck = random.random((len(place), boards, models))[[place[name] for name in names]]
        times = np.where(luck < self.at_once, 0.0, times)
        times = np.where(luck >= 1 - self.never, math.inf, times)
        return np.asarray(np.minimum(times, trips))

    def usable_trips(self, trips: int) -> float:
        """Return the true usable trips."""
        others = 1 - self.at_once - self.never
        return self.never * trips + others * self.lifetimes(trips).usable_trips(trips)

    def half_life(self, trips: int) -> float | None:
        """Return the true half-life."""
        if self.at_once >= 0.5 or self.never >= 0.5:
            return 0.0 if self.at_once >= 0.5 else None
        share = (0.5 - self.at_once) / (1 - self.at_once - self.never)
        times = self.lifetimes(trips)
        spread = math.hypot(times.image, times.pair, *self.own, times.chain)
        end = times.median * math.exp(spread * NormalDist().inv_cdf(share))
        return end if end <= trips else None


#: Various spreads and lifetimes, then settings in which whole images or pairs are lost, then
#: settings in which nearly all chains end at once or never.
SETTINGS = (
    Setting("alike", own=(0.0, 0.0)),
    Setting("differ", own=(0.3, 0.3)),
    Setting("differ by image", own=(0.5, 0.2)),
    Setting("differ by pair", own=(0.2, 0.5)),
    Setting("short lives", median=0.1),
    Setting("long lives", median=1.0),
    Setting("40 % of pairs lost", at_once=0.4, lost_by="pair"),
    Setting("40 % of images lost", at_once=0.4, lost_by="image"),
    Setting("95 % never end, 5 % at once", never=0.95, at_once=0.05),
    Setting("95 % end at once, 5 % never", at_once=0.95, never=0.05),
)


@dataclass(frozen=True)
class Simulation:
    """The results for boards of ten equal models.

    `coverage` and `half_life_coverage` are shares of intervals that contain the truth. `error` is
    the mean standard error of usable trips. `told_apart` is the share of boards with more than one
    rank. `against_order` is the share of boards on which the best possible ranks of the models
    contradict their order, before `Ranks.shared` corrects this.
    """

    coverage: float
    half_life_coverage: float
    error: float
    told_apart: float
    against_order: float

    @property
    def kept(self) -> bool:
        """True if the results are within the method's limits."""
        return COVERAGE[0] <= self.coverage <= COVERAGE[1] and self.told_apart <= TOLD_APART


def simulate(
    design: Design, trips: int, setting: Setting, boards: int, seed: int = 0
) -> Simulation:
    """Simulate boards of equal models."""
    random = np.random.default_rng(seed)
    distinguished = against = 0
    for _ in range(boards):
        usable = setting.draw(design, trips, random, MODELS)[:, 0]
        ranks = rank_board(design, usable, trips, draws=DRAWS)
        order = np.argsort(-design.mean(usable))
        distinguished += max(ranks.shared) > 1
        against += bool((np.diff([ranks.sets[run][0] for run in order]) < 0).any())
    # For coverage the models must be independent, so each is alone on its board.
    usable = setting.draw(design, trips, random, 1, MODELS * boards)[:, :, 0]
    errors = design.standard_errors(usable, trips)
    t = t_quantile((1 + CONFIDENCE) / 2, design.freedom)
    truth = setting.usable_trips(trips)
    low, high = design.mean(usable) - t * errors, design.mean(usable) + t * errors
    true_half_life = setting.half_life(trips)
    return Simulation(
        coverage=float(((low <= truth) & (truth <= high)).mean()),
        half_life_coverage=float(
            np.mean([_holds(design, trips, run, true_half_life) for run in usable.T[: 2 * boards]])
        ),
        error=float(errors.mean()),
        told_apart=distinguished / boards,
        against_order=against / boards,
    )


def _holds(design: Design, trips: int, usable: Floats, truth: float | None) -> bool:
    """Return True if a run's interval contains the true half-life."""
    ends = np.unique(usable[usable < trips])
    survival = (usable[:, None] > ends).astype(float)
    reach = t_quantile((1 + CONFIDENCE) / 2, design.freedom) * design.standard_errors(survival, 1)
    interval = half_life_interval(ends, design.mean(survival), reach)
    low, value, high = (
        math.inf if bound is None else bound for bound in (interval.low, truth, interval.high)
    )
    return low <= value <= high


def detected_share(design: Design, trips: int, own: float, apart: float, boards: int) -> float:
    """Return the share of boards of ten that distinguish two models `apart` usable trips apart."""
    random = np.random.default_rng(1)
    middle = Lifetimes(0.4 * trips, own_image=own, own_pair=own)
    factor = np.ones(MODELS)
    ratio = brentq(lambda r: difference(middle, r, trips) - apart, 1, MAX_RATIO)
    factor[:2] = math.sqrt(ratio), 1 / math.sqrt(ratio)
    detected = 0
    for _ in range(boards):
        usable = np.minimum(middle.draw(design, random, MODELS)[:, 0] * factor, trips)
        detected += bool(rank_board(design, usable, trips, draws=DRAWS).better[0, 1])
    return detected / boards
