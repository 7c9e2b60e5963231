"""Play the steps of a chain in order: the central loop of the benchmark.

The loop knows nothing of files, databases, retries, scores or kinds of suites.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from evaluation.content.operators import DEGRADATIONS, VERSION, degraded
from evaluation.editors.base import Answer, EditContext, Turn
from evaluation.images import EncodedImage, clean_wire
from evaluation.play.plan import Plan, Position, Step


class EditStep(Protocol):
    """A function that sends one step to the editor."""

    def __call__(self, image: EncodedImage, step: Step, context: EditContext) -> Answer: ...


@dataclass(frozen=True)
class AnsweredStep:
    """A step and the answer to it."""

    step: Step
    answer: Answer


def round_trips(plan: Plan, edit: EditStep, start: Position) -> Iterator[AnsweredStep]:
    """Yield each answered step before making the next call.

    To resume a chain, start from its last answer.
    """
    position, history = plan.cleaned(start), start.history
    for step in plan.steps_from(start):
        if step.is_synthetic:
            answer = degrade(step, position.image)
        else:
            settings = replace(step.settings, history=history if plan.is_conversation else None)
            before = None if step.back_to is None else position.earlier[step.back_to]
            answer = edit(position.image, step, EditContext(before, plan.annotations, settings))
        yield AnsweredStep(step, answer)
        if plan.is_conversation and not step.is_synthetic:
            history = (*history, turn(step, answer.image, position.image))
        position = position.after(step, answer.image)
        if step.restores:
            position = plan.cleaned(position)


def degrade(step: Step, image: EncodedImage) -> Answer:
    """Answer a step that degrades the image; equal images give equal answers."""
    started = time.perf_counter()
    answer = degraded(step.operator, image, step.trip)
    words = f"{DEGRADATIONS[step.operator].title}, version {VERSION}"
    return Answer(answer, time.perf_counter() - started, 0.0, {"made by us": words})


def turn(step: Step, answer: EncodedImage, sent: EncodedImage) -> Turn:
    """Return an edit as a turn of a conversation, with images cleaned like all that are sent."""
    return Turn(step.prompt, clean_wire(answer), clean_wire(sent) if step.has_new_input else None)


def history(plan: Plan, source: EncodedImage, answers: Iterable[EncodedImage]) -> tuple[Turn, ...]:
    """Rebuild the conversation so far from a chain's answers, in order."""
    turns: list[Turn] = []
    position = Position(source)
    for step, answer in zip(plan.steps_from(position), answers, strict=False):
        if step.place == 0:
            position = plan.cleaned(position)
        if not step.is_synthetic:
            turns.append(turn(step, answer, position.image))
        position = position.after(step, answer)
    return tuple(turns)
