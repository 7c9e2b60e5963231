"""The calibrations that ship are those that would be computed."""

from __future__ import annotations

import pytest

from evaluation.content import catalog, sources
from evaluation.measuring.calibrations.shipped import shipped, versions_of
from evaluation.measuring.scoring import Scorer
from evaluation.measuring.subject import chain_subject
from evaluation.metrics import full_reference_metrics
from evaluation.metrics.base import Subject

AGAIN = "run `python -m evaluation.measuring.calibrations.shipped smoke`"
SUITE = catalog.suite("smoke")
FACE = next(p for p in SUITE.pictures if chain_subject(p).face)


@pytest.fixture(scope="module")
def scorer() -> Scorer:
    found = Scorer([name for name in full_reference_metrics() if name != "clip"], witnesses=())
    if found.not_run:
        pytest.skip(f"not all metrics run here: {found.not_run}")
    return found


@pytest.fixture(scope="module")
def versions(scorer: Scorer) -> dict[str, tuple[str, str]]:
    return versions_of(scorer)


def test_every_picture_of_smoke_is_calibrated_by_todays_metrics(versions):
    for picture in SUITE.pictures:
        found = shipped(picture.sha256, chain_subject(picture), versions)
        assert set(found) == set(versions), f"{picture.slug}: {AGAIN}"
        says_nothing = {name for name, calibration in found.items() if calibration is None}
        assert says_nothing <= {"identity"}, picture.slug
        assert (found["identity"] is None) == (chain_subject(picture).face is None)


def test_what_ships_is_what_is_computed(scorer, versions):
    source, subject = sources.prepared(FACE, SUITE.size), chain_subject(FACE)
    computed = scorer.calibrate(source, subject)
    for name, calibration in shipped(FACE.sha256, subject, versions).items():
        again = computed[name]
        assert calibration is not None
        assert again is not None
        assert calibration.blank == pytest.approx(again.blank, rel=1e-4), AGAIN
        assert list(calibration.ladder) == list(again.ladder)
        ladder = list(again.ladder.values())
        assert list(calibration.ladder.values()) == pytest.approx(ladder, rel=1e-3, abs=1e-5), AGAIN


def test_of_other_versions_weights_pixels_and_faces_nothing_is_known(versions):
    subject, known = chain_subject(FACE), {"lpips": versions["lpips"]}
    version, weights = versions["lpips"]
    assert set(shipped(FACE.sha256, subject, known)) == {"lpips"}
    assert shipped(FACE.sha256, subject, {"lpips": (f"{version}.1", weights)}) == {}
    assert shipped(FACE.sha256, subject, {"lpips": (version, "0" * 64)}) == {}
    assert shipped(FACE.sha256, subject, {"clip": known["lpips"]}) == {}
    assert shipped("0" * 64, subject, known) == {}
    assert shipped(FACE.sha256, Subject((0.1, 0.1, 0.4, 0.4)), known) == {}
