"""A zip file's central directory is checked at the place where Python's zipfile reads it."""

from __future__ import annotations

import io
import struct
import zipfile

import pytest

from evaluation.content import archives
from evaluation.content.archives import ArchiveError
from evaluation.testing.zips import hidden_directory, many_entries


def packed(entries: int = 1, comment: bytes = b"") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(entries):
            archive.writestr(f"{number}.png", b"x")
        archive.comment = comment
    return file.getvalue()


def in_64_bit(data: bytes) -> bytes:
    """Return the file with 64-bit end records, as in large files."""
    *_, number, length, start, _ = archives.END.unpack(data[-22:])
    end = archives.END64.pack(b"PK\6\6", 44, 45, 45, 0, 0, number, number, length, start)
    locator = archives.LOCATOR64.pack(b"PK\6\7", 0, len(data) - 22, 1)
    short = archives.END.pack(b"PK\5\6", 0, 0, *[0xFFFF] * 2, *[0xFFFFFFFF] * 2, 0)
    return data[:-22] + end + locator + short


def names(data: bytes, limit: int = 10) -> list[str]:
    return archives.open_archive(io.BytesIO(data), max_entries=limit).namelist()


def refused(data: bytes, limit: int = 10) -> str:
    with pytest.raises(ArchiveError) as error:
        archives.open_archive(io.BytesIO(data), max_entries=limit)
    return str(error.value)


def test_whole_files_are_opened():
    assert names(packed(3)) == ["0.png", "1.png", "2.png"]
    assert names(packed(2, comment=b"made by hand" * 5_000)) == ["0.png", "1.png"]
    assert names(in_64_bit(packed(2))) == ["0.png", "1.png"]


def test_a_directory_with_too_many_entries_is_refused_before_it_is_read():
    assert "too many entries" in refused(many_entries(100))
    assert "too many entries" in refused(in_64_bit(many_entries(100)))
    assert refused(packed(11)) == "the zip file has 11 entries; the limit is 10"


def test_a_signature_inside_the_last_record_hides_no_directory():
    """The last signature is 4 bytes after the record that zipfile uses."""
    data = hidden_directory(100)
    assert len(zipfile.ZipFile(io.BytesIO(data)).infolist()) == 100
    assert refused(data) == "the zip file is truncated"


def test_a_record_in_the_comment_hides_no_directory():
    end = archives.END.pack(b"PK\5\6", 0, 0, 0, 0, 0, 0, 40)
    hidden = many_entries(100)[:-2] + struct.pack("<H", len(end)) + end
    assert refused(hidden) == "the zip file does not end where its end record states"


def test_a_comment_that_does_not_reach_the_end_is_refused():
    for data in (packed() + b"x", packed(comment=b"abc")[:-1]):
        assert refused(data) == "the zip file does not end where its end record states"


def test_a_record_of_64_bit_elsewhere_is_refused():
    """Newer Python versions follow the locator, older ones read directly before it."""
    data = in_64_bit(packed())
    at = len(data) - 22 - 20 + 8
    moved = data[:at] + struct.pack("<Q", 4) + data[at + 8 :]
    assert "not where it should be" in refused(moved)
    assert "not where it should be" in refused(data[-42:])


def test_every_cut_file_is_refused():
    for data in (packed(2), in_64_bit(packed(2))):
        for length in range(len(data)):
            refused(data[:length])
