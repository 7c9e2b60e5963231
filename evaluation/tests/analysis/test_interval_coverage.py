"""Coverage of intervals and ranks on simulated boards of ten equal models.

The small simulation; `python -m tools.studies intervals` prints the whole table.
"""

from __future__ import annotations

import numpy as np
import pytest

from evaluation.analysis.case_values import case_values
from evaluation.analysis.covariance import Design
from evaluation.analysis.power import Lifetimes, power, suite_design
from evaluation.analysis.ranking import Bounds
from evaluation.content import catalog
from evaluation.testing.chains import chain, made_up_cases
from evaluation.testing.simulations.equal_models import COVERAGE, TOLD_APART, Setting, simulate

#: Cases, images, pairs, categories and trips of a self-test, a short suite and the board's.
DESIGNS = [(24, 10, 12, 4, 10), (40, 16, 24, 6, 10), (300, 97, 36, 8, 20)]


@pytest.mark.parametrize("own", [0.2, 0.3])
@pytest.mark.parametrize(("cases", "images", "pairs", "categories", "trips"), DESIGNS)
def test_intervals_cover_and_equal_models_are_not_separated(
    cases, images, pairs, categories, trips, own
):
    design = Design(made_up_cases(cases, images, pairs, categories))
    result = simulate(design, trips, Setting("", own=(own, own)), boards=100)
    assert result.kept, result


class CountedTwice(Design):
    """Compute errors by the rule of version 2: clusters by image and by pair, no pseudo-clusters."""

    def __init__(self, cases):
        super().__init__(cases)
        self._counted_once[:] = False

    def _pseudo_clusters(self, values, scale_end):
        return np.zeros(values.shape[1]), np.zeros(values.shape[1])


@pytest.mark.parametrize("slug", ["smoke", "lite"])
@pytest.mark.parametrize("never", [True, False])
def test_intervals_cover_at_both_ends_of_the_scale_unlike_those_of_version_2(slug, never):
    suite = catalog.suite(slug)
    most, least = {"never": 0.95, "at_once": 0.05}, {"never": 0.05, "at_once": 0.95}
    setting = Setting("", **(most if never else least))
    design = suite_design(suite)
    now = simulate(design, suite.trips, setting, boards=60)
    assert now.coverage >= COVERAGE[0]
    assert now.told_apart <= TOLD_APART
    old = simulate(CountedTwice(design.cases), suite.trips, setting, boards=60)
    assert old.coverage < COVERAGE[0]


def test_lite_detects_smaller_differences_than_with_the_rule_of_version_2():
    suite = catalog.suite("lite")
    design = suite_design(suite)
    now, before = (power(d, suite.trips) for d in (design, CountedTwice(design.cases)))
    assert now.models_alike < 0.85 * before.models_alike
    assert now.models_differ < 0.85 * before.models_differ


def test_intervals_of_real_chains_cover_too():
    """Intervals also cover for chains that fall linearly, cross and get lost."""
    trips, draws = 10, 200
    cases = made_up_cases(60, 20, 20, 4)
    lifetimes = Lifetimes(0.4 * trips)
    truth = lifetimes.usable_trips(trips)
    random = np.random.default_rng(0)
    times = lifetimes.draw(Design(cases), random, 1, draws)[:, :, 0]
    covered = {"usable_trips": 0, "half_life": 0}
    for own in times.T:
        run = []
        for case, time in zip(cases, own, strict=True):
            curve = [1 - 0.5 * n / time for n in range(1, trips + 1)]
            lost = random.random() < 0.1
            kept = int(random.integers(1, trips)) if lost else trips
            place = case._asdict()
            outcome = "lost" if lost else "completed"
            run.append(chain(*curve[:kept], outcome=outcome, **place))
        bounds = Bounds.of(case_values(run, trips))
        for name, true in (("usable_trips", truth), ("half_life", lifetimes.median)):
            result = getattr(bounds, name)
            low, high = (np.inf if end is None else end for end in (result.low, result.high))
            covered[name] += low <= true <= high
    assert 0.92 <= covered["usable_trips"] / draws <= 1
    assert 0.92 <= covered["half_life"] / draws <= 1
