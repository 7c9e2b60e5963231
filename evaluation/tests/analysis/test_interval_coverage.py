"""Do intervals and ranks keep their promise? Boards of ten equal models, drawn anew.

The small simulation; `python -m evaluation.benchmarks.ranking` has the whole table.
"""

from __future__ import annotations

import numpy as np
import pytest

from evaluation.analysis.case_values import case_values
from evaluation.analysis.covariance import Design
from evaluation.analysis.half_life import half_life
from evaluation.analysis.power import Lifetimes
from evaluation.analysis.ranking import Bounds
from evaluation.testing.chains import chain, made_up_cases
from evaluation.testing.simulations.equal_models import simulate

#: Cases, images, pairs, categories and trips of a self-test, a short suite and the board's.
DESIGNS = [(24, 10, 12, 4, 10), (40, 16, 24, 6, 10), (300, 97, 36, 8, 20)]


@pytest.mark.parametrize("own", [0.2, 0.3])
@pytest.mark.parametrize(("cases", "images", "pairs", "categories", "trips"), DESIGNS)
def test_intervals_cover_and_equal_models_are_not_told_apart(
    cases, images, pairs, categories, trips, own
):
    design = Design(made_up_cases(cases, images, pairs, categories))
    lifetimes = Lifetimes(0.4 * trips, own_image=own, own_pair=own)
    found = simulate(design, trips, lifetimes, boards=100)
    assert found.kept, found


def test_intervals_of_real_chains_cover_too():
    """From retention to interval: chains that fall in a line, cross, and get lost on their way."""
    trips, draws = 10, 200
    cases = made_up_cases(60, 20, 20, 4)
    lifetimes = Lifetimes(0.4 * trips)
    truth = lifetimes.usable_trips(trips)
    random = np.random.default_rng(0)
    times = lifetimes.drawn(Design(cases), random, 1, draws)[:, :, 0]
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
        for name, true in (("usable_trips", truth), ("half_life", half_life(truth, trips))):
            found = getattr(bounds, name)
            covered[name] += found.low <= true <= (found.high or np.inf)
    assert 0.92 <= covered["usable_trips"] / draws <= 1
    assert covered["half_life"] == covered["usable_trips"]
