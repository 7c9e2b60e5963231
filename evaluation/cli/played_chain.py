"""What there is of a chain in a run folder: its edits, its audits and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from evaluation.audits.plan import Kind
from evaluation.content.shapes import BACKWARD
from evaluation.content.suites import Case


@dataclass(frozen=True)
class PlayedHalf:
    """One edit of a chain as run.json tells it."""

    number: int
    direction: str
    file: str
    sha256: str
    mime: str
    width: int
    height: int
    seed: int | None
    seconds: float
    cost: float | None
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PlayedAudit:
    """One audit of a chain; `file` and its hash are empty where no picture came back."""

    number: int
    kind: Kind
    words: str
    seed: int
    sent: str
    outcome: str
    file: str = ""
    sha256: str = ""
    seconds: float = 0.0
    cost: float | None = None

    @property
    def files(self) -> tuple[str, ...]:
        return (self.sent, self.file) if self.file else (self.sent,)


@dataclass(frozen=True)
class PlayedChain:
    """What there is of a chain; `outcome` is empty while it is still to be played."""

    picture: str
    pair: str
    repeat: int = 0
    outcome: str = ""
    reason: str = ""
    halves: tuple[PlayedHalf, ...] = ()
    audits: tuple[PlayedAudit, ...] = ()

    @property
    def case(self) -> str:
        return Case(self.picture, self.pair).slug

    @property
    def slug(self) -> str:
        return chain_slug(self.case, self.repeat)

    @property
    def trips(self) -> tuple[tuple[PlayedHalf, ...], ...]:
        """The trips that count, as (forward, ..., backward); a blank answer ends the one before."""
        halves = self.halves[:-1] if self.outcome == "blank" else self.halves
        ends = [place for place, half in enumerate(halves, start=1) if half.direction == BACKWARD]
        return tuple(halves[begin:end] for begin, end in zip([0, *ends], ends, strict=False))

    @property
    def open_steps(self) -> tuple[PlayedHalf, ...]:
        """The edits of a trip that is not over yet."""
        over = sum(half.direction == BACKWARD for half in self.halves)
        return tuple(half for half in self.halves if half.number > over)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        fields = dict(data)
        fields["halves"] = tuple(PlayedHalf(**half) for half in fields.get("halves", ()))
        fields["audits"] = tuple(PlayedAudit(**audit) for audit in fields.get("audits", ()))
        return cls(**fields)


def chain_slug(case: str, repeat: int) -> str:
    """What a chain is called here: by its case; those after the first by their count too."""
    return f"{case}--{repeat + 1}" if repeat else case
