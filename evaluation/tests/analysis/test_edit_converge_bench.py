"""The published rows of github.com/Qianli-ion/edit-converge-bench, ranked by our rules."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict

import pytest

from evaluation.analysis.case_values import case_values
from evaluation.analysis.comparison import compare
from evaluation.analysis.events import ChainResult
from evaluation.analysis.ranking import Bounds, board
from evaluation.analysis.thresholds import THRESHOLDS
from evaluation.testing.published_tables import BLANK_SSIM, PARTIAL, TRIPS, WHOLE


@pytest.fixture(scope="module")
def rows(published_table):
    with published_table.path.open(newline="") as file:
        result = list(csv.DictReader(file))
    assert len(result) == published_table.rows
    return list({tuple(row.values()): row for row in result}.values())


@pytest.fixture(scope="module")
def runs(rows):
    """Return SSIM retention by model; a duplicated case counts as a repeat."""
    seen: Counter[tuple[str, ...]] = Counter()
    curves = defaultdict(dict)
    for row in rows:
        place = (row["model"], row["image"], row["edit_pair"])
        repeat = seen[*place, row["round"]]
        seen[*place, row["round"]] += 1
        where = (*place, row["edit_category"], row["image_type"], "photograph", repeat)
        retention = 1 - (1 - float(row["ssim"])) / (1 - BLANK_SSIM)
        curves[where][int(row["round"])] = retention
    result = defaultdict(list)
    for (model, *where), curve in curves.items():
        assert sorted(curve) == list(range(1, len(curve) + 1))
        # The data do not explain why shorter chains stop, so their end is not the model's.
        outcome = "completed" if len(curve) == TRIPS else "lost"
        retention = tuple(curve[n] for n in sorted(curve))
        result[model].append(ChainResult(*where, retention, outcome))
    return result


@pytest.fixture(scope="module")
def shared_cases(runs):
    """Return one chain of every case that the three complete models share."""
    return set.intersection(*({c.key for c in runs[m] if c.repeat == 0} for m in WHOLE))


def test_the_known_defects_of_the_data_are_handled(rows, runs, published_table):
    assert len(rows) == published_table.distinct  # the rest are verbatim duplicates
    assert {row["lpips"] for row in rows} == {"0.0"}  # never run, so it is left out
    assert any(c.repeat for c in runs["grok"])
    assert {m: len({c.case for c in chains}) for m, chains in runs.items()}["seedream"] == 3


def test_equal_models_are_tied(runs, shared_cases, published_table):
    assert len(shared_cases) == published_table.common
    for threshold in THRESHOLDS:
        placings = board(runs, TRIPS, threshold, keys=shared_cases)
        ranked = {p.run: p.rank for p in placings if p.complete}
        assert ranked == dict.fromkeys(WHOLE, 1)
        assert all(p.rank_set == (1, 3) for p in placings if p.complete)
        assert all(p.bounds == Bounds() for p in placings)  # six images
        assert {p.run for p in placings if not p.complete} == set(PARTIAL)


def test_without_shared_cases_no_model_is_ranked(runs):
    assert {p.rank for p in board(runs, TRIPS)} == {None}


def test_complete_runs_are_ordered_by_usable_trips(runs, shared_cases):
    placings = [p for p in board(runs, TRIPS, keys=shared_cases) if p.complete]
    usable = [p.summary.usable_trips for p in placings]
    assert usable == sorted(usable, reverse=True)


def test_two_models_are_compared_on_their_shared_cases(runs, published_table):
    result = compare(case_values(runs["nano_banana"], TRIPS), case_values(runs["grok"], TRIPS))
    assert result.cases >= published_table.common
    assert not result.separated
    assert result.usable_trips.interval is None
