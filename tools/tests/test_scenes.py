import numpy as np
import pytest
from PIL import Image

from evaluation.content import catalog
from tools.scenes.__main__ import SCENES, main


def test_every_rendered_image_of_the_catalog_has_its_scene():
    rendered = {image.slug for image in catalog.source_images() if image.made == "rendered"}
    assert rendered <= set(SCENES)


def test_an_unknown_scene_is_answered_with_the_known_ones(capsys):
    with pytest.raises(SystemExit):
        main(["moonbase"])
    assert "unknown scene moonbase; choose from fruit, teapot" in capsys.readouterr().err


@pytest.mark.release
def test_a_scene_renders(tmp_path):
    for package in ("mitsuba", "oidn"):
        pytest.importorskip(package, reason=f"{package} is not installed (pip install .[scenes])")
    assert main(["cupcakes", "--preview", "--samples", "4", "--to", str(tmp_path)]) == 0
    assert np.asarray(Image.open(tmp_path / "cupcakes.webp")).std() > 20
