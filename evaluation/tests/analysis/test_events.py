from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.analysis.events import (
    CAUSES,
    CROSSINGS,
    Case,
    check_chains,
    crossing_cause,
    event,
)
from evaluation.analysis.thresholds import THRESHOLDS
from evaluation.testing.chains import chain

N = 20


# Crossings


def test_a_crossing_between_two_trips_is_interpolated():
    assert event(chain(0.9, 0.2), 2, 0.5).time == pytest.approx(1 + 0.4 / 0.7)
    assert event(chain(0.0), 1, 0.5).time == pytest.approx(0.5)
    assert event(chain(-1.0), 1, 0.5).time == pytest.approx(0.25)


def test_reaching_the_threshold_exactly_is_a_crossing():
    assert event(chain(0.75, 0.5), 2, 0.5) == event(chain(0.75, 0.5, 0.4), 3, 0.5)
    assert event(chain(0.75, 0.5), 2, 0.5).time == 2


def test_the_first_passage_counts_and_a_recovery_is_recorded():
    back = chain(0.4, 0.9, 0.9)
    assert event(back, 3, 0.5).time < 1
    assert event(back, 3, 0.5).recovered
    assert not event(back, 1, 0.5).recovered
    assert not event(chain(0.4, 0.5, 0.3), 3, 0.5).recovered


def test_the_cause_of_a_crossing_is_the_part_that_was_smallest_on_that_trip():
    worn = chain(0.9, 0.8, 0.2, because=("colour", "whole", "object"))
    assert event(worn, 3, 0.5).cause == "object"
    assert event(worn, 3, 0.75).cause == "object"
    assert event(worn, 3, 0.9).cause == "colour"


def test_a_metric_without_parts_has_its_own_cause():
    assert event(chain(0.2), 1, 0.5).cause == "whole"
    assert event(chain(0.2, cause="face"), 1, 0.5).cause == "face"
    assert [crossing_cause(name) for name in ("lpips", "ssim", "object", "colour", "face")] == [
        *("whole", "whole", "object", "colour", "face")
    ]


# Edits that were not made, or not undone


@pytest.mark.parametrize(
    ("flags", "cause"),
    [("change_seen", "not_made"), ("made", "not_the_edit"), ("undone", "not_undone")],
)
def test_a_gate_at_trip_3_leaves_two_usable_trips(flags, cause):
    whole = chain(*[1.0] * 5, **{flags: (True, None, False, True, False)})
    assert event(whole, 5, 0.5).time == 2
    assert event(whole, 5, 0.5).cause == cause
    assert event(whole, 2, 0.5).cause is None


def test_a_gate_precedes_a_crossing_on_its_trip_but_not_an_earlier_one():
    assert event(chain(0.9, 0.1, change_seen=(True, False)), 2, 0.5).cause == "not_made"
    assert event(chain(0.9, 0.1, undone=(True, False)), 2, 0.5).time == 1
    assert event(chain(0.1, 0.9, change_seen=(True, False)), 2, 0.5).cause == "whole"


def test_of_two_gates_the_earlier_one_counts():
    both = chain(1.0, 1.0, 1.0, made=(True, True, False), undone=(True, False, True))
    assert event(both, 3, 0.5).cause == "not_undone"
    once = chain(1.0, change_seen=(False,), made=(False,), undone=(False,))
    assert event(once, 1, 0.5).cause == "not_made"
    assert event(replace(once, change_seen=(None,)), 1, 0.5).cause == "not_the_edit"


def test_unjudged_trips_end_no_chain():
    unjudged = chain(0.9, 0.8, change_seen=(None, None), made=(None,), undone=(None, None))
    assert event(unjudged, 2, 0.5).cause is None


def test_a_forward_edit_that_failed_before_the_chain_broke_still_counts():
    for outcome in ("lost", "refused"):
        seen = event(chain(0.9, outcome=outcome, change_seen=(True, False)), N, 0.5)
        assert (seen.time, seen.cause) == (1, "not_made")
        seen = event(chain(0.9, outcome=outcome, made=(True, False)), N, 0.5)
        assert (seen.time, seen.cause) == (1, "not_the_edit")


# Refusals


@pytest.mark.parametrize(
    "fields",
    [
        {"retention": (math.nan,)},
        {"retention": (math.inf,)},
        {"retention": (1.5,)},
        {"outcome": "finished"},
        {"change_seen": (True,) * 4},
        {"made": (True,) * 4},
        {"undone": (True,) * 3},
        {"because": ("whole",)},
        {"because": ("whole", "lpips")},
        {"cause": "refused"},
    ],
)
def test_impossible_chains_are_refused(fields):
    with pytest.raises(ValueError, match="cat--hat"):
        replace(chain(0.9, 0.8), **fields)


def test_impossible_sets_of_chains_are_refused():
    with pytest.raises(ValueError, match="no chains"):
        check_chains([], N)
    with pytest.raises(ValueError, match="at least one trip"):
        check_chains([chain(0.9)], 0)
    with pytest.raises(ValueError, match="duplicate chain"):
        check_chains([chain(*[0.9] * N), chain(*[0.8] * N)], N)
    with pytest.raises(ValueError, match="completed, but has 2 of 20"):
        check_chains([chain(0.9, 0.8)], N)


# Properties

flags = st.lists(st.sampled_from([True, True, True, None, False]), max_size=6).map(tuple)


@st.composite
def any_chain(draw):
    retention = tuple(draw(st.lists(st.floats(-0.5, 1), min_size=6, max_size=6)))
    outcome = draw(st.sampled_from(["completed", "refused", "blank", "failed", "lost"]))
    if outcome != "completed":
        retention = retention[: draw(st.integers(0, 5))]
    size = len(retention)
    because = st.lists(st.sampled_from(CROSSINGS), min_size=size, max_size=size).map(tuple)
    return chain(
        *retention,
        outcome=outcome,
        change_seen=draw(flags)[: size + 1],
        made=draw(flags)[: size + 1],
        undone=draw(flags)[:size],
        because=draw(st.one_of(st.just(()), because)),
    )


def first_passage(found, trips, threshold):
    """Apply the method's rule literally, trip by trip."""
    before = 1.0
    for n in range(1, trips + 1):
        for judged, cause in ((found.change_seen, "not_made"), (found.made, "not_the_edit")):
            if judged[n - 1 : n] == (False,):
                return n - 1, cause
        if n > len(found.retention):
            return n - 1, None if found.outcome == "lost" else found.outcome
        if found.undone[n - 1 : n] == (False,):
            return n - 1, "not_undone"
        after = found.retention[n - 1]
        if after <= threshold:
            cause = found.because[n - 1] if found.because else found.cause
            return n - 1 + (before - threshold) / (before - after), cause
        before = after
    return trips, None


@given(any_chain(), st.integers(1, 6), st.sampled_from(THRESHOLDS))
def test_events_equal_a_literal_reading_of_the_method(found, trips, threshold):
    seen = event(found, trips, threshold)
    assert (seen.time, seen.cause) == first_passage(found, trips, threshold)
    assert seen.cause is None or seen.cause in CAUSES


@given(any_chain())
def test_a_longer_chain_gives_every_smaller_number_of_trips(found):
    for trips in range(1, 6):
        short, long = event(found, trips, 0.5), event(found, 6, 0.5)
        assert short.time == min(long.time, trips)
        if long.time < trips:
            assert short.cause == long.cause


def test_a_case_has_a_name_and_scopes():
    case = Case("cat", "hat", "objects", "face", "photograph")
    assert str(case) == f"{case}" == "cat--hat"
    assert case.scopes == (
        "all",
        "category:objects",
        "kind:face",
        "origin:photograph",
        "pair:hat",
    )
