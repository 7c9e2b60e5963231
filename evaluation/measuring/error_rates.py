"""Stored error rates of the benchmark's own judgements, which pages display.

`python -m tools.studies` measures the rates in some minutes and stores them next to this module.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

#: The kinds of wear. In rows about a witness, `what` ends with one of them.
WEAR = ("nothing else", "JPEG 40", "noise of 8 levels", "blur", "an autoencoder")


@dataclass(frozen=True)
class ErrorRate:
    """Counts of one judgement on images for which the right verdict is known."""

    #: What is judged ("local" pairs) or who judges (a witness, which is an automatic check).
    of: str
    #: The change to the images in addition to the edit.
    what: str
    should_be_seen: bool
    judged: int
    seen: int
    #: The misjudged cases.
    wrong: tuple[str, ...] = ()
    #: The suite of the judged images; empty if they are not from a suite.
    suite: str = ""

    @property
    def rate(self) -> float:
        return len(self.wrong) / self.judged if self.judged else 0.0


@dataclass(frozen=True)
class ErrorTable:
    """All error rates, and the suites (slug: content hash) of the judged images."""

    suites: Mapping[str, str]
    rows: tuple[ErrorRate, ...]

    @classmethod
    def stored(cls, name: str) -> Self:
        """Return the stored table of this name, such as "change_seen"."""
        data = json.loads(table_file(name).read_text(encoding="utf-8"))
        rows = (ErrorRate(**{**row, "wrong": tuple(row["wrong"])}) for row in data["rows"])
        return cls(data["suites"], tuple(rows))


def table_file(name: str) -> Path:
    """Return the file of a stored table."""
    return Path(__file__).with_name(f"{name}_errors.json")
