from __future__ import annotations

import itertools
import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.analysis.events import BROKEN, CAUSES, event
from evaluation.analysis.half_life import (
    shown_half_life,
    summarise,
    summary_and_values,
)
from evaluation.analysis.thresholds import THRESHOLDS
from evaluation.testing.chains import chain, halving
from evaluation.tests.analysis.random_chains import chains_of_a_run

N = 20


def linear(loss, trips=N, **fields):
    return chain(*(1 - loss * n for n in range(1, trips + 1)), **fields)


def ending_at(*times, trips=N, **fields):
    """Return a case for each time, whose retention falls linearly to one half by then."""
    return [
        chain(*(1 - 0.5 * n / time for n in range(1, trips + 1)), image=f"p{i}", **fields)
        for i, time in enumerate(times)
    ]


# Half-life


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([15.5] * 12, 15.5),  # read "> 20" by the exponential of the same usable trips
        ([14] * 12, 14),
        ([3, 5, 8, 30], 5),
        ([3, 5, 30, 40], 5),
        ([3, 5, 30], 5),
        ([3, 25, 30], None),
        ([20] * 3, 20),
        ([21] * 3, None),
    ],
)
def test_the_half_life_is_the_trip_by_which_half_of_the_cases_have_ended(times, expected):
    result = summarise(ending_at(*times), N).half_life
    assert result == (expected if expected is None else pytest.approx(expected))


def test_half_lost_at_once_and_half_never_is_a_half_life_of_zero():
    never = [chain(*[1.0] * N, image=f"a{i}") for i in range(5)]
    at_once = [chain(outcome="refused", image=f"b{i}") for i in range(5)]
    assert summarise([*never, *at_once], N).half_life == 0
    assert summarise([*never, *at_once[1:]], N).half_life is None


def test_images_clearly_damaged_by_the_first_trip_lasted_for_a_part_of_it():
    """Ends are fractions of trips; 0 means that the chain ended before an image was restored."""
    assert summarise([chain(*[0.25] * N)], N).half_life == pytest.approx(2 / 3)
    assert summarise([chain(*[0.25] * N, change_seen=(False,))], N).half_life == 0


def test_the_half_life_weights_repeats_and_categories_like_usable_trips():
    nine = ending_at(*[4] * 9, category="many")
    one = [chain(*[1.0] * N, image="alone", category="one", repeat=r) for r in range(3)]
    assert summarise([*nine, *one], N).half_life == pytest.approx(4)
    two = [replace(c, category="two", image="more") for c in one[:1]]
    assert summarise([*nine, *one, *two], N).half_life is None


def test_a_lost_chain_is_at_risk_until_it_was_lost():
    """Chains end at 4 and 10 with one lost in between: 2/3 survive, then none."""
    lost = chain(*[0.9] * 6, outcome="lost", image="lost")
    assert summarise([*ending_at(4, 10), lost], N).half_life == pytest.approx(10)
    early = chain(*[0.9] * 2, outcome="lost", image="lost")
    assert summarise([*ending_at(4, 10), early], N).half_life == pytest.approx(4)


def test_a_half_life_is_shown_in_trips_or_as_longer_than_the_suite():
    assert (shown_half_life(None, 20), shown_half_life(7.25, 20)) == ("> 20", "7.2")


@pytest.mark.parametrize("ratio", [0.5, 0.9, 0.93, 0.955])
def test_equal_exponential_curves_have_the_numbers_of_the_formula(ratio):
    """Q_n = r^n on every case: usable until the straight line between two trips meets 1/2."""
    run = [
        chain(*(ratio**n for n in range(1, N + 1)), image=f"p{i}", category=f"c{i % 3}")
        for i in range(7)
    ]
    last = math.ceil(math.log(2) / -math.log(ratio)) - 1
    usable = last + (ratio**last - 0.5) / (ratio**last - ratio ** (last + 1))
    summary = summarise(run, N)
    assert summary.usable_trips == pytest.approx(usable, abs=1e-6)
    assert summary.half_life == pytest.approx(usable, abs=1e-6)
    auc = (0.5 + sum(ratio**n for n in range(1, N)) + ratio**N / 2) / N
    assert summary.auc == pytest.approx(auc, abs=1e-6)


def test_usable_trips_move_smoothly_with_the_share_of_flips_that_are_followed():
    """Version 1 gave 0.0, 4.0, 9.8 and 16.0 for 0, 1, 20 and 40 of 40."""
    local = [halving(time, image=f"l{i}") for i, time in enumerate(np.linspace(4, 16, 40))]

    def result(followed):
        flips = [
            chain(*[1.0] * N, image=f"f{i}", category="geometric", change_seen=(i < followed,))
            for i in range(40)
        ]
        return summarise([*local, *flips], N)

    usable = [result(followed).usable_trips for followed in range(41)]
    assert usable[0] == pytest.approx(5, abs=0.1)
    assert usable[40] == pytest.approx(15, abs=0.1)
    assert np.diff(usable) == pytest.approx(0.25)


# Known answers


def test_losing_five_percent_per_trip_is_usable_for_ten():
    summary = summarise([linear(0.05)], N)
    assert summary.usable_trips == pytest.approx(10)
    assert summary.half_life == pytest.approx(10)
    assert summary.auc == pytest.approx(0.5)
    assert summary.causes["whole"] == 1
    assert summary.curve == pytest.approx([1 - 0.05 * n for n in range(N + 1)])


@pytest.mark.parametrize(("threshold", "expected"), [(0.25, 15), (0.5, 10), (0.75, 5), (0.9, 2)])
def test_every_threshold_has_its_own_usable_trips(threshold, expected):
    assert summarise([linear(0.05)], N, threshold).usable_trips == pytest.approx(expected)


def test_a_perfect_editor_is_usable_throughout():
    summary = summarise([chain(*[1.0] * N, change_seen=(True,) * N)], N)
    assert summary.half_life is None
    assert (summary.usable_trips, summary.auc, summary.censored) == (N, 1, 1)
    assert summary.change_seen == 1


@pytest.mark.parametrize("outcome", BROKEN)
def test_a_chain_that_breaks_at_trip_3_was_usable_for_two(outcome):
    summary = summarise([chain(1.0, 1.0, outcome=outcome)], N)
    assert (summary.half_life, summary.usable_trips) == (2, 2)
    assert summary.causes[outcome] == summary.outcomes[outcome] == 1
    # Zero after its last whole trip, so a break is never worth half a trip.
    assert summary.auc == pytest.approx(2 / N)
    assert summary.curve[3:] == (0,) * (N - 2)
    assert summary.incidence[outcome] == (0, 0, *[1] * (N - 1))


def test_a_chain_refused_at_once_has_zero_trips_on_any_suite():
    for trips in (1, 5, 20):
        summary = summarise([chain(outcome="refused")], trips)
        assert (summary.usable_trips, summary.half_life, summary.auc) == (0, 0, 0)


def test_a_no_op_has_no_usable_trip_although_it_keeps_everything():
    summary = summarise([chain(*[1.0] * N, change_seen=(False,) * N)], N)
    assert (summary.half_life, summary.usable_trips, summary.change_seen) == (0, 0, 0)
    assert summary.causes["not_made"] == summary.change_not_seen == 1
    assert summary.survival == (0,) * (N + 1)
    assert summary.incidence["not_made"] == (1,) * (N + 1)


def test_a_blank_card_has_no_usable_trip():
    answered_by_a_card = chain(*[0.0] * N, change_seen=(False,) * N)
    assert summarise([answered_by_a_card], N).usable_trips == 0
    refused_as_blank = chain(outcome="blank")
    assert summarise([refused_as_blank], N).half_life == 0
    unjudged = summarise([chain(*[0.0] * N)], N)
    assert unjudged.usable_trips == 0.5
    assert unjudged.auc == pytest.approx(0.5 / N)


def test_usable_by_trip_equals_the_result_of_a_shorter_suite():
    run = [
        halving(time, image=f"p{i}", category=f"c{i % 2}") for i, time in enumerate((2, 5, 9, 30))
    ]
    run.append(chain(0.9, 0.8, 0.7, outcome="lost", image="lost"))
    result = summarise(run, N).usable_by_trip
    assert result == pytest.approx([0, *(summarise(run, n).usable_trips for n in range(1, N + 1))])


def test_a_chain_lost_by_the_benchmark_is_censored_and_counted():
    summary = summarise([chain(0.9, 0.9, outcome="lost"), linear(0.05, pair="cup")], N)
    assert (summary.outcomes["lost"], summary.censored, summary.causes["whole"]) == (1, 1, 1)
    assert summary.half_life == pytest.approx(10)
    assert summary.usable_trips == pytest.approx(10)
    assert summary.curve[10] == pytest.approx(0.5)  # the lost chain is no longer in the mean


def test_a_chain_lost_before_its_first_trip_changes_nothing():
    lost = chain(outcome="lost", pair="cup", category="other")
    alone, beside = summarise([linear(0.05)], N), summarise([linear(0.05), lost], N)
    assert beside.usable_trips == alone.usable_trips
    assert (beside.cases, beside.outcomes["lost"]) == (2, 1)
    nothing = summarise([lost], N)
    assert nothing.usable_trips is nothing.half_life is nothing.auc is None
    assert set(nothing.curve) == set(nothing.survival) == set(nothing.incidence["whole"]) == {None}


def test_a_long_chain_gives_every_smaller_number_of_trips():
    whole = chain(0.9, 0.8, 0.7, 0.2, outcome="refused", reframed=(False, False, False, True))
    short = summarise([whole], 3)
    assert (short.half_life, short.censored) == (None, 1)
    assert (short.outcomes["refused"], short.reframed) == (0, 0)
    assert (summarise([whole], 10).outcomes["refused"], summarise([whole], 10).reframed) == (1, 1)


def test_a_chain_that_fails_after_its_crossing_is_not_completed():
    summary = summarise([chain(0.4, 0.3, outcome="failed"), linear(0.05, pair="cup")], N)
    assert (summary.causes["whole"], summary.causes["failed"]) == (2, 0)
    assert (summary.outcomes["completed"], summary.outcomes["failed"]) == (1, 1)


# How cases are weighed


def test_categories_weigh_equally_whatever_the_kinds():
    """Nine flips last and one hat fails; a failing street counts as one more hat."""
    flips = [chain(*[1.0] * N, pair=f"flip-{i}", category="geometric") for i in range(9)]
    hat = chain(outcome="refused")
    scene = chain(outcome="refused", kind="scene", image="street")
    for chains in ([*flips, hat], [*flips, hat, scene]):
        summary = summarise(chains, N)
        assert summary.usable_trips == pytest.approx(N / 2)
        assert summary.auc == pytest.approx(0.5)
        assert summary.curve[1] == pytest.approx(0.5)
        assert summary.incidence["refused"][0] == pytest.approx(0.5)
        assert summary.half_life == 0


def test_repeats_share_the_weight_of_their_case():
    """This also holds if an unfinished run has three repeats of one case and two of another."""
    holds = [chain(*[1.0] * N, repeat=r) for r in range(3)]
    fails = [chain(outcome="failed", pair="cup", repeat=r) for r in range(2)]
    assert summarise([*holds, *fails], N).usable_trips == pytest.approx(N / 2)
    assert summarise([*holds, *fails], N).curve[5] == pytest.approx(0.5)


def test_a_lost_chain_does_not_reduce_its_categorys_weight():
    """A single weighted curve over all cases would drop to a third here."""
    lasting = chain(*[1.0] * N)
    lost = chain(1.0, outcome="lost", pair="cup")
    falling = linear(0.1, category="geometric", pair="flip")
    assert summarise([lasting, falling], N).survival[6] == 0.5
    assert summarise([lasting, lost, falling], N).survival[6] == 0.5


# Properties


@given(chains_of_a_run())
def test_a_summary_survives_json_and_its_bounds(chains):
    summary, values = summary_and_values(chains, 6)
    json.dumps(asdict(summary), allow_nan=False)
    assert sum(summary.causes.values()) + summary.censored == summary.chains == len(chains)
    if not any(c.played for c in chains):
        return
    assert 0 <= summary.usable_trips <= 6 + 1e-9
    assert summary.curve[0] == pytest.approx(1)
    assert values.design.weights.sum() == pytest.approx(1)
    if summary.half_life is not None:
        assert 0 <= summary.half_life <= 6
    if summary.auc is not None:
        assert 0 <= summary.auc <= 1 + 1e-9


@given(chains_of_a_run())
def test_survival_and_incidence_sum_to_one(chains):
    summary = summarise(chains, 6)
    if not any(c.played for c in chains):
        return
    for n in range(7):
        ended = [summary.incidence[cause][n] for cause in CAUSES]
        assert summary.survival[n] + sum(ended) == pytest.approx(1)
        assert min(ended) >= 0
    for falling in (summary.survival, *([-x for x in s] for s in summary.incidence.values())):
        assert all(a >= b - 1e-12 for a, b in itertools.pairwise(falling))
    assert all(a <= b + 1e-12 for a, b in itertools.pairwise(summary.usable_by_trip))
    assert summary.usable_by_trip[-1] == pytest.approx(summary.usable_trips)


@given(chains_of_a_run(lost=False))
def test_a_higher_threshold_never_has_more_usable_trips(chains):
    """With lost chains this does not hold: a later event may then raise Kaplan-Meier's curve."""
    result = [summarise(chains, 6, threshold) for threshold in THRESHOLDS]
    for numbers in ([s.usable_trips for s in result], [s.half_life for s in result]):
        known = [math.inf if number is None else number for number in numbers]
        assert all(low >= high - 1e-9 for low, high in itertools.pairwise(known))


@given(chains_of_a_run(lost=False))
def test_without_lost_chains_usable_trips_are_the_mean_of_the_times(chains):
    by_category = {}
    for c in chains:
        by_category.setdefault(c.category, []).append(event(c, 6, 0.5).time)
    mean = np.mean([np.mean(times) for times in by_category.values()])
    assert summarise(chains, 6).usable_trips == pytest.approx(mean)


@given(chains_of_a_run(), st.randoms(use_true_random=False))
def test_the_order_of_cases_changes_nothing(chains, random):
    shuffled = random.sample(chains, len(chains))
    one, two = asdict(summarise(chains, 6)), asdict(summarise(shuffled, 6))
    one |= one.pop("incidence")
    two |= two.pop("incidence")
    for name, value in one.items():
        assert two[name] == (value if value is None else pytest.approx(value, nan_ok=False))


@given(chains_of_a_run(), st.integers(0, 6), st.sampled_from("abc"))
def test_adding_a_censored_case_never_lowers_survival(chains, trips, category):
    outcome = "completed" if trips == 6 else "lost"
    before = summarise(chains, 6)
    more = chain(*[1.0] * trips, outcome=outcome, image="more", category=category)
    after = summarise([*chains, more], 6)
    if before.usable_trips is not None:
        assert all(a >= b - 1e-9 for b, a in zip(before.survival, after.survival, strict=True))
        assert after.usable_trips >= before.usable_trips - 1e-9


@given(chains_of_a_run(lost=False))
def test_breaking_a_chain_never_raises_a_number(chains):
    """If the last whole trip is refused instead, no number may rise."""
    whole = [c for c in chains if c.outcome == "completed"]
    if not whole:
        return
    cut = replace(
        whole[0],
        retention=whole[0].retention[:5],
        change_seen=whole[0].change_seen[:5],
        outcome="refused",
    )
    before = summarise(chains, 6)
    after = summarise([cut if c is whole[0] else c for c in chains], 6)
    assert after.usable_trips <= before.usable_trips + 1e-9
    assert after.auc <= before.auc + 1e-9
    assert after.curve[6] <= before.curve[6] + 1e-9 or whole[0].retention[5] < 0
