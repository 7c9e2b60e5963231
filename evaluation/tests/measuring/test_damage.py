"""Chains whose damage is known are labelled by it, and only by it."""

import numpy as np
import pytest
from PIL import Image, ImageFilter

from evaluation.analysis.events import Event
from evaluation.analysis.failure_labels import (
    LABELS,
    LEVELS,
    failure_labels,
    label_counts,
)
from evaluation.content.suites import EditPair
from evaluation.images import EncodedImage
from evaluation.measuring.damage import damage
from evaluation.measuring.trip_measures import measure_trip
from evaluation.metrics.base import CELLS
from evaluation.records import TripMeasures
from evaluation.testing.drifts import as_jpeg, moved, noisy
from evaluation.testing.reference_images import ASTRONAUT, as_image

SOURCE = as_image(ASTRONAUT)
COPY = EditPair("copy", "replication", "Copy it.", "Copy it.", "none")
WELL = Event(5.0, None)


def tinted(image):
    return Image.eval(image.getchannel("G"), lambda v: min(255, v + 25))


def green(image):
    red, _, blue = image.split()
    return Image.merge("RGB", (red, tinted(image), blue))


def smeared(image, side=150):
    """The face, and what is around it, gone."""
    box = (180, 60, 180 + side, 60 + side)
    image = image.copy()
    image.paste(image.crop(box).filter(ImageFilter.GaussianBlur(side / 3)), box)
    return image


def with_checks(image):
    """Checks where the wall was plain."""
    pattern = np.indices((140, 140)).sum(axis=0) // 14 % 2 * 200 + 20
    image = image.copy()
    image.paste(Image.fromarray(np.dstack([pattern.astype(np.uint8)] * 3)), (350, 10))
    return image


KNOWN = {
    "nothing": (lambda image: image, set()),
    "one JPEG save": (lambda image: as_jpeg(image, 60), set()),
    "a green tint": (green, {"whole-image", "colour-cast"}),
    "grain": (lambda image: noisy(image, 12), {"whole-image", "grain"}),
    "a blur": (lambda i: i.filter(ImageFilter.GaussianBlur(2)), {"whole-image", "smoothing"}),
    "a zoom": (lambda image: moved(image, zoom=1.04), {"whole-image", "reframing"}),
    "a shift": (lambda image: moved(image, right=14), {"whole-image", "reframing"}),
    "a face gone": (smeared, {"object", "content-loss"}),
    "checks on the wall": (with_checks, {"object", "content-invented"}),
}


@pytest.mark.parametrize("name", KNOWN)
def test_damage_that_is_known_is_called_by_its_name(name):
    harm, labels = KNOWN[name]
    trip = TripMeasures(step=0.1, from_source=0.1, damage=damage(SOURCE, harm(SOURCE)))
    assert set(failure_labels([trip], WELL)) == labels, trip.damage


def test_two_kinds_of_damage_are_both_told():
    trip = TripMeasures(step=0.1, from_source=0.1, damage=damage(SOURCE, noisy(green(SOURCE), 12)))
    assert failure_labels([trip], WELL) == ("whole-image", "colour-cast", "grain")


def test_what_is_lost_where_the_edit_was_made_is_no_failure():
    place = np.zeros((CELLS, CELLS), bool)
    place[2:26, 12:36] = True
    assert damage(SOURCE, smeared(SOURCE))["lost"] > 0.02
    assert damage(SOURCE, smeared(SOURCE), place)["lost"] < 0.004


def test_every_scored_trip_has_its_damage():
    images = (EncodedImage.from_image(image) for image in (SOURCE, SOURCE, SOURCE, green(SOURCE)))
    assert measure_trip(*images, COPY).damage["cast"] > 5


@pytest.mark.parametrize(
    ("said", "labels"),
    [
        ({"witness": "rest", "kept": False}, ("object", "content-loss")),
        ({"witness": "identity", "kept": False}, ("object", "content-loss")),
        ({"witness": "parsing", "made": True, "undone": False}, ("object", "content-invented")),
        ({"witness": "judge", "kept": False}, ()),
        ({"witness": "rest", "kept": True}, ()),
    ],
)
def test_witnesses_have_their_say(said, labels):
    said = {"thing": "cup", "gates": True, "made": None, "undone": None} | said
    trip = TripMeasures(step=0.1, from_source=0.1, evidence=[said])
    assert failure_labels([trip], WELL) == labels


def test_the_trip_that_ended_the_chain_is_looked_at():
    well, tint = (
        TripMeasures(step=0.1, from_source=0.1, damage=damage(SOURCE, i))
        for i in (SOURCE, green(SOURCE))
    )
    assert failure_labels([well, well, tint], Event(1.4, "place")) == ("sub-object",)
    assert "colour-cast" in failure_labels([well, well, tint], Event(2.4, "colour"))
    assert failure_labels([well, well, tint], Event(1.0, "not_made")) == ("object",)


def test_a_chain_that_never_came_back_has_no_image_to_speak_of():
    assert failure_labels([], Event(0.0, "refused")) == ()
    assert failure_labels([], Event(0.0, "not_made")) == ("object",)
    well = TripMeasures(step=0.1, from_source=0.1, damage=damage(SOURCE, SOURCE))
    assert failure_labels([well], Event(1.0, "failed")) == ()


def test_steady_steps_in_one_direction_are_a_drift():
    well = TripMeasures(step=0.1, from_source=0.1, damage=damage(SOURCE, SOURCE))
    steps = [0.05] * 8
    assert failure_labels([well] * 8, WELL, steps, 0.4) == ("whole-image", "drift")
    assert failure_labels([well] * 8, WELL, steps, 0.1) == ()


def test_labels_are_counted_in_their_order():
    assert label_counts([("object", "grain"), ("object",), ()]) == {"object": 2, "grain": 1}
    assert set(LEVELS) < set(LABELS)
