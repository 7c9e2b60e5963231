"""How often a judgement errs, as it was measured: tables that are kept and shown.

They are measured by commands that take minutes, and stored beside this module: pages
show what was measured, and tests hold it to be current.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self


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
        data = json.loads(_file(name).read_text(encoding="utf-8"))
        rows = (ErrorRate(**{**row, "wrong": tuple(row["wrong"])}) for row in data["rows"])
        return cls(data["suites"], tuple(rows))

    def store(self, name: str) -> Path:
        """Keep the table as the one that pages show."""
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False)
        _file(name).write_text(text + "\n", encoding="utf-8")
        return _file(name)

    def with_new(self, newer: ErrorTable) -> ErrorTable:
        """This table with newer rows, which replace those that say the same less recently."""
        anew = {(row.of, row.what, row.suite) for row in newer.rows}
        kept = tuple(r for r in self.rows if (r.of, r.what, r.suite) not in anew)
        return ErrorTable({**self.suites, **newer.suites}, (*kept, *newer.rows))

    def to_dict(self) -> dict[str, Any]:
        return {"suites": dict(self.suites), "rows": [asdict(row) for row in self.rows]}


def _file(name: str) -> Path:
    return Path(__file__).with_name(f"{name}_errors.json")
