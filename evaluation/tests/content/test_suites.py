import json
from dataclasses import replace

import pytest

from evaluation.content.annotations import Annotations
from evaluation.content.suites import Case, EditPair, Suite, SuiteError, SuiteImage

IMAGE = SuiteImage(
    *(
        "desk",
        "0" * 64,
        512,
        384,
        "object",
        "file:pictures/desk.webp",
        "A desk",
        "A",
        "CC0-1.0",
        "A",
    )
)
PAIR = EditPair("cup", "objects", "Add a cup.", "Remove the cup.", "local", object="cup")
SUITE = Suite("s", 1, "S", 3, 512, (IMAGE,), (PAIR,), (Case("desk", "cup"),))
DESK = Annotations(surface=((0.1, 0.5, 0.9, 0.9),))


def test_annotations_are_frozen_and_hashed():
    annotated = replace(SUITE, images=(replace(IMAGE, annotations=DESK),))
    assert annotated.content_hash != SUITE.content_hash
    again = Suite.from_dict(json.loads(json.dumps(annotated.to_dict())))
    assert again == annotated
    assert again.images[0].annotations == DESK
    moved = annotated.to_dict()
    moved["images"][0]["annotations"]["surface"][0][0] = 0.2
    with pytest.raises(SuiteError, match="the file was changed"):
        Suite.from_dict(moved)


def test_later_fields_do_not_change_the_hash_of_older_suites():
    # A hash from before annotations, places and repeats of cases existed.
    assert SUITE.content_hash == (
        "c0f49691cbb336325da73cbca9ea0637438cd2a322b14ed7642aa2d473eb272e"
    )
    assert "annotations" not in SUITE.to_dict()["images"][0]
    assert "place" not in SUITE.to_dict()["pairs"][0]


@pytest.mark.parametrize(
    "changed",
    [
        {"pairs": (replace(PAIR, place="surface"),)},
        {"pairs": (replace(PAIR, present=("table",)),)},
        {"pairs": (replace(PAIR, type="objects/add"),)},
        {"cases": (Case("desk", "cup", repeats=2),)},
    ],
)
def test_everything_that_affects_results_is_hashed(changed):
    assert replace(SUITE, **changed).content_hash != SUITE.content_hash


def test_some_cases_may_be_repeated_more_often():
    twice = replace(SUITE, cases=(Case("desk", "cup"), Case("desk", "cup", repeats=2)))
    assert twice.edits == 3 * 3 * 2
    assert [twice.repeats_of(case) for case in twice.cases] == [1, 2]


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ((), {"slug": "../s"}, "slug"),
        ((), {"trips": 10**9}, "trips: should be less than or equal to 1000"),
        ((), {"trips": True}, "trips: should be a valid integer"),
        ((), {"repeats": 10**12}, "repeats"),
        (("images", 0), {"slug": "../../../../etc"}, r"images\.0\.slug"),
        (("images", 0), {"width": "512"}, "width"),
        (("images", 0), {"contains": [{}]}, "contains"),
        (("images", 0), {"annotations": {"wall": [[1, 2, 3, 4]]}}, r"annotations\.wall\.0\.1"),
        (("pairs", 0), {"slug": "a/b\n"}, "slug"),
        (("pairs", 0), {"forward": 5}, "forward: should be a valid string"),
        (("pairs", 0), {"backward": "x" * 10_001}, "backward"),
        (("pairs", 0), {"kinds": 5}, "kinds"),
        (("pairs", 0), {"colour": "red"}, "colour"),
        (("cases", 0), {"image": {}}, "image"),
        (("cases", 0), {"repeats": -1}, "repeats"),
        (("cases", 0), {"repeats": 10**9}, "repeats"),
    ],
)
def test_invalid_names_and_numbers_of_a_suite_are_refused(place, value, said):
    """Slugs become folder names, and numbers limit loops."""
    data = SUITE.to_dict()
    del data["content_hash"]
    row = data
    for key in place:
        row = row[key]
    row |= value
    with pytest.raises(SuiteError, match=said):
        Suite.from_dict(data)
