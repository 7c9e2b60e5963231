from collections import Counter

import pytest

from evaluation.content import catalog
from evaluation.content.edit_types import FAMILIES, TYPES, difficulty
from evaluation.content.suites import EditPair


def pair(reversibility, kind=""):
    return EditPair("p", "objects", "F", "B", "local", reversibility, type=kind)


def test_there_are_thirty_five_types_in_eight_families():
    assert len(TYPES) == 35
    assert {kind.family for kind in TYPES.values()} == set(FAMILIES)
    assert len(FAMILIES) == 8


def test_shipped_pairs_cover_every_family_and_most_types():
    used = Counter(one.type for one in catalog.edit_pairs() if one.type)
    assert {key.partition("/")[0] for key in used} == set(FAMILIES)
    assert len(used) >= 28


@pytest.mark.parametrize(
    ("harder", "easier"),
    [
        (pair("clean"), pair("exact")),
        (pair("partial"), pair("clean")),
        (pair("invents"), pair("partial")),
        (pair("clean", "text/font"), pair("clean", "text/add")),
        (pair("invents", "object/relocate"), pair("invents", "style/artistic")),
    ],
)
def test_difficulty_grows_with_loss_and_for_types_that_often_fail(harder, easier):
    assert difficulty(harder) > difficulty(easier)


def test_difficulty_is_between_one_and_five_for_every_shipped_pair():
    found = {difficulty(one) for one in catalog.edit_pairs()}
    assert found <= {1, 2, 3, 4, 5}
    assert len(found) >= 4
