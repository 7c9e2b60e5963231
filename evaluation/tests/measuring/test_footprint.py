"""The footprint covers the edit and nothing else."""

import numpy as np
import pytest
from PIL import Image, ImageDraw
from skimage import data

from evaluation.content.suites import EditPair
from evaluation.images import EncodedImage
from evaluation.measuring.scoring import Scorer
from evaluation.measuring.subject import MAX_AREA, chain_subject, footprint
from evaluation.metrics.base import CELLS, Subject
from evaluation.testing.hat_chains import HAT
from evaluation.testing.reference_images import ASTRONAUT, as_image

SOURCE = as_image(ASTRONAUT)


def painted(image, *boxes, colour=(20, 90, 200)):
    """The image with painted boxes, given as shares of its sides."""
    image = image.copy()
    for box in boxes:
        scaled = [share * side for share, side in zip(box, image.size * 2, strict=True)]
        ImageDraw.Draw(image).rectangle(scaled, fill=colour)
    return image


def inside(mask, box):
    """The share of the box that the mask covers."""
    left, top, right, bottom = (round(share * CELLS) for share in box)
    return mask[top:bottom, left:right].mean()


HEAD = (0.3, 0.05, 0.55, 0.2)


def test_the_footprint_covers_the_edit_and_a_little_around_it():
    mask = footprint(SOURCE, painted(SOURCE, HEAD), HAT)
    assert inside(mask, HEAD) == 1
    width, height = 0.25 * CELLS, 0.15 * CELLS
    assert mask.sum() <= (width + 6) * (height + 6)


def test_other_changes_by_the_model_are_damage_not_footprint():
    elsewhere = (0.75, 0.75, 0.85, 0.85)
    mask = footprint(SOURCE, painted(SOURCE, HEAD, elsewhere), HAT)
    assert inside(mask, HEAD) == 1
    assert inside(mask, elsewhere) == 0


def test_the_region_under_a_hat_is_reported_as_undo_and_counts_like_the_rest():
    """A hat hides the hair, so the model invents what it restores there: a separate number."""
    scorer = Scorer(["overall"], witnesses=())
    if scorer.not_run:
        pytest.skip(scorer.not_run["overall"])
    where = footprint(SOURCE, painted(SOURCE, HEAD), HAT)
    other_hair = painted(SOURCE, HEAD, colour=(90, 60, 50))
    corner = painted(SOURCE, (0.75, 0.75, 0.95, 0.95))
    blind, seeing = (
        scorer.score(SOURCE, [other_hair, corner], Subject(footprint=mask))
        for mask in (None, where)
    )
    assert blind.distances == seeing.distances
    assert seeing.undo[0] < 0.6 < seeing.undo[1]
    assert blind.undo is None


def test_a_footprint_is_at_most_a_quarter_of_the_image():
    mask = footprint(SOURCE, painted(SOURCE, (0.1, 0.1, 0.9, 0.6)), HAT)
    assert 0.2 < mask.mean() <= MAX_AREA
    assert inside(mask, (0.1, 0.1, 0.9, 0.6)) > inside(mask, (0.0, 0.7, 1.0, 1.0)) == 0


@pytest.mark.parametrize("change", ["exact", "global", "none"])
def test_only_a_local_edit_has_a_footprint(change):
    operator = "flip_horizontal" if change == "exact" else ""
    pair = EditPair("pair", "any", "Do it.", "Undo it.", change, operator=operator)
    assert footprint(SOURCE, painted(SOURCE, HEAD), pair) is None


def test_no_edit_has_no_footprint():
    assert footprint(SOURCE, SOURCE, HAT) is None
    noise = np.random.default_rng(0).normal(0, 4, ASTRONAUT.shape)
    noisy = as_image(np.clip(ASTRONAUT + noise, 0, 255).astype(np.uint8))
    assert footprint(SOURCE, noisy, HAT) is None


def test_a_model_that_warms_and_shifts_the_image_has_the_same_footprint():
    edited = painted(SOURCE, HEAD)
    warmer = np.asarray(edited, int) + np.array([20, 0, -20])
    answer = as_image(np.roll(np.clip(warmer, 0, 255), 3, axis=1).astype(np.uint8))
    plain, drifted = (footprint(SOURCE, image, HAT) for image in (edited, answer))
    assert (plain & drifted).sum() > 0.8 * (plain | drifted).sum()


def test_an_answer_of_another_size_and_shape_has_a_footprint_too():
    edited = painted(SOURCE, HEAD).resize((700, 300), Image.Resampling.LANCZOS)
    assert inside(footprint(SOURCE, edited, HAT), HEAD) > 0.9


@pytest.mark.parametrize("size", [(1, 1), (7, 3), (33, 40)])
def test_tiny_images_have_footprints_of_the_same_shape(size):
    mask = footprint(Image.new("RGB", size), Image.new("RGB", size, (255, 255, 255)), HAT)
    assert mask is None or mask.shape == (CELLS, CELLS)


def test_a_chain_without_a_stored_first_edit_has_no_footprint():
    source = EncodedImage.from_image(SOURCE)
    edited = EncodedImage.from_image(painted(SOURCE, HEAD))
    assert chain_subject(None, source, None, HAT).footprint is None
    assert chain_subject(None, source, edited, None).footprint is None
    assert chain_subject(None, source, edited, HAT).footprint.any()
    assert chain_subject(None).face is None


def test_the_footprint_of_the_hat_lies_on_the_head(hat_chain):
    mask = footprint(hat_chain.source.decoded, hat_chain.edited[0].decoded, HAT)
    rows, columns = np.nonzero(mask)
    assert rows.mean() < CELLS / 2
    assert CELLS / 4 < columns.mean() < 3 * CELLS / 4


def test_a_large_photograph_takes_no_more_cells():
    image = as_image(data.retina())
    mask = footprint(image, painted(image, HEAD), HAT)
    assert inside(mask, HEAD) == 1
