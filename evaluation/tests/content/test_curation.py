import numpy as np
import pytest
from PIL import Image, ImageEnhance

from evaluation.content import catalog, curation
from evaluation.content.annotations import Annotations
from evaluation.content.curation import Rejected, check, fingerprint, misfits, symmetries
from evaluation.content.sources import original
from evaluation.content.suites import EditPair, SuiteImage
from evaluation.images import EncodedImage
from evaluation.testing.images import busy, encoded, gradient


def image(**fields):
    known = {
        "slug": "a",
        "sha256": "0",
        "width": 512,
        "height": 512,
        "kind": "scene",
        "origin": "skimage:a",
        "title": "A",
        "author": "B",
        "licence": "CC0-1.0",
        "attribution": "B",
    }
    return SuiteImage(**{**known, **fields})


def pair(**fields):
    known = {
        "slug": "p",
        "category": "objects",
        "forward": "Add a chair.",
        "backward": "Remove the chair.",
        "change": "local",
        "object": "chair",
    }
    return EditPair(**{**known, **fields})


def refused(data, licence="CC0-1.0", **options):
    with pytest.raises(Rejected) as error:
        check(data, licence=licence, **options)
    return error.value.reasons


def test_a_good_image_is_accepted_and_returned_decoded():
    assert check(encoded(busy(400, 300)), licence="CC0-1.0").size == (400, 300)


def test_a_nearly_flat_image_is_refused():
    pixels = np.random.default_rng(0).normal(120, 6, (300, 300, 3)).clip(0, 255).astype(np.uint8)
    (reason,) = refused(encoded(Image.fromarray(pixels, "RGB")))
    assert reason.startswith("The image is nearly one colour")


def test_the_limit_of_flatness_is_ten_levels():
    for levels, flat in ((9, True), (11, False)):
        pixels = np.full((256, 256, 3), 100, dtype=np.uint8)
        pixels[::2] = 100 + 2 * levels
        image = Image.fromarray(pixels, "RGB")
        assert (curation.flatness_error(image) < curation.NEAR_FLAT) is flat


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (encoded(busy(400, 255)), "too small: 400 x 255 pixels; both sides need at least 256."),
        (encoded(busy(900, 300)), "would cut away 41% of it"),
        (encoded(busy(300, 300), "GIF"), "Not a PNG, JPEG or WebP image."),
        (b"", "empty"),
        (encoded(busy(300, 300))[:2000], "decoded"),
    ],
    ids=["small", "panorama", "format", "empty", "broken"],
)
def test_an_unusable_image_file_is_refused(data, reason):
    assert reason in refused(data)[0]


@pytest.mark.parametrize("licence", ["", "  ", "unknown", "All rights reserved"])
def test_an_image_without_a_licence_is_refused(licence):
    (reason,) = refused(encoded(busy(300, 300)), licence)
    assert reason == "The image needs a licence that allows showing and editing it."


def test_an_attribution_licence_needs_an_attribution():
    (reason,) = refused(encoded(busy(300, 300)), "CC-BY-4.0")
    assert "requires an attribution" in reason
    check(encoded(busy(300, 300)), licence="CC-BY-4.0", attribution="Somebody")


def test_all_reasons_are_given_at_once():
    flat = Image.new("RGB", (100, 100), "grey")
    assert len(refused(encoded(flat), "")) == 3


@pytest.mark.parametrize("origin", ["skimage:astronaut", "skimage:coffee", "sklearn:china.jpg"])
def test_copies_of_an_image_are_refused_however_they_were_saved(origin):
    image = EncodedImage.from_bytes(original(origin)).decoded
    known = {"the first one": fingerprint(image)}
    smaller = image.resize((image.width * 3 // 4, image.height * 3 // 4))
    for copy in (
        encoded(image),
        encoded(image, "JPEG", quality=30),
        encoded(smaller),
        encoded(ImageEnhance.Brightness(image).enhance(1.15)),
    ):
        (reason,) = refused(copy, known=known)
        assert reason == "The image is a duplicate or near-duplicate of the first one."


def test_different_images_are_not_taken_for_duplicates():
    prints = {
        image.slug: fingerprint(EncodedImage.from_bytes(original(image.origin)).decoded)
        for image in catalog.source_images()
    }
    slugs = sorted(prints)
    close = [
        (a, b)
        for i, a in enumerate(slugs)
        for b in slugs[i + 1 :]
        if curation.distance(prints[a], prints[b]) <= curation.NEAR_DUPLICATE_BITS
    ]
    assert close == []


@pytest.mark.parametrize(
    ("shown", "played", "reason"),
    [
        (
            {"kind": "face"},
            {"kinds": ("object", "scene")},
            "The pair is for images of kind object or scene; this is of kind face.",
        ),
        (
            {"contains": ("Armchair",)},
            {"absent": ("chair", "armchair")},
            "The image contains “armchair”, which must be absent for this pair.",
        ),
        (
            {"contains": ("dog",)},
            {"present": ("dog", "trees")},
            "The image does not contain “trees”, which this pair needs.",
        ),
    ],
)
def test_a_pair_does_not_fit_every_image(shown, played, reason):
    assert misfits(image(**shown), pair(**played)) == [reason]


def test_a_pair_with_a_place_fits_only_images_with_that_place_in_sufficient_size():
    chair = pair(place="floor")
    (reason,) = misfits(image(), chair)
    assert reason == "The image has no room for a chair (floor)."
    tiny, ample = (
        image(annotations=Annotations(floor=((0.1, top, 0.6, 0.95),))) for top in (0.9, 0.4)
    )
    assert misfits(tiny, chair) == [reason]
    assert misfits(ample, chair) == []


def test_quarter_turns_need_a_square():
    turn = pair(change="exact", operator="rotate_90", category="geometry")
    assert misfits(image(), turn) == []
    assert "only square images" in misfits(image(height=384), turn)[0]


def test_a_symmetric_image_is_not_flipped():
    half = busy(128, 256)
    mirrored = Image.new("RGB", (256, 256))
    mirrored.paste(half, (0, 0))
    mirrored.paste(half.transpose(Image.Transpose.FLIP_LEFT_RIGHT), (128, 0))
    assert symmetries(mirrored) == {"flip_horizontal"}
    flip = pair(change="exact", operator="flip_horizontal", category="geometry")
    (reason,) = misfits(image(), flip, symmetries(mirrored))
    assert reason.startswith("The image looks the same after flip horizontal")


def test_a_wide_image_is_not_checked_for_quarter_turns():
    assert symmetries(gradient(320, 160)) == frozenset()
