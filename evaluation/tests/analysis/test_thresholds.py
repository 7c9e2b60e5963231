"""The thresholds in words, and the one default."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

from evaluation import analysis
from evaluation.analysis import thresholds
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD, THRESHOLDS


def test_the_default_is_one_of_the_thresholds_that_standings_have():
    assert DEFAULT_THRESHOLD in THRESHOLDS


@pytest.mark.parametrize(
    ("threshold", "lost", "left", "life"),
    [
        (0.25, "three quarters", "a quarter", "Trips to 75\u00a0% lost"),
        (0.5, "half", "half", "Half-life"),
        (0.75, "a quarter", "three quarters", "Trips to 25\u00a0% lost"),
        (0.9, "a tenth", "90\u00a0%", "Trips to 10\u00a0% lost"),
        (0.95, "5\u00a0%", "95\u00a0%", "Trips to 5\u00a0% lost"),
    ],
)
def test_thresholds_in_words(threshold, lost, left, life):
    assert (thresholds.lost(threshold), thresholds.left(threshold), thresholds.life(threshold)) == (
        lost,
        left,
        life,
    )


def test_every_function_that_takes_a_threshold_has_the_one_default():
    seen = set()
    for module in pkgutil.walk_packages(analysis.__path__, "evaluation.analysis."):
        for name, function in inspect.getmembers(
            importlib.import_module(module.name), inspect.isfunction
        ):
            threshold = inspect.signature(function).parameters.get("threshold")
            if threshold and threshold.default is not threshold.empty:
                assert threshold.default == DEFAULT_THRESHOLD, (module.name, name)
                seen.add(name)
    assert {"summarise", "board", "case_values", "repeat_spread"} <= seen
