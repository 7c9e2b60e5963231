from __future__ import annotations

import itertools
import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lifelines import KaplanMeierFitter
from lifelines.datasets import load_waltons
from lifelines.utils import restricted_mean_survival_time
from scipy.stats import CensoredData, ecdf

from evaluation.statistics.half_life import carried, event, shown_half_life, summarise
from evaluation.statistics.levels import LEVELS
from evaluation.testing.chains import chain

N = 20


def linear(loss, trips=N, **fields):
    return chain(*(1 - loss * n for n in range(1, trips + 1)), **fields)


# Known answers


def test_losing_five_percent_per_trip_gives_a_half_life_of_ten():
    summary = summarise([linear(0.05)], N)
    assert summary.half_life == pytest.approx(10)
    assert summary.usable_trips == pytest.approx(10)
    assert summary.auc == pytest.approx(0.5)
    assert summary.events["crossed"] == 1
    assert summary.curve == pytest.approx([1 - 0.05 * n for n in range(N + 1)])


@pytest.mark.parametrize(("level", "expected"), [(0.25, 15), (0.5, 10), (0.75, 5), (0.9, 2)])
def test_every_level_has_its_own_half_life(level, expected):
    assert summarise([linear(0.05)], N, level).half_life == pytest.approx(expected)


def test_a_crossing_between_two_trips_is_interpolated():
    assert event(chain(0.9, 0.2), 2, 0.5).time == pytest.approx(1 + 0.4 / 0.7)
    assert event(chain(0.0), 1, 0.5).time == pytest.approx(0.5)
    assert event(chain(-1.0), 1, 0.5).time == pytest.approx(0.25)


def test_reaching_the_level_exactly_is_a_crossing():
    assert event(chain(0.75, 0.5), 2, 0.5) == event(chain(0.75, 0.5, 0.4), 3, 0.5)
    assert event(chain(0.75, 0.5), 2, 0.5).time == 2


def test_a_perfect_editor_never_reaches_its_half_life():
    summary = summarise([chain(*[1.0] * N, change_seen=(True,) * N)], N)
    assert summary.half_life is None
    assert shown_half_life(summary.half_life, N) == "> 20"
    assert (summary.usable_trips, summary.auc, summary.censored) == (N, 1, 1)
    assert summary.change_seen == 1


@pytest.mark.parametrize("outcome", ["refused", "blank", "failed"])
def test_a_chain_that_breaks_at_trip_3_was_usable_for_two(outcome):
    summary = summarise([chain(1.0, 1.0, outcome=outcome)], N)
    assert (summary.half_life, summary.usable_trips) == (2, 2)
    assert summary.events[outcome] == 1
    assert summary.refused == (outcome == "refused")
    # 1 at n = 0, 1, 2 and 0 from 3 on: two and a half trapezoids of 20.
    assert summary.auc == pytest.approx(2.5 / N)
    assert summary.curve[3:] == (0,) * (N - 2)


def test_a_no_op_has_no_usable_trip_although_it_keeps_everything():
    summary = summarise([chain(*[1.0] * N, change_seen=(False,) * N)], N)
    assert (summary.half_life, summary.usable_trips, summary.change_seen) == (0, 0, 0)
    assert summary.events["change_not_seen"] == summary.change_not_seen == 1
    assert summary.survival == (0,) * (N + 1)


def test_a_blank_card_has_no_usable_trip():
    answered_by_a_card = chain(*[0.0] * N, change_seen=(False,) * N)
    assert summarise([answered_by_a_card], N).usable_trips == 0
    refused_as_blank = chain(outcome="blank")
    assert summarise([refused_as_blank], N).half_life == 0
    unjudged = summarise([chain(*[0.0] * N)], N)
    assert unjudged.half_life == 0.5
    assert unjudged.auc == pytest.approx(0.5 / N)


def test_a_change_not_seen_comes_before_the_crossing_of_the_same_trip():
    seen = event(chain(0.9, 0.1, change_seen=(True, False)), 2, 0.5)
    assert (seen.time, seen.kind) == (1, "change_not_seen")


def test_a_pair_that_is_not_judged_has_no_such_event():
    assert event(chain(0.9, 0.8, change_seen=(None, None)), 2, 0.5).kind is None


def test_the_first_passage_counts_and_a_return_is_recorded():
    back = chain(0.4, 0.9, 0.9)
    assert event(back, 3, 0.5).time < 1
    assert summarise([back], 3).recovered == 1
    assert summarise([back], 1).recovered == 0
    assert summarise([chain(0.4, 0.5, 0.3)], 3).recovered == 0


def test_our_own_loss_is_censored_and_counted():
    summary = summarise([chain(0.9, 0.9, outcome="lost"), linear(0.05, pair="cup")], N)
    assert (summary.lost, summary.censored, summary.events["crossed"]) == (1, 1, 1)
    assert summary.half_life == pytest.approx(10)
    assert summary.usable_trips == pytest.approx(10)
    assert summary.curve[10] == pytest.approx(0.5)  # the lost chain is no longer in the mean


def test_a_forward_edit_that_failed_before_the_loss_still_counts():
    seen = event(chain(0.9, outcome="lost", change_seen=(True, False)), N, 0.5)
    assert (seen.time, seen.kind) == (1, "change_not_seen")


def test_a_chain_lost_before_its_first_trip_says_nothing():
    lost = chain(outcome="lost", pair="cup", category="other")
    alone, beside = summarise([linear(0.05)], N), summarise([linear(0.05), lost], N)
    assert beside.half_life == alone.half_life
    assert (beside.cases, beside.lost) == (2, 1)
    nothing = summarise([lost], N)
    assert nothing.usable_trips is nothing.half_life is nothing.auc is None
    assert set(nothing.curve) == {None}


def test_a_long_chain_gives_every_smaller_number_of_trips():
    whole = chain(0.9, 0.8, 0.7, 0.2, outcome="refused", reframed=(False, False, False, True))
    short = summarise([whole], 3)
    assert (short.half_life, short.censored) == (None, 1)
    assert (short.refused, short.reframed) == (0, 0)
    assert (summarise([whole], 10).refused, summarise([whole], 10).reframed) == (1, 1)


def test_a_chain_that_fails_after_its_crossing_is_no_completed_chain():
    summary = summarise([chain(0.4, 0.3, outcome="failed"), linear(0.05, pair="cup")], N)
    assert (summary.events["crossed"], summary.events["failed"]) == (2, 0)
    assert (summary.outcomes["completed"], summary.outcomes["failed"]) == (1, 1)


def test_a_break_below_zero_does_not_lift_the_mean_curve():
    assert list(carried(chain(-0.5, outcome="failed"), 3)) == [1, -0.5, -0.5, -0.5]
    assert list(carried(chain(0.8, outcome="failed"), 3)) == [1, 0.8, 0, 0]


# How cases are weighed


def test_every_category_of_a_kind_and_every_kind_weighs_the_same():
    """Nine flips of a face that hold, one hat that fails; scenes fail altogether."""
    flips = [chain(*[1.0] * N, pair=f"flip-{i}", category="geometric") for i in range(9)]
    hat = chain(outcome="refused")
    scene = chain(outcome="refused", kind="scene", picture="street")
    faces = summarise([*flips, hat], N)
    assert faces.usable_trips == pytest.approx(N / 2)
    assert faces.curve[1] == pytest.approx(0.5)
    everything = summarise([*flips, hat, scene], N)
    assert everything.usable_trips == pytest.approx(N / 4)
    assert everything.auc == pytest.approx((1 + 0.5 / N + 2 * 0.5 / N) / 4)
    assert everything.half_life == 0


def test_repeats_share_the_weight_of_their_case():
    """Also where an unfinished run has three repeats of one case and two of another."""
    holds = [chain(*[1.0] * N, repeat=r) for r in range(3)]
    fails = [chain(outcome="failed", pair="cup", repeat=r) for r in range(2)]
    assert summarise([*holds, *fails], N).usable_trips == pytest.approx(N / 2)
    assert summarise([*holds, *fails], N).curve[5] == pytest.approx(0.5)


def test_a_loss_in_one_stratum_takes_no_weight_from_it():
    """One weighted curve over all cases would drop to a third here."""
    lasting = chain(*[1.0] * N)
    lost = chain(1.0, outcome="lost", pair="cup")
    falling = linear(0.1, category="geometric", pair="flip")
    assert summarise([lasting, falling], N).survival[6] == 0.5
    assert summarise([lasting, lost, falling], N).survival[6] == 0.5


# Refusals


@pytest.mark.parametrize(
    "fields",
    [
        {"retention": (math.nan,)},
        {"retention": (math.inf,)},
        {"retention": (1.5,)},
        {"outcome": "finished"},
        {"change_seen": (True,) * 4},
    ],
)
def test_impossible_chains_are_refused(fields):
    with pytest.raises(ValueError, match="cat--hat"):
        replace(chain(0.9, 0.8), **fields)


def test_impossible_sets_of_chains_are_refused():
    with pytest.raises(ValueError, match="no chains"):
        summarise([], N)
    with pytest.raises(ValueError, match="twice"):
        summarise([linear(0.1), linear(0.2)], N)
    with pytest.raises(ValueError, match="completed, but 2 of 20"):
        summarise([chain(0.9, 0.8)], N)


# Agreement


def test_kaplan_meier_agrees_with_the_published_worked_example():
    """Freireich et al. 1963, 6-MP arm, weeks in remission: median 23, S(10) = 0.753."""
    ended = [6, 6, 6, 7, 10, 13, 16, 22, 23]
    going = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
    summary = summarise(arm(ended, going, 35), 35)
    assert summary.half_life == 23
    published = {6: 0.857, 7: 0.807, 10: 0.753, 13: 0.690, 16: 0.627, 22: 0.538, 23: 0.448}
    assert {week: round(summary.survival[week], 3) for week in published} == published


def test_kaplan_meier_agrees_with_lifelines_on_its_own_data():
    waltons = load_waltons()
    ended = waltons["T"][waltons["E"] == 1].astype(int).tolist()
    going = waltons["T"][waltons["E"] == 0].astype(int).tolist()
    summary = summarise(arm(ended, going, 80), 80)
    fitted = KaplanMeierFitter().fit(waltons["T"], waltons["E"])
    assert summary.half_life == fitted.median_survival_time_
    expected = fitted.survival_function_at_times(range(81))
    assert summary.survival == pytest.approx(expected.tolist())
    assert summary.usable_trips == pytest.approx(restricted_mean_survival_time(fitted, t=80))


def test_equal_strata_agree_with_the_weighted_curve_of_lifelines_where_nothing_is_lost():
    random = np.random.default_rng(3)
    slopes = random.uniform(0.01, 0.2, 30)
    places = [("objects", "face")] * 20 + [("geometric", "face")] * 4 + [("objects", "scene")] * 6
    chains = [
        linear(slope, pair=f"pair-{i}", category=category, kind=kind)
        for i, (slope, (category, kind)) in enumerate(zip(slopes, places, strict=True))
    ]
    weights = [{20: 3, 4: 15, 6: 20}[places.count(place)] for place in places]
    events = [event(c, N, 0.5) for c in chains]
    fitted = KaplanMeierFitter().fit(
        [e.time for e in events], [e.kind is not None for e in events], weights=weights
    )
    summary = summarise(chains, N)
    assert summary.half_life == pytest.approx(fitted.median_survival_time_)
    assert summary.survival == pytest.approx(
        fitted.survival_function_at_times(range(N + 1)).tolist()
    )


def arm(ended, going, trips):
    """Chains that break after so many trips, and chains that we lost after so many."""
    return [
        chain(*[0.9] * time, outcome=outcome, picture=f"{outcome}-{i}")
        for outcome, times in (("failed", ended), ("lost", going))
        for i, time in enumerate(times)
        if time < trips or outcome == "lost"
    ]


# Properties

retentions = st.lists(st.floats(-0.5, 1), min_size=6, max_size=6).map(tuple)


@st.composite
def chains_of_a_run(draw, lost=True, min_size=1):
    outcomes = ["refused", "blank", "failed"] + ["lost"] * lost
    found = []
    for i in range(draw(st.integers(min_size, 8))):
        retention, outcome = draw(retentions), "completed"
        if draw(st.booleans()):
            outcome = draw(st.sampled_from(outcomes))
            retention = retention[: draw(st.integers(0, 5))]
        flags = st.lists(
            st.sampled_from([True, True, None, False]),
            min_size=len(retention),
            max_size=len(retention),
        )
        found.append(
            chain(
                *retention,
                outcome=outcome,
                change_seen=tuple(draw(flags)),
                picture=f"picture-{i}",
                category=draw(st.sampled_from("ab")),
                kind=draw(st.sampled_from("xy")),
            )
        )
    return found


@given(chains_of_a_run())
def test_a_summary_survives_json_and_its_bounds(chains):
    summary = summarise(chains, 6)
    json.dumps(asdict(summary), allow_nan=False)
    assert sum(summary.events.values()) + summary.censored == summary.chains == len(chains)
    if any(c.played for c in chains):
        assert 0 <= summary.usable_trips <= 6 + 1e-9
        assert summary.curve[0] == pytest.approx(1)
        assert all(a >= b - 1e-12 for a, b in itertools.pairwise(summary.survival))
    if summary.half_life is not None:
        assert 0 <= summary.half_life <= 6
    if summary.auc is not None:
        assert 0 <= summary.auc <= 1 + 1e-12


@given(chains_of_a_run(lost=False))
def test_a_higher_level_never_lengthens_the_half_life(chains):
    """Not so with lost chains: Kaplan-Meier may then read more from a later event."""
    found = [summarise(chains, 6, level) for level in LEVELS]
    times = [math.inf if s.half_life is None else s.half_life for s in found]
    assert times == sorted(times, reverse=True)
    usable = [s.usable_trips for s in found]
    assert all(low >= high - 1e-9 for low, high in itertools.pairwise(usable))


@given(chains_of_a_run(), st.randoms(use_true_random=False))
def test_the_order_of_cases_changes_nothing(chains, random):
    shuffled = random.sample(chains, len(chains))
    one, two = asdict(summarise(chains, 6)), asdict(summarise(shuffled, 6))
    for name, value in one.items():
        assert two[name] == (value if value is None else pytest.approx(value, nan_ok=False))


@given(
    chains_of_a_run(),
    st.integers(0, 6),
    st.sampled_from("abc"),
    st.sampled_from("xyz"),
)
def test_adding_a_censored_case_never_lowers_survival(chains, trips, category, kind):
    outcome = "completed" if trips == 6 else "lost"
    place = {"picture": "more", "category": category, "kind": kind}
    before = summarise(chains, 6)
    after = summarise([*chains, chain(*[1.0] * trips, outcome=outcome, **place)], 6)
    if before.usable_trips is not None:
        assert all(a >= b - 1e-9 for b, a in zip(before.survival, after.survival, strict=True))
        assert after.usable_trips >= before.usable_trips - 1e-9


@given(chains_of_a_run())
def test_one_stratum_is_plain_kaplan_meier(chains):
    chains = [replace(c, category="a", kind="x") for c in chains if c.played]
    if not chains:
        return
    events = [event(c, 6, 0.5) for c in chains]
    data = CensoredData(
        uncensored=[e.time for e in events if e.kind],
        right=[e.time for e in events if not e.kind],
    )
    expected = ecdf(data).sf.evaluate(np.arange(7))
    assert summarise(chains, 6).survival == pytest.approx(list(expected))
