from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.statistics import resampling
from evaluation.statistics.half_life import summarise
from evaluation.statistics.resampling import Design, replicate
from evaluation.testing.chains import chain, halving, run_of, spread_times


def copies(chains, counts):
    """The resampled chains themselves: every copy a case of its own."""
    found = []
    for own, count in zip(sorted(chains, key=lambda c: c.key), counts, strict=True):
        names = [f"{own.pair}-{own.repeat}-{copy}" for copy in range(int(count))]
        found += [replace(own, pair=name, repeat=0) for name in names]
    return found


@pytest.mark.parametrize(("repeats", "loss"), [(1, 0.0), (1, 0.3), (3, 0.2)])
def test_a_resample_is_what_summarise_says_of_the_resampled_chains(repeats, loss):
    times = np.random.default_rng(1).uniform(2, 30, (9, 3, repeats))
    run = run_of(times, repeats=repeats, loss=loss)
    if repeats > 1:  # a lost repeat would change the weights of the others
        run = [c for c in run if c.played]
        whole = {c.case for c in run if sum(o.case == c.case for o in run) == repeats}
        run = [c for c in run if c.case in whole]
    run = [c for c in run if c.played]
    drawn = replicate({"run": run}, 20, resamples=40, seed=3)["run"]
    (counts,) = Design(run).counts(40, 3)
    for row in range(40):
        naive = summarise(copies(run, counts[row]), 20)
        half_life = np.inf if naive.half_life is None else naive.half_life
        assert drawn.half_life[row] == pytest.approx(half_life)
        assert drawn.usable_trips[row] == pytest.approx(naive.usable_trips)
        if naive.auc is not None:
            assert drawn.auc[row] == pytest.approx(naive.auc)
            assert drawn.curve[row] == pytest.approx(list(naive.curve))
        else:
            assert np.isnan(drawn.auc[row])


def test_pictures_come_first_then_pairs_then_repeats():
    run = run_of(np.ones((12, 3, 2)), repeats=2)
    (counts,) = Design(run).counts(500, 0)
    keys = sorted(c.key for c in run)
    pictures = np.array([picture for picture, _, _ in keys])
    assert (counts.sum(axis=1) == len(run)).all()
    for picture in np.unique(pictures):
        per_picture = counts[:, pictures == picture].sum(axis=1)
        assert (per_picture % 6 == 0).all()  # whole pictures
        assert per_picture.mean() == pytest.approx(6, rel=0.15)
    pairs = counts.reshape(500, -1, 2).sum(axis=2)
    assert (pairs % 2 == 0).all()  # whole pairs of repeats
    assert (counts % 2 == 1).any()  # but not always the same repeats


def test_all_runs_meet_the_same_resamples():
    times = spread_times(20, np.random.default_rng(0))
    twins = replicate({"one": run_of(times), "two": run_of(times)}, 20, resamples=200)
    assert (twins["one"].half_life == twins["two"].half_life).all()
    alone = replicate({"one": run_of(times)}, 20, resamples=200)
    assert (alone["one"].usable_trips == twins["one"].usable_trips).all()


def test_the_same_seed_gives_the_same_numbers_and_another_one_others():
    runs = {"run": run_of(spread_times(20, np.random.default_rng(0)), loss=0.1)}
    one, same = (replicate(runs, 20, resamples=100, seed=5)["run"] for _ in range(2))
    other = replicate(runs, 20, resamples=100, seed=6)["run"]
    assert (one.usable_trips == same.usable_trips).all()
    assert (one.usable_trips != other.usable_trips).any()


def test_small_chunks_change_neither_number_nor_kind_of_resamples(monkeypatch):
    runs = {"run": run_of(spread_times(20, np.random.default_rng(0)))}
    whole = replicate(runs, 20, resamples=1000)["run"]
    monkeypatch.setattr(resampling, "CHUNK_CELLS", 7 * 60)
    pieces = replicate(runs, 20, resamples=1000)["run"]
    assert len(pieces.usable_trips) == 1000
    assert pieces.usable_trips.mean() == pytest.approx(whole.usable_trips.mean(), abs=0.2)
    assert pieces.usable_trips.std() == pytest.approx(whole.usable_trips.std(), rel=0.15)


def test_a_run_that_was_lost_altogether_gives_no_number():
    lost = [chain(outcome="lost", picture=f"p{i}") for i in range(3)]
    assert np.isnan(replicate({"run": lost}, 20, resamples=5)["run"].usable_trips).all()
    beside = {"lost": lost, "run": [halving(5, picture=f"p{i}") for i in range(3)]}
    drawn = replicate(beside, 20, resamples=5)
    assert np.isnan(drawn["lost"].half_life).all()
    assert np.isfinite(drawn["run"].half_life).all()


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.floats(0, 0.9))
def test_numbers_stay_in_their_bounds_whatever_is_lost(seed, loss):
    run = run_of(np.random.default_rng(seed).uniform(1, 60, (7, 3)), loss=loss, seed=seed)
    drawn = replicate({"run": run}, 20, resamples=50)["run"]
    known = ~np.isnan(drawn.usable_trips)
    assert (drawn.usable_trips[known] >= 0).all()
    assert (drawn.usable_trips[known] <= 20 + 1e-9).all()
    assert ((drawn.half_life[known] <= 20) | np.isinf(drawn.half_life[known])).all()
