"""Bundles are untrusted: content that our own bundles never have is refused."""

from __future__ import annotations

import contextlib
import io
import json
import stat
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from evaluation.bundle import document as bundles
from evaluation.bundle.document import BundleError
from evaluation.bundle.verify import without_names
from evaluation.records import EvidenceRow

SHA = "a" * 64
IMAGE = f"images/{SHA}.png"


def document(**changes: Any) -> dict[str, Any]:
    """The smallest possible bundle: a suite without cases."""
    suite = {"slug": "s", "version": 1, "title": "S", "trips": 1, "size": 64}
    model = dict.fromkeys(("organisation", "access", "licence", "homepage", "paper_url"), "")
    model |= {"slug": "m", "name": "M", "provider": "", "editor": "noop", "code_url": ""}
    found = {
        "format": 2,
        "images": False,
        "suite": {"definition": {"format": 1, **suite, "images": [], "pairs": [], "cases": []}},
        "model": model
        | {"options": {}, "open_weights": None, "price_per_edit": None, "is_reference": True},
        "run": {
            "secret": "5" * 64,
            "state": "finished",
            "source": "ours",
            "played": "run here",
            "metrics": {},
            "provenance": {},
            "flags": [],
            "started_at": None,
            "finished_at": None,
            "calls": 0,
            "spent_usd": "0",
            "method_version": "1",
        },
        "sources": [],
        "calibrations": [],
        "chains": [],
        "standings": [],
    }
    return bundles.sealed(found | changes)


def zipped(folder: Path, **entries: bytes) -> Path:
    path = folder / "bundle.zip"
    bundles.pack(path, document(), entries.items())
    return path


def with_entry(folder: Path, info: zipfile.ZipInfo, data: bytes) -> Path:
    path = zipped(folder)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(info, data)
    return path


def refused(path: Path) -> str:
    with pytest.raises(BundleError) as caught:
        bundles.read(path)
    return str(caught.value)


def test_a_valid_bundle_is_read(tmp_path):
    with bundles.read(zipped(tmp_path, **{IMAGE: b"x"})) as bundle:
        assert bundle.document.model.name == "M"
        assert bundle.image_hashes == {SHA}
        assert bundle.image(SHA) == b"x"
        assert bundle.image("b" * 64) is None


@pytest.mark.parametrize(
    "name",
    [
        *("../../etc/passwd", "/etc/passwd", "..\\..\\x", "C:\\x", "images/../x.png"),
        *(
            "images/",
            "image.png",
            f"images/{SHA}.png/x",
            f"images/{SHA}.svg",
            "BUNDLE.JSON",
        ),
        *(f"images/{SHA}.png ", f"./{IMAGE}", f"images//{SHA}.png", "a\nb"),
    ],
)
def test_an_odd_name_is_refused(tmp_path, name):
    assert "unexpected entry" in refused(with_entry(tmp_path, zipfile.ZipInfo(name), b""))


def test_a_name_cut_by_a_zero_byte_is_refused(tmp_path):
    path = with_entry(tmp_path, zipfile.ZipInfo(f"images/{SHA}.png.exe"), b"x")
    path.write_bytes(path.read_bytes().replace(b".png.exe", b".png\0exe"))
    assert "unexpected entry" in refused(path)


def test_a_symbolic_link_is_refused(tmp_path):
    info = zipfile.ZipInfo(IMAGE)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    assert "is a symbolic link" in refused(with_entry(tmp_path, info, b"/etc/passwd"))


def test_the_same_name_twice_is_refused(tmp_path):
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = with_entry(tmp_path, zipfile.ZipInfo(bundles.DOCUMENT), b"{}")
    assert "twice" in refused(path)


def test_an_encrypted_entry_is_refused(tmp_path):
    path = zipped(tmp_path, **{IMAGE: b"x"})
    data = bytearray(path.read_bytes())
    for place in (data.rfind(b"PK\x01\x02") + 8, data.rfind(b"PK\x03\x04") + 6):
        data[place] |= 1
    path.write_bytes(data)
    assert "is encrypted" in refused(path)


def test_a_bomb_is_refused_by_its_ratio_before_it_is_unpacked(tmp_path):
    info = zipfile.ZipInfo(IMAGE)
    info.compress_type = zipfile.ZIP_DEFLATED
    assert "a zip bomb" in refused(with_entry(tmp_path, info, bytes(20 * 2**20)))


def test_a_false_size_is_refused(tmp_path):
    data = b"x" * 5000
    path = zipped(tmp_path, **{IMAGE: data})
    content = path.read_bytes().replace(struct.pack("<II", 5000, 5000), struct.pack("<II", 5000, 9))
    path.write_bytes(content)
    with (
        bundles.read(path) as bundle,
        pytest.raises(BundleError, match=r"cannot be unpacked|declares"),
    ):
        bundle.image(SHA)


def test_too_large_too_many_and_overlapping_are_refused(tmp_path, monkeypatch):
    path = zipped(tmp_path, **{IMAGE: b"x" * 3000})
    for limit, value, words in (
        ("MAX_BYTES", 1000, "the limit is 1,000"),
        ("MAX_TOTAL", 1000, "unpacks to"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(bundles, limit, value)
            assert words in refused(path)
    with pytest.raises(BundleError, match="the zip file has 2 entries; the limit is 1"):
        bundles.read(path, max_entries=1)
    content = path.read_bytes().replace(
        struct.pack("<II", 3000, 3000), struct.pack("<II", 9000, 9000)
    )
    path.write_bytes(content)
    assert "overlap" in refused(path)


@pytest.mark.parametrize("cut", [0, 10, 100, -30])
def test_a_file_that_is_not_a_zip_is_refused(tmp_path, cut):
    path = tmp_path / "bundle.zip"
    path.write_bytes(zipped(tmp_path).read_bytes()[:cut])
    assert "is not a zip file" in refused(path)


def test_a_zip_of_something_else_is_refused(tmp_path):
    path = tmp_path / "other.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(IMAGE, b"x")
    assert "it is not a run bundle" in refused(path)


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "bundle.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(bundles.DOCUMENT, text)
    return path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not readable JSON"),
        ("[]", "not an object"),
        (b"\xff\xfe", "not readable JSON"),
        ('{"format": 2, "format": 2}', "occurs twice"),
        ('{"format": NaN}', "NaN is not a finite number"),
        ('{"format": 1}', "not a run bundle of format 2"),
        ("[" * 100_000, "not readable JSON"),
        ('{"format": 2}', "Field required"),
        ('{"format": 1e999}', "1e999 is not a finite number"),
        (json.dumps(dict.fromkeys(map(str, range(3_000)))), "3,000 keys"),
    ],
)
def test_json_that_our_writer_would_not_write_is_refused(tmp_path, text, words):
    assert words in refused(written(tmp_path, text))


def test_a_million_wrong_rows_are_one_error(tmp_path):
    """Each missing field of each row was a separate error: 3 MB of text took 6.6 GB."""
    rows = f"[{','.join(['{}'] * 200_000)}]"
    text = json.dumps(document() | {"chains": "HERE"}).replace('"HERE"', rows)
    path = written(tmp_path, text)
    tracemalloc.start()
    try:
        assert "chains.0" in refused(path)
        assert tracemalloc.get_traced_memory()[1] < 60 * 2**20
    finally:
        tracemalloc.stop()


def test_more_items_than_a_bundle_of_its_length_has_are_refused_before_they_are_read(tmp_path):
    path = written(tmp_path, f"[{','.join(['{}'] * 20_000)}]")
    with pytest.raises(BundleError, match=r"the JSON has 40,000 items; the limit is 8,333"):
        bundles.read(path, max_document=100_000)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["run"].update(secret="0"), "run.secret"),
        (lambda d: d["run"].update(surprise=1), "run.surprise"),
        (lambda d: d["model"].pop("name"), "model.name"),
        (lambda d: d["model"].update(slug="../x"), "model.slug"),
        (lambda d: d["suite"]["definition"].pop("trips"), "suite"),
        (lambda d: d["suite"]["definition"].update(images=[3]), "suite"),
        (lambda d: d.update(chains=[{}]), "chains.0"),
    ],
)
def test_an_invalid_field_is_named(tmp_path, change, words):
    found = document()
    change(found)
    assert words in refused(written(tmp_path, json.dumps(found)))


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(section=st.sampled_from(sorted(document())), value=JSON)
def test_any_invalid_document_is_refused_cleanly(tmp_path_factory, section, value):
    changed = document() | {section: value}
    path = written(tmp_path_factory.mktemp("b"), json.dumps(changed))
    with contextlib.suppress(BundleError), bundles.read(path) as bundle:
        assert bundle.raw == changed


@given(st.binary(max_size=200), st.integers(0, 3000))
def test_any_damaged_file_is_refused_cleanly(tmp_path_factory, noise, place):
    folder = tmp_path_factory.mktemp("b")
    data = bytearray(zipped(folder, **{IMAGE: b"image"}).read_bytes())
    data[place % len(data) : place % len(data) + len(noise)] = noise
    path = folder / "damaged.zip"
    path.write_bytes(data)
    with contextlib.suppress(BundleError), bundles.read(path) as bundle:
        for sha in bundle.image_hashes:
            assert bundle.image(sha) == b"image"


def test_the_digest_of_a_line_ignores_spaces_and_order_only():
    row = {"a": 1.0, "b": [1, 2], "digest": "x", "trips": [3]}
    same = dict(reversed(json.loads(json.dumps(row)).items()))
    assert bundles.digest(row) == bundles.digest(same)
    assert bundles.digest(row) != bundles.digest(row | {"a": 1.0000000000000002})


def test_a_bundle_is_written_to_a_stream_as_well():
    stream = io.BytesIO()
    bundles.pack(stream, document())
    assert zipfile.ZipFile(stream).namelist() == [bundles.DOCUMENT]


@pytest.mark.parametrize(
    "change",
    [
        {"because": "<b>buy this</b>"},
        {"window": [0, 0, 1e300, 1]},
        {"window": [0, 0, 1]},
        {"window": [0, 0, 1, -0.5]},
    ],
)
def test_in_half_precision_another_part_may_be_named_but_no_invalid_name(change):
    """The uploader of a bundle states the precision of its scores."""
    told = {"because": "shape", "window": [0.1, 0.2, 0.3, 0.4]}
    other = {"because": "colour", "window": None}
    assert without_names(told) == without_names(other)
    assert without_names(told | change) != without_names(other)


@pytest.mark.parametrize(
    "change",
    [
        *({"witness": []}, {"thing": None}, {"made": "yes"}, {"undone": []}, {"gates": 1}),
        *({"kept": {}}, {"said": 5}, {"step": "x"}),
    ],
)
def test_evidence_has_the_types_of_its_witness(change):
    word = {"witness": "hue", "thing": "red", "made": True, "undone": None, "gates": False}
    known = TypeAdapter(EvidenceRow)
    assert known.validate_python(word)
    with pytest.raises(ValidationError):
        known.validate_python(word | change)
