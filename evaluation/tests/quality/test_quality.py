"""BRISQUE, NIQE and PIQE: their numbers, and what they say of pictures that wear out."""

import numpy as np
import pytest
from PIL import Image
from skimage import data

from evaluation.quality import PUBLISHED, QUALITY, QualityError, load_quality
from evaluation.quality.panel import QualityPanel
from evaluation.testing.reference_pictures import ASTRONAUT, CHANGED, as_image, worn
from evaluation.weights import WeightsError, fetch

#: As pyteenybrisque 0.1.2, scikit-video 1.1.11 and pypiqe 1.2 compute them of the same luma.
GOLDEN = {
    "astronaut": (2.8745, 8.8400, 33.7593),
    "noise": (45.6887, 12.0273, 50.3019),
    "coffee": (30.0670, 8.3491, 27.7253),
    "chelsea": (2.5728, 11.7535, 34.0170),
    "camera": (-7.3111, 9.0707, 40.1374),
}
PICTURES = {
    "astronaut": lambda: as_image(ASTRONAUT),
    "noise": lambda: as_image(CHANGED["noise"]),
    "coffee": lambda: as_image(data.coffee()),
    "chelsea": lambda: as_image(data.chelsea()),
    "camera": lambda: as_image(np.stack([data.camera()] * 3, -1)),
}


@pytest.fixture(scope="module")
def panel():
    try:
        for name in ("brisque", "niqe"):
            fetch(name)
    except WeightsError as error:
        pytest.skip(str(error))
    return QualityPanel()


@pytest.mark.parametrize("name", GOLDEN)
def test_the_numbers_are_those_of_other_implementations(panel, name):
    found = panel.values(PICTURES[name]())
    brisque, niqe, piqe = GOLDEN[name]
    assert found["brisque"] == pytest.approx(brisque, abs=0.01)
    assert found["niqe"] == pytest.approx(niqe, abs=0.01)
    assert found["piqe"] == pytest.approx(piqe, abs=0.001)


def test_a_colour_picture_is_read_by_its_luma(panel):
    image = as_image(ASTRONAUT)
    assert panel.values(image.convert("L").convert("RGB")) == panel.values(image)


def test_what_a_metric_cannot_say_is_none_and_never_a_number(panel):
    tiny = panel.values(Image.new("RGB", (20, 20), "red"))
    assert tiny["brisque"] is None
    assert tiny["niqe"] is None
    black = panel.values(Image.new("RGB", (200, 200)))
    assert (black["brisque"], black["piqe"]) == (None, 100.0)
    assert np.isfinite(black["niqe"])


def test_strong_noise_is_called_worse_by_all_of_them(panel):
    image = as_image(ASTRONAUT).crop((0, 0, 256, 256))
    clean, noisy = panel.values(image), panel.values(worn(image, 40))
    assert all(PUBLISHED[name].gained(clean[name], noisy[name]) < 0 for name in clean)


def test_piqe_calls_a_worn_portrait_better(panel, hat_chain):
    """On a real chain, in which a face becomes another man's, and on a drawn one."""
    before, after = (panel.values(p.image) for p in (hat_chain.source, hat_chain.restored[-1]))
    assert PUBLISHED["piqe"].gained(before["piqe"], after["piqe"]) > 1


def test_weights_and_versions_are_told(panel):
    told = panel.provenance()
    assert told.keys() == QUALITY.keys()
    assert [bool(one["weights_sha256"]) for one in told.values()] == [True, True, False]


def test_without_weights_a_metric_is_not_run(tmp_path, monkeypatch):
    monkeypatch.setenv("CONVERGEBENCH_WEIGHTS", str(tmp_path))
    panel = QualityPanel()
    assert set(panel.metrics) == {"piqe"}
    assert "convergebench weights brisque" in panel.not_run["brisque"]
    assert "missing" in panel.provenance()["niqe"]


def test_an_unknown_one_is_named():
    with pytest.raises(QualityError, match="no metric 'musiq' of quality; known are brisque"):
        load_quality("musiq")
