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
    ("kept", "state"),
    [
        (1.0, "as new"),
        (0.75, "as new"),
        (0.74, "slightly worn"),
        (0.49, "clearly damaged"),
        (0.1, "unusable"),
    ],
)
def test_an_image_has_the_name_of_the_lowest_threshold_that_it_is_below(kept, state):
    assert thresholds.state(kept) == state


@pytest.mark.parametrize(
    ("threshold", "named", "life"),
    [
        (0.25, "unusable", "Trips to unusable"),
        (0.5, "clearly damaged", "Half-life"),
        (0.75, "slightly worn", "Trips to slightly worn"),
        (0.9, "below 90\u00a0%", "Trips to below 90\u00a0%"),
    ],
)
def test_thresholds_in_words(threshold, named, life):
    assert (thresholds.named(threshold), thresholds.life(threshold)) == (named, life)
    assert thresholds.other_names() == "slightly worn or unusable"


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
