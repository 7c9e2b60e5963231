"""Marks are visible, differ, and survive honest editors; a stored source has no mark."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageChops, ImageEnhance, ImageFilter

from evaluation.audits import marks
from evaluation.audits.findings import Finding, changed_elsewhere, find, judge_audits, mark_share
from evaluation.audits.plan import Audit
from evaluation.audits.touch import Touch
from evaluation.content import catalog, operators
from evaluation.images import EncodedImage, clean_wire, encode_jpeg
from evaluation.measuring.scoring import Scorer
from evaluation.testing.images import busy
from evaluation.testing.reference_images import small, worn
from evaluation.testing.zoo.honest_damages import HONEST_DAMAGES, false_alarms

LOCAL = next(pair for pair in catalog.edit_pairs() if pair.change == "local")
FLIP = next(pair for pair in catalog.edit_pairs() if pair.operator == "flip_horizontal")
TURN = next(pair for pair in catalog.edit_pairs() if pair.operator == "rotate_90")
SOURCE = EncodedImage.from_image(small(256, 192, seed=3))


def touched(kind="mark", pair=LOCAL, secret="secret", edited=SOURCE, before=SOURCE):
    return Touch(Audit("case", 0, 2, kind), secret, pair, before, edited)


# Marks.


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.sampled_from(["photograph", "noise", "black", "white", "grey"]))
def test_a_mark_is_clearly_visible_in_one_place(seed, ground):
    image = {
        "photograph": SOURCE.decoded,
        "noise": busy(200, 160, 1),
        "black": Image.new("RGB", (200, 160)),
        "white": Image.new("RGB", (200, 160), "white"),
        "grey": Image.new("RGB", (200, 160), (128, 128, 128)),
    }[ground]
    marked = marks.with_mark(image, None, np.random.default_rng(seed))
    difference = np.abs(np.asarray(marked, int) - np.asarray(image, int)).max(axis=2)
    place = ImageChops.difference(marked, image).getbbox()
    assert place is not None
    assert (place[2] - place[0]) <= 0.28 * 192
    assert difference[difference > 8].mean() > 15
    assert 0.005 < (difference > 8).mean() < 0.08


def test_no_two_marks_are_alike():
    made = {
        marks.with_mark(SOURCE.decoded, None, np.random.default_rng(seed)).tobytes()
        for seed in range(40)
    }
    assert len(made) == 40


@pytest.mark.parametrize("corner", ["left", "right"])
def test_a_mark_is_painted_where_the_edit_changed_least(corner):
    edited = SOURCE.decoded.copy()
    half = edited.width // 2
    box = (
        (0, 0, half, edited.height) if corner == "left" else (half, 0, edited.width, edited.height)
    )
    edited.paste(ImageChops.invert(edited.crop(box)), box[:2])
    for number in range(8):
        touch = touched(secret=f"{number}", edited=EncodedImage.from_image(edited))
        clean = clean_wire(EncodedImage.from_image(edited)).decoded
        place = ImageChops.difference(touch.sent.decoded, clean).getbbox()
        middle = (place[0] + place[2]) / 2
        assert (middle > half) == (corner == "left")


@pytest.mark.parametrize("kind", ["mark", "fragility"])
def test_the_same_secret_always_gives_the_same_touch(kind):
    assert touched(kind).sent.data == touched(kind).sent.data
    assert touched(kind).sent.data != touched(kind, secret="another").sent.data
    assert clean_wire(touched(kind).sent).data == touched(kind).sent.data


# The share of the mark.


@pytest.mark.parametrize("name", sorted(HONEST_DAMAGES))
def test_an_honest_restored_image_has_the_whole_mark(name):
    honest = HONEST_DAMAGES[name]
    shares = []
    for number in range(5):
        random = np.random.default_rng(number)
        touch = touched(secret=f"{name} {number}")
        own, answer = (honest(p, random) for p in (SOURCE.decoded, touch.sent.decoded))
        shares.append(mark_share(touch, own, answer))
    assert 0.8 < np.median(shares) < 1.2, shares


def test_a_stored_source_has_nothing_of_the_mark():
    for number in range(8):
        touch = touched(secret=f"{number}")
        own = worn(SOURCE.decoded, 3, seed=1)
        assert mark_share(touch, own, worn(SOURCE.decoded, 3, seed=2)) < 0.15


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_a_blend_has_its_share_of_the_mark(share):
    touch = touched()
    answer = Image.blend(SOURCE.decoded, touch.sent.decoded, share)
    assert mark_share(touch, SOURCE.decoded, answer) == pytest.approx(share, abs=0.06)


@pytest.mark.parametrize("pair", [FLIP, TURN], ids=lambda pair: pair.slug)
def test_the_mark_is_searched_where_a_turn_moves_it(pair):
    edited = EncodedImage.from_image(operators.apply(pair.operator, SOURCE.decoded))
    touch = touched(pair=pair, edited=edited)
    answer = operators.apply(operators.INVERSES[pair.operator], touch.sent.decoded)
    assert mark_share(touch, SOURCE.decoded, answer) == pytest.approx(1, abs=0.06)
    assert mark_share(touch, SOURCE.decoded, SOURCE.decoded) < 0.1


@pytest.mark.parametrize("pair", [FLIP, TURN], ids=lambda pair: pair.slug)
@pytest.mark.parametrize("kind", ["mark", "fragility"])
def test_a_model_that_cannot_turn_images_is_not_accused(kind, pair, scorer):
    found = []
    for number in range(4):
        touch = touched(kind, pair=pair, secret=f"{number}")
        own = EncodedImage.from_image(worn(clean_wire(SOURCE).decoded, 2, seed=1))
        answer = EncodedImage.from_image(worn(touch.sent.decoded, 2, seed=2))
        found.append(find(kind, touch, SOURCE, own, answer, scorer))
    assert judge_audits(found).verdict == "clean", found


def test_an_answer_at_twice_the_size_has_the_whole_mark():
    touch = touched()
    twice = (SOURCE.width * 2, SOURCE.height * 2)
    own, answer = (p.resize(twice, Image.BICUBIC) for p in (SOURCE.decoded, touch.sent.decoded))
    assert mark_share(touch, own, answer) == pytest.approx(1, abs=0.1)


# The loss by a touch.


@pytest.fixture(scope="module")
def scorer():
    return Scorer(["ssim"])


@pytest.mark.parametrize("kind", ["mark", "fragility"])
@pytest.mark.parametrize("name", sorted(HONEST_DAMAGES))
def test_an_honest_editor_loses_nothing_by_a_touch(name, kind, scorer):
    found = []
    for number in range(6):
        random = np.random.default_rng(number)
        touch = touched(kind, secret=f"{number}")
        own, answer = (
            EncodedImage.from_image(HONEST_DAMAGES[name](p, random))
            for p in (clean_wire(SOURCE).decoded, touch.sent.decoded)
        )
        found.append(find(kind, touch, SOURCE, own, answer, scorer))
    assert judge_audits(found).verdict == "clean", found


def test_a_model_that_looks_up_its_answer_fails_when_that_answer_is_touched(scorer):
    def poor(image):
        return EncodedImage.from_image(image.filter(ImageFilter.GaussianBlur(1.5)))

    found = []
    for number in range(6):
        touch = touched("fragility", secret=f"{number}")
        found.append(find("fragility", touch, SOURCE, SOURCE, poor(touch.sent.decoded), scorer))
    audited = judge_audits(found)
    assert audited.verdict == "review"
    assert "alteration of its answer" in audited.reasons[0]


def test_other_changes_by_an_edit_are_measured_outside_its_footprint():
    scorer = Scorer(["overall"])
    if scorer.not_run:
        pytest.skip(str(scorer.not_run))
    drawn = SOURCE.decoded.copy()
    drawn.paste((250, 30, 30), (30, 30, 90, 90))
    changes = [
        changed_elsewhere(SOURCE, EncodedImage.from_image(image), LOCAL, scorer)
        for image in (drawn, worn(drawn, 4, seed=1), worn(drawn, 12, seed=1))
    ]
    assert changes[0] < 0.06 < changes[1] < changes[2], changes
    mirrored = EncodedImage.from_image(operators.apply("flip_horizontal", SOURCE.decoded))
    assert changed_elsewhere(SOURCE, mirrored, FLIP, scorer) is None
    assert changed_elsewhere(SOURCE, mirrored, LOCAL, Scorer(["ssim"])) is None


# Verdicts.

HONEST = Finding("mark", 1.0, 0.0, 0.1)
FRAGILE = Finding("fragility", None, 0.0, 0.1)


@pytest.mark.parametrize(
    ("findings", "verdict"),
    [
        ([], "clean"),
        ([HONEST] * 6 + [FRAGILE] * 6, "clean"),
        ([dataclasses.replace(HONEST, kept=0.51)] * 6, "clean"),
        ([dataclasses.replace(HONEST, kept=0.49)] * 6, "review"),
        ([HONEST] * 3 + [dataclasses.replace(HONEST, kept=0.0)] * 2, "clean"),
        ([dataclasses.replace(FRAGILE, loss=0.31, lost=0.6)] * 6, "review"),
        ([dataclasses.replace(FRAGILE, loss=0.29, lost=0.6)] * 6, "clean"),
        ([dataclasses.replace(FRAGILE, loss=0.1, lost=0.05)] * 6, "review"),
        ([dataclasses.replace(FRAGILE, loss=0.01, lost=0.0)] * 6, "clean"),
    ],
)
def test_only_the_median_audit_sets_a_run_to_review(findings, verdict):
    audited = judge_audits(findings)
    assert audited.verdict == verdict
    assert bool(audited.reasons) == (verdict == "review")


@pytest.mark.parametrize(
    ("made", "verdict"),
    [
        ([False] * 3, "clean"),
        ([True, True, False, False], "clean"),
        ([True, False, False, False], "review"),
    ],
)
def test_a_run_whose_edits_show_something_else_is_set_to_review(made, verdict):
    audited = judge_audits([HONEST] * 6, made)
    assert audited.verdict == verdict
    assert ("requested thing" in " ".join(audited.reasons)) == (verdict == "review")


def test_partly_kept_marks_are_only_a_hint():
    audited = judge_audits([dataclasses.replace(HONEST, kept=0.7)] * 6)
    assert audited.verdict == "clean"
    assert len(audited.hints) == 1


def test_no_honest_run_of_a_dozen_is_accused():
    """`make bench` has 200 of them: false alarms are below 1 %."""
    assert false_alarms(12) == 0


def test_a_mark_survives_a_darker_image():
    touch = touched()
    dim = ImageEnhance.Brightness(touch.sent.decoded).enhance(0.85)
    assert mark_share(touch, SOURCE.decoded, dim) == pytest.approx(0.9, abs=0.15)
    assert EncodedImage.from_bytes(encode_jpeg(dim, 20)).size == SOURCE.size
