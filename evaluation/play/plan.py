"""Compile a chain into its steps before it is played.

Wordings, settings, seeds, chain shapes, degradations and clean-ups of an arm are decided here;
the loop that plays the steps asks for none of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from evaluation.arms import CONVERSATION, DEFAULT, Arm
from evaluation.content.annotations import UNANNOTATED, Annotations
from evaluation.content.suites import EditPair
from evaluation.editors.base import EditSettings, Turn
from evaluation.images import Picture
from evaluation.run_secret import Seed


@dataclass(frozen=True)
class Step:
    """One edit of a chain: `place` counts the edits of trip `trip` from 0.

    With an `operator` no model is asked: we degrade the image ourselves. `back_to` is the image
    of the trip that should be restored afterwards, None where it has not been seen before.
    """

    trip: int
    place: int
    name: str
    prompt: str
    seed: int | None
    settings: EditSettings
    operator: str = ""
    back_to: int | None = None
    #: The last edit of its trip, after which the image should be restored.
    restores: bool = False
    #: The image of this step comes from us, not from the model's last answer.
    is_new_image: bool = False

    @property
    def is_synthetic(self) -> bool:
        """Whether we make the answer ourselves, without a call."""
        return bool(self.operator)


@dataclass(frozen=True)
class Position:
    """Where a chain stands: the image to edit next, and which edit that is.

    `earlier` are the images of the trip so far without that one; the first is what the trip
    began with. `history` holds the edits before this one, in an arm that is one conversation.
    """

    picture: Picture
    number: int = 1
    earlier: tuple[Picture, ...] = ()
    history: tuple[Turn, ...] = ()

    @property
    def step(self) -> int:
        """Which of the trip's edits is next, counted from 0."""
        return len(self.earlier)

    def after(self, step: Step, answer: Picture) -> Position:
        """Return the position once `step` is answered; the history stays as it is."""
        if step.restores:
            return Position(answer, step.trip + 1, (), self.history)
        return Position(answer, step.trip, (*self.earlier, self.picture), self.history)


@dataclass(frozen=True)
class Plan:
    """The steps of one chain; `pair` is worded by the arm already."""

    pair: EditPair
    trips: int
    seed: Seed
    arm: Arm = DEFAULT
    annotations: Annotations = field(default=UNANNOTATED)

    @property
    def is_conversation(self) -> bool:
        """Whether each edit is sent with all edits before it."""
        return self.arm.session == CONVERSATION

    def step(self, trip: int, place: int) -> Step:
        """Return one step of the chain."""
        steps = self.pair.trip(trip).steps
        edit = steps[place]
        follows_ours = place > 0 and bool(steps[place - 1].operator)
        begins = place == 0 and (trip == 1 or bool(self.arm.cleanup))
        return Step(
            trip,
            place,
            edit.name,
            edit.prompt,
            None if edit.operator else self.seed(trip, edit.name),
            self.arm.settings(trip),
            edit.operator,
            edit.back_to,
            restores=place == len(steps) - 1,
            is_new_image=begins or follows_ours,
        )

    def steps_from(self, position: Position) -> Iterator[Step]:
        """Yield the steps that are left, the next one first."""
        place = position.step
        for trip in range(position.number, self.trips + 1):
            for following in range(place, len(self.pair.trip(trip))):
                yield self.step(trip, following)
            place = 0

    def cleaned(self, position: Position) -> Position:
        """Return the position with the image that its trip begins with cleaned up by the arm."""
        if position.number == 1 or position.number > self.trips or not self.arm.cleanup:
            return position
        if position.earlier:
            first, *others = position.earlier
            return replace(position, earlier=(self.arm.cleaned(first), *others))
        return replace(position, picture=self.arm.cleaned(position.picture))
