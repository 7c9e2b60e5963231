"""The reference editors follow prompts by rule and do one known damage each."""

from itertools import pairwise

import numpy as np
import pytest
from PIL import Image, ImageChops

from evaluation.content import catalog, operators
from evaluation.content.annotations import Annotations, Words
from evaluation.content.placement import THINGS
from evaluation.editors import EditorError, Fault, drawings, load_editor
from evaluation.editors.base import EditContext
from evaluation.editors.instructions import parse
from evaluation.images import EncodedImage, clean_wire
from evaluation.play.plan import Plan, Position
from evaluation.play.round_trips import round_trips
from evaluation.run_secret import chain_seeds
from evaluation.testing.chains import asking

DAMAGING = ("thumbnail", "jpeg", "noise", "resample", "colour-drift")
REFERENCES = ("oracle", "noop", "blank-card", "loses-things", "hue-drift", *DAMAGING)


@pytest.fixture(scope="module")
def image():
    """Return a smooth image with an edge and some grain, 192 x 160."""
    random = np.random.default_rng(1)
    y, x = np.mgrid[0:160, 0:192]
    pixels = np.stack([x, 255 - y, (x + y) / 2], axis=2) + random.normal(0, 6, (160, 192, 3))
    pixels[60:90, 40:120] = (30, 60, 90)
    return EncodedImage.from_image(Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)))


RULED = [pair for pair in catalog.edit_pairs() if pair.rule]


@pytest.mark.parametrize("pair", RULED, ids=lambda pair: pair.slug)
def test_every_shipped_wording_is_understood_and_backward_is_the_inverse(pair):
    for wording in pair.wordings:
        there = parse(wording.forward)
        assert parse(wording.backward) == there.inverse
        assert there.rule == pair.rule
        if pair.rule.do in ("turn", "draw"):
            assert there.subject == (pair.operator or pair.object)


@pytest.mark.parametrize(
    ("prompt", "meant"),
    [
        ("Put a hat on the cat", "draw hat"),
        ("put a hot-air balloon above the boat", "draw hot-air-balloon"),
        ("Take off the sunglasses, please.", "erase sunglasses"),
        ("MIRROR the image", "turn flip_horizontal"),
        ("flip it upside down", "turn flip_vertical"),
        ("rotate 90° anti-clockwise", "turn rotate_270"),
        ("Rotate the image by 270 degrees clockwise", "turn rotate_270"),
        ("Rotate the image by 270 degrees counter-clockwise", "turn rotate_90"),
        ("Turn the image upside down", "turn rotate_180"),
        ("Give her a flower", "draw flower"),
        ("Please help me. Remove the cup of coffee!", "erase cup"),
        ("Return the image unchanged", "keep"),
    ],
)
def test_people_may_say_it_in_other_words(prompt, meant):
    assert str(parse(prompt)) == meant


@pytest.mark.parametrize("prompt", ["", "   ", "Make her laugh", "Add a unicorn", "hat", "\x00"])
def test_a_prompt_not_understood_is_a_permanent_error_listing_known_things(prompt):
    with pytest.raises(EditorError, match="sunglasses") as caught:
        parse(prompt)
    assert caught.value.permanent
    assert caught.value.fault is Fault.BAD_REQUEST


@pytest.mark.parametrize("name", REFERENCES)
def test_answers_are_the_same_for_a_seed_and_keep_the_size(name, image):
    first, again = (
        load_editor(name).edit(image, "Add a red ball.", seed=5).image for _ in range(2)
    )
    assert first.sha256 == again.sha256
    assert first.size == image.size
    assert (first is image) == (name == "noop")


def test_noise_depends_on_the_seed_and_is_fixed_without_one(image):
    noise = load_editor("noise")
    answers = [noise.edit(image, "Copy the image exactly.", seed=s) for s in (1, 2, None, None)]
    hashes = [answer.image.sha256 for answer in answers]
    assert len(set(hashes)) == 3
    assert hashes[2] == hashes[3]


@pytest.mark.parametrize("name", DAMAGING)
def test_each_damage_grows_when_it_is_repeated(name, image):
    editor = load_editor(name)
    errors, current = [], image
    for seed in range(6):
        current = editor.edit(current, "Copy the image exactly.", seed=seed).image
        errors.append(_error(image, current))
    assert errors[0] > 0
    # Repeated JPEG saves or thumbnails of 16 px soon change nothing more.
    slack = 1e-4 if name in ("jpeg", "thumbnail") else 0.0
    assert all(later > earlier - slack for earlier, later in pairwise(errors))


def oracle_chain(pair, start, trips=2):
    plan = Plan(pair, trips, chain_seeds("secret", "case", 0))
    return list(round_trips(plan, asking(load_editor("oracle").send), start))


@pytest.mark.parametrize("pair", RULED, ids=lambda pair: pair.slug)
def test_the_oracle_restores_every_shipped_pair_exactly(pair, image):
    for edit in oracle_chain(pair, Position(image)):
        if edit.step.name == "backward":
            assert edit.answer.image is image
        else:
            same = np.array_equal(edit.answer.image.decoded, clean_wire(image).decoded)
            assert same == (pair.change == "none")


@pytest.mark.parametrize("played", range(4))
def test_the_oracle_continues_a_chain_that_another_process_began(played, image):
    pair = next(pair for pair in catalog.edit_pairs() if pair.change == "local")
    whole = oracle_chain(pair, Position(image))
    images = [image, *(EncodedImage.from_bytes(edit.answer.image.data) for edit in whole)]
    number, step = divmod(played, 2)
    earlier = (images[played - 1],) if step else ()
    rest = oracle_chain(pair, Position(images[played], number + 1, earlier))
    assert [edit.answer.image.sha256 for edit in rest] == [
        edit.answer.image.sha256 for edit in whole[played:]
    ]


def test_the_oracle_edits_by_rule_without_the_image_before(image):
    drawn = load_editor("oracle").send(image, "Add a hat.").image
    restored = load_editor("oracle").send(drawn, "Remove the hat.").image
    assert 1e-4 < _error(restored, image) < _error(drawn, image)


def test_options_change_the_damage_and_are_described(image):
    strong = load_editor("jpeg", quality=5)
    prompt = "Copy the image exactly."
    mild_error = _error(image, load_editor("jpeg").edit(image, prompt).image)
    assert _error(image, strong.edit(image, prompt).image) > mild_error
    assert strong.describe()["quality"] == 5


@pytest.mark.parametrize("size", [(256, 256), (288, 192), (64, 900), (900, 64), (16, 16)])
def test_a_drawing_changes_only_pixels_of_its_mask(size):
    for name in THINGS:
        image = Image.new("RGB", size, (90, 120, 150))
        covered = drawings.mask(name, size)
        changed = (np.asarray(drawings.draw(name, image)) != np.asarray(image)).any(axis=2)
        assert changed.any(), name
        assert not (changed & ~covered).any(), name


@pytest.mark.parametrize("name", sorted(THINGS))
def test_removing_fills_the_place_from_its_surroundings(name):
    image = Image.new("RGB", (256, 256), (90, 120, 150))
    editor = load_editor("oracle")
    drawn = drawings.draw(name, image)
    restored = editor.edit(EncodedImage.from_image(drawn), f"Remove the {name.replace('-', ' ')}.")
    assert np.abs(np.asarray(restored.image.decoded, int) - np.asarray(image, int)).max() <= 8


@pytest.mark.parametrize("grey", [0, 128, 255])
@pytest.mark.parametrize("name", sorted(THINGS))
def test_a_drawing_stands_out_on_any_ground(name, grey):
    image = Image.new("RGB", (256, 256), (grey, grey, grey))
    difference = np.abs(np.asarray(drawings.draw(name, image), int) - np.asarray(image, int))
    assert difference[drawings.mask(name, image.size)].mean() > 50


@pytest.mark.parametrize("pair", RULED, ids=lambda pair: pair.slug)
def test_tints_and_swaps_are_undone_to_a_few_levels(pair, image):
    if pair.rule.do not in ("tint", "swap") or pair.rule.region == "red":
        return
    editor = load_editor("noise", sigma=0)
    there = editor.edit(image, pair.forward).image
    back = editor.edit(there, pair.backward).image
    assert _error(image, there) > 0.001
    assert np.abs(np.asarray(back.decoded, int) - np.asarray(image.decoded, int)).max() <= 5


WORDS = Annotations(
    text=(Words("GOOD MORNING", (0.2, 0.3, 0.8, 0.7)),),
    face=(0.3, 0.2, 0.7, 0.8),
    eyes=((0.4, 0.4), (0.6, 0.4)),
    mouth=(0.5, 0.65),
    head_top=(0.5, 0.1),
    wall=((0.02, 0.02, 0.25, 0.5),),
)


@pytest.mark.parametrize(
    ("slug", "inside"),
    [
        ("glasses", (0.2, 0.2, 0.8, 0.6)),
        ("smile", (0.35, 0.5, 0.65, 0.8)),
        ("wall-blue", (0.0, 0.0, 0.26, 0.51)),
        ("clock", (0.0, 0.0, 0.26, 0.51)),
        ("older", (0.3, 0.2, 0.7, 0.8)),
    ],
)
def test_an_edit_stays_in_the_annotated_region(slug, inside):
    image = EncodedImage.from_image(Image.new("RGB", (320, 320), (120, 140, 160)))
    pair = next(pair for pair in RULED if pair.slug == slug)
    context = EditContext(annotations=WORDS)
    edited = load_editor("oracle").edit(image, pair.forward, 1, context).image
    changed = ImageChops.difference(image.decoded, edited.decoded).getbbox()
    assert changed
    left, upper, right, lower = (side / 320 for side in changed)
    assert inside[0] <= left + 0.01
    assert inside[1] <= upper + 0.01
    assert right <= inside[2] + 0.01
    assert lower <= inside[3] + 0.01


def test_words_are_replaced_and_restored():
    image = EncodedImage.from_image(Image.new("RGB", (320, 320), (120, 140, 160)))
    pair = next(pair for pair in RULED if pair.slug == "caption-thank-you")
    editor = load_editor("noise", sigma=0)
    written = editor.edit(image, pair.forward).image
    assert _error(image, written) > 0.005
    assert _error(image, editor.edit(written, pair.backward).image) < 1e-4


def test_turns_are_pixel_for_pixel(image):
    answer = load_editor("oracle").edit(image, "Rotate the image 90 degrees clockwise.").image
    assert np.array_equal(answer.decoded, operators.apply("rotate_90", image.decoded))


def _error(a, b):
    left, right = (np.asarray(p.decoded, dtype=np.float64) / 255 for p in (a, b))
    return float(np.square(left - right).mean())


# Editors that lose things


def changed(before, after):
    """Return the box of all changed pixels."""
    return ImageChops.difference(before.decoded, after.decoded).convert("L").getbbox()


def test_one_small_square_chosen_by_the_seed_is_erased_and_the_rest_stays(image):
    editor, places = load_editor("loses-things", share=0.1), set()
    for seed in range(8):
        lost = editor.edit(image, "Return the image unchanged.", seed=seed).image
        left, top, right, bottom = changed(image, lost)
        assert right - left <= 24
        assert bottom - top <= 24
        places.add((left, top))
    assert len(places) > 4


def test_the_edit_itself_is_not_erased(image):
    prompt, editor = "Add a red ball.", load_editor("loses-things", share=0.1)
    drawn = load_editor("oracle").edit(image, prompt, seed=0).image
    ball = (np.asarray(drawn.decoded) != np.asarray(image.decoded)).any(axis=2)
    for seed in range(8):
        lost = editor.edit(image, prompt, seed=seed).image
        other = (np.asarray(lost.decoded) != np.asarray(drawn.decoded)).any(axis=2)
        assert other.any()
        assert not (other & ball).any()


def test_only_the_most_colourful_thing_changes_its_hue():
    pixels = np.full((160, 200, 3), 128, dtype=np.uint8)
    pixels[40:64, 60:84] = (200, 40, 40)
    pixels[100:124, 130:154] = (90, 110, 130)
    image, editor = (
        EncodedImage.from_image(Image.fromarray(pixels)),
        load_editor("hue-drift", step=30),
    )
    for _ in range(4):
        image = editor.edit(image, "Return the image unchanged.", seed=1).image
    values = np.asarray(image.decoded).astype(int)
    red, green, blue = values[52, 72]
    assert green == pytest.approx(200, abs=8)  # a third of a turn on
    assert max(red, blue) < 60
    values[40:64, 60:84] = (200, 40, 40)
    assert np.abs(values - pixels).max() <= 4  # the dither of the wire
