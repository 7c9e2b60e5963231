"""Compile a chain into its steps before it is played.

Wordings, settings, seeds, chain shapes, degradations and clean-ups of an arm are decided here;
the loop that plays the steps reads only the steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from evaluation.arms import CONVERSATION, DEFAULT, Arm
from evaluation.content.annotations import UNANNOTATED, Annotations
from evaluation.content.suites import EditPair
from evaluation.editors.base import EditSettings, Turn
from evaluation.images import EncodedImage
from evaluation.run_secret import Seed


@dataclass(frozen=True)
class Step:
    """One edit of a chain: `place` counts the edits of trip `trip` from 0.

    With an `operator` the benchmark degrades the image itself, without a call. `back_to` is the
    image of the trip that this edit should restore, None if the target is new.
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
    #: The input image comes from the benchmark, not from the model's last answer.
    is_new_image: bool = False

    @property
    def is_synthetic(self) -> bool:
        """Return True if the benchmark makes the answer itself, without a call."""
        return bool(self.operator)


@dataclass(frozen=True)
class Position:
    """The position of a chain: the image to edit next, and the number of its trip.

    `earlier` are the images of the trip before that one; the first is the start of the trip.
    `history` holds the earlier edits if the arm is one conversation.
    """

    image: EncodedImage
    number: int = 1
    earlier: tuple[EncodedImage, ...] = ()
    history: tuple[Turn, ...] = ()

    @property
    def step(self) -> int:
        """The place of the next edit in its trip, counted from 0."""
        return len(self.earlier)

    def after(self, step: Step, answer: EncodedImage) -> Position:
        """Return the position after `step` is answered; the history is unchanged."""
        if step.restores:
            return Position(answer, step.trip + 1, (), self.history)
        return Position(answer, step.trip, (*self.earlier, self.image), self.history)


@dataclass(frozen=True)
class Plan:
    """The steps of one chain; `pair` has the wording of the arm already."""

    pair: EditPair
    trips: int
    seed: Seed
    arm: Arm = DEFAULT
    annotations: Annotations = field(default=UNANNOTATED)

    @property
    def is_conversation(self) -> bool:
        """Return True if each edit is sent with all edits before it."""
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
        """Yield the remaining steps, the next one first."""
        place = position.step
        for trip in range(position.number, self.trips + 1):
            for following in range(place, len(self.pair.trip(trip))):
                yield self.step(trip, following)
            place = 0

    def cleaned(self, position: Position) -> Position:
        """Return the position with the first image of its trip cleaned up by the arm."""
        if position.number == 1 or position.number > self.trips or not self.arm.cleanup:
            return position
        if position.earlier:
            first, *others = position.earlier
            return replace(position, earlier=(self.arm.cleaned(first), *others))
        return replace(position, image=self.arm.cleaned(position.image))
