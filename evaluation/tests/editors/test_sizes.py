from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.editors.sizes import SizeRule

sides = st.integers(16, 4000)
BOUNDS = SizeRule(step=16, min_side=256, max_side=4096, min_pixels=921600, max_pixels=16777216)


@settings(deadline=None, max_examples=40)
@given(sides, sides)
def test_the_nearest_size_is_always_legal(width: int, height: int) -> None:
    w, h = BOUNDS.nearest((width, height))
    assert w % 16 == h % 16 == 0
    assert 256 <= min(w, h) <= max(w, h) <= 4096
    assert 921600 <= w * h <= 16777216


@given(st.integers(60, 200), st.integers(60, 200))
def test_a_legal_size_is_its_own_nearest(width: int, height: int) -> None:
    assert BOUNDS.nearest((width * 16, height * 16)) == (width * 16, height * 16)


@settings(deadline=None, max_examples=40)
@given(sides, sides)
def test_the_nearest_ratio_is_the_nearest(width: int, height: int) -> None:
    rule = SizeRule(ratios=("1:1", "4:3", "3:4", "16:9", "9:16"))

    def off(name: str) -> float:
        a, b = name.split(":")
        return abs(math.log(int(a) / int(b)) - math.log(width / height))

    assert off(rule.nearest_ratio((width, height))) == min(off(name) for name in rule.ratios)


def test_a_listed_size_is_chosen_by_shape_first() -> None:
    rule = SizeRule(sizes=("1024x1024", "1536x1024", "1024x1536"))
    assert rule.nearest((512, 512)) == (1024, 1024)
    assert rule.nearest((512, 384)) == (1536, 1024)
    assert rule.nearest((300, 900)) == (1024, 1536)


def test_no_rule_means_no_size() -> None:
    assert SizeRule.from_row(None) is None
    assert SizeRule.from_row({}) is None


@pytest.mark.parametrize(
    "row",
    [{"ratios": ["4/3"]}, {"sizes": ["1024"]}, {"sizes": ["0x5"]}, {"width": 5}, {"ratios": [3]}],
)
def test_a_malformed_rule_is_refused_at_once(row: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="is not valid"):
        SizeRule.from_row(row)


def test_bounds_that_allow_no_size_are_an_error() -> None:
    with pytest.raises(ValueError, match="no size is within the bounds"):
        SizeRule(min_side=512, max_side=256).nearest((64, 64))
