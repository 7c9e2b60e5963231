"""JSON and numbers that strangers write: bounded before they cost anything."""

from __future__ import annotations

import json
from typing import Any

#: Objects, lists and members in one text; each takes up to a few hundred bytes of memory.
#: A picture is one long string, and has none.
MAX_ITEMS = 100_000
#: Beyond this a text must be ASCII, as base64 is: Python takes four bytes for every letter of a
#: text with one rare letter in it.
MAX_WIDE = 2**20


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
