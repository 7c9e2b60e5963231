"""What ends a chain: the worst place, the colours, the face, and the least of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image, ImageFilter
from skimage import data

from evaluation import weights
from evaluation.images import EncodedImage, encode_jpeg
from evaluation.measuring.scoring import Scorer
from evaluation.measuring.subject import footprint
from evaluation.metrics import MetricError, identity, metric_class
from evaluation.metrics.base import CELLS, Subject
from evaluation.metrics.picture import LOST, PARTS, WholePicture, least_kept
from evaluation.metrics.place import (
    GRAIN,
    LEAST,
    STRIDE,
    WINDOW,
    Scale,
    grainy,
    kept_inside,
    lost_share,
    worst_place,
)
from evaluation.testing.hat_chains import HAT
from evaluation.testing.reference_images import as_image, worn

NAMES = ("picture", "lpips", "place", "colour", "identity")
# In levels: of the first two pixels.
FIRST_GRAIN = [5, 1, 3, 7, 6, -3]
ASTRONAUT_FACE = (0.36, 0.1, 0.53, 0.36)


@pytest.fixture(scope="module")
def scorer():
    try:
        weights.fetch("lpips-alex")
    except weights.WeightsError as error:
        pytest.skip(str(error))
    return Scorer(NAMES)


def kept(scorer, source, image, subject=None):
    """What each metric says is kept of one image, and by which it is least."""
    scores, scales = scorer.score(source, [image], subject), scorer.calibrate(source, subject)
    found = {
        name: 1 - values[0] / scales[name].blank
        for name, values in scores.distances.items()
        if values is not None
    }
    return found, scores.because[0]


def changed(image, change):
    values = change(np.asarray(image, dtype=float))
    return as_image(np.rint(np.clip(values, 0, 255)).astype(np.uint8))


def smeared(image, share):
    """A square of this share of the side blurred beyond recognition."""
    side = round(min(image.size) * share)
    left, top = image.width // 2 - side // 2, max(0, image.height // 3 - side // 2)
    box = (left, top, left + side, top + side)
    image = image.copy()
    image.paste(image.crop(box).filter(ImageFilter.GaussianBlur(side / 4)), (left, top))
    return image


SOURCES = {
    "astronaut": lambda: as_image(data.astronaut()),
    "coffee": lambda: as_image(data.coffee()),
}


@pytest.fixture(scope="module", params=["astronaut", "coffee", "portrait"])
def source(request):
    """Two images that are always here, and the real portrait where it is."""
    if request.param != "portrait":
        return SOURCES[request.param]()
    file = request.getfixturevalue("shared") / "ecb/flux_portrait_02_hat/I0_source.png"
    return EncodedImage.from_bytes(file.read_bytes()).decoded


def test_a_lost_third_ends_a_chain_by_its_place_though_the_whole_looks_well(scorer, source):
    found, because = kept(scorer, source, smeared(source, 1 / 3))
    assert found["place"] < 0.25
    assert found["lpips"] > 0.85
    assert (found["picture"], because) == (found["place"], "place")


def test_a_smaller_loss_is_a_smaller_loss(scorer, source):
    sixth, third = (kept(scorer, source, smeared(source, share))[0] for share in (1 / 6, 1 / 3))
    assert third["place"] < sixth["place"] < 0.7


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("40 levels greener", lambda values: values + np.array([0, 40, 0])),
        ("half as bright", lambda values: values / 2),
        ("grey", lambda values: values @ [[0.299] * 3, [0.587] * 3, [0.114] * 3]),
    ],
)
def test_another_colour_ends_a_chain_by_colour(scorer, source, what, change):
    found, because = kept(scorer, source, changed(source, change))
    assert found["colour"] < 0.5
    # A worn-out smooth wall in an image turned grey may be worse still.
    assert because == "colour" or (what == "grey" and found["place"] < found["colour"])
    if what == "40 levels greener":
        assert found["colour"] < 0.2
        assert found["lpips"] > 0.7


def test_a_fifth_lighter_is_still_the_same_colour(scorer, source):
    assert 0.5 < kept(scorer, source, changed(source, lambda v: 1.2 * v))[0]["colour"] < 0.85


@pytest.mark.parametrize(
    ("change", "least"),
    [
        (lambda image: EncodedImage.from_bytes(encode_jpeg(image, 75)).decoded, 0.8),
        (lambda image: worn(image, 2), 0.8),
        (lambda image: changed(image, lambda v: np.roll(v, 1, axis=1)), 0.8),
    ],
    ids=["JPEG 75", "noise 2", "1 px aside"],
)
def test_what_nobody_sees_keeps_every_place(scorer, source, change, least):
    found, _ = kept(scorer, source, change(source))
    assert found["place"] > least
    assert found["picture"] > least


def test_the_blank_card_keeps_nothing_anywhere(scorer, source):
    card = Image.new(
        "RGB", source.size, tuple(np.rint(np.asarray(source).mean((0, 1))).astype(int))
    )
    found, _ = kept(scorer, source, card)
    assert found["lpips"] == pytest.approx(0, abs=0.02)
    assert found["picture"] <= 0.02


def test_the_source_itself_keeps_all(scorer, source):
    found, because = kept(scorer, source, source)
    assert set(found.values()) == {1.0}
    assert because == "lpips"  # of equals, the first


def test_the_chain_of_a_hat_falls_and_says_by_what(scorer, hat_chain):
    where = footprint(hat_chain.source.decoded, hat_chain.edited[0].decoded, HAT)
    scores = scorer.score(hat_chain.source, hat_chain.restored, Subject(footprint=where), maps=True)
    places = scores.distances["place"]
    assert 0 < places[0] < places[1] < places[2]
    blank = scorer.calibrate(hat_chain.source)["lpips"].blank
    whole, colours = scores.distances["lpips"], scores.distances["colour"]
    least = [
        max(lost / blank, place, colour / 20)
        for lost, place, colour in zip(whole, places, colours, strict=True)
    ]
    assert scores.distances["picture"] == pytest.approx(least)
    assert set(scores.because) <= {"place", "colour"}
    assert len(scores.undo) == len(scores.maps) == 3
    assert all(undo < 1 for undo in scores.undo)
    assert scores.distances["identity"] is None
    assert "no face is annotated" in scores.not_applicable["identity"]


# The worst place, by arithmetic.


cells = arrays.arrays(np.float32, (CELLS, CELLS), elements=st.floats(0, 1, width=32))


@given(cells, cells, cells)
@settings(max_examples=25, deadline=None)
def test_the_worst_place_is_the_worst_of_all_windows(loss, card, grain):
    def windows(values):
        starts = range(0, CELLS - WINDOW + 1, STRIDE)
        return {
            (x, y): values[y : y + WINDOW, x : x + WINDOW].mean(dtype=float)
            for y in starts
            for x in starts
        }

    lost, blank, unseen = windows(loss), windows(card), windows(grain)
    floor = max(np.median([blank[at] - unseen[at] for at in blank]), LEAST)

    def left(at):
        return 1 - max(0, lost[at] - unseen[at]) / max(blank[at] - unseen[at], floor)

    expected = min(map(left, lost))
    found = worst_place(loss, Scale(card, grain))
    assert found.kept == pytest.approx(expected, rel=1e-4, abs=1e-4)
    at = round(found.box[0] * CELLS), round(found.box[1] * CELLS)
    assert left(at) == pytest.approx(expected, rel=1e-3, abs=1e-3)


def everywhere(value):
    return np.full((CELLS, CELLS), value, np.float32)


def spot(left, top, side=WINDOW):
    values = everywhere(0)
    values[top : top + side, left : left + side] = 1
    return values


def test_what_lies_in_the_footprint_is_undo_and_never_the_worst_place():
    scale = Scale(everywhere(1), everywhere(0.1))
    loss = spot(10, 10) + 0.3 * spot(30, 30)
    under_the_hat = spot(8, 8, 12) > 0
    assert worst_place(loss, scale).kept == pytest.approx(0, abs=1e-5)
    outside = worst_place(loss, scale, under_the_hat)
    assert outside.kept == pytest.approx(1 - 0.2 / 0.9)
    assert outside.box == tuple(n / CELLS for n in (30, 30, 38, 38))
    inside = (64 / 144 - 0.1) / 0.9
    assert kept_inside(loss, scale, under_the_hat) == pytest.approx(1 - inside)


def test_a_footprint_that_touches_every_window_leaves_them_all():
    scale = Scale(everywhere(1), everywhere(0))
    touched = np.zeros((CELLS, CELLS), bool)
    touched[::2, ::2] = touched[1::4, 1::4] = True
    assert worst_place(spot(10, 10), scale, touched).kept == pytest.approx(0)


def test_a_flat_wall_cannot_be_the_worst_place_by_a_breath():
    card = everywhere(1)
    card[:, :16] = 1e-6  # a blank card loses nothing there
    scale = Scale(card, everywhere(0))
    loss = everywhere(0.01)
    assert worst_place(loss, scale).kept == pytest.approx(1 - 0.01, abs=1e-6)
    assert lost_share(loss, scale).max() == pytest.approx(0.01, abs=1e-6)


def test_what_unseen_grain_loses_is_no_loss_where_it_loses_it():
    grain = everywhere(0.01)
    grain[:, :16] = 0.3  # a smooth wall
    scale = Scale(everywhere(1), grain)
    assert worst_place(0.9 * grain, scale).kept == 1
    assert not lost_share(0.9 * grain, scale).any()
    elsewhere = 0.3 * spot(30, 30)
    assert worst_place(elsewhere, scale).kept == pytest.approx(1 - 0.29 / 0.99)


def test_a_place_where_the_card_loses_no_more_than_grain_has_a_scale_all_the_same():
    scale = Scale(everywhere(0.1), everywhere(0.2))
    assert worst_place(everywhere(0.2), scale).kept == pytest.approx(1)
    assert worst_place(everywhere(0.2 + LEAST), scale).kept == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("size", [(40, 30), (700, 520)])
def test_grain_is_the_same_each_time_and_as_strong_as_said(size):
    grey = Image.new("RGB", size, (128, 128, 128))
    values = np.asarray(grainy(grey), dtype=float) - 128
    assert values.std() == pytest.approx(GRAIN, rel=0.05)
    assert abs(values.mean()) < 0.1
    assert grainy(grey).tobytes() == grainy(grey).tobytes()
    # The first numbers: they may never change.
    assert values[0, :2].ravel().tolist() == FIRST_GRAIN


@pytest.mark.parametrize("wrong", [(0.5, 0, 0.4, 1), (0, 0, 1, 1.2), (-0.1, 0, 1, 1)])
def test_a_face_that_is_no_box_is_refused(wrong):
    with pytest.raises(MetricError, match="face is"):
        Subject(face=wrong)


def test_a_footprint_of_another_shape_is_refused():
    with pytest.raises(MetricError, match="footprint has the shape"):
        Subject(footprint=np.zeros((8, 8), bool))


# The least of the parts.


def test_the_least_part_is_named_trip_by_trip():
    found = least_kept({"colour": [0.9, 0.2], "lpips": [0.8, 0.7], "place": [0.8, 0.4]})
    assert [(trip.kept, trip.because) for trip in found] == [(0.8, "lpips"), (0.2, "colour")]


def test_the_images_version_names_its_parts_and_changes_with_theirs(monkeypatch):
    whole, faceless = WholePicture(), WholePicture([part.name for part in PARTS[:3]])
    assert "identity" in whole.version
    assert "identity" not in faceless.version
    before = whole.version
    monkeypatch.setattr(metric_class("colour"), "version", "another")
    assert WholePicture().version != before


def test_a_source_of_one_colour_has_no_worst_place_and_says_so(scorer):
    flat = Image.new("RGB", (64, 64), (90, 120, 40))
    scores = scorer.score(flat, [flat, Image.new("RGB", (64, 64))])
    assert scores.distances["place"] is scores.distances["picture"] is None
    assert scores.not_applicable["place"] == "the source is one colour"
    assert scores.because is None


# Faces.


needs_dlib = pytest.mark.skipif(
    bool(metric_class("identity")().missing()), reason="dlib is not installed"
)


@needs_dlib
def test_a_face_is_the_same_person_through_wear_and_another_when_painted_over(scorer):
    source = SOURCES["astronaut"]()
    subject = Subject(face=ASTRONAUT_FACE)
    same, _ = kept(
        scorer, source, EncodedImage.from_bytes(encode_jpeg(source, 60)).decoded, subject
    )
    assert same["identity"] > 0.8
    faceless, because = kept(scorer, source, smeared_face(source), subject)
    assert faceless["identity"] == 0
    assert because in ("identity", "place")
    assert faceless["lpips"] > 0.8


def smeared_face(image):
    box = tuple(
        round(share * side) for share, side in zip(ASTRONAUT_FACE, image.size * 2, strict=True)
    )
    image = image.copy()
    image.paste(image.crop(box).filter(ImageFilter.GaussianBlur(30)), box[:2])
    return image


@needs_dlib
def test_another_person_is_further_away_than_dlibs_limit(scorer):
    source = SOURCES["astronaut"]()
    from matplotlib.cbook import get_sample_data

    with get_sample_data("grace_hopper.jpg") as file:
        other = Image.open(file).convert("RGB").crop((80, 20, 430, 370)).resize((220, 220))
    swapped = source.copy()
    swapped.paste(other, (120, 15))
    found, _ = kept(scorer, source, swapped, Subject(face=ASTRONAUT_FACE))
    assert found["identity"] < 0.5


@needs_dlib
def test_the_one_face_of_an_image_that_nobody_annotated_is_found(scorer):
    left, top, right, bottom = scorer.only_face(SOURCES["astronaut"]())
    assert 0.35 < (left + right) / 2 < 0.5
    assert 0.1 < (top + bottom) / 2 < 0.35
    assert scorer.only_face(SOURCES["coffee"]()) is None


@needs_dlib
def test_a_face_that_is_annotated_but_not_there_is_not_measured(scorer):
    cup = SOURCES["coffee"]()
    scores = scorer.score(cup, [cup], Subject(face=(0.3, 0.2, 0.7, 0.8)))
    assert scores.distances["identity"] is None
    assert "not found in the source" in scores.not_applicable["identity"]
    assert scores.because == ["lpips"]


def test_without_dlib_identity_is_not_run_and_the_image_is_made_of_the_rest(monkeypatch):
    monkeypatch.setattr(identity.Identity, "modules", {"no_such_module": "dlib-bin"})
    scorer = Scorer(["picture", "identity"])
    assert "dlib-bin is not installed" in scorer.not_run["identity"]
    if "picture" in scorer.not_run:
        pytest.skip(scorer.not_run["picture"])
    source = SOURCES["astronaut"]()
    scores = scorer.score(source, [smeared_face(source)], Subject(face=ASTRONAUT_FACE))
    assert scores.distances["identity"] is None
    assert scores.because == ["place"]
    assert "identity" not in scorer.provenance()["metrics"]["picture"]["version"]


def test_pages_have_words_for_the_loss_of_every_part():
    assert [*LOST] == [*WholePicture.parts]
    assert len({words.cause for words in LOST.values()}) == len(LOST)
