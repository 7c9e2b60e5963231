"""A change is seen if an edit was made, and only then."""

import io

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageFilter

from evaluation.content import catalog, operators, sources
from evaluation.content.suites import EditPair
from evaluation.editors import load_editor
from evaluation.editors.drawings import draw
from evaluation.editors.instructions import follow, parse
from evaluation.images import EncodedImage, encode_jpeg
from evaluation.measuring import cheating
from evaluation.measuring.change_seen import change_seen, drift
from evaluation.measuring.trip_measures import (
    edit_errors,
    identity_drift,
    judge_global,
    measure_trip,
)
from evaluation.testing.drifts import lit, wobbly

LOCAL = EditPair("hat", "accessories", "Add a hat.", "Remove the hat.", "local")
REPLICA = EditPair("replica", "replication", "Copy it.", "Copy it.", "none")
SMOKE = catalog.suite("smoke")


@pytest.fixture(scope="module")
def smoke_sources():
    """The images of the smoke suite, the smallest suite."""
    return {p.slug: sources.load_prepared(p, SMOKE.size) for p in SMOKE.images}


def moved(image, right=0, down=0, zoom=1.0):
    """The image after a small camera movement: new pixels appear at the border."""
    width, height = image.size
    middle = np.array([width / 2, height / 2])
    matrix = np.array([[1 / zoom, 0, 0], [0, 1 / zoom, 0]])
    matrix[:, 2] = middle - middle / zoom - np.array([right, down]) / zoom
    # Far beyond the border there is one colour, as from an editor that pads.
    return image.transform(
        image.size, Image.Transform.AFFINE, matrix.ravel(), Image.Resampling.BICUBIC,
        fillcolor=tuple(int(v) for v in np.asarray(image).reshape(-1, 3).mean(axis=0)),
    )  # fmt: skip


def noisy(image, sigma):
    values = np.asarray(image) + np.random.default_rng(3).normal(0, sigma, (*image.size[::-1], 3))
    return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))


def tinted(image):
    values = np.asarray(image, int) + np.array([25, 0, -25])
    return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))


NOTHING_DONE = {
    "no-op": lambda image: image,
    "JPEG 85": lambda image: Image.open(io.BytesIO(encode_jpeg(image, 85))),
    "JPEG 30": lambda image: Image.open(io.BytesIO(encode_jpeg(image, 30))),
    "noise": lambda image: noisy(image, 12),
    "tint": tinted,
    "blur": lambda image: image.filter(ImageFilter.GaussianBlur(3)),
    "zoom 2 %": lambda image: moved(image, zoom=1.02),
    "zoom out 2 %": lambda image: moved(image, zoom=0.98),
    "shift 3 px": lambda image: moved(image, right=3, down=-2),
    "shift and zoom": lambda image: moved(image, right=-4, down=3, zoom=1.03),
    "resized": lambda image: image.resize((image.width * 3 // 2, image.height * 3 // 2)),
    "grey": lambda image: image.convert("L").convert("RGB"),
    "wobble 2 px": lambda image: wobbly(image, 2),
}  # a blank answer never comes this far: it ends its chain as blank


@pytest.mark.parametrize("what", NOTHING_DONE)
def test_no_change_is_seen_if_the_whole_image_is_only_worse_or_moved(what, smoke_sources):
    for slug, image in smoke_sources.items():
        verdict = change_seen(image, NOTHING_DONE[what](image), LOCAL)
        assert verdict.seen is False, (slug, verdict)


@pytest.mark.parametrize("case", SMOKE.cases, ids=lambda case: case.slug)
def test_every_edit_of_the_smoke_suite_is_seen_as_reference_editors_make_it(case, smoke_sources):
    image, pair = smoke_sources[case.image], SMOKE.pair_by_slug[case.pair]
    places = SMOKE.image_by_slug[case.image].annotations
    verdict = change_seen(image, follow(parse(pair.forward), image, places), pair)
    if pair.change == "global":
        verdict = judge_global(verdict.measure, None)
    assert verdict.seen is True, verdict


@pytest.mark.parametrize(
    "what",
    ["JPEG 30", "blur", "zoom 2 %", "shift 3 px", "shift and zoom", "resized", "wobble 2 px"],
)
def test_an_edit_is_seen_despite_other_changes(what, smoke_sources):
    for slug, image in smoke_sources.items():
        verdict = change_seen(image, NOTHING_DONE[what](draw("hat", image)), LOCAL)
        assert verdict.seen is True, (slug, verdict)


def test_a_caption_is_seen_on_a_small_image_that_became_lighter(smoke_sources):
    """In blocks of 32 px, the change of brightness hid it."""
    case = next(case for case in SMOKE.cases if case.slug == "bottles--caption-summer")
    image, pair = smoke_sources[case.image], SMOKE.pair_by_slug[case.pair]
    edited = follow(parse(pair.forward), image, SMOKE.image_by_slug[case.image].annotations)
    assert change_seen(image, lit(edited, 1.2), pair).seen is True


def test_a_hat_is_seen_on_an_image_that_wears_away(hat_chain):
    before = hat_chain.source
    for edited, restored in zip(hat_chain.edited, hat_chain.restored, strict=True):
        assert change_seen(before.decoded, edited.decoded, LOCAL).seen is True
        before = restored


@pytest.mark.parametrize("operator", operators.OPERATORS)
@pytest.mark.parametrize("slug", ["astronaut", "fruit", "china"])
def test_turns_are_judged_against_the_truth(operator, slug, smoke_sources):
    pair = EditPair("turn", "geometry", "Turn.", "Turn back.", "exact", operator=operator)
    image = smoke_sources[slug]
    truth = operators.apply(operator, image)
    exact = change_seen(image, truth, pair)
    assert exact.seen is True
    assert exact.measure["truth_mse"] == 0
    assert change_seen(image, truth.filter(ImageFilter.GaussianBlur(2)), pair).seen is True
    assert change_seen(image, image, pair).seen is False
    assert change_seen(image, Image.new("RGB", image.size, (0, 0, 0)), pair).seen is False
    other = next(
        o for o in operators.OPERATORS if o not in (operator, operators.INVERSES[operator])
    )
    assert change_seen(image, operators.apply(other, image), pair).seen is False


def test_global_changes_are_judged_against_the_models_own_drift(smoke_sources):
    pair = EditPair("night", "light", "Make it night.", "Make it noon.", "global")
    image = smoke_sources["fruit"]
    editor = load_editor("jpeg")
    night = editor.edit(
        EncodedImage.from_image(image), "Change the time of day to night."
    ).image.decoded
    copy = editor.edit(EncodedImage.from_image(image), "Copy it.").image.decoded
    still = change_seen(image, copy, REPLICA)
    assert still.seen is None
    identity = identity_drift([still.measure])
    assert identity == drift(image, copy) > 0
    assert change_seen(image, night, pair).seen is None
    assert judge_global(change_seen(image, night, pair).measure, identity).seen is True
    assert judge_global(change_seen(image, image, pair).measure, identity).seen is False


def test_a_model_that_does_not_drift_at_all_is_judged_as_well():
    assert judge_global({"moved": 0.021}, 0.0).seen is True
    assert judge_global({"moved": 0.019}, 0.0).seen is False
    assert judge_global({"moved": 0.0}, 0.0).seen is False


def test_without_an_identity_pair_a_global_change_is_judged_by_its_size_alone():
    assert identity_drift([{}]) is None
    assert judge_global({"moved": 0.5}, None).seen is True
    assert judge_global({"moved": 0.01}, None).seen is False
    assert judge_global({}, 0.1).seen is None


@pytest.mark.parametrize("size", [(1, 1), (5, 3), (31, 31), (33, 70)])
def test_tiny_images_are_judged_too(size):
    black, white = (Image.new("RGB", size, (v, v, v)) for v in (0, 255))
    assert change_seen(black, black, LOCAL).seen is False
    assert change_seen(black, white, LOCAL).seen is False  # all of it: no local change


# Cheats.


def signs(*images, pair=LOCAL):
    """The signs of a chain: `images` are its source, then edited and restored ones in turn."""
    source, *answers = [EncodedImage.from_image(image) for image in images]
    errors, before = [], source
    trips = zip(answers[::2], answers[1::2], strict=True)
    for number, (edited, restored) in enumerate(trips, start=1):
        errors += edit_errors(number, measure_trip(source, before, edited, restored, pair))
        before = restored
    return cheating.signs(errors, pair)


def test_an_honest_chain_shows_no_sign(smoke_sources):
    editor, images = load_editor("jpeg"), [smoke_sources["astronaut"]]
    for prompt in ("Add a hat.", "Remove the hat.") * 2:
        images.append(editor.edit(EncodedImage.from_image(images[-1]), prompt).image.decoded)
    assert signs(*images) == []


def test_a_model_that_returns_its_input_or_a_stored_source_shows_signs(smoke_sources):
    image = smoke_sources["astronaut"]
    edited, worn = draw("hat", image), image.filter(ImageFilter.GaussianBlur(6))
    idle = signs(image, image, image)
    assert [(sign.name, sign.direction) for sign in idle] == [
        ("returned its input", "forward"),
        ("returned its input", "backward"),
    ]
    kept = signs(image, edited, worn, edited, image)
    assert [(sign.name, sign.number) for sign in kept] == [("returned the source", 2)]
    back = signs(image, edited, worn, edited, noisy(image, 3))
    assert [(sign.name, sign.direction) for sign in back] == [("jumped back", "backward")]
    assert signs(image, image, image, pair=REPLICA) == []


def test_signs_are_found_if_only_the_restored_images_are_stored(smoke_sources):
    image = smoke_sources["astronaut"]
    source, worn = (
        EncodedImage.from_image(i) for i in (image, image.filter(ImageFilter.BoxBlur(6)))
    )
    first = measure_trip(source, source, None, worn, LOCAL)
    second = measure_trip(source, worn, None, source, LOCAL)
    assert (first.change_seen, first.change_measure) == (None, {})
    found = cheating.signs([*edit_errors(1, first), *edit_errors(2, second)], LOCAL)
    assert [(sign.name, sign.number) for sign in found] == [("returned the source", 2)]


COPIES = {
    "JPEG 50": lambda image: Image.open(io.BytesIO(encode_jpeg(image, 50))),
    "half as large": lambda image: image.resize((image.width // 2, image.height // 2)),
    "brighter": lambda image: ImageEnhance.Brightness(image).enhance(1.1),
}


@pytest.mark.parametrize("what", COPIES)
def test_the_same_answer_to_several_cases_is_found_even_as_a_copy(what, smoke_sources):
    first, *others = smoke_sources
    images = smoke_sources | {"zz-copy": COPIES[what](smoke_sources[first]).convert("RGB")}
    answers = {case: [EncodedImage.from_image(image)] for case, image in images.items()}
    assert others
    assert cheating.repeated_answers(answers) == [(first, "zz-copy")]
