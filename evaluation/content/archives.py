"""Read untrusted zip files: check the central directory before unpacking anything.

Only stored and deflated entries are read. Python unpacks bzip2 and LZMA without a limit: a
kilobyte can allocate gigabytes, even if fewer bytes are read.
"""

from __future__ import annotations

import stat
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO

from evaluation.errors import UserFacingError

# The largest accepted ratio of unpacked to packed bytes. Images hardly shrink, JSON files shrink to
# a tenth, zip bombs to a thousandth.
MAX_RATIO = 100
#: Entries up to this many bytes may have any ratio.
RATIO_FROM = 2**20
#: The accepted average size of an entry in the central directory: 46 bytes and a name.
ENTRY_BYTES = 256
#: The records at the end of a zip file: the end of the central directory, and its 64-bit variant.
END = struct.Struct("<4s4H2LH")
LOCATOR64 = struct.Struct("<4sLQL")
END64 = struct.Struct("<4sQ2H2L4Q")


class ArchiveError(UserFacingError):
    """A zip file or one of its entries is refused."""


def open_archive(file: Path | IO[bytes], *, max_entries: int) -> zipfile.ZipFile:
    """Open an archive of at most `max_entries` entries, without unpacking. Raises ArchiveError."""
    opened = file.open("rb") if isinstance(file, Path) else file
    try:
        check_directory(opened, max_entries)
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, struct.error, ValueError, NotImplementedError, OSError) as error:
        raise ArchiveError(str(error)) from None
    finally:
        if opened is not file:
            opened.close()
    entries = archive.infolist()
    if len(entries) > max_entries:
        raise ArchiveError(
            f"the zip file has {len(entries):,} entries; the limit is {max_entries:,}"
        )
    # Python recognises folders by the last letter of the name, and fails on an empty name.
    if not all(info.filename for info in entries):
        raise ArchiveError("the zip file has an entry without a name")
    return archive


def check_directory(file: IO[bytes], max_entries: int) -> None:
    """Refuse a central directory that would exhaust memory when read. Raises ArchiveError.

    Zip readers disagree if a file has several end records. So the last record must end exactly at
    the end of the file and locate the central directory: then all readers use this record.
    """
    size = file.seek(0, 2)
    file.seek(max(0, size - 2**16 - 100))
    tail = file.read()
    end = tail.rfind(b"PK\x05\x06")
    if end < 0:
        raise ArchiveError("this is not a zip file")
    if end + END.size > len(tail):
        raise ArchiveError("the zip file is truncated")
    *_, length, _, comment = END.unpack_from(tail, end)
    if end + END.size + comment != len(tail):
        raise ArchiveError("the zip file does not end where its end record states")
    locator, end64 = end - LOCATOR64.size, end - LOCATOR64.size - END64.size
    if locator >= 0 and tail[locator:].startswith(b"PK\x06\x07"):
        stated = LOCATOR64.unpack_from(tail, locator)[2]
        if stated != size - len(tail) + end64 or not tail[end64:].startswith(b"PK\x06\x06"):
            raise ArchiveError("the zip file's central directory is not where it should be")
        length = END64.unpack_from(tail, end64)[8]
    if length > max_entries * ENTRY_BYTES:
        raise ArchiveError(f"the zip file lists too many entries ({length:,} bytes of names)")


def check_entry(info: zipfile.ZipInfo, name: str, limit: int) -> None:
    """Refuse an entry that is not a plain file of at most `limit` bytes. Raises ArchiveError.

    Messages call the entry `name`.
    """
    if stat.S_ISLNK(info.external_attr >> 16):
        raise ArchiveError(f"{name} is a symbolic link")
    if info.flag_bits & 0x1:
        raise ArchiveError(f"{name} is encrypted")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ArchiveError(f"{name} uses an unsupported compression method: use deflate")
    if info.file_size > limit:
        raise ArchiveError(f"{name} has {info.file_size:,} bytes; the limit is {limit:,}")
    if info.file_size > max(RATIO_FROM, MAX_RATIO * info.compress_size):
        raise ArchiveError(f"{name} unpacks to more than {MAX_RATIO} times its size: a zip bomb")


def check_overlap(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse entries that share bytes, because they can unpack to any size."""
    if sum(info.compress_size for info in archive.infolist()) > size:
        raise ArchiveError("entries of the zip file overlap: a zip bomb")


def content(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, limit: int) -> bytes:
    """Return the entry's bytes, checked against its declared size and checksum."""
    check_entry(info, name, limit)
    try:
        with archive.open(info) as file:
            data = file.read(limit + 1)
    except (
        *(zipfile.BadZipFile, zlib.error, EOFError, OSError),
        *(ValueError, RuntimeError, NotImplementedError, struct.error),
    ) as error:
        raise ArchiveError(f"{name} cannot be unpacked: {error}") from None
    if len(data) != info.file_size:
        raise ArchiveError(f"{name} declares {info.file_size:,} bytes and has {len(data):,}")
    return data
