"""The loop at the heart of the benchmark: the steps of a trip, again and again.

Knows nothing of files, databases, retries or scores.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from evaluation.arms import CONVERSATION, DEFAULT, Arm
from evaluation.content.annotations import UNANNOTATED, Annotations
from evaluation.content.degradations import DEGRADATIONS, VERSION, degraded
from evaluation.content.shapes import Asked
from evaluation.content.suites import EditPair
from evaluation.editors.base import Answer, Beside, Turn
from evaluation.images import Picture, clean_wire
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
    seed: int | None
    step: int = 0
    #: Made by an operator of ours: nobody was asked, and nothing was paid.
    ours: bool = False


def made_by_us(operator: str, picture: Picture, number: int) -> Answer:
    """The answer of an operator of ours to trip `number`; the same picture gives the same."""
    started = time.perf_counter()
    answer = degraded(operator, picture, number)
    words = f"{DEGRADATIONS[operator].title}, version {VERSION}"
    return Answer(answer, time.perf_counter() - started, 0.0, {"made by us": words})


@dataclass(frozen=True)
class Position:
    """Where a chain stands: the picture to edit next, and which edit that is.

    `earlier` are the pictures of the trip so far without that one, the first is what the trip
    began with; none where a trip begins. `history` are the edits before this one, where the arm
    is one conversation.
    """

    picture: Picture
    number: int = 1
    earlier: tuple[Picture, ...] = ()
    history: tuple[Turn, ...] = ()

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
        """Where the chain stands when the next edit is answered; its history is not told."""
        if self.returns(pair):
            return Position(answer, self.number + 1)
        return Position(answer, self.number, (*self.earlier, self.picture))

    def cleaned(self, arm: Arm) -> Position:
        """With the return that a trip begins with as the arm hands it on."""
        if self.number == 1 or not arm.cleanup:
            return self
        if self.earlier:
            return replace(self, earlier=(arm.cleaned(self.earlier[0]), *self.earlier[1:]))
        return replace(self, picture=arm.cleaned(self.picture))


def round_trips(
    edit: Edit,
    start: Position,
    pair: EditPair,
    *,
    trips: int,
    seed: Seed,
    annotations: Annotations = UNANNOTATED,
    arm: Arm = DEFAULT,
) -> Iterator[Half]:
    """Yield each answer before the next edit is paid for.

    To resume a chain, start from its last answer. `annotations` are those of the source.
    """
    at, said = start.cleaned(arm), start.history
    while at.number <= trips:
        asked = at.asked(pair)
        if asked.operator:
            answer = made_by_us(asked.operator, at.picture, at.number)
            yield Half(at.number, asked.name, answer, None, at.step, ours=True)
            at = at.after(answer.picture, pair)
            continue
        own, settings = seed(at.number, asked.name), arm.settings(at.number)
        if arm.session == CONVERSATION:
            settings = replace(settings, history=said)
        before = None if asked.back_to is None else at.earlier[asked.back_to]
        beside = Beside(before, annotations, settings)
        answer = edit(at.picture, asked.prompt, seed=own, beside=beside)
        yield Half(at.number, asked.name, answer, own, at.step)
        if arm.session == CONVERSATION:
            said = (*said, turn(asked.prompt, answer.picture, _new(at, arm, pair)))
        at = at.after(answer.picture, pair)
        if not at.earlier and at.number <= trips:
            at = at.cleaned(arm)


def history(
    source: Picture, answers: Iterable[Picture], pair: EditPair, arm: Arm
) -> tuple[Turn, ...]:
    """The conversation so far, from the answers of a chain in their order."""
    turns: list[Turn] = []
    at = Position(source)
    for answer in answers:
        if not at.earlier:
            at = at.cleaned(arm)
        asked = at.asked(pair)
        if not asked.operator:  # what we made ourselves nobody was asked for
            turns.append(turn(asked.prompt, answer, _new(at, arm, pair)))
        at = at.after(answer, pair)
    return tuple(turns)


def turn(prompt: str, answer: Picture, sent: Picture | None) -> Turn:
    """An edit as a conversation remembers it, its pictures clean."""
    return Turn(prompt, clean_wire(answer), clean_wire(sent) if sent else None)


def _new(at: Position, arm: Arm, pair: EditPair) -> Picture | None:
    """The picture, where the model has not answered it itself: the source, one cleaned up, or
    one that we made."""
    begins = not at.earlier and (bool(arm.cleanup) or at.number == 1)
    by_us = at.step > 0 and bool(pair.trip(at.number).steps[at.step - 1].operator)
    return at.picture if begins or by_us else None


def following(pair: EditPair, number: int, step: int) -> tuple[int, int]:
    """The edit after this one: its trip, and which of the trip's edits it is."""
    return (number, step + 1) if step + 1 < len(pair.trip(number)) else (number + 1, 0)
