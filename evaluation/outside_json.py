"""JSON and numbers that strangers write: bounded before they cost anything."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: Objects, lists and members in one text; each takes up to a few hundred bytes of memory.
#: A picture is one long string, and has none.
MAX_ITEMS = 100_000
#: Beyond this a text must be ASCII, as base64 is: Python takes four bytes for every letter of a
#: text with one rare letter in it.
MAX_WIDE = 2**20
#: Zero bytes and halves of characters: JSON can write them, no file and no database takes them.
UNSTORABLE = re.compile("[\0\ud800-\udfff]")
#: Of a file that somebody hands on; the record of our largest run has a tenth of it.
MAX_FILE_BYTES = 64 * 2**20
#: Objects, lists and members in such a file: ours have 20 bytes of text for each.
BYTES_PER_ITEM = 8
#: No number of ours is larger: what is kept of an answer is JSON, and numbers in it are floats.
LARGEST = 1e300
#: No number of ours is longer; no float holds those that are much longer.
MAX_DIGITS = 20


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


def parse_strictly(text: str) -> Any:
    """The value of a text as our own writers write it; ValueError says what is not.

    No zero bytes, no halves of characters, no number that is none or beyond every number.
    """
    if sum(map(text.count, "{[,")) > MAX_ITEMS + len(text) // BYTES_PER_ITEM:
        raise ValueError("JSON of more items than its length explains")
    try:
        value = json.loads(text, parse_int=_whole, parse_float=_number, parse_constant=_number)
        fits = can_be_stored(value)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
    if not fits:
        raise ValueError("a text in it holds a zero byte or half of a character")
    return value


def read_json_file(file: Path) -> Any:
    """The value in a file that somebody hands on; ValueError or OSError where there is none."""
    if (size := file.stat().st_size) > MAX_FILE_BYTES:
        raise ValueError(f"{size:,} bytes; the limit is {MAX_FILE_BYTES:,}")
    return parse_strictly(file.read_text(encoding="utf-8"))


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"{digits[:MAX_DIGITS]}… is too large a number")
    return int(digits)


def _number(digits: str) -> float:
    """Also of the words NaN and Infinity, which JSON does not have."""
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:40]} is not a number")
    return value


def bounded(value: Any, most: float) -> float | None:
    """A number between 0 and `most`, cut to it; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(min(value, most)) if value >= 0 else None  # not a number is not above 0


def can_be_stored(value: Any) -> bool:
    """Whether every database takes it: no zero byte or half of a character in any text, and no
    number that JSON does not have (1e999 becomes one).
    """
    if isinstance(value, str):
        return not UNSTORABLE.search(value)
    if isinstance(value, dict):
        return all(can_be_stored(part) for pair in value.items() for part in pair)
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, list) or all(map(can_be_stored, value))


def storable(text: str) -> str:
    """The text without what no database takes."""
    return UNSTORABLE.sub("", text)


def storable_value(value: Any) -> Any:
    """The same of a whole value; numbers that no JSON has, or no float holds, become None."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {storable(str(key)): storable_value(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [storable_value(part) for part in value]
    if isinstance(value, int | float) and not abs(value) < LARGEST:
        return None
    return value
