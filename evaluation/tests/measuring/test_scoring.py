"""The scorer: every metric over a chain, cached features, no score without a run."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from evaluation.images import EncodedImage, ImageError, encode_webp
from evaluation.measuring.calibration import QUALITIES, jpeg_equivalent, retention
from evaluation.measuring.scoring import RestoredImages, Scorer
from evaluation.metrics import METRICS, MetricError, batches, full_reference_metrics, load_metric
from evaluation.metrics.base import CELLS, Subject
from evaluation.metrics.psnr import Psnr
from evaluation.testing.reference_images import small, worn

QUICK = ["psnr", "ssim", "ms_ssim"]


def test_all_metrics_score_a_batch_as_they_score_single_images():
    scorer, source = Scorer(), small()
    chain = [worn(source, strength) for strength in (1, 4, 16, 64)]
    together = scorer.score(source, chain)
    assert list(together.distances) == list(full_reference_metrics())
    singly = [scorer.score(source, [image]) for image in chain]
    for name in {*scorer.full_reference} - {*scorer.not_run, *together.not_applicable}:
        alone = [scores.distances[name][0] for scores in singly]
        assert together.distances[name] == pytest.approx(alone, abs=1e-6)
        assert together.distances[name] == sorted(together.distances[name])
    for name in (*scorer.not_run, *together.not_applicable):
        assert together.distances[name] is None


def test_chains_scored_together_have_the_numbers_that_each_has_alone():
    names = [*QUICK, "lpips", "overall", "shape", "imagenet", "face"]
    source, other = small(), worn(small(), 90)
    where = np.zeros((CELLS, CELLS), dtype=bool)
    where[:12, :12] = True
    chains = [
        RestoredImages(source, [worn(source, n) for n in (1, 9, 40)], Subject(footprint=where)),
        RestoredImages(other, [worn(other, 5)]),
        RestoredImages(
            source, [worn(source, n) for n in range(1, 8)], footprints=[where] + [None] * 6
        ),
    ]
    together = Scorer(names).score_together(chains)
    for chain, found in zip(chains, together, strict=True):
        wanted = Scorer(names).score(
            chain.source, chain.restored, chain.subject, footprints=chain.footprints
        )
        for name, distances in wanted.distances.items():
            if distances is None:
                assert found.distances[name] is None
            else:
                assert found.distances[name] == pytest.approx(distances, abs=1e-6), name
        assert found.because == wanted.because
        assert found.undo == pytest.approx(wanted.undo, abs=1e-5)
        assert found.windows == wanted.windows


def test_chains_of_other_sizes_are_not_scored_together():
    one, other = small(40, 40), small(40, 41)
    with pytest.raises(MetricError, match="the same size"):
        Scorer(["psnr"]).score_together(
            [RestoredImages(one, [one]), RestoredImages(other, [other])]
        )
    assert Scorer(["psnr"]).score_together([]) == []


def test_encoded_images_and_other_sizes_are_scored_at_the_source_size():
    scorer, source = Scorer(QUICK), small()
    larger = source.resize((400, 380), Image.Resampling.LANCZOS)
    back = larger.resize(source.size, Image.Resampling.LANCZOS)
    as_answered = EncodedImage.from_bytes(encode_webp(larger))
    assert scorer.score(source, [as_answered]) == scorer.score(source, [back])
    assert scorer.score(EncodedImage.from_image(source), [larger]) == scorer.score(source, [back])


def test_an_image_that_is_not_in_canonical_form_is_refused():
    scorer, source = Scorer(["psnr"]), small()
    for wrong in (source.convert("RGBA"), source.convert("L")):
        with pytest.raises(MetricError, match="canonical form"):
            scorer.score(source, [wrong])
        with pytest.raises(MetricError, match="canonical form"):
            scorer.score(wrong, [source])


class Counting(Psnr):
    prepared: list[tuple[int, int]] = []

    def prepare(self, source):
        self.prepared.append(source.size)
        return super().prepare(source)


def test_a_source_is_prepared_once_while_it_is_among_the_last_few():
    scorer = Scorer(["psnr"], sources=2)
    scorer.metrics["psnr"] = metric = Counting()
    metric.prepared.clear()
    one, two, three = small(20, 20), small(21, 20), small(22, 20)
    for source in (one, two, one.copy(), two, three, two, one):
        scorer.score(source, [source, source])
    widths = [width for width, _ in metric.prepared]
    assert widths == [20, 21, 22, 20]


def test_a_long_chain_is_read_a_few_images_at_a_time():
    scorer, source = Scorer(["psnr"]), small(16, 16)
    read, ahead = 0, []
    scorer.metrics["psnr"] = metric = Psnr()
    measure = metric.losses

    def losses(sources, images):
        ahead.append(read)
        return measure(sources, images)

    metric.losses = losses

    def chain():
        nonlocal read
        for _ in range(100):
            read += 1
            yield source

    assert scorer.score(source, chain()).distances["psnr"] == [0.0] * 100
    # The first images are measured after only their batch and the next one are read.
    assert ahead[0] <= 2 * batches.BATCH
    assert len(ahead) == 100


def test_identical_restored_images_are_measured_once_and_reported_each_time():
    if reasons := [*load_metric("overall").missing(), *load_metric("brisque").missing()]:
        pytest.skip("; ".join(reasons))
    names = [*QUICK, "lpips", "overall", "object", "brisque"]
    source = small()
    one, other = (EncodedImage.from_image(worn(source, strength)) for strength in (4, 60))
    chain = [one, one, other, one, other]
    where = np.zeros((CELLS, CELLS), dtype=bool)
    where[:12, :12] = True
    masks = [None, where, None, None, None]
    scorer = Scorer(names)
    measured: list[int] = []
    losses = scorer.metrics["psnr"].losses
    scorer.metrics["psnr"].losses = lambda sources, images: (
        measured.append(len(images)) or losses(sources, images)
    )
    found = scorer.score(source, chain, footprints=masks)
    assert sum(measured) == 2
    for index, image in enumerate(chain):
        alone = Scorer(names).score(source, [image.decoded], footprints=[masks[index]])
        for name, wanted in alone.distances.items():
            assert found.distances[name][index] == pytest.approx(wanted[0], abs=1e-6), name
        assert found.quality["brisque"][index + 1] == alone.quality["brisque"][1]
        assert found.because[index] == alone.because[0]
        assert found.windows[index] == alone.windows[0]
    assert found.undo[0] is None
    assert found.undo[1] is not None


def test_a_broken_image_in_the_middle_is_an_error_not_a_gap():
    scorer, source = Scorer(["psnr"]), small(16, 16)
    broken = EncodedImage(b"\x89PNG rubbish", "image/png", 16, 16)
    with pytest.raises(ImageError, match="not a PNG"):
        scorer.score(source, [source] * 10 + [broken])


def test_an_image_too_small_for_a_metric_has_none_and_a_reason():
    scorer, source = Scorer(QUICK), small(100, 60)
    scores = scorer.score(source, [source]).distances
    assert scores["ms_ssim"] is None
    assert scores["ssim"] == [0.0]
    assert scorer.size_problems(source.size) == {
        "ms_ssim": "MS-SSIM needs at least 176 px on the shorter side, the source is 100 x 60"
    }
    assert scorer.calibrate(source)["ms_ssim"] is None


def test_no_images_give_no_scores():
    names = ["psnr", "ssim", "lpips", "overall", "object"]
    scores = Scorer(names).score(small(), [])
    assert scores.distances == {name: [] for name in names}
    assert scores.because == scores.windows == []


def test_a_source_is_calibrated_by_its_blank_card_and_its_jpeg_ladder():
    scorer, source = Scorer(QUICK), small()
    for name, calibration in scorer.calibrate(source).items():
        assert tuple(calibration.ladder) == QUALITIES
        assert calibration.blank > calibration.ladder[10] > calibration.ladder[95] > 0, name
        assert 40 < jpeg_equivalent(calibration.ladder[50], calibration.ladder) < 60
        assert retention(calibration.ladder[95], calibration.blank) > 0.7


def test_retention_is_one_for_the_source_and_zero_for_the_blank_card():
    assert retention(0.0, 0.3) == 1
    assert retention(0.3, 0.3) == 0
    assert retention(0.6, 0.3) == pytest.approx(-1)


def test_retention_is_none_without_a_run_and_for_a_blank_source():
    assert retention(None, 0.3) is None
    assert retention(0.1, None) is None
    assert retention(0.1, 0.0) is None


@given(st.floats(0, 10), st.floats(0, 10))
def test_retention_is_finite_and_at_most_one(distance, blank):
    kept = retention(distance, blank)
    assert kept is None or -1e11 < kept <= 1


def test_the_provenance_is_json_and_names_versions_weights_and_packages():
    scorer = Scorer()
    provenance = json.loads(json.dumps(scorer.provenance(), allow_nan=False))
    assert set(provenance["metrics"]) | set(provenance["not_run"]) == set(METRICS)
    where = {"device": "cpu", "precision": "float32"}
    assert provenance["metrics"]["psnr"] == {"version": "1", "weights_sha256": None} | where
    assert len(provenance["metrics"]["imagenet"]["weights_sha256"]) == 64
    assert provenance["packages"]["numpy"]


def test_repeated_metrics_count_once_and_unknown_ones_are_refused():
    assert Scorer(["psnr", "psnr"]).names == ["psnr"]
    with pytest.raises(MetricError, match="no metric called"):
        Scorer(["psnr", "beauty"])


def test_a_part_of_a_scorer_shares_its_networks_and_features():
    scorer, source = Scorer(["psnr", "ssim"]), small(40, 40)
    part = scorer.only(["ssim"])
    assert part.metrics["ssim"] is scorer.metrics["ssim"]
    assert part.score(source, [source]).distances == {"ssim": [0.0]}
    assert scorer.score(source, [source]).distances == {"psnr": [0.0], "ssim": [0.0]}


def test_a_chain_falls_from_trip_to_trip(hat_chain):
    scorer = Scorer(["psnr", "ssim", "ms_ssim", "imagenet"])
    for distances in scorer.score(hat_chain.source, hat_chain.restored).distances.values():
        assert 0 < distances[0] < distances[1] < distances[2]
