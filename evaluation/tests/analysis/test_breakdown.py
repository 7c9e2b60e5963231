from __future__ import annotations

import numpy as np
import pytest

from evaluation.analysis.events import BREAKDOWNS
from evaluation.analysis.half_life import (
    breakdown,
    case_summaries,
    case_summaries_by_threshold,
    scopes,
    summarise,
)
from evaluation.analysis.thresholds import THRESHOLDS
from evaluation.testing.chains import CATEGORIES, KINDS, chain, halving, run_of, spread_times


def test_every_chain_counts_in_the_scopes_of_its_case():
    run = run_of(spread_times(9, np.random.default_rng(0)))
    parts = scopes(run)
    assert len(parts["all"]) == len(run)
    for axis in BREAKDOWNS:
        assert sum(len(part) for name, part in parts.items() if name.startswith(axis)) == len(run)
    assert {f"category:{c}" for c in CATEGORIES} | {f"kind:{k}" for k in KINDS} < set(parts)


def test_each_scope_is_summarised_separately():
    good = [halving(15, image=f"p{i}", category="geometric", pair="flip") for i in range(4)]
    poor = [halving(3, image=f"p{i}") for i in range(4)]
    result = breakdown([*good, *poor], 20)
    assert result["category:geometric"] == summarise(good, 20) == result["pair:flip"]
    assert result["pair:hat"].usable_trips == pytest.approx(3)
    assert result["all"].cases == result["kind:face"].cases == 8


def test_cases_are_ordered_from_the_worst_with_repeats_combined():
    run = [
        halving(9, image="middling"),
        chain(outcome="refused", image="worst"),
        *(halving(15, image="best", repeat=r) for r in range(3)),
        chain(outcome="lost", image="unplayed"),
    ]
    result = case_summaries(run, 20)
    assert [case.image for case in result] == ["worst", "middling", "best"]
    assert [case.usable_trips for case in result] == pytest.approx([0, 9, 15])


def test_a_case_has_the_numbers_of_a_summary_of_its_chains():
    torn = [halving(time, image="torn", repeat=r) for r, time in enumerate((2, 7, 12))]
    lost = [chain(0.9, outcome="lost", image="lost")]
    run = [*torn, *lost, *(halving(9, image=f"p{i}") for i in range(3))]
    by_threshold = case_summaries_by_threshold(run, 20, THRESHOLDS)
    for threshold in THRESHOLDS:
        assert by_threshold[threshold] == case_summaries(run, 20, threshold)
        cases = {case.image: case for case in by_threshold[threshold]}
        for image, part in (("torn", torn), ("lost", lost)):
            alone = summarise(part, 20, threshold)
            assert (cases[image].usable_trips, cases[image].auc) == (
                alone.usable_trips,
                alone.auc,
            )
