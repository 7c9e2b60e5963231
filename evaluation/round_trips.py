"""The loop at the heart of the benchmark: forward edit, backward edit, again.

Knows nothing of files, databases, retries or scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from evaluation.arms import CONVERSATION, DEFAULT, Arm
from evaluation.content.annotations import UNANNOTATED, Annotations
from evaluation.editors.base import Answer, Beside, Turn
from evaluation.images import Picture, clean_wire
from evaluation.run_secret import DIRECTIONS, Direction, Seed


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
    seed: int | None


@dataclass(frozen=True)
class Position:
    """Where a chain stands: the picture to edit next, and which edit that is.

    Half way through a trip `before` is the return that the trip began with. `history` are the
    edits before this one, where the arm is one conversation.
    """

    picture: Picture
    number: int = 1
    direction: Direction = "forward"
    before: Picture | None = None
    history: tuple[Turn, ...] = ()


def round_trips(
    edit: Edit,
    start: Position,
    *,
    forward: str,
    backward: str,
    trips: int,
    seed: Seed,
    annotations: Annotations = UNANNOTATED,
    arm: Arm = DEFAULT,
) -> Iterator[Half]:
    """Yield each answer before the next edit is paid for.

    To resume a chain, start from its last answer. `annotations` are those of the source.
    """
    picture, number, direction = start.picture, start.number, start.direction
    history = start.history
    before = start.before
    if before and number > 1:
        before = arm.cleaned(before)
    while number <= trips:
        if direction == "forward" and number > 1:
            picture = arm.cleaned(picture)
        prompt, own = forward if direction == "forward" else backward, seed(number, direction)
        settings = arm.settings(number)
        if arm.session == CONVERSATION:
            settings = replace(settings, history=history)
        taken_back = before if direction == "backward" else None
        answer = edit(picture, prompt, seed=own, beside=Beside(taken_back, annotations, settings))
        yield Half(number, direction, answer, own)
        if arm.session == CONVERSATION:
            history = (
                *history,
                turn(prompt, answer.picture, _new(picture, number, direction, arm)),
            )
        before, picture = picture, answer.picture
        number, direction = following(number, direction)


def history(
    source: Picture, answers: Iterable[Picture], forward: str, backward: str, arm: Arm
) -> tuple[Turn, ...]:
    """The conversation so far, from the answers of a chain in their order."""
    turns: list[Turn] = []
    picture, number, direction = source, 1, DIRECTIONS[0]
    for answer in answers:
        if direction == "forward" and number > 1:
            picture = arm.cleaned(picture)
        prompt = forward if direction == "forward" else backward
        turns.append(turn(prompt, answer, _new(picture, number, direction, arm)))
        picture = answer
        number, direction = following(number, direction)
    return tuple(turns)


def turn(prompt: str, answer: Picture, sent: Picture | None) -> Turn:
    """An edit as a conversation remembers it, its pictures clean."""
    return Turn(prompt, clean_wire(answer), clean_wire(sent) if sent else None)


def _new(picture: Picture, number: int, direction: Direction, arm: Arm) -> Picture | None:
    """The picture, where the model has not answered it itself: the source, or one cleaned up."""
    cleaned = bool(arm.cleanup) and direction == "forward"
    return picture if cleaned or (number, direction) == (1, "forward") else None


def following(number: int, direction: Direction) -> tuple[int, Direction]:
    """The edit after this one: its trip and its direction."""
    return (number, "backward") if direction == "forward" else (number + 1, "forward")
