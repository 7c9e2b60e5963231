from __future__ import annotations

import numpy as np
import pytest

from evaluation.analysis.covariance import Design
from evaluation.analysis.power import Lifetimes, detectable_difference, power
from evaluation.testing.chains import made_up_cases


@pytest.fixture(scope="module")
def design():
    return Design(made_up_cases(300, 97, 36, 8))


def test_a_suite_of_300_cases_detects_two_to_four_trips_of_twenty(design):
    result = power(design, 20)
    assert 1.5 < result.models_alike < 3
    assert result.models_alike < result.models_differ < 4
    assert power(design, 20) == result


def test_more_cases_detect_smaller_differences():
    sizes = [(24, 10, 12, 4), (60, 20, 24, 4), (300, 97, 36, 4), (900, 300, 100, 4)]
    result = [detectable_difference(Design(made_up_cases(*size)), 20, 0.2) for size in sizes]
    assert result == sorted(result, reverse=True)


def test_more_models_on_a_board_need_larger_differences(design):
    two, ten, thirty = (detectable_difference(design, 20, 0.2, models) for models in (2, 10, 30))
    assert two < ten < thirty


def test_a_suite_with_too_few_images_or_pairs_detects_nothing():
    result = power(Design(made_up_cases(24, 9, 12, 4)), 20)
    assert result.models_alike is result.models_differ is None


def test_the_true_usable_trips_are_the_mean_of_the_drawn_ones():
    design = Design(made_up_cases(60, 30, 30, 3))
    lifetimes = Lifetimes(9.0)
    drawn = np.minimum(lifetimes.draw(design, np.random.default_rng(0), 1, 4000), 20)
    assert drawn.mean() == pytest.approx(lifetimes.usable_trips(20), rel=0.005)


def test_lifetimes_share_factors_of_images_and_pairs():
    """Shared factors are equal for all models; own factors differ."""
    design = Design(made_up_cases(60, 30, 30, 3))
    shared = Lifetimes(9.0, own_image=0, own_pair=0, chain=0)
    drawn = shared.draw(design, np.random.default_rng(0), 3)[:, 0]
    assert (drawn == drawn[:, :1]).all()
    of_image = {}
    alone = Lifetimes(9.0, image=0, pair=0, own_image=0.3, own_pair=0, chain=0)
    for case, row in zip(
        design.cases, alone.draw(design, np.random.default_rng(0), 3)[:, 0], strict=True
    ):
        assert len(set(row)) == 3
        assert (of_image.setdefault(case.image, row) == row).all()
