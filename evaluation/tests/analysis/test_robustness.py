from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from scipy.stats import friedmanchisquare

from evaluation.analysis.case_values import case_values
from evaluation.analysis.events import BREAKDOWNS, event
from evaluation.analysis.half_life import summarise
from evaluation.analysis.robustness import kendall_tau, repeat_spread, retest, robustness
from evaluation.testing.chains import CATEGORIES, KINDS, chain, halving, run_of, spread_times

HEADLINE = ("overall", 0.5)


@pytest.fixture
def runs():
    """Return runs of five models of growing strength on the same cases."""
    random = np.random.default_rng(0)
    common = spread_times(12, random, case=0.2)
    return {
        f"run-{m}": run_of(common * 1.3**m * np.exp(random.normal(0, 0.1, common.shape)))
        for m in range(5)
    }


def usable(run, threshold=0.5):
    values = case_values(run, 20, threshold)
    return dict(zip(values.cases, values.usable, strict=True))


def found_by(runs, others=None):
    boards = {
        ("overall", threshold): {name: usable(run, threshold) for name, run in runs.items()}
        for threshold in (0.5, 0.75)
    }
    for metric, chains in (others or {}).items():
        boards[metric, 0.5] = {name: usable(run) for name, run in chains.items()}
    by_trip = {name: summarise(run, 20).usable_by_trip for name, run in runs.items()}
    result = robustness(boards, HEADLINE, by_trip)
    json.dumps([asdict(agreement) for agreement in result], allow_nan=False)
    return {(agreement.about, agreement.choice): agreement for agreement in result}


def test_every_choice_has_an_agreement_with_the_boards_order(runs):
    result = found_by(runs, {"ssim": runs})
    assert {about for about, _ in result} == {*("metric", "threshold", "trips", *BREAKDOWNS)}
    assert {c for about, c in result if about == "category"} == set(CATEGORIES)
    assert {c for about, c in result if about == "kind"} == set(KINDS)
    assert [c for about, c in result if about == "trips"] == [str(n) for n in range(1, 20)]
    assert {c for about, c in result if about == "pair"} == {c.pair for c in runs["run-0"]}
    assert result["metric", "ssim"].tau == result["trips", "19"].tau == 1
    assert all(agreement.runs == 5 for agreement in result.values())


def test_a_metric_that_reverses_the_order_has_negative_tau(runs):
    turned = dict(zip(runs, reversed(runs.values()), strict=True))
    assert found_by(runs, {"ssim": turned})["metric", "ssim"].tau == -1


def test_leaving_out_the_decisive_category_reverses_the_order():
    lasts = {"flips": {"objects": 2.0, "geometric": 19.0}, "things": {"objects": 6.0}}
    runs = {
        name: run_of(np.tile([own.get(category, 2.0) for category in CATEGORIES], (12, 1)))
        for name, own in lasts.items()
    }
    result = found_by(runs)
    assert result["category", "geometric"].tau == -1
    assert result["category", "objects"].tau == result["category", "replication"].tau == 1


def test_orders_by_fewer_trips_equal_those_of_shorter_suites(runs):
    result = found_by(runs)
    order = {name: summarise(run, 20).usable_trips for name, run in runs.items()}
    for trips in (1, 5, 12):
        shorter = {name: summarise(run, trips).usable_trips for name, run in runs.items()}
        assert result["trips", str(trips)].tau == kendall_tau(order, shorter)


def test_only_shared_runs_count(runs):
    some = {name: runs[name] for name in ("run-0", "run-3")}
    result = found_by(runs, {"identity": some, "clip": {"run-0": runs["run-0"]}})
    assert (result["metric", "identity"].runs, result["metric", "identity"].tau) == (2, 1)
    assert (result["metric", "clip"].runs, result["metric", "clip"].tau) == (1, None)


def test_ties_and_single_runs_have_no_order():
    assert kendall_tau({"a": 1.0}, {"a": 2.0}) is None
    assert kendall_tau({"a": 1.0, "b": 1.0 + 1e-13}, {"a": 2.0, "b": 1.0}) is None
    assert kendall_tau({"a": 1.0, "b": 3.0, "c": 2.0}, {"a": 1.0, "b": 2.0, "c": 3.0}) == (
        pytest.approx(1 / 3)
    )


def test_the_only_category_of_a_suite_is_not_left_out(runs):
    one = {
        name: [replace(c, category="only", kind="face", origin="photograph") for c in run]
        for name, run in runs.items()
    }
    assert not [about for about, _ in found_by(one) if about in ("category", "kind", "origin")]


def repeated(spread, cases=12, models=4, again=12):
    random = np.random.default_rng(1)
    common = spread_times(cases, random)[:, :, None]
    runs = {}
    for m in range(models):
        luck = np.exp(random.normal(0, spread, (cases, 3, 2)))
        run = run_of(common * 1.2**m * luck, repeats=2)
        kept = {f"image-{i:03}" for i in range(again)}
        runs[f"run-{m}"] = [c for c in run if c.repeat == 0 or c.image in kept]
    return runs


def test_reruns_keep_the_order_if_chance_is_small():
    same = retest(repeated(0.0), 20)
    assert (same.repeats, same.cases, same.runs, same.tau) == (2, 36, 4, 1)
    assert same.difference == pytest.approx(0)
    assert retest(repeated(0.8), 20).difference > 0.3


def test_only_repeated_cases_are_compared():
    third = retest(repeated(0.2, again=4), 20)
    assert third.cases == 12
    assert retest({"a": run_of(spread_times(9, np.random.default_rng(0)))}, 20) is None
    assert retest({}, 20) is None


# Reruns of the same case


def run_with(case_spread, rerun_spread, repeats=3, images=80, shift=(0, 0, 0)):
    random = np.random.default_rng(0)
    cases = random.normal(0, case_spread, (images, 3, 1))
    reruns = random.normal(0, rerun_spread, (images, 3, repeats))
    times = np.clip(9.5 + cases + reruns + np.array(shift[:repeats]), 1, 19)
    return run_of(times, repeats=repeats)


def test_the_two_spreads_are_separated():
    result = repeat_spread(run_with(2.0, 0.5), 20)
    assert (result.repeats, result.cases) == (3, 240)
    assert result.case == pytest.approx(2.0, rel=0.1)
    assert result.rerun == pytest.approx(0.5, rel=0.1)


def test_cases_that_differ_only_by_chance_have_no_spread():
    result = repeat_spread(run_with(0.0, 1.0), 20)
    assert result.case < 0.3
    assert result.rerun == pytest.approx(1.0, rel=0.1)


def test_friedmans_test_notices_a_model_that_changed_between_repeats():
    assert repeat_spread(run_with(2.0, 0.5), 20).friedman_p > 0.05
    assert repeat_spread(run_with(2.0, 0.5, shift=(0, 0, -1)), 20).friedman_p < 1e-6


def test_friedmans_test_equals_scipys_over_cases_with_every_repeat():
    run = run_with(2.0, 1.0, images=6)
    columns = [[event(c, 20, 0.5).time for c in run if c.repeat == r] for r in range(3)]
    expected = friedmanchisquare(*columns)
    missing_one = [*run, halving(5, image="extra")]
    for result in (repeat_spread(run, 20), repeat_spread(missing_one, 20)):
        assert result.friedman_statistic == pytest.approx(expected.statistic)
        assert result.friedman_p == pytest.approx(expected.pvalue)


def test_equal_reruns_do_not_differ():
    result = repeat_spread(run_with(2.0, 0.0), 20)
    assert (result.rerun, result.friedman_p) == (pytest.approx(0, abs=1e-9), 1)


def test_one_repeat_gives_no_spread_and_two_give_no_friedmans_test():
    single = repeat_spread(run_with(1.0, 1.0, repeats=1), 20)
    assert single.rerun is single.case is single.friedman_p is None
    double = repeat_spread(run_with(1.0, 1.0, repeats=2), 20)
    assert double.rerun is not None
    assert double.friedman_p is None
    lost = repeat_spread([chain(0.9, outcome="lost")], 20)
    assert (lost.cases, lost.rerun) == (0, None)
