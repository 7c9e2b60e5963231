"""The published rows of github.com/Qianli-ion/edit-converge-bench, ranked by our rules."""

from __future__ import annotations

import csv
import os
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from evaluation.statistics.case_values import case_values
from evaluation.statistics.comparison import compare
from evaluation.statistics.events import LEVELS, ChainResult
from evaluation.statistics.ranking import Bounds, board

SHARED = Path(
    os.environ.get("CONVERGEBENCH_SHARED", Path(__file__).resolve().parents[4] / "shared")
)
ROWS = SHARED / "ecb" / "results.csv"
TRIPS = 10
# The rows have no blank card per picture: the mean over pictures, for all of them.
BLANK_SSIM = 0.59
TOP_THREE = {"nano_banana", "qwen", "grok"}

pytestmark = pytest.mark.skipif(not ROWS.exists(), reason="the forerunner's rows are not here")


@pytest.fixture(scope="module")
def rows():
    with ROWS.open(newline="") as file:
        found = list(csv.DictReader(file))
    return list({tuple(row.values()): row for row in found}.values())


@pytest.fixture(scope="module")
def runs(rows):
    """SSIM retention by model. What is left of a doubled case is a repeat of it."""
    seen: Counter[tuple[str, ...]] = Counter()
    curves = defaultdict(dict)
    for row in rows:
        place = (row["model"], row["image"], row["edit_pair"])
        repeat = seen[*place, row["round"]]
        seen[*place, row["round"]] += 1
        where = (*place, row["edit_category"], row["image_type"], repeat)
        retention = 1 - (1 - float(row["ssim"])) / (1 - BLANK_SSIM)
        curves[where][int(row["round"])] = retention
    found = defaultdict(list)
    for (model, *where), curve in curves.items():
        assert sorted(curve) == list(range(1, len(curve) + 1))
        # Shorter chains stop without a word: no event of the model's that we know of.
        outcome = "completed" if len(curve) == TRIPS else "lost"
        retention = tuple(curve[n] for n in sorted(curve))
        found[model].append(ChainResult(*where, retention, outcome))
    return found


@pytest.fixture(scope="module")
def shared_cases(runs):
    """One chain of every case that the three models with a full set have in common."""
    return set.intersection(*({c.key for c in runs[m] if c.repeat == 0} for m in TOP_THREE))


def test_the_known_defects_are_there_and_caught(rows, runs):
    assert len(rows) == 2741  # of 4,631: the rest are verbatim duplicates
    assert {row["lpips"] for row in rows} == {"0.0"}  # never run: no metric for us
    assert any(c.repeat for c in runs["grok"])
    assert {m: len({c.case for c in chains}) for m, chains in runs.items()}["seedream"] == 3


def test_the_top_three_are_tied(runs, shared_cases):
    assert len(shared_cases) == 57
    for level in LEVELS:
        placings = board(runs, TRIPS, level, keys=shared_cases)
        ranked = {p.run: p.rank for p in placings if p.complete}
        assert ranked == dict.fromkeys(TOP_THREE, 1)
        assert all(p.rank_set == (1, 3) for p in placings if p.complete)
        assert all(p.bounds == Bounds() for p in placings)  # six pictures
        assert {p.run for p in placings if not p.complete} == {"flux", "gemini", "seedream"}


def test_without_shared_cases_nobody_is_ranked(runs):
    assert {p.rank for p in board(runs, TRIPS)} == {None}


def test_the_order_is_that_of_usable_trips(runs, shared_cases):
    """Version 1's half-life, the median, gave grok before nano_banana."""
    placings = board(runs, TRIPS, keys=shared_cases)
    assert [p.run for p in placings[:3]] == ["qwen", "nano_banana", "grok"]
    medians = {p.run: p.summary.median for p in placings}
    assert medians["grok"] > medians["nano_banana"]


def test_two_of_them_are_compared_on_what_both_played(runs):
    found = compare(case_values(runs["nano_banana"], TRIPS), case_values(runs["grok"], TRIPS))
    assert found.cases >= 57
    assert not found.separated
    assert found.usable_trips.interval is None
