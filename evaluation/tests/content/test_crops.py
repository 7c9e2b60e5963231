import hashlib
import io
import stat
import sys
import tarfile
import zipfile
from dataclasses import replace

import pytest
from PIL import Image

from evaluation.content import catalog, crops
from evaluation.content.crops import Archive, Crop, cut, original
from evaluation.content.sources import OriginError, cache_folder
from evaluation.testing.pictures import busy, encoded


@pytest.fixture
def packed(tmp_path, monkeypatch):
    """An archive in the cache, and a crop of the picture in it."""
    monkeypatch.setenv("CONVERGEBENCH_PICTURES", str(tmp_path))
    picture = encoded(busy(300, 200))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("package/picture.png", b"head" + picture)
    archive = Archive("wheel", "pictures==1.0", hashlib.sha256(buffer.getvalue()).hexdigest())
    (tmp_path / f"{archive.sha256[:16]}-wheel").write_bytes(buffer.getvalue())
    crop = Crop(
        "a.webp",
        "pictures",
        "package/picture.png",
        hashlib.sha256(picture).hexdigest(),
        bytes=(4, len(picture)),
    )
    return crop, {"pictures": archive}, picture


def test_a_picture_inside_a_file_is_found_by_its_byte_range(packed):
    crop, archives, picture = packed
    assert original(crop, archives) == picture


def test_a_picture_that_is_not_cut_is_copied_byte_for_byte(packed):
    crop, archives, picture = packed
    assert cut(crop, original(crop, archives)) == picture


def test_a_crop_is_cut_shrunk_and_the_same_every_time(packed):
    crop, archives, _ = packed
    smaller = replace(crop, box=(20, 10, 220, 110), side=100)
    data = cut(smaller, original(crop, archives))
    assert Image.open(io.BytesIO(data)).size == (100, 50)
    assert cut(smaller, original(crop, archives)) == data


def test_a_changed_picture_or_archive_is_noticed(packed):
    crop, archives, _ = packed
    with pytest.raises(OriginError, match="has changed"):
        original(replace(crop, sha256="0" * 64), archives)
    with pytest.raises(OriginError, match="has no file"):
        original(replace(crop, path="nothing.png"), archives)
    path = archives["pictures"].path()
    path.write_bytes(path.read_bytes() + b"!")
    with pytest.raises(OriginError, match="is not the pinned pictures"):
        archives["pictures"].path()


def program(name, script, monkeypatch, folder):
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CONVERGEBENCH_PICTURES", str(folder / "cache"))
    monkeypatch.setenv("PATH", str(folder), prepend=":")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'no network' >&2; exit 1", "failed: no network"),
        ("exit 0", "left no archive"),
        ("echo altered > p.tgz", "is not the pinned"),
    ],
)
def test_a_failing_or_lying_npm_is_reported(script, message, monkeypatch, tmp_path):
    program("npm", script, monkeypatch, tmp_path)
    with pytest.raises(OriginError, match=message):
        Archive("npm", "pictures@1.0", "0" * 64).path()


def test_a_fetched_archive_is_kept(monkeypatch, tmp_path):
    script = "test -f ../fetched && exit 1; touch ../fetched; printf data > p.tgz"
    program("npm", script, monkeypatch, tmp_path)
    archive = Archive("npm", "pictures@1.0", hashlib.sha256(b"data").hexdigest())
    assert archive.path().read_bytes() == b"data"
    assert archive.path().read_bytes() == b"data"


def test_without_the_program_the_error_says_where_to_put_the_archive(monkeypatch, tmp_path):
    monkeypatch.setenv("CONVERGEBENCH_PICTURES", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OriginError, match=r"need npm: install it, or .* put its archive at"):
        Archive("npm", "pictures@1.0", "0" * 64).path()


def test_every_crop_names_a_known_archive_and_a_committed_picture():
    archives, known = crops.crops()
    assert {crop.archive for crop in known} == set(archives)
    files = {path.name for path in (catalog.folder() / "pictures").iterdir()}
    assert {crop.file for crop in known} <= files
    assert len({crop.file for crop in known}) == len(known)


def test_every_committed_picture_is_rendered_by_a_scene_or_cut_from_a_package():
    _, known = crops.crops()
    cut_files = {crop.file for crop in known}
    for image in catalog.source_images():
        if image.origin.startswith("file:"):
            name = image.origin.partition("#")[0].rpartition("/")[2]
            assert (image.made == "rendered") != (name in cut_files), image.slug


def test_committed_copies_have_the_bytes_their_package_has():
    for crop in crops.crops()[1]:
        if crop.is_copy:
            data = (catalog.folder() / "pictures" / crop.file).read_bytes()
            assert hashlib.sha256(data).hexdigest() == crop.sha256, crop.file


@pytest.mark.slow
def test_committed_pictures_are_what_their_packages_give_today():
    archives, known = crops.crops()
    here = [
        crop
        for crop in known
        if (
            cache_folder() / f"{archives[crop.archive].sha256[:16]}-{archives[crop.archive].kind}"
        ).is_file()
    ]
    if not here:
        pytest.skip("no package with pictures is in the cache")
    for crop in here:
        data = (catalog.folder() / "pictures" / crop.file).read_bytes()
        assert cut(crop, original(crop, archives)) == data, crop.file


def test_tarballs_are_read_too(tmp_path, monkeypatch):
    monkeypatch.setenv("CONVERGEBENCH_PICTURES", str(tmp_path))
    picture = encoded(busy(64, 64))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as file:
        info = tarfile.TarInfo("package/a.png")
        info.size = len(picture)
        file.addfile(info, io.BytesIO(picture))
    archive = Archive("npm", "pictures@1.0", hashlib.sha256(buffer.getvalue()).hexdigest())
    (tmp_path / f"{archive.sha256[:16]}-npm").write_bytes(buffer.getvalue())
    crop = Crop("a.png", "p", "package/a.png", hashlib.sha256(picture).hexdigest())
    assert original(crop, {"p": archive}) == picture
    assert sys.executable in crops.COMMANDS["sdist"]
