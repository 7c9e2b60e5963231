"""Compile a chain into its steps before it is played.

A chain is one image with its round trips of edits. The plan applies the edit pair's order of edits
and degradations, and the run's seeds. It also applies the wording, settings and clean-up of the
experiment's arm (a variant of the suite's settings). The loop in round_trips.py only plays the
steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from evaluation.arms import CONVERSATION, DEFAULT, Arm
from evaluation.content.annotations import UNANNOTATED, Annotations
from evaluation.content.suites import EditPair
from evaluation.editors.base import EditSettings, Turn
from evaluation.images import EncodedImage
from evaluation.run_secret import SeedFunction


@dataclass(frozen=True)
class Step:
    """One edit of a chain: edit number `place` (from 0) of trip `trip`.

    With an `operator`, the benchmark degrades the image and makes no call. `back_to` is the index
    within the trip of the image to restore; None if this edit should not restore any.
    """

    trip: int
    place: int
    name: str
    prompt: str
    seed: int | None
    settings: EditSettings
    operator: str = ""
    back_to: int | None = None
    #: True for the last edit of a trip, after which the image should be restored.
    restores: bool = False
    #: True if the input is the source, a degraded or a cleaned-up image, not the last answer.
    has_new_input: bool = False

    @property
    def is_synthetic(self) -> bool:
        """Return True if the benchmark makes the answer itself, without a call."""
        return bool(self.operator)


@dataclass(frozen=True)
class Position:
    """The point that a chain has reached: the image to edit next, and the number of its trip.

    `earlier` lists the previous images of this trip, starting with the trip's first image.
    `history` lists all earlier edits if the arm is a conversation.
    """

    image: EncodedImage
    trip: int = 1
    earlier: tuple[EncodedImage, ...] = ()
    history: tuple[Turn, ...] = ()

    @property
    def place(self) -> int:
        """The number of the next edit in its trip, counted from 0."""
        return len(self.earlier)

    def after(self, step: Step, answer: EncodedImage) -> Position:
        """Return the position after the answer to `step`, without extending the history."""
        if step.restores:
            return Position(answer, step.trip + 1, (), self.history)
        return Position(answer, step.trip, (*self.earlier, self.image), self.history)


@dataclass(frozen=True)
class Plan:
    """The steps of one chain; `pair` is already in the wording of the arm."""

    pair: EditPair
    trips: int
    seed: SeedFunction
    arm: Arm = DEFAULT
    annotations: Annotations = field(default=UNANNOTATED)

    @property
    def is_conversation(self) -> bool:
        """Return True if each request contains all earlier edits."""
        return self.arm.session == CONVERSATION

    def step(self, trip: int, place: int) -> Step:
        """Return one step of the chain."""
        steps = self.pair.trip(trip).steps
        edit = steps[place]
        follows_synthetic = place > 0 and bool(steps[place - 1].operator)
        starts_anew = place == 0 and (trip == 1 or bool(self.arm.cleanup))
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
            has_new_input=starts_anew or follows_synthetic,
        )

    def steps_from(self, position: Position) -> Iterator[Step]:
        """Yield the remaining steps, the next one first."""
        place = position.place
        for trip in range(position.trip, self.trips + 1):
            for following in range(place, len(self.pair.trip(trip))):
                yield self.step(trip, following)
            place = 0

    def cleaned(self, position: Position) -> Position:
        """Return the position with the first image of its trip cleaned up, if the arm says so."""
        if position.trip == 1 or position.trip > self.trips or not self.arm.cleanup:
            return position
        if position.earlier:
            first, *others = position.earlier
            return replace(position, earlier=(self.arm.cleaned(first), *others))
        return replace(position, image=self.arm.cleaned(position.image))
