"""The loop at the heart of the benchmark: forward edit, backward edit, again.

Knows nothing of files, databases, retries or scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from evaluation.content.annotations import UNANNOTATED, Annotations
from evaluation.editors.base import Answer, Beside
from evaluation.images import Picture
from evaluation.run_secret import Direction, Seed


class Edit(Protocol):
    """An editor's `send`, or anything wrapped around it (retries, a ledger, a clock)."""

    def __call__(
        self, picture: Picture, prompt: str, seed: int | None = None, beside: Beside | None = None
    ) -> Answer: ...


@dataclass(frozen=True)
class Half:
    """One edit of a trip: Yn (forward) or Xn (backward)."""

    number: int
    direction: Direction
    answer: Answer
    seed: int


@dataclass(frozen=True)
class Position:
    """Where a chain stands: the picture to edit next, and which edit that is.

    Half way through a trip `before` is the picture that the trip began with.
    """

    picture: Picture
    number: int = 1
    direction: Direction = "forward"
    before: Picture | None = None


def round_trips(
    edit: Edit,
    start: Position,
    *,
    forward: str,
    backward: str,
    trips: int,
    seed: Seed,
    annotations: Annotations = UNANNOTATED,
) -> Iterator[Half]:
    """Yield each answer before the next edit is paid for.

    To resume a chain, start from its last answer. `annotations` are those of the source.
    """
    picture, number, direction = start.picture, start.number, start.direction
    before = start.before
    while number <= trips:
        prompt, own = forward if direction == "forward" else backward, seed(number, direction)
        beside = Beside(before if direction == "backward" else None, annotations)
        answer = edit(picture, prompt, seed=own, beside=beside)
        yield Half(number, direction, answer, own)
        before, picture = picture, answer.picture
        number, direction = following(number, direction)


def following(number: int, direction: Direction) -> tuple[int, Direction]:
    """The edit after this one: its trip and its direction."""
    return (number, "backward") if direction == "forward" else (number + 1, "forward")
