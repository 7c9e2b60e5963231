"""The loop at the heart of the benchmark: forward edit, backward edit, again.

Knows nothing of files, databases, retries or scores.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from evaluation.editors.base import Answer
from evaluation.images import Picture

Direction = Literal["forward", "backward"]


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
    edit: Edit, start: Position, *, forward: str, backward: str, trips: int, seed: int
) -> Iterator[Half]:
    """Yield each answer before the next edit is paid for.

    To resume a chain, start from its last answer. Each edit gets a seed of its
    own, the same whenever the chain is played again with the same `seed`.
    """
    picture, direction = start.picture, start.direction
    for number in range(start.number, trips + 1):
        for step, prompt in (("forward", forward), ("backward", backward)):
            if step != direction:
                continue  # the forward half of the trip we resume in is already there
            answer = edit(picture, prompt, seed=edit_seed(seed, number, step))
            yield Half(number, step, answer)
            picture = answer.picture
            direction = "backward" if step == "forward" else "forward"


def chain_seed(seed: int, case: str, repeat: int) -> int:
    """The seed of a chain: its own, and the same in every run with the same seed."""
    return _digest(f"{seed}/{case}/{repeat}")


def edit_seed(seed: int, number: int, direction: str) -> int:
    """A 31-bit seed for one edit of a chain."""
    return _digest(f"{seed}/{number}/{direction}")


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) >> 1
