"""JSON and numbers that strangers write: bounded before they cost anything."""

from __future__ import annotations

import json
import re
from typing import Any

#: Objects, lists and members in one text; each takes up to a few hundred bytes of memory.
#: A picture is one long string, and has none.
MAX_ITEMS = 100_000
#: Beyond this a text must be ASCII, as base64 is: Python takes four bytes for every letter of a
#: text with one rare letter in it.
MAX_WIDE = 2**20
#: Zero bytes and halves of characters: JSON can write them, no file and no database takes them.
UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def parse_json(body: bytes) -> Any:
    """The value of a text that is not larger in memory than it looks; ValueError otherwise."""
    if len(body) > MAX_WIDE and not body.isascii():
        raise ValueError("long JSON with letters that base64 does not have")
    if sum(body.count(mark) for mark in (b"{", b"[", b",")) > MAX_ITEMS:
        raise ValueError(f"JSON of more than {MAX_ITEMS:,} items")
    try:
        return json.loads(body)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None


def bounded(value: Any, most: float) -> float | None:
    """A number between 0 and `most`, cut to it; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(min(value, most)) if value >= 0 else None  # not a number is not above 0


def can_be_stored(value: Any) -> bool:
    """Whether every database takes it: no zero bytes, no halves of characters, in any text."""
    if isinstance(value, str):
        return not UNSTORABLE.search(value)
    if isinstance(value, dict):
        return all(can_be_stored(part) for pair in value.items() for part in pair)
    return not isinstance(value, list) or all(map(can_be_stored, value))


def storable(text: str) -> str:
    """The text without what no database takes."""
    return UNSTORABLE.sub("", text)
