"""The JSON of a bundle: read in two ways, and never larger in memory than a bundle of ours would be."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from evaluation.untrusted_json import can_be_stored

#: Each object, list and member takes up to a few hundred bytes of memory; ours have 20 bytes of text.
BYTES_PER_ITEM = 12
#: Members of one object: metrics, pairs, levels. Each that does not fit becomes an error of its own.
MAX_KEYS = 2_000


def parse_object(data: bytes, max_items: int, number: Callable[[str], Any]) -> dict[str, Any]:
    """The object in this text; ValueError says why it is not read."""
    if (items := sum(data.count(mark) for mark in (b"{", b"[", b","))) > max_items:
        raise ValueError(f"it has {items:,} items; the limit is {max_items:,}")

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is not a number")

    try:
        found = json.loads(
            data.decode(), object_pairs_hook=_once, parse_constant=refuse, parse_float=number
        )
        fits = can_be_stored(found)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not fits:
        raise ValueError("a text in it holds a zero byte or half of a character")
    if not isinstance(found, dict):
        raise ValueError("it is not an object")
    return found


def as_number(digits: str) -> float:
    """The number; ValueError where it is beyond every number."""
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:40]} is not a number")
    return value


def as_written(digits: str) -> float | str:
    """Two texts can be the same number, and yet one of them was not written by us."""
    value = as_number(digits)
    return value if repr(value) == digits else digits


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MAX_KEYS:
        raise ValueError(f"an object in it has {len(pairs):,} keys; the limit is {MAX_KEYS:,}")
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice[:80]!r} stands twice in one object")
    return found
