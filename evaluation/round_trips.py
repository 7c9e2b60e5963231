"""The loop at the heart of the benchmark: forward edit, backward edit, again.

Knows nothing of files, databases, retries or scores.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from evaluation.editors.base import Answer
from evaluation.images import Picture

Direction = Literal["forward", "backward"]
Seed: TypeAlias = Callable[[int, Direction], int]


class Edit(Protocol):
    """An editor's `edit`, or anything wrapped around it (retries, a ledger, a clock)."""

    def __call__(self, picture: Picture, prompt: str, seed: int | None = None) -> Answer: ...


@dataclass(frozen=True)
class Half:
    """One edit of a trip: Yn (forward) or Xn (backward)."""

    number: int
    direction: Direction
    answer: Answer


@dataclass(frozen=True)
class Position:
    """Where a chain stands: the picture to edit next, and which edit that is."""

    picture: Picture
    number: int = 1
    direction: Direction = "forward"


def round_trips(
    edit: Edit, start: Position, *, forward: str, backward: str, trips: int, seed: Seed
) -> Iterator[Half]:
    """Yield each answer before the next edit is paid for.

    To resume a chain, start from its last answer.
    """
    picture, number, direction = start.picture, start.number, start.direction
    while number <= trips:
        prompt = forward if direction == "forward" else backward
        answer = edit(picture, prompt, seed=seed(number, direction))
        yield Half(number, direction, answer)
        picture = answer.picture
        number, direction = following(number, direction)


def following(number: int, direction: Direction) -> tuple[int, Direction]:
    """The edit after this one: its trip and its direction."""
    return (number, "backward") if direction == "forward" else (number + 1, "forward")


def chain_seeds(run_seed: int, case: str, repeat: int) -> Seed:
    """The seed of every edit of a chain: 31 bits, the same wherever the run's seed is the same.

    `case` is its slug; repeats count from 0.
    """

    def seed(number: int, direction: Direction) -> int:
        text = f"{run_seed}/{case}/{repeat}/{number}/{direction}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) >> 1

    return seed
