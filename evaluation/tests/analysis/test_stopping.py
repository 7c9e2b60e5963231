"""Early stopping: numbers that remain exact, and numbers that become unknown."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from evaluation.analysis.case_values import case_values
from evaluation.analysis.events import CONVERGED, KNOWN, Case, EndUnknown, event
from evaluation.analysis.standings import (
    ScoredTrip,
    chain_numbers,
    chain_of_numbers,
    is_complete,
    measured_chain,
    standings,
)
from evaluation.analysis.stopping import (
    edits_saved,
    has_converged,
    known_at,
    last_trip,
    may_stop,
    stopped,
)
from evaluation.analysis.thresholds import THRESHOLDS
from evaluation.content import catalog
from evaluation.records import TripMeasures
from evaluation.testing.chains import chain, made_up_cases

TRIPS, K = 20, 3
#: Fields in which a stopped run equals the full run at every threshold, by the headline.
EXACT = (
    *("half_life", "half_life_low", "half_life_high", "usable_trips", "usable_trips_low"),
    *("usable_trips_high", "survival", "incidence", "usable_by_trip", "has_interval"),
)


def recorded(case, kept, metric, outcome="completed", gate=None):
    """Return a chain by one metric with its retention and the trip at which a gate closed."""
    trips = [
        ScoredTrip(
            number,
            1 - q,
            TripMeasures(
                step=abs(q - ([1.0, *kept])[number - 1]),
                from_source=1 - q,
                change_seen=number != gate,
                because="object",
            ),
        )
        for number, q in enumerate(kept, start=1)
    ]
    return measured_chain(metric, case, 0, outcome, trips, 1.0, {"90": 0.1, "1": 0.9}, TRIPS)


def recorded_run(seed=0, strength=1.0):
    """Return a full run by the headline and by a metric that falls later, with refusals and recoveries."""
    random = np.random.default_rng(seed)
    run = {"overall": [], "ssim": []}
    for case in made_up_cases(60, 14, 16, 4):
        # Most fall for good; some wander around a threshold or recover.
        falls = random.uniform(0.02, 0.5) / strength
        kept = 1 - falls * np.arange(1, TRIPS + 1) + random.normal(0, 0.15, TRIPS)
        kept = np.clip(kept, -0.5, 1)
        later = 1 - (1 - np.clip(kept, 0, 1)) * 0.6
        outcome, gate = "completed", int(random.integers(1, 12)) if random.random() < 0.2 else None
        if random.random() < 0.15:
            outcome, kept = "refused", kept[: random.integers(0, 8)]
        for metric, values in (("overall", kept), ("ssim", later[: len(kept)])):
            run[metric].append(recorded(case, values.tolist(), metric, outcome, gate))
    return run


def cut(measured, headline, k=K):
    """Return the chain as early stopping would have left it; `headline` is the full chain."""
    known, played = known_at(headline.result), len(headline.result.retention)
    last = min(TRIPS, known + k) if known else TRIPS
    if played <= last:
        return measured
    case, result = measured.result.case, measured.result
    trips = [
        ScoredTrip(n, d, m)
        for n, d, m in zip(range(1, last + 1), measured.distances, measured.trips, strict=False)
    ]
    metric = "overall" if result.because else "ssim"
    return measured_chain(metric, case, 0, KNOWN, trips, 1.0, {"90": 0.1, "1": 0.9}, TRIPS)


def numbers(metric, chains):
    return {
        (row.threshold, row.scope): json.loads(json.dumps(row.model_dump(), allow_nan=False))
        for row, _ in standings(metric, chains, TRIPS)
    }


@pytest.mark.parametrize("seed", range(6))
def test_a_stopped_run_has_the_headline_of_the_full_run(seed):
    full = recorded_run(seed)
    short = [cut(c, c) for c in full["overall"]]
    assert 0 < sum(c.result.outcome == KNOWN for c in short) < len(short)
    whole, part = numbers("overall", full["overall"]), numbers("overall", short)
    assert whole.keys() == part.keys()
    for key, expected in whole.items():
        assert {n: part[key][n] for n in EXACT} == {n: expected[n] for n in EXACT}
        assert part[key]["counts"]["causes"] == expected["counts"]["causes"]
    values = [case_values([c.result for c in run], TRIPS) for run in (full["overall"], short)]
    assert np.array_equal(values[0].usable, values[1].usable)


@pytest.mark.parametrize("seed", range(4))
def test_other_metrics_equal_the_full_run_or_are_unknown(seed):
    full = recorded_run(seed, strength=0.7)
    headline = full["overall"]
    short = [cut(c, h) for c, h in zip(full["ssim"], headline, strict=True)]
    whole, part = numbers("ssim", full["ssim"]), numbers("ssim", short)
    assert {threshold for threshold, _ in whole} == set(THRESHOLDS)
    assert 0.75 in {threshold for threshold, _ in part}, (
        "a threshold that all reach in time is known"
    )
    assert 0.25 not in {threshold for threshold, _ in part}, "one that they do not is not there"
    for key in part:
        assert {n: part[key][n] for n in EXACT} == {n: whole[key][n] for n in EXACT}
    with pytest.raises(EndUnknown, match="stopped before they fell to 0"):
        case_values([c.result for c in short], TRIPS, 0.25)


def test_auc_and_the_tail_of_the_curve_are_unknown_not_those_of_survivors():
    full = recorded_run()["overall"]
    short = [cut(c, c) for c in full]
    first = min(len(c.result.retention) for c in short if c.result.outcome == KNOWN)
    whole, part = (numbers("overall", run)[0.5, "all"] for run in (full, short))
    assert part["auc"] is part["auc_low"] is None
    assert whole["auc"] > 0
    assert part["curve"]["mean"][: first + 1] == whole["curve"]["mean"][: first + 1]
    for name in ("mean", "low", "high", "shown"):
        assert set(part["curve"][name][first + 1 :]) == {None}
    assert all(int(n) <= first for n in part["details"]["jpeg"])
    assert part["counts"]["known"] == sum(c.result.outcome == KNOWN for c in short)


@pytest.mark.parametrize("lag", [0, 1, 2, 3])
def test_a_chain_stops_at_the_same_trip_however_far_scoring_is_behind(lag):
    random = np.random.default_rng(lag)
    for kept in np.clip(1 - random.uniform(0, 0.12, (200, TRIPS)).cumsum(axis=1), 0, 1):
        whole = chain(*kept.tolist())
        expected = known_at(whole)
        played = scored = 0
        while played < TRIPS:
            seen = known_at(chain(*kept[:scored].tolist(), outcome="lost"))
            if stopped(played, seen, [], K):
                break
            if played < last_trip(seen, scored, K, TRIPS):
                played += 1
                scored = max(scored, played - lag)
            else:
                scored = min(played, scored + 1)
        assert played == (min(TRIPS, expected + K) if expected else TRIPS)
        if expected:
            short = chain(*kept[:played].tolist(), outcome=KNOWN if played < TRIPS else "completed")
            for threshold in THRESHOLDS:
                one, two = event(whole, TRIPS, threshold), event(short, TRIPS, threshold)
                assert (one.time, one.cause) == (two.time, two.cause)


def test_the_end_is_known_when_the_lowest_threshold_is_reached_or_a_gate_closed():
    assert known_at(chain(0.9, 0.6, 0.3, 0.26, outcome="lost")) is None
    assert known_at(chain(0.9, 0.6, 0.3, 0.25, outcome="lost")) == 4
    assert known_at(chain(0.9, 0.9, change_seen=(True, False), outcome="lost")) == 2
    assert known_at(chain(0.1, 0.9, undone=(True, False), outcome="lost")) == 1
    assert known_at(chain(outcome="lost")) is None


def test_a_chain_that_repeats_its_images_is_stopped():
    same = [("y", "x")] * 4
    assert has_converged(same, 3)
    assert not has_converged(same[1:], 3)
    assert has_converged([("y0", "x0"), *same], 3)
    assert not has_converged([*same, ("other", "x")], 3)
    assert not has_converged(same, 0)
    assert stopped(4, None, same, 3) == stopped(4, 1, same, 3) == CONVERGED
    assert stopped(4, 1, [], 3) == KNOWN
    assert stopped(3, 1, [], 3) == stopped(9, 1, [], 0) == ""


def test_a_converged_chain_has_all_numbers_of_the_full_chain():
    case = Case("cat", "hat", "objects", "face", "photograph")
    full = recorded(case, [0.9, *[0.8] * (TRIPS - 1)], "ssim")
    short = recorded(case, [0.9, *[0.8] * 4], "ssim", CONVERGED)
    assert short.result.retention == full.result.retention
    assert short.distances == full.distances
    whole, part = numbers("ssim", [full]), numbers("ssim", [short])
    for key, expected in whole.items():
        assert part[key].pop("counts")["converged"] == 1
        expected.pop("counts")
        assert part[key] == expected


def test_a_stopped_chain_is_restored_from_stored_numbers():
    case = Case("cat", "hat", "objects", "face", "photograph")
    found = recorded(case, [0.9, 0.7, 0.4, 0.45], "ssim", KNOWN)
    kept = json.loads(json.dumps(chain_numbers(found, TRIPS)))
    assert kept["auc"] is None
    assert [kept["events"][f"{n:g}"]["cause"] for n in THRESHOLDS] == ["stopped", *["whole"] * 2]
    again = chain_of_numbers("ssim", case, 0, KNOWN, kept, TRIPS)
    assert again.is_decided(TRIPS, 0.5)
    assert not again.is_decided(TRIPS, 0.25)
    assert is_complete([found], [found.result.key], TRIPS)
    unknown = recorded(case, [0.9, 0.7], "ssim", KNOWN)
    assert not is_complete([unknown], [unknown.result.key], TRIPS)


def test_identity_pairs_are_played_to_the_end_if_the_suite_has_global_edits():
    hires, replication = catalog.suite("hires"), catalog.suite("replication")
    none = next(pair.slug for pair in hires.pairs if pair.change == "none")
    assert not may_stop(none, hires)
    assert may_stop(next(p.slug for p in hires.pairs if p.change == "global"), hires)
    assert may_stop(none, replication)


def test_edits_saved_counts_edits_not_requested():
    assert edits_saved(20, [4, 20, 7]) == 2 * (16 + 0 + 13)
    assert replace(chain(0.5), outcome=KNOWN).played
