"""The neural eraser with its real network, and without its weights."""

from __future__ import annotations

import numpy as np
import pytest

from evaluation import weights
from evaluation.content import catalog, sources
from evaluation.editors import load_editor, neural_eraser
from evaluation.editors.base import EditContext
from evaluation.images import EncodedImage


@pytest.fixture(scope="module")
def eraser():
    try:
        weights.fetch("neural-eraser")
    except weights.WeightsError as error:
        pytest.skip(f"MI-GAN's weights cannot be had here: {error}")
    return load_editor("neural-eraser")


@pytest.fixture(scope="module")
def portrait():
    row = next(one for one in catalog.source_images() if one.slug == "woman-with-buns")
    image = EncodedImage.from_bytes(sources.original(row.origin, row.sha256)).decoded
    places = sources.prepare_annotations(row.annotations, image.size, 256)
    return EncodedImage.from_image(sources.prepare(image, 256)), EditContext(annotations=places)


def difference(one, other):
    return np.abs(np.asarray(one.decoded, int) - np.asarray(other.decoded, int)).max(axis=2)


def test_it_paints_over_the_thing_and_leaves_every_other_pixel(eraser, portrait):
    source, context = portrait
    worn = eraser.edit(source, "Add glasses", 1, context).image
    back = eraser.edit(worn, "Remove the glasses", 2, context).image
    drawn = difference(source, worn) > 0
    left = difference(worn, back) > 0
    assert drawn.sum() > 200
    # The whole drawing is painted over with a rim of a few pixels, and nothing else.
    assert (left & drawn).sum() > 0.9 * drawn.sum()
    rows, columns = np.nonzero(drawn)
    top, bottom = max(rows.min() - 4, 0), rows.max() + 5
    side, end = max(columns.min() - 4, 0), columns.max() + 5
    outside = left.copy()
    outside[top:bottom, side:end] = False
    assert not outside.any()
    # The guessed background is nearer to the source than the glasses, but not equal to it.
    assert 0 < difference(source, back)[drawn].mean() < difference(source, worn)[drawn].mean()


def test_the_same_image_is_painted_the_same_twice(eraser, portrait):
    source, context = portrait
    first, second = (eraser.edit(source, "Remove the glasses", n, context) for n in (1, 2))
    assert first.image.sha256 == second.image.sha256


def test_an_image_of_any_shape_keeps_its_size(eraser):
    wide = EncodedImage.from_image(_gradient(301, 97))
    back = eraser.edit(wide, "Remove the red ball", 1).image
    assert back.decoded.size == wide.decoded.size


def _gradient(width, height):
    from PIL import Image

    values = np.add.outer(np.arange(height), np.arange(width)) % 256
    return Image.fromarray(np.repeat(values[..., None], 3, axis=2).astype(np.uint8))


def test_without_weights_it_states_how_to_get_them(tmp_path, monkeypatch):
    monkeypatch.setenv("CONVERGEBENCH_WEIGHTS", str(tmp_path))
    (lacking,) = load_editor("neural-eraser").missing()
    assert "convergebench weights neural-eraser" in lacking


def test_a_large_hole_is_painted_on_a_small_copy_and_nothing_else_changes(
    eraser, portrait, monkeypatch
):
    source, _ = portrait
    for name, pixels in (("LARGE_PIXELS", 0), ("MAX_CROP_PIXELS", 0), ("REDUCED_PIXELS", 20_000)):
        monkeypatch.setattr(neural_eraser, name, pixels)
    shown = []
    painted = eraser._painted
    monkeypatch.setattr(eraser, "_painted", lambda i, h: shown.append(i.size) or painted(i, h))
    hole = np.zeros(source.size[::-1], dtype=bool)
    hole[60:140, 50:150] = True
    answer = EncodedImage.from_image(eraser.paint_over(source.decoded, hole))
    assert [width * height <= 20_000 for width, height in shown] == [True]
    changed = difference(source, answer) > 0
    around = neural_eraser.widened(hole, neural_eraser.hole_margin(source.decoded))
    assert not changed[~around].any()
    assert changed[hole].mean() > 0.9
