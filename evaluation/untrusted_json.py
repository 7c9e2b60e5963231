"""Parse untrusted JSON and numbers with bounds on memory and time."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

#: The limit of items (objects, lists and their members) in one text: each takes up to a few
#: hundred bytes of memory. An image is one long string, so it counts as one item.
MAX_ITEMS = 100_000
#: A longer text must be ASCII, as base64 is: a single rare character makes Python use four bytes
#: for every character.
MAX_NON_ASCII_BYTES = 2**20
#: NUL bytes and lone surrogates: valid in JSON, but not storable in a file or a database.
UNSTORABLE = re.compile("[\0\ud800-\udfff]")
#: The limit of an untrusted file: ten times the size of the largest file that we write.
MAX_FILE_BYTES = 64 * 2**20
#: The limit of items increases by one for this many characters. Our own files have 20 per item.
BYTES_PER_ITEM = 8
#: Larger than every valid number. Answers of endpoints are stored as JSON, and its numbers are
#: floats.
LARGEST = 1e300
#: More digits than any valid whole number has.
MAX_DIGITS = 20


def parse_json(body: bytes) -> Any:
    """Parse untrusted JSON with a bound on its size in memory. Raises ValueError."""
    if len(body) > MAX_NON_ASCII_BYTES and not body.isascii():
        raise ValueError("long JSON with non-ASCII characters")
    if sum(body.count(mark) for mark in (b"{", b"[", b",")) > MAX_ITEMS:
        raise ValueError(f"JSON of more than {MAX_ITEMS:,} items")
    try:
        return json.loads(body)
    except RecursionError:
        raise ValueError("JSON that is too deeply nested") from None


def finite(digits: str) -> float:
    """Parse a number. Raises ValueError for NaN, infinities and numbers too large for a float."""
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:40]} is not a finite number")
    return value


def parse_strictly(
    text: str,
    *,
    max_items: int | None = None,
    max_keys: int = MAX_ITEMS,
    number: Callable[[str], Any] = finite,
) -> Any:
    """Parse untrusted JSON strictly. Raises ValueError.

    Rejects NUL bytes, lone surrogates, NaN, infinities and repeated keys. `max_items` limits the
    objects, lists and members in total, `max_keys` the members of one object. `number` parses
    numbers with a fraction or exponent.
    """

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(pairs) > max_keys:
            raise ValueError(f"an object has {len(pairs):,} keys; the limit is {max_keys:,}")
        single: dict[str, Any] = {}
        for key, value in pairs:
            if key in single:
                raise ValueError(f"the key {key[:80]!r} occurs twice in one object")
            single[key] = value
        return single

    if max_items is None:
        max_items = MAX_ITEMS + len(text) // BYTES_PER_ITEM
    if (items := sum(map(text.count, "{[,"))) > max_items:
        raise ValueError(f"the JSON has {items:,} items; the limit is {max_items:,}")
    try:
        value = json.loads(
            text,
            object_pairs_hook=members,
            parse_int=_whole,
            parse_float=number,
            parse_constant=finite,
        )
        is_storable = can_be_stored(value)
    except RecursionError:
        raise ValueError("the JSON is too deeply nested") from None
    if not is_storable:
        raise ValueError("a string contains a NUL byte or a lone surrogate")
    return value


def read_json_file(file: Path) -> Any:
    """Parse an untrusted JSON file strictly. Raises ValueError or OSError."""
    if (size := file.stat().st_size) > MAX_FILE_BYTES:
        raise ValueError(f"the file has {size:,} bytes; the limit is {MAX_FILE_BYTES:,}")
    return parse_strictly(file.read_text(encoding="utf-8"))


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"the number {digits[:MAX_DIGITS]}… is too large")
    return int(digits)


def bounded(value: Any, limit: float) -> float | None:
    """Return the value as a float of at most `limit`; None if negative or not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(min(value, limit)) if value >= 0 else None  # NaN is not >= 0


def can_be_stored(value: Any) -> bool:
    """Return True if every database can store the value.

    NUL bytes, lone surrogates and numbers that are not finite (such as 1e999) cannot be stored.
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
    """Make a value storable; numbers that are too large or not finite become None."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {storable(str(key)): storable_value(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [storable_value(part) for part in value]
    if isinstance(value, int | float) and not abs(value) < LARGEST:
        return None
    return value
