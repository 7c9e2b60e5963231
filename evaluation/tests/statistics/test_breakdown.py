from __future__ import annotations

import numpy as np
import pytest

from evaluation.statistics.breakdown import breakdown, case_summaries, scopes
from evaluation.statistics.half_life import summarise
from evaluation.testing.chains import CATEGORIES, KINDS, chain, halving, run_of, spread_times


def test_every_chain_is_in_all_its_category_its_kind_and_its_pair():
    run = run_of(spread_times(9, np.random.default_rng(0)))
    parts = scopes(run)
    assert len(parts["all"]) == len(run)
    for axis in ("category", "kind", "pair"):
        assert sum(len(part) for name, part in parts.items() if name.startswith(axis)) == len(run)
    assert {f"category:{c}" for c in CATEGORIES} | {f"kind:{k}" for k in KINDS} < set(parts)


def test_each_part_is_summarised_for_itself():
    good = [halving(15, picture=f"p{i}", category="geometric", pair="flip") for i in range(4)]
    poor = [halving(3, picture=f"p{i}") for i in range(4)]
    found = breakdown([*good, *poor], 20)
    assert found["category:geometric"] == summarise(good, 20) == found["pair:flip"]
    assert found["pair:hat"].usable_trips == pytest.approx(3)
    assert found["all"].cases == found["kind:face"].cases == 8


def test_cases_come_worst_first_with_their_repeats_together():
    run = [
        halving(9, picture="middling"),
        chain(outcome="refused", picture="worst"),
        *(halving(15, picture="best", repeat=r) for r in range(3)),
        chain(outcome="lost", picture="unplayed"),
    ]
    found = case_summaries(run, 20)
    assert [case.picture for case in found] == ["worst", "middling", "best"]
    assert [case.summary.chains for case in found] == [1, 1, 3]
    assert found[1].summary.usable_trips == pytest.approx(9)
