"""Witnesses of flips and turns, of the same person, and of missing things."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image, ImageFilter

from evaluation.content import operators
from evaluation.content.suites import EditPair
from evaluation.images import EncodedImage
from evaluation.metrics.base import CELLS, Subject
from evaluation.metrics.networks.faces import faces
from evaluation.testing.drifts import as_jpeg, moved, noisy
from evaluation.testing.reference_images import ASTRONAUT, as_image
from evaluation.witnesses import WITNESSES, Panel, TripToJudge, load_witness, witness_class
from evaluation.witnesses.base import Verdict, count_verdicts
from evaluation.witnesses.detector import Detection, overlap

SOURCE = as_image(ASTRONAUT)
FACE = (0.36, 0.1, 0.53, 0.36)
COPY = EditPair("copy", "replication", "Copy it.", "Copy it.", "none")
FLIP = EditPair(
    "flip", "geometry", "Mirror it.", "Mirror it back.", "exact", operator="flip_horizontal"
)


def trip(edited, restored, pair=FLIP, subject=None):
    images = (EncodedImage.from_image(image) for image in (SOURCE, SOURCE, edited, restored))
    return TripToJudge(*images, pair, subject or Subject())


WEAR = {
    "nothing": lambda image: image,
    "JPEG": lambda image: as_jpeg(image, 20),
    "noise": lambda image: noisy(image, 40),
    "blur": lambda image: image.filter(ImageFilter.GaussianBlur(4)),
    "a shift": lambda image: moved(image, right=8),
}


@pytest.mark.parametrize("operator", operators.OPERATORS)
@pytest.mark.parametrize("wear", WEAR)
def test_a_flip_or_turn_is_detected_as_made_and_undone(operator, wear):
    pair, worn = replace(FLIP, operator=operator), WEAR[wear]
    edited = worn(operators.apply(operator, SOURCE))
    found = load_witness("geometry").examine(trip(edited, worn(SOURCE), pair))
    assert (found.made, found.undone, found.gates) == (True, True, True)
    left = load_witness("geometry").examine(trip(edited, edited, pair))
    assert (left.made, left.undone) == (True, False)


def test_other_changes_are_not_detected_as_a_flip():
    flipped = operators.apply("flip_horizontal", SOURCE)
    half = SOURCE.copy()
    half.paste(flipped.crop((0, 0, 256, 512)), (0, 0))
    for answer in (SOURCE, Image.blend(SOURCE, flipped, 0.5), half):
        found = load_witness("geometry").examine(trip(answer, SOURCE))
        assert (found.made, found.undone) == (False, None)


def test_other_pairs_and_symmetric_images_give_no_evidence():
    geometry = load_witness("geometry")
    assert geometry.examine(trip(SOURCE, SOURCE, COPY)) is None
    same = EncodedImage.from_image(Image.linear_gradient("L").convert("RGB"))
    assert geometry.examine(TripToJudge(same, same, same, same, FLIP)) is None


@pytest.fixture(scope="module")
def identity():
    witness = load_witness("identity")
    if missing := witness.missing():
        pytest.skip("; ".join(missing))
    return witness


def test_a_missing_face_is_not_the_same_person(identity):
    about = Subject(face=FACE)
    same = identity.examine(trip(SOURCE, as_jpeg(SOURCE, 40), COPY, about))
    assert (same.kept, same.made, same.undone) == (True, None, None)
    faceless = SOURCE.copy()
    faceless.paste((120, 100, 90), (170, 40, 290, 200))
    found = identity.examine(trip(SOURCE, faceless, COPY, about))
    assert (found.kept, found.said) == (False, "no face")
    assert identity.examine(trip(SOURCE, SOURCE, COPY)) is None


def test_the_witness_and_the_headline_share_the_embeddings_of_faces(identity, monkeypatch):
    about = Subject(face=FACE)
    Panel(["identity"]).evidence(trip(SOURCE, SOURCE, COPY, about))
    monkeypatch.setattr(faces(), "_computed", lambda *args: pytest.fail("looked twice"))
    assert faces().distance(*[faces().embedding(SOURCE, FACE)] * 2) == 0.0


@pytest.fixture(scope="module")
def rest():
    witness = load_witness("rest")
    if missing := witness.missing():
        pytest.skip("; ".join(missing))
    return witness


def test_a_missing_person_is_noticed(rest):
    there = rest.examine(trip(SOURCE, as_jpeg(SOURCE, 60), COPY))
    assert (there.kept, there.said) == (True, "")
    gone = rest.examine(trip(SOURCE, Image.new("RGB", SOURCE.size, (60, 60, 60)), COPY))
    assert (gone.kept, gone.said) == (False, "person gone")


def test_things_inside_the_edit_are_not_missed(rest):
    everywhere = Subject(footprint=np.ones((CELLS, CELLS), bool))
    assert rest.examine(trip(SOURCE, SOURCE, COPY, everywhere)) is None


def test_boxes_overlap_by_what_they_share():
    one = Detection("cup", 0.5, (0.0, 0.0, 0.5, 0.5))
    assert overlap(one, one) == 1
    assert overlap(one, Detection("cup", 0.5, (0.25, 0.0, 0.75, 0.5))) == pytest.approx(1 / 3)
    assert overlap(one, Detection("cup", 0.5, (0.6, 0.6, 0.9, 0.9))) == 0


def test_changes_outside_the_edit_do_not_count_as_edits():
    said = {"witness": "rest", "made": None, "undone": None, "kept": False, "gates": False}
    assert Verdict.from_evidence([said]) == Verdict(None, None)
    seen = {"witness": "hue", "made": True, "undone": False, "gates": False}
    assert count_verdicts([("colour", [said, seen]), ("colour", [seen])]) == {
        "colour": {"rest": {"kept": [0, 1]}, "hue": {"made": [2, 2], "undone": [0, 2]}}
    }


def test_every_witness_describes_itself():
    for name in WITNESSES:
        kind = witness_class(name)
        assert kind.name == name
        assert all((kind.label, kind.licence, kind.can, kind.cannot))
