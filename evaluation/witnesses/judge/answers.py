"""Every answer of a judge is kept: a question that was answered is not paid for twice."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from evaluation.untrusted_json import parse_strictly

ANSWERED, REFUSED, UNREADABLE = "answered", "refused", "unreadable"


@dataclass(frozen=True)
class Kept:
    """One answer as it came, and what it was an answer to."""

    question: str
    version: str
    outcome: str  # answered, refused, unreadable
    text: str
    cost: float | None
    seconds: float
    #: What it is about, for people: a case and a trip.
    about: str = ""


class Answers(ABC):
    """Where answers are kept, by the hash of all that they depend on."""

    @abstractmethod
    def get(self, key: str) -> Kept | None: ...

    @abstractmethod
    def keep(self, key: str, kept: Kept) -> None: ...

    @abstractmethod
    def all(self) -> Mapping[str, Kept]:
        """Those of this run, for sums."""


class InMemory(Answers):
    """For one process."""

    def __init__(self) -> None:
        self._kept: dict[str, Kept] = {}

    def get(self, key: str) -> Kept | None:
        return self._kept.get(key)

    def keep(self, key: str, kept: Kept) -> None:
        self._kept[key] = kept

    def all(self) -> Mapping[str, Kept]:
        return self._kept


class AnswerFile(InMemory):
    """A file of one JSON object per line; a line that was cut off is asked again."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        lines = path.read_bytes().splitlines() if path.is_file() else []
        for line in lines:
            try:
                row = dict(parse_strictly(line.decode()))
                key = str(row.pop("key"))
                self._kept[key] = Kept(**row)
            except (ValueError, KeyError, TypeError):
                continue

    def keep(self, key: str, kept: Kept) -> None:
        super().keep(key, kept)
        with self.path.open("a", encoding="utf-8") as file:
            # A line of its own, also after one that was cut off.
            begin = "\n" if file.tell() else ""
            file.write(f"{begin}{json.dumps({'key': key, **asdict(kept)}, ensure_ascii=False)}")
