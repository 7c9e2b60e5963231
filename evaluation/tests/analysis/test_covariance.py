from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evaluation.analysis.covariance import Design, t_probability, t_quantile
from evaluation.analysis.events import Case
from evaluation.testing.chains import made_up_cases


@pytest.fixture
def design():
    return Design(made_up_cases(60, 20, 15, 4))


@pytest.fixture
def values(design):
    return np.random.default_rng(0).normal([4, 10, 19], 1, (len(design.cases), 3))


LONGEST = 20.0


def covariance(design, values):
    shares = design.covariance_factor(values, LONGEST)
    return shares.T @ shares


def by_hand(design, values):
    """Return the covariance cluster by cluster, as the method states it."""
    cases, columns = design.cases, values.shape[1]
    categories = sorted({case.category for case in cases})
    means = {
        category: np.mean(
            [v for case, v in zip(cases, values, strict=True) if case.category == category], axis=0
        )
        for category in categories
    }
    sizes = {c: sum(case.category == c for case in cases) for c in categories}
    total = np.zeros((columns, columns))
    for about, taken in (("image", 1), ("pair", len(categories))):
        names = {getattr(case, about) for case in cases}
        images, pairs = ([getattr(case, name) for case in cases] for name in ("image", "pair"))
        result = np.zeros((columns, columns))
        for name in names:
            share = sum(
                (v - means[case.category]) / sizes[case.category] / len(categories)
                for case, v in zip(cases, values, strict=True)
                if getattr(case, about) == name
                and not (
                    about == "image" and images.count(case.image) == pairs.count(case.pair) == 1
                )
            )
            result += np.outer(share, share)
        total += result * len(names) / (len(names) - taken)
    clusters = min(len({case.image for case in cases}), len({case.pair for case in cases}))
    usable = np.mean([means[category] for category in categories], axis=0)
    for lasted in (usable, LONGEST - usable):
        total += np.diag((1.3 * lasted**2 / LONGEST / (clusters + 1)) ** 2)
    return total


def test_the_covariance_equals_the_formula_cluster_by_cluster(design, values):
    assert covariance(design, values) == pytest.approx(by_hand(design, values))
    assert design.standard_errors(values, LONGEST) == pytest.approx(
        np.sqrt(np.diag(by_hand(design, values)))
    )


def test_a_case_with_an_image_and_a_pair_of_its_own_is_counted_once():
    """With one category it is the textbook error of a mean plus the pseudo-clusters."""
    design = Design([Case(f"p{i:02}", f"q{i:02}", "c", "k", "o") for i in range(40)])
    values = np.random.default_rng(1).normal(8, 2, (40, 1))
    textbook = values.std(ddof=1) / np.sqrt(40)
    assert design.standard_errors(values, 0.0)[0] == pytest.approx(textbook)
    ends = np.hypot(values.mean() ** 2, (LONGEST - values.mean()) ** 2) * 1.3 / LONGEST / 41
    assert design.standard_errors(values, LONGEST)[0] == pytest.approx(np.hypot(textbook, ends))


def test_each_model_adds_pseudo_clusters_to_a_difference(design, values):
    first, second = values[:, :1], values[:, 1:2]
    shares = design.covariance_factor(values[:, :2], LONGEST)
    assert design.difference_errors(first, second, LONGEST) == pytest.approx(
        np.sqrt(np.square(shares[:, 0] - shares[:, 1]).sum())
    )
    assert design.difference_errors(first, first, LONGEST)[0] > 0


def test_the_start_of_a_curve_has_no_error(design):
    start = np.ones((len(design.cases), 1))
    assert design.standard_errors(start, np.array([0.0])) == 0


def test_degrees_of_freedom_follow_the_rarer_of_images_and_pairs(design):
    assert (design.images, design.pairs, design.categories) == (20, 15, 4)
    assert design.freedom == 11


@pytest.mark.parametrize(
    ("shape", "enough"),
    [
        ((24, 10, 12, 4), True),
        ((24, 9, 12, 4), False),
        ((24, 10, 11, 4), False),
        ((40, 12, 24, 7), True),
        ((40, 12, 24, 8), False),
    ],
)
def test_an_interval_needs_ten_images_twelve_pairs_and_five_degrees_of_freedom(shape, enough):
    assert Design(made_up_cases(*shape)).enough == enough


@settings(max_examples=50)
@given(st.integers(0, 1000))
def test_weights_sum_to_one_equally_over_categories(seed):
    design = Design(made_up_cases(30, 11, 13, 5, seed))
    shares = {}
    for case, weight in zip(design.cases, design.weights, strict=True):
        shares[case.category] = shares.get(case.category, 0) + weight
    assert list(shares.values()) == pytest.approx([1 / 5] * 5)


def test_the_order_of_the_cases_changes_nothing(design, values):
    order = np.random.default_rng(2).permutation(len(design.cases))
    shuffled = Design([design.cases[n] for n in order])
    assert shuffled.mean(values[order]) == pytest.approx(design.mean(values))
    assert covariance(shuffled, values[order]) == pytest.approx(covariance(design, values))
    assert shuffled.draws(shuffled.covariance_factor(values[order], LONGEST), 50) == pytest.approx(
        design.draws(design.covariance_factor(values, LONGEST), 50)
    )


def test_a_shift_of_a_whole_category_adds_no_error(design, values):
    category = np.array([[int(case.category[-1])] for case in design.cases])
    more = values + 0.5 * category
    more -= design.mean(more) - design.mean(values)
    assert covariance(design, more) == pytest.approx(covariance(design, values))


def test_draws_have_the_covariance_of_a_multivariate_t(design, values):
    drawn = design.draws(design.covariance_factor(values, LONGEST), 200_000)
    freedom = design.freedom
    expected = covariance(design, values) * freedom / (freedom - 2)
    assert np.cov(drawn.T) == pytest.approx(expected, rel=0.05, abs=0.05 * expected.max())
    errors = design.standard_errors(values, LONGEST)
    within = (np.abs(drawn) <= t_quantile(0.975, freedom) * errors).mean(axis=0)
    assert within == pytest.approx([0.95] * 3, abs=0.003)
    assert (
        design.draws(design.covariance_factor(values, LONGEST), 10)
        == design.draws(design.covariance_factor(values, LONGEST), 10)
    ).all()


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 6, 13, 28, 89, 300])
def test_students_t_equals_scipys(freedom):
    for t in (-12.0, -2.5, -0.1, 0.0, 0.7, 3.0, 40.0):
        assert t_probability(t, freedom) == pytest.approx(stats.t.cdf(t, freedom), abs=1e-12)
    for probability in (0.5, 0.8, 0.975, 0.9999):
        expected = stats.t.ppf(probability, freedom)
        assert t_quantile(probability, freedom) == pytest.approx(expected, rel=1e-9, abs=1e-9)
