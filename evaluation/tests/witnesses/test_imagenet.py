"""The ImageNet witness: a cat was added and removed."""

from types import SimpleNamespace

import pytest
from PIL import Image, ImageDraw
from skimage import data

from evaluation.images import EncodedImage
from evaluation.measuring.subject import footprint
from evaluation.metrics.base import Subject
from evaluation.testing.hat_chains import HAT
from evaluation.testing.reference_images import as_image
from evaluation.witnesses import TripToJudge, load_witness
from evaluation.witnesses.by_metric import CLASSES, crop_to_footprint

SOURCE = as_image(data.rocket())
WHERE = (20, 220)


@pytest.fixture(scope="module")
def imagenet():
    witness = load_witness("imagenet")
    if missing := witness.missing():
        pytest.skip("; ".join(missing))
    return witness


def with_cat(image):
    image = image.copy()
    image.paste(as_image(data.chelsea()).resize((240, 160)), WHERE)
    return image


def with_ball(image):
    image = image.copy()
    left, top = WHERE
    ImageDraw.Draw(image).ellipse((left, top, left + 160, top + 160), fill=(200, 20, 20))
    return image


def judged(witness, edited, restored, asked="detector:cat"):
    images = [EncodedImage.from_image(image) for image in (SOURCE, SOURCE, edited, restored)]
    pair = SimpleNamespace(witness=asked, object="cat")
    subject = Subject(footprint=footprint(SOURCE, edited, HAT))
    return witness.examine(TripToJudge(*images, pair, subject))


def test_a_cat_is_detected_as_added_removed_or_left(imagenet):
    cat = with_cat(SOURCE)
    found = judged(imagenet, cat, SOURCE)
    assert (found.thing, found.made, found.undone, found.gates) == ("cat", True, True, False)
    assert judged(imagenet, cat, cat).undone is False


def test_a_red_ball_is_no_cat_and_a_cat_is_no_boat(imagenet):
    assert judged(imagenet, with_ball(SOURCE), SOURCE).made is False
    assert judged(imagenet, with_cat(SOURCE), SOURCE, "imagenet:boat").made is False


def test_an_unchanged_image_shows_no_added_thing(imagenet):
    assert judged(imagenet, SOURCE, SOURCE).made is False


def test_a_thing_without_a_class_gives_no_evidence(imagenet):
    assert judged(imagenet, with_cat(SOURCE), SOURCE, "imagenet:snow") is None
    assert judged(imagenet, with_cat(SOURCE), SOURCE, "judge:cat") is None


def test_every_class_is_one_of_the_thousand():
    assert all(0 <= number < 1000 for numbers in CLASSES.values() for number in numbers)
    assert all(len(set(numbers)) == len(numbers) for numbers in CLASSES.values())


def test_the_place_of_a_change_at_the_border_stays_in_the_image():
    mask = footprint(SOURCE, with_cat(SOURCE), HAT)
    place = crop_to_footprint(SOURCE, mask)
    assert min(place.size) >= 160
    corner = Image.new("RGB", (100, 50))
    mask[:] = False
    mask[0, 0] = True
    assert crop_to_footprint(corner, mask).size == (33, 33)
