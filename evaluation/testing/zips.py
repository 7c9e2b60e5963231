"""Zip files that list many empty entries, openly or hidden."""

from __future__ import annotations

import struct

from evaluation.content.archives import END

ENTRY = struct.pack("<4s4B4H3L5H2L", b"PK\1\2", 20, 3, 20, *[0] * 8, 1, *[0] * 6) + b"a"


def many_entries(entries: int) -> bytes:
    """Return a zip that lists this many empty files."""
    listed = ENTRY * entries
    number = min(entries, 65_535)
    return b"PK\3\4" + listed + END.pack(b"PK\5\6", 0, 0, number, number, len(listed), 4, 0)


def hidden_directory(entries: int) -> bytes:
    """Return a zip of empty files whose end record contains a second signature, to mislead parsers."""
    data = many_entries(entries)
    return data[:-18] + b"PK\5\6" + data[-14:]
