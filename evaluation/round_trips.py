"""The loop at the heart of the benchmark: the steps of a trip, again and again.

Knows nothing of files, databases, retries or scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from evaluation.content.annotations import UNANNOTATED, Annotations
from evaluation.content.shapes import Asked
from evaluation.content.suites import EditPair
from evaluation.editors.base import Answer, Beside
from evaluation.images import Picture
from evaluation.run_secret import Seed


class Edit(Protocol):
    """An editor's `send`, or anything wrapped around it (retries, a ledger, a clock)."""

    def __call__(
        self, picture: Picture, prompt: str, seed: int | None = None, beside: Beside | None = None
    ) -> Answer: ...


@dataclass(frozen=True)
class Half:
    """One edit of a trip; of a round trip the one half, Yn (forward) or Xn (backward).

    `step` counts the trip's edits from 0, `direction` is what this one is called.
    """

    number: int
    direction: str
    answer: Answer
    seed: int
    step: int = 0


@dataclass(frozen=True)
class Position:
    """Where a chain stands: the picture to edit next, and which edit that is.

    `earlier` are the pictures of the trip so far without that one, the first is what the trip
    began with; none where a trip begins.
    """

    picture: Picture
    number: int = 1
    earlier: tuple[Picture, ...] = ()

    @property
    def step(self) -> int:
        """Which of the trip's edits is next, counted from 0."""
        return len(self.earlier)

    def asked(self, pair: EditPair) -> Asked:
        """The edit that is next."""
        return pair.trip(self.number).steps[self.step]

    def returns(self, pair: EditPair) -> bool:
        """Whether the next edit is the trip's last, after which the picture should be back."""
        return self.step == len(pair.trip(self.number)) - 1

    def after(self, answer: Picture, pair: EditPair) -> Position:
        """Where the chain stands when the next edit is answered."""
        if self.returns(pair):
            return Position(answer, self.number + 1)
        return Position(answer, self.number, (*self.earlier, self.picture))


def round_trips(
    edit: Edit,
    start: Position,
    pair: EditPair,
    *,
    trips: int,
    seed: Seed,
    annotations: Annotations = UNANNOTATED,
) -> Iterator[Half]:
    """Yield each answer before the next edit is paid for.

    To resume a chain, start from its last answer. `annotations` are those of the source.
    """
    at = start
    while at.number <= trips:
        asked, own = at.asked(pair), seed(at.number, at.asked(pair).name)
        before = None if asked.back_to is None else at.earlier[asked.back_to]
        answer = edit(at.picture, asked.prompt, seed=own, beside=Beside(before, annotations))
        yield Half(at.number, asked.name, answer, own, at.step)
        at = at.after(answer.picture, pair)


def following(pair: EditPair, number: int, step: int) -> tuple[int, int]:
    """The edit after this one: its trip, and which of the trip's edits it is."""
    return (number, step + 1) if step + 1 < len(pair.trip(number)) else (number + 1, 0)
