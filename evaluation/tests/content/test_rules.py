import numpy as np
import pytest

from evaluation.content import catalog, placement
from evaluation.content.rules import TINTS, Rule
from evaluation.editors.instructions import parse

LEVELS = np.stack(np.meshgrid(*[np.linspace(0, 1, 9)] * 3), -1).reshape(-1, 3)


@pytest.mark.parametrize("name", TINTS)
def test_a_tint_keeps_colours_in_range_can_be_seen_and_is_undone_to_a_few_levels(name):
    matrix, offset = TINTS[name]
    tinted = LEVELS @ matrix.T + offset
    assert tinted.min() >= -1e-9
    assert tinted.max() <= 1 + 1e-9
    assert np.abs(tinted - LEVELS).mean() > 0.05
    rounded = np.rint(tinted * 255) / 255
    restored = (rounded - offset) @ np.linalg.inv(matrix).T
    assert np.abs(restored - LEVELS).max() * 255 <= 6


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"do": "paint"}, "do is 'paint'"),
        ({"do": "tint"}, "tint is ''"),
        ({"do": "tint", "tint": "night", "region": "roof"}, "region is 'roof'"),
        ({"do": "swap", "channels": "xy"}, "channels is 'xy'"),
        ({"do": "write", "words": "A", "line": "left"}, "line is 'left'"),
        ({"do": "write", "words": " ", "line": "top"}, "words are empty"),
        ({"do": "rewrite", "words": "A"}, "“was” is empty"),
        ({"do": "scale", "factor": 2}, "factor is 2"),
    ],
)
def test_a_rule_that_cannot_be_followed_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Rule(**fields)


def test_every_active_pair_has_a_rule_or_a_note_why_not():
    for pair in catalog.edit_pairs():
        if pair.shape:
            assert all(parse(step.prompt) for step in pair.steps)
        elif pair.status == "active":
            assert pair.rule is not None, pair.slug
        elif pair.rule is None:
            assert pair.notes, pair.slug


def test_rules_agree_with_their_pairs():
    for pair in catalog.edit_pairs():
        if pair.rule is None:
            continue
        assert (pair.rule.do == "turn") == (pair.change == "exact"), pair.slug
        if pair.rule.do == "draw":
            assert placement.THINGS[pair.object].place == pair.place, pair.slug
        if pair.rule.do == "rewrite":
            assert pair.rule.words in pair.forward, pair.slug
            assert pair.rule.was in pair.backward, pair.slug
        if pair.rule.do == "write":
            assert pair.rule.words in pair.forward, pair.slug


def test_every_drawing_has_a_thing_and_every_thing_a_drawing():
    assert {path.stem for path in placement.DRAWINGS.glob("*.svg")} == set(placement.THINGS)
