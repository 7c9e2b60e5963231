"""Untrusted JSON and numbers: bounded before they cost memory or time."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

#: Objects, lists and members in one text; each takes up to a few hundred bytes of memory.
#: An image is one long string without any.
MAX_ITEMS = 100_000
#: Beyond this a text must be ASCII, as base64 is: Python takes four bytes for every letter of a
#: text with one rare letter in it.
MAX_WIDE = 2**20
#: NUL bytes and lone surrogates: valid in JSON, but not storable in a file or a database.
UNSTORABLE = re.compile("[\0\ud800-\udfff]")
#: The limit of an untrusted file, ten times the record of our largest run.
MAX_FILE_BYTES = 64 * 2**20
#: Objects, lists and members in such a file: ours have 20 bytes of text for each.
BYTES_PER_ITEM = 8
#: Larger than any valid number: answers are stored as JSON, where numbers are floats.
LARGEST = 1e300
#: Longer than any valid number; a float cannot hold much longer ones.
MAX_DIGITS = 20


def parse_json(body: bytes) -> Any:
    """Parse untrusted JSON with a bound on its size in memory. Raises ValueError."""
    if len(body) > MAX_WIDE and not body.isascii():
        raise ValueError("long JSON with letters that base64 does not have")
    if sum(body.count(mark) for mark in (b"{", b"[", b",")) > MAX_ITEMS:
        raise ValueError(f"JSON of more than {MAX_ITEMS:,} items")
    try:
        return json.loads(body)
    except RecursionError:
        raise ValueError("JSON that is too deeply nested") from None


def finite(digits: str) -> float:
    """Parse a number, or one of the words NaN and Infinity, which are refused."""
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:40]} is not a number")
    return value


def parse_strictly(
    text: str,
    *,
    most_items: int | None = None,
    most_keys: int = MAX_ITEMS,
    number: Callable[[str], Any] = finite,
) -> Any:
    """Parse untrusted JSON strictly. Raises ValueError.

    NUL bytes, lone surrogates, NaN, infinities and repeated keys are rejected. `most_items`
    bounds its objects, lists and members, `most_keys` the members of one object; `number` parses
    its fractions.
    """

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(pairs) > most_keys:
            raise ValueError(f"an object in it has {len(pairs):,} keys; the limit is {most_keys:,}")
        single: dict[str, Any] = {}
        for key, value in pairs:
            if key in single:
                raise ValueError(f"the key {key[:80]!r} occurs twice in one object")
            single[key] = value
        return single

    most = MAX_ITEMS + len(text) // BYTES_PER_ITEM if most_items is None else most_items
    if (items := sum(map(text.count, "{[,"))) > most:
        raise ValueError(f"it has {items:,} items; the limit is {most:,}")
    try:
        value = json.loads(
            text,
            object_pairs_hook=members,
            parse_int=_whole,
            parse_float=number,
            parse_constant=finite,
        )
        fits = can_be_stored(value)
    except RecursionError:
        raise ValueError("JSON that is too deeply nested") from None
    if not fits:
        raise ValueError("a string contains a NUL byte or a lone surrogate")
    return value


def read_json_file(file: Path) -> Any:
    """Parse an untrusted file strictly. Raises ValueError or OSError."""
    if (size := file.stat().st_size) > MAX_FILE_BYTES:
        raise ValueError(f"{size:,} bytes; the limit is {MAX_FILE_BYTES:,}")
    return parse_strictly(file.read_text(encoding="utf-8"))


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"{digits[:MAX_DIGITS]}… is too large a number")
    return int(digits)


def bounded(value: Any, most: float) -> float | None:
    """Return a number from 0, cut to `most`; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(min(value, most)) if value >= 0 else None  # not a number is not above 0


def can_be_stored(value: Any) -> bool:
    """Return True if every database can store the value.

    It must have no NUL byte or lone surrogate in any text, and no number that is not finite
    (1e999 becomes infinite).
    """
    if isinstance(value, str):
        return not UNSTORABLE.search(value)
    if isinstance(value, dict):
        return all(can_be_stored(part) for pair in value.items() for part in pair)
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, list) or all(map(can_be_stored, value))


def storable(text: str) -> str:
    """Remove NUL bytes and lone surrogates, which databases refuse."""
    return UNSTORABLE.sub("", text)


def storable_value(value: Any) -> Any:
    """Make a value storable; numbers that are not finite or too large become None."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {storable(str(key)): storable_value(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [storable_value(part) for part in value]
    if isinstance(value, int | float) and not abs(value) < LARGEST:
        return None
    return value
