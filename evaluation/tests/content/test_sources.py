import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from evaluation.content import catalog, sources
from evaluation.content.sources import (
    ASPECTS,
    NEAR_ASPECT,
    STEP,
    OriginError,
    load_prepared,
    nearest_aspect,
    original,
    pixel_sha256,
    prepare,
    working_size,
)
from evaluation.images import EncodedImage
from evaluation.testing.images import gradient


@given(st.integers(256, 3000), st.integers(256, 3000), st.sampled_from([256, 512, 1024]))
def test_a_working_size_has_a_common_aspect_and_is_never_larger(width, height, size):
    w, h = working_size(width, height, size)
    across, down = nearest_aspect(width, height)
    assert w % STEP == h % STEP == 0
    assert w <= width
    assert h <= height
    assert w * h <= size * size
    off = (w / h) / (across / down)
    assert max(off, 1 / off) <= NEAR_ASPECT + 1e-9


@pytest.mark.parametrize("aspect", ASPECTS)
def test_a_large_original_fills_about_a_megapixel_in_every_aspect(aspect):
    across, down = aspect
    w, h = working_size(across * 1024, down * 1024, 1024)
    assert 0.87 * 2**20 <= w * h <= 2**20


def test_the_centre_is_kept():
    image = Image.new("RGB", (400, 256), "white")
    image.paste("red", (195, 123, 205, 133))
    done = prepare(image, 256)
    left, top = (v // 2 for v in done.size)
    assert done.getpixel((left, top))[1] < 60


def test_an_image_that_already_fits_is_not_touched():
    image = gradient(512, 512)
    assert prepare(image, 512).tobytes() == image.tobytes()


def test_an_image_too_thin_to_crop_is_an_error_not_an_empty_image():
    with pytest.raises(ValueError, match="too small"):
        prepare(gradient(300, 8), 256)


@pytest.mark.parametrize(
    ("origin", "message"),
    [
        ("astronaut", "is not an origin"),
        ("skimage:", "is not an origin"),
        ("skimage:../../../etc/passwd", "is not an origin"),
        ("file:/etc/passwd", "is not an origin"),
        ("file:../pyproject.toml", "is not an origin"),
        ("ftp:astronaut", "unknown scheme 'ftp'"),
        ("skimage:nobody", "has no image 'nobody'"),
        ("file:pictures/nothing.webp", "cannot be read"),
        ("skimage:astronaut#1,2,3", "a detail needs four numbers"),
        ("skimage:astronaut#0,0,513,10", "not inside the image of 512 x 512"),
        ("skimage:astronaut#9,0,9,10", "not inside"),
    ],
)
def test_a_bad_origin_is_refused_with_its_reason(origin, message):
    with pytest.raises(OriginError, match=message):
        original(origin)


def test_a_missing_package_is_reported_with_the_command_to_install_it(monkeypatch):
    monkeypatch.setitem(sources.WHEELS, "skimage", ("scikit-image", "no_such_package", "data"))
    with pytest.raises(OriginError, match=r"pip install .*scikit-image"):
        original("skimage:astronaut")


def test_a_changed_original_is_noticed():
    with pytest.raises(OriginError, match="has changed"):
        original("skimage:astronaut", "0" * 64)


def test_a_detail_is_cut_out_but_the_whole_file_is_hashed():
    whole = original("skimage:astronaut")
    sha256 = hashlib.sha256(whole).hexdigest()
    detail = original("skimage:astronaut#100,0,356,256", sha256)
    expected = EncodedImage.from_bytes(whole).decoded.crop((100, 0, 356, 256))
    assert EncodedImage.from_bytes(detail).decoded.tobytes() == expected.tobytes()


def test_every_catalogued_original_matches_its_hash():
    for image in catalog.source_images():
        file = original(image.origin.partition("#")[0])
        assert hashlib.sha256(file).hexdigest() == image.sha256, image.slug
        assert min(EncodedImage.from_bytes(original(image.origin)).size) >= 256, image.slug


def test_prepared_images_have_the_pixels_of_the_frozen_suite():
    suite = catalog.suite("smoke")
    for source in suite.images:
        image = load_prepared(source, suite.size)
        assert image.size == (source.width, source.height)
        assert pixel_sha256(image) == source.sha256


def test_a_suite_whose_images_changed_is_not_played():
    suite = catalog.suite("smoke")
    with pytest.raises(OriginError, match="differ from those in the frozen suite"):
        load_prepared(suite.images[0], suite.size - 64)


def test_every_committed_image_is_catalogued():
    files = {p.name for p in (catalog.folder() / "pictures").iterdir() if p.is_file()}
    listed = {
        Path(image.origin.partition("#")[0]).name
        for image in catalog.source_images()
        if image.origin.startswith("file:")
    }
    assert files == listed
