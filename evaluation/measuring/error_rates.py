"""Stored tables of how often the benchmark's own judgements err.

`python -m tools.studies` measures them, which takes minutes, and stores them beside this
module; pages show them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

#: The wear that a row of the witnesses names at the end of `what`.
WEAR = ("nothing else", "JPEG 40", "noise of 8 levels", "blur", "an autoencoder")


@dataclass(frozen=True)
class ErrorRate:
    """How often something was seen where it should (not) be."""

    #: What was judged, such as "local" pairs, or a witness.
    of: str
    #: What was done to the pictures beside the edit.
    what: str
    should_be_seen: bool
    judged: int
    seen: int
    #: The cases in which it erred.
    wrong: tuple[str, ...] = ()
    #: Whose pictures were judged; empty where they are in no suite.
    suite: str = ""

    @property
    def rate(self) -> float:
        return len(self.wrong) / self.judged if self.judged else 0.0


@dataclass(frozen=True)
class ErrorTable:
    """Every row, and the suites (slug: content hash) whose pictures were judged."""

    suites: Mapping[str, str]
    rows: tuple[ErrorRate, ...]

    @classmethod
    def stored(cls, name: str) -> Self:
        """The table as it was measured last: "change_seen", …"""
        data = json.loads(table_file(name).read_text(encoding="utf-8"))
        rows = (ErrorRate(**{**row, "wrong": tuple(row["wrong"])}) for row in data["rows"])
        return cls(data["suites"], tuple(rows))


def table_file(name: str) -> Path:
    """Return the file of a stored table."""
    return Path(__file__).with_name(f"{name}_errors.json")
