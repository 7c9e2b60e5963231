"""JPEG ladders, and shipped calibrations, which equal computed ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from evaluation.content import catalog, sources
from evaluation.measuring.calibration import QUALITIES, jpeg_equivalent, jpeg_saves, shipped
from evaluation.measuring.scoring import Scorer
from evaluation.measuring.subject import chain_subject
from evaluation.metrics import full_reference_metrics, headline_parts
from evaluation.metrics.base import Subject

LADDER = {quality: (100 - quality) / 100 for quality in QUALITIES}
losses = st.floats(0, 2, allow_subnormal=False)
ladders = st.builds(dict, st.lists(st.tuples(st.sampled_from(QUALITIES), losses), min_size=1))


def test_each_step_of_the_ladder_is_its_own_equivalent():
    for quality, loss in LADDER.items():
        assert jpeg_equivalent(loss, LADDER) == pytest.approx(quality)


def test_no_loss_is_100_and_more_than_any_save_is_worse_than_1():
    assert jpeg_equivalent(0.0, LADDER) == 100
    assert jpeg_equivalent(0.991, LADDER) == 0
    assert jpeg_equivalent(0.125, LADDER) == pytest.approx(87.5)


def test_a_metric_that_was_not_run_has_no_equivalent():
    assert jpeg_equivalent(None, LADDER) is None
    assert jpeg_equivalent(0.1, {}) is None


def test_a_ladder_that_steps_back_gives_the_better_quality_of_a_plateau():
    assert jpeg_equivalent(0.2, {90: 0.1, 70: 0.21, 60: 0.19, 50: 0.4}) == pytest.approx(70)


@given(ladders, losses, losses)
def test_a_larger_loss_never_has_a_better_equivalent(ladder, one, other):
    small, large = sorted((one, other))
    better, worse = jpeg_equivalent(small, ladder), jpeg_equivalent(large, ladder)
    assert 100 >= better >= worse >= 0
    assert worse == 0 or worse >= min(ladder)


def test_the_saves_are_decoded_jpegs_in_the_order_of_the_qualities():
    source = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 56, 3), dtype=np.uint8))
    errors = [
        float(np.square(np.asarray(save, dtype=float) - np.asarray(source)).mean())
        for save in jpeg_saves(source)
    ]
    assert len(errors) == 17
    assert errors[0] < errors[8] < errors[-1]


AGAIN = "run `python -m tools.calibrations smoke`"
SUITE = catalog.suite("smoke")
FACE = next(p for p in SUITE.images if chain_subject(p).face)


@pytest.fixture(scope="module")
def scorer() -> Scorer:
    found = Scorer([name for name in full_reference_metrics() if name != "clip"], witnesses=())
    if found.not_run:
        pytest.skip(f"not all metrics run here: {found.not_run}")
    return found


@pytest.fixture(scope="module")
def versions(scorer: Scorer) -> dict[str, tuple[str, str]]:
    return scorer.versions()


def test_every_image_of_smoke_is_calibrated_by_todays_metrics(versions):
    for image in SUITE.images:
        found = shipped(image.sha256, chain_subject(image), versions)
        assert set(found) == set(versions), f"{image.slug}: {AGAIN}"
        says_nothing = {name for name, calibration in found.items() if calibration is None}
        assert says_nothing <= {"face", "text"}, image.slug
        assert found["overall"].stored.keys() == {*headline_parts()}
        if chain_subject(image).face is None:
            assert found["face"] is None


def test_shipped_calibrations_equal_computed_ones(scorer, versions, real_network):
    source, subject = sources.load_prepared(FACE, SUITE.size), chain_subject(FACE)
    computed = scorer.calibrate(source, subject)
    for name, calibration in shipped(FACE.sha256, subject, versions).items():
        again = computed[name]
        if again is None:
            assert calibration is None
            continue
        assert calibration is not None
        assert again is not None
        assert calibration.blank == pytest.approx(again.blank, rel=1e-4), AGAIN
        assert list(calibration.ladder) == list(again.ladder)
        ladder = list(again.ladder.values())
        assert list(calibration.ladder.values()) == pytest.approx(ladder, rel=1e-3, abs=1e-5), AGAIN


def test_no_calibration_is_shipped_for_other_versions_weights_pixels_or_faces(versions):
    subject, known = chain_subject(FACE), {"lpips": versions["lpips"]}
    version, weights = versions["lpips"]
    assert set(shipped(FACE.sha256, subject, known)) == {"lpips"}
    assert shipped(FACE.sha256, subject, {"lpips": (f"{version}.1", weights)}) == {}
    assert shipped(FACE.sha256, subject, {"lpips": (version, "0" * 64)}) == {}
    assert shipped(FACE.sha256, subject, {"clip": known["lpips"]}) == {}
    assert shipped("0" * 64, subject, known) == {}
    assert shipped(FACE.sha256, Subject((0.1, 0.1, 0.4, 0.4)), known) == {}
