"""Chain shapes: trips of more than a forward and a backward edit.

A shape is a sequence of letters. A capital is an edit, and its small letter undoes that edit. `=`
ends a trip: the image should be the source again, and its retention is measured. A final `=` may be
omitted.

    A B b a         add two things, remove them in reverse order
    A a = B b       the same edits, each undone at once: two trips
    F F F F         four quarter turns
    A B C c b a     add three things one by one, remove them one by one
    A B a           a session: add something, change it, remove it
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from evaluation.content.operators import OPERATORS

#: The names of the first and last step of every trip, as in a round trip.
FORWARD, BACKWARD = "forward", "backward"
MIN_STEPS, MAX_STEPS, MAX_TRIPS = 2, 12, 4
CHANGES = ("exact", "local", "none")
LONGEST_PROMPT = 1000
_TOKEN = re.compile(r"[A-Za-z]|=")


@dataclass(frozen=True)
class Step:
    """The edit of one letter of a shape: its prompt and the expected change."""

    name: str
    prompt: str
    change: str = "none"  # as in EditPair; "none" for a step that only undoes
    operator: str = ""
    object: str = ""
    witness: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch("[A-Za-z]", self.name):
            raise ValueError(f"steps: the name {self.name!r} is not one letter")
        where = f"steps: {self.name}"
        if not self.prompt.strip() or len(self.prompt) > LONGEST_PROMPT:
            raise ValueError(f"{where}: prompt is empty or longer than {LONGEST_PROMPT} characters")
        if self.change not in CHANGES:
            raise ValueError(f"{where}: change is {self.change!r}, not one of {', '.join(CHANGES)}")
        if (self.change == "exact") != (self.operator in OPERATORS):
            raise ValueError(f"{where}: an exact step must have an operator, other steps must not")
        if self.change == "local" and not self.object.strip():
            raise ValueError(f"{where}: a local step must name its object")
        if self.name.islower() and self.change != "none":
            raise ValueError(f"{where}: a small letter only undoes; its change must be none")


@dataclass(frozen=True)
class TripStep:
    """One step of a trip as it is played.

    `name` is used in seeds, files and the list of calls, and is unique in its trip. `back_to` is
    the index of the image to restore (0: the trip's first image, k: the answer to the k-th step);
    None if this step should restore no image. With an `operator`, the benchmark degrades the image
    (evaluation.content.operators) and makes no call.
    """

    name: str
    letter: str
    prompt: str
    back_to: int | None = None
    operator: str = ""


@dataclass(frozen=True)
class Move:
    """An edit that can be judged, with the indices of its images in the trip.

    `restored` is the image after the step that undid the edit; None if no single step did.
    """

    letter: str
    before: int
    edited: int
    restored: int | None


@dataclass(frozen=True)
class TripShape:
    """The steps of one trip, and the edits among them that can be judged."""

    steps: tuple[TripStep, ...]
    moves: tuple[Move, ...]

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def edits(self) -> int:
        """The number of steps that the model makes."""
        return sum(not step.operator for step in self.steps)


def round_trip(forward: str, backward: str, operator: str = "") -> TripShape:
    """Return the default shape of a pair: forward, backward.

    With an `operator` the benchmark makes the forward edit.
    """
    first = TripStep(FORWARD, "", forward, operator=operator)
    steps = (first, TripStep(BACKWARD, "", backward, back_to=0))
    return TripShape(steps, (Move("", 0, 1, 2),))


def trip_shapes(shape: str, steps: tuple[Step, ...]) -> tuple[TripShape, ...]:
    """Return the trips of a shape, in order. Raises ValueError if the shape is invalid."""
    by_name = {step.name: step for step in steps}
    if len(by_name) < len(steps):
        raise ValueError("steps: a letter has two prompts")
    letters = _letters(shape)
    named = {letter for trip in letters for letter in trip}
    if unknown := sorted(named - by_name.keys()):
        raise ValueError(f"shape: {', '.join(unknown)} has no prompt in steps")
    if unused := sorted(by_name.keys() - named):
        raise ValueError(f"steps: {', '.join(unused)} is not in the shape")
    return tuple(_trip(trip, by_name) for trip in letters)


def _letters(shape: str) -> list[list[str]]:
    """Parse a shape into the letters of each trip. Raises ValueError if the shape is invalid."""
    if left := _TOKEN.sub("", shape).strip():
        raise ValueError(f"shape: {left[:20]!r} is neither a letter nor =")
    trips = [_TOKEN.findall(part) for part in shape.split("=")]
    if not trips[-1]:
        trips.pop()
    if not 1 <= len(trips) <= MAX_TRIPS:
        raise ValueError(f"shape: it has {len(trips)} trips; it must have 1 to {MAX_TRIPS}")
    for trip in trips:
        if not MIN_STEPS <= len(trip) <= MAX_STEPS:
            raise ValueError(
                f"shape: {' '.join(trip) or 'a trip'} has {len(trip)} steps; a trip needs "
                f"{MIN_STEPS} to {MAX_STEPS}"
            )
        for place, letter in enumerate(trip):
            if letter.islower() and letter.upper() not in trip[:place]:
                raise ValueError(
                    f"shape: {letter} undoes {letter.upper()}, but {letter.upper()} is not before it"
                )
    return trips


def _trip(letters: list[str], by_name: dict[str, Step]) -> TripShape:
    steps: list[TripStep] = []
    open_edits: list[tuple[str, int]] = []  # letter, and the number of its step
    undone: dict[int, int] = {}
    last = len(letters)
    for number, letter in enumerate(letters, start=1):
        name = FORWARD if number == 1 else BACKWARD if number == last else f"{number}-{letter}"
        back_to = 0 if number == last else None
        if letter.isupper():
            open_edits.append((letter, number))
        else:
            made = max((m for name, m in open_edits if name == letter.upper()), default=None)
            if made is None:
                raise ValueError(f"shape: {letter} undoes {letter.upper()} twice")
            undone[made] = number
            if open_edits[-1][1] == made and back_to is None:
                back_to = made - 1
            open_edits = [edit for edit in open_edits if edit[1] != made]
        steps.append(TripStep(name, letter, by_name[letter].prompt, back_to))
    moves = []
    for number, letter in enumerate(letters, start=1):
        step = by_name[letter]
        if letter.isupper() and step.change != "none":
            # A local edit without its own undoing step must be gone at the end of the trip. A turn
            # among turns is not undone by a single step.
            default = last if step.change == "local" and number < last else None
            moves.append(Move(letter, number - 1, number, undone.get(number, default)))
    return TripShape(tuple(steps), tuple(moves))
