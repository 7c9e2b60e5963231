from dataclasses import replace

import pytest

from evaluation.content import placement
from evaluation.content.annotations import Annotations
from evaluation.content.placement import THINGS, misfit, region, spot

PORTRAIT = Annotations(
    face=(0.35, 0.3, 0.65, 0.7),
    eyes=((0.42, 0.46), (0.58, 0.46)),
    mouth=(0.5, 0.6),
    head_top=(0.5, 0.22),
    neck=(0.5, 0.73),
)
#: A close-up portrait, for small things such as a moustache or a flower.
CLOSE_UP = replace(PORTRAIT, face=(0.28, 0.3, 0.72, 0.7))
ROOM = Annotations(
    floor=((0.05, 0.5, 0.35, 0.95),),
    wall=((0.5, 0.05, 0.95, 0.4),),
    sky=((0.0, 0.0, 1.0, 0.5),),
    surface=((0.4, 0.5, 0.8, 0.8),),
    water=((0.1, 0.5, 0.9, 0.9),),
)


@pytest.mark.parametrize("name", THINGS)
def test_every_drawing_finds_a_spot_inside_the_image(name):
    worn = THINGS[name].place in placement.FACE_PLACES
    found = spot(name, PORTRAIT if worn else ROOM, 800, 1000) or spot(name, CLOSE_UP, 800, 1000)
    assert found is not None
    assert found.share_inside(800, 1000) >= placement.SHARE_INSIDE
    assert found.width / found.height == pytest.approx(placement.aspect(name))


def test_glasses_lie_on_the_eyes_and_turn_with_the_head():
    level = spot("glasses", PORTRAIT, 1000, 1000)
    assert (level.x, level.turn) == (pytest.approx(500), 0)
    assert level.y == pytest.approx(460, abs=0.1 * level.height)
    tilted = Annotations(
        face=(0.35, 0.3, 0.65, 0.7), eyes=((0.42, 0.40), (0.58, 0.52)), mouth=(0.5, 0.6)
    )
    assert spot("glasses", tilted, 1000, 1000).turn == pytest.approx(36.87, abs=0.01)


def test_a_hat_sits_above_the_eyes_and_a_scarf_below_the_mouth():
    eyes, mouth = 460, 600
    assert spot("hat", PORTRAIT, 1000, 1000).box[3] < eyes
    assert spot("cap", PORTRAIT, 1000, 1000).box[3] < eyes
    assert spot("crown", PORTRAIT, 1000, 1000).box[3] < eyes
    assert spot("scarf", PORTRAIT, 1000, 1000).box[1] > mouth
    assert spot("moustache", CLOSE_UP, 1000, 1000).box[3] <= mouth + 5


def test_a_chair_stands_on_the_floor_and_a_clock_hangs_on_the_wall():
    chair = spot("chair", ROOM, 1000, 1000)
    assert chair.box[3] == pytest.approx(950)
    assert chair.box[0] >= 50
    assert chair.box[2] <= 350
    clock = spot("clock", ROOM, 1000, 1000)
    assert (clock.x, clock.y) == (pytest.approx(725), pytest.approx(225))


def test_the_first_of_two_equal_boxes_is_used():
    two = Annotations(wall=((0.0, 0.0, 0.3, 0.3), (0.6, 0.0, 0.9, 0.3)))
    assert spot("clock", two, 1000, 1000).x < 500
    better = Annotations(wall=((0.0, 0.0, 0.1, 0.3), (0.6, 0.0, 0.9, 0.3)))
    assert spot("clock", better, 1000, 1000).x > 500


@pytest.mark.parametrize(
    ("place", "thing", "places", "reason"),
    [
        ("floor", "chair", PORTRAIT, "no room for a chair"),
        ("floor", "chair", Annotations(floor=((0.1, 0.9, 0.2, 0.95),)), "no room for a chair"),
        ("head", "hat", ROOM, "no room for a hat"),
        # No headroom: the hat would leave the image.
        (
            "head",
            "hat",
            Annotations(face=(0.35, 0.1, 0.65, 0.5), head_top=(0.5, 0.02)),
            "no room for a hat",
        ),
        # The face is too small for visible glasses.
        (
            "eyes",
            "glasses",
            Annotations(face=(0.5, 0.5, 0.54, 0.56), eyes=((0.51, 0.52), (0.53, 0.52))),
            "no room for a glasses",
        ),
        ("sky", "", PORTRAIT, "has no free sky"),
        ("wall", "", Annotations(wall=((0.0, 0.0, 0.1, 0.1),)), "wall is too small: 1%"),
        ("text", "", ROOM, "has no text"),
        ("eyes", "", ROOM, "Not annotated: eyes"),
        ("clothes", "", ROOM, "has no clothes"),
    ],
)
def test_a_missing_or_small_place_is_reported(place, thing, places, reason):
    assert reason in misfit(place, thing, places, 1000, 1000)


@pytest.mark.parametrize("place", ["face", "hair", "clothes"])
def test_regions_of_a_portrait_are_boxes_in_it(place):
    left, top, right, bottom = region(place, PORTRAIT)
    assert 0 <= left < right <= 1
    assert 0 <= top < bottom <= 1
    assert misfit(place, "", PORTRAIT, 1000, 1000) == ""
