"""Standings computed from scores, and chains restored from stored numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest

from evaluation.analysis.covariance import Design
from evaluation.analysis.events import CAUSES, Case, event
from evaluation.analysis.half_life import summarise
from evaluation.analysis.ranking import rank_scope
from evaluation.analysis.standings import (
    ScoredTrip,
    chain_numbers,
    chain_of_numbers,
    is_complete,
    measured_chain,
    standings,
)
from evaluation.analysis.thresholds import THRESHOLDS
from evaluation.records import TripMeasures
from evaluation.testing.chains import made_up_cases

TRIPS = 10
CASE = Case("cat", "hat", "objects", "face", "photograph")
LADDER = {"90": 0.1, "50": 0.3, "10": 0.6, "1": 0.9}


def trip(
    number, distance, change_seen=True, because="", made=None, undone=None, gates=True, **fields
):
    moved = TripMeasures(
        step=0.02,
        from_source=0.02 * number,
        change_seen=change_seen,
        because=because,
        evidence=[
            {"witness": "hue", "thing": "it", "gates": gates, "made": made, "undone": undone}
        ],
    )
    return ScoredTrip(number, distance, moved, **fields)


def measured(case, distances, outcome="completed", metric="lpips", repeat=0, **by_trip):
    """Return a chain with these distances; `by_trip` gives measures of each trip."""
    trips = [
        trip(number, distance, **{name: values[number - 1] for name, values in by_trip.items()})
        for number, distance in enumerate(distances, 1)
    ]
    return measured_chain(metric, case, repeat, outcome, trips, 1.0, LADDER, TRIPS)


def a_run(strength=1.0, cases=None, repeats=1):
    """Return a run on 30 cases whose chains fall linearly, some more steeply."""
    random = np.random.default_rng(0)
    found = []
    for case in cases or made_up_cases(30, 12, 14, 3):
        for repeat in range(repeats):
            loss = random.uniform(0.04, 0.15) / strength
            distances = [loss * n for n in range(1, TRIPS + 1)]
            found.append(measured(case, distances, repeat=repeat))
    return found


def of_all(chains, threshold=0.5, metric="lpips"):
    found = (row for row, _ in standings(metric, chains, TRIPS))
    return next(row for row in found if row.scope == "all" and row.threshold == threshold)


def test_a_standing_has_every_stored_field():
    chains = a_run()
    found = of_all(chains)
    summary = summarise([c.result for c in chains], TRIPS)
    numbers = json.loads(json.dumps(found.model_dump(), allow_nan=False))
    for name in ("half_life", "usable_trips", "auc"):
        assert numbers[name] == pytest.approx(getattr(summary, name))
    for name in ("half_life", "usable_trips", "auc"):
        assert numbers[f"{name}_low"] < numbers[name] < numbers[f"{name}_high"]
    assert numbers["has_interval"]
    assert {len(numbers["curve"][band]) for band in ("mean", "low", "high", "shown")} == {11}
    assert set(numbers["incidence"]) == set(numbers["counts"]["causes"]) == set(CAUSES)
    for n in range(TRIPS + 1):
        ended = sum(shares[n] for shares in numbers["incidence"].values())
        assert numbers["survival"][n] + ended == pytest.approx(1, abs=1e-3)
    assert numbers["usable_by_trip"][-1] == pytest.approx(summary.usable_trips, abs=1e-4)
    assert set(numbers["details"]) == {"jpeg", "dynamics", "witnesses", "repeats"}


def test_every_threshold_and_scope_has_a_standing_and_only_all_has_values():
    every = list(standings("lpips", a_run(), TRIPS))
    found = [row for row, _ in every]
    scopes = {s.scope for s in found}
    assert {s.split(":")[0] for s in scopes} == {"all", "category", "kind", "origin", "pair"}
    assert len(found) == len(scopes) * len(THRESHOLDS)
    assert {row.scope for row, values in every if values} == {"all"}
    assert not any(s.has_interval for s in found if s.scope.startswith("pair:"))


def test_any_scope_is_ranked_from_stored_values():
    """One array of floats per run, in the suite's order, suffices for ranking."""
    cases = made_up_cases(60, 24, 28, 2)
    kept, usable = [], []
    for strength in (1.0, 2.0):
        found = list(standings("lpips", a_run(strength, cases), TRIPS))
        at_half = [(row, values) for row, values in found if row.threshold == 0.5]
        (values,) = (values for _, values in at_half if values)
        kept.append(values.aligned(cases).astype(np.float32))
        usable.append({row.scope: row.usable_trips for row, _ in at_half})
    told = set()
    for scope in usable[0]:
        shown = [own[scope] for own in usable]
        part = Design([case for case in cases if scope in case.scopes])
        ranks = rank_scope(cases, np.column_stack(kept), TRIPS, scope, shown)
        assert ranks.sets == rank_scope(cases, np.column_stack(kept), TRIPS, scope).sets
        assert ranks.shared == ((2, 1) if part.enough else (1, 1))
        told |= {scope} if part.enough else set()
    assert {"all", "category:category-0"} <= told


def test_the_cause_of_the_headline_is_the_part_that_lost_most():
    worn = measured(CASE, [0.1, 0.8], "completed", "overall", because=["shape", "object"])
    assert worn.result.because == ("shape", "object")
    assert event(worn.result, 2, 0.5).cause == "object"
    assert event(measured(CASE, [0.8], metric="colour").result, 1, 0.5).cause == "colour"
    assert event(measured(CASE, [0.8], metric="ssim").result, 1, 0.5).cause == "whole"


def test_witnesses_that_gate_end_a_chain():
    other = measured(CASE, [0.1, 0.1, 0.1], made=[True, None, False])
    left_on = measured(CASE, [0.1, 0.1, 0.1], undone=[True, False, None])
    assert event(other.result, 3, 0.5).cause == "not_the_edit"
    assert event(left_on.result, 3, 0.5) == event(left_on.result, 2, 0.5)
    assert event(left_on.result, 3, 0.5).cause == "not_undone"


def test_witnesses_that_do_not_gate_are_counted_and_end_no_chain():
    doubted = {"made": [True, False, True, True], "undone": [True, None, False, True]}
    chain = measured(CASE, [0.1] * 4, gates=[False] * 4, **doubted)
    assert event(chain.result, 4, 0.5).cause is None
    ((row, _), *_) = standings("lpips", [chain], 4)
    counts = row.counts
    assert (counts["edits_made"], counts["edits_undone"]) == (3 / 4, 2 / 3)
    heard = row.details["witnesses"]
    assert heard == {"objects": {"hue": {"made": [3, 4], "undone": [2, 3]}}}
    ((row, _), *_) = standings("lpips", [measured(CASE, [0.1] * 4)], 4)
    assert row.counts["edits_made"] is None


def test_a_trip_without_a_restored_image_is_still_judged_forward():
    trips = [trip(1, 0.1), trip(2, None, change_seen=False, scored=False)]
    found = measured_chain("lpips", CASE, 0, "refused", trips, 1.0, LADDER, 5)
    assert event(found.result, 5, 0.5).cause == "not_made"


def test_a_metric_that_lacks_a_scored_trip_has_no_chain():
    assert measured(CASE, [0.1, None, 0.2]) is None
    assert measured_chain("lpips", CASE, 0, "completed", [trip(1, 0.1)], None, {}, 1) is None


@pytest.mark.parametrize("outcome", ["completed", "refused", "lost"])
@pytest.mark.parametrize("gate", [None, "change_seen", "made", "undone"])
def test_a_chain_is_restored_from_stored_numbers_with_its_events(outcome, gate):
    flags = {gate: [True, True, False, True]} if gate else {}
    because = {"because": ["colour", "object", "grain", "object"]}
    for distances in ([0.1, 0.2, 0.3, 0.9], [0.1, 0.6, 0.2, 0.3]):
        chain = measured(CASE, distances, outcome, "overall", **flags, **because)
        trips = 4 if outcome == "completed" else 6
        numbers = json.loads(json.dumps(chain_numbers(chain, trips)))
        again = chain_of_numbers("overall", CASE, 0, outcome, numbers, trips)
        for threshold in THRESHOLDS:
            one, two = event(chain.result, trips, threshold), event(again, trips, threshold)
            assert two.time == pytest.approx(one.time)
            assert (two.cause, two.recovered) == (one.cause, one.recovered)
            kept = numbers["events"][f"{threshold:g}"]
            assert kept["cause"] == (one.cause or ("lost" if one.time < trips else "censored"))


@pytest.mark.parametrize("outcome", ["", "completed"])
def test_a_chain_still_in_play_is_censored_at_its_last_trip(outcome):
    numbers = chain_numbers(measured(CASE, [0.1, 0.2], "lost"), TRIPS)
    found = event(chain_of_numbers("lpips", CASE, 0, outcome, numbers, TRIPS), TRIPS, 0.5)
    assert (found.time, found.cause) == (2.0, None)


def test_the_jpeg_of_equal_loss_counts_a_broken_chain_as_worse_than_any():
    """Eight of ten chains are refused at trip 2; version 1 still showed "JPEG 95" after ten trips."""
    cases = made_up_cases(10, 10, 10, 1)
    kept = [measured(case, [0.05] * TRIPS) for case in cases]
    refused = [measured(case, [0.05], "refused") for case in cases]
    lost = [measured(case, [0.05], "lost") for case in cases]

    def jpeg(chains):
        return of_all(chains).details["jpeg"]

    assert jpeg(kept)["10"] == jpeg([*kept[:2], *lost[2:]])["10"] == 95
    assert jpeg([*kept[:2], *refused[2:]])["10"] is None
    assert jpeg([*kept[:2], *refused[2:]])["1"] == 95
    assert jpeg([*kept[:6], *refused[6:]])["10"] == 95


def test_a_run_is_complete_by_the_cases_that_the_metric_applies_to():
    """The face metric does not apply to images without a face."""
    cases = made_up_cases(30, 12, 14, 3)
    faces = [case for case in cases if case.kind == "face"]
    run = a_run(cases=faces)
    wanted = [(case.image, case.pair, 0) for case in faces]
    assert is_complete(run, wanted, TRIPS)
    assert not is_complete(run[1:], wanted, TRIPS)
    assert not is_complete(run, [(case.image, case.pair, 0) for case in cases], TRIPS)
    assert not is_complete(run, [], TRIPS)
    assert of_all(run, metric="identity").counts["cases"] == len(faces)


def test_a_case_lost_before_its_first_trip_leaves_a_run_incomplete():
    run = a_run()
    wanted = [c.result.key for c in run]
    unplayed = measured(run[0].result.case, [], "lost")
    assert not is_complete([unplayed, *run[1:]], wanted, TRIPS)
    assert of_all([unplayed, *run[1:]]).counts["lost"] == 1
    assert list(standings("lpips", [unplayed], TRIPS)) == []


def test_repeats_are_reported_if_a_run_has_any():
    assert of_all(a_run()).details["repeats"] is None
    twice = of_all(a_run(repeats=2)).details["repeats"]
    assert (twice["repeats"], twice["cases"]) == (2, 30)
    second = [measured(c.result.case, c.distances, repeat=1) for c in a_run()]
    assert of_all(second).details["repeats"] is None
