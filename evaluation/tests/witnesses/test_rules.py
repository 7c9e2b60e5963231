"""The colour witness: did the whole image change as requested?"""

from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageEnhance
from skimage import data

from evaluation.images import EncodedImage, encode_jpeg
from evaluation.testing.reference_images import ASTRONAUT, as_image
from evaluation.witnesses import TripToJudge, load_witness

SOURCES = {"astronaut": as_image(ASTRONAUT), "coffee": as_image(data.coffee())}


def with_values(change):
    return lambda image: as_image(
        np.clip(np.rint(change(np.asarray(image, dtype=float))), 0, 255).astype(np.uint8)
    )


EDITS = {
    "inverted": with_values(lambda v: 255 - v),
    "swapped": with_values(lambda v: v[..., ::-1]),
    "none": lambda image: image.convert("L").convert("RGB"),
    "orange": with_values(lambda v: v * [1.15, 1.0, 0.75]),
    "blue": with_values(lambda v: v * [0.8, 0.95, 1.2]),
    "vivid": lambda image: ImageEnhance.Color(image).enhance(1.6),
    "pale": lambda image: ImageEnhance.Color(image).enhance(0.5),
    "bright": lambda image: ImageEnhance.Brightness(image).enhance(1.4),
    "dark": lambda image: ImageEnhance.Brightness(image).enhance(0.6),
}
WEAR = {
    "nothing": lambda image: image,
    "JPEG 30": lambda image: EncodedImage.from_bytes(encode_jpeg(image, 30)).decoded,
    "noise": with_values(lambda v: v + np.random.default_rng(0).normal(0, 12, v.shape)),
    "4 px aside": with_values(lambda v: np.roll(v, 4, axis=1)),
}


def ball(image):
    image = image.copy()
    ImageDraw.Draw(image).ellipse((60, 60, 140, 140), fill=(200, 20, 20))
    return image


def judged(thing, source, edited, restored):
    images = [EncodedImage.from_image(image) for image in (source, source, edited, restored)]
    pair = SimpleNamespace(witness=f"hue:{thing}", object="")
    return load_witness("hue").examine(TripToJudge(*images, pair))


@pytest.mark.parametrize("slug", SOURCES)
@pytest.mark.parametrize("wear", WEAR)
@pytest.mark.parametrize("thing", EDITS)
def test_an_edit_is_detected_as_made_and_undone_despite_wear(thing, wear, slug):
    source = SOURCES[slug]
    found = judged(thing, source, WEAR[wear](EDITS[thing](source)), WEAR[wear](source))
    assert (found.made, found.undone) == (True, True), found
    assert found.gates is False


@pytest.mark.parametrize("slug", SOURCES)
@pytest.mark.parametrize("thing", EDITS)
def test_neither_wear_nor_a_red_ball_is_the_edit(thing, slug):
    source = SOURCES[slug]
    for other in (*(wear(source) for wear in WEAR.values()), ball(source)):
        assert judged(thing, source, other, source).made is False


@pytest.mark.parametrize("thing", ["inverted", "swapped", "none", "dark"])
def test_an_edit_that_stays_is_not_undone(thing):
    source = SOURCES["coffee"]
    edited = EDITS[thing](source)
    assert judged(thing, source, edited, edited).undone is False


def test_half_of_the_edit_is_not_the_edit():
    source = SOURCES["astronaut"]
    half = Image.blend(source, EDITS["inverted"](source), 0.4)
    assert judged("inverted", source, half, source).made is False


def test_a_grey_source_or_an_object_gives_no_evidence():
    grey = SOURCES["coffee"].convert("L").convert("RGB")
    assert judged("swapped", grey, grey, grey) is None
    assert judged("none", grey, grey, grey) is None
    source = SOURCES["coffee"]
    assert judged("red letters", source, source, source) is None
