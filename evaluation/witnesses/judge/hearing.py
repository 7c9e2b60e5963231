"""Which of a chain's trips a judge is asked about, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from evaluation.content.suites import EditPair, ticks
from evaluation.images import Picture
from evaluation.witnesses.base import TripToJudge
from evaluation.witnesses.judge.judge import Judge

#: The pictures of one trip: before, edited, returned; None where one of them is not kept.
ReadTrip = Callable[[int], tuple[Picture, Picture, Picture] | None]


def hear_chain(
    judge: Judge, source: Picture, trips: int, read: ReadTrip, pair: EditPair, about: str
) -> dict[int, list[dict[str, Any]]]:
    """By trip, the judge's evidence: of the trips that people read; the rubric of the first.

    Its first and its last return are laid beside each other in both orders, which tells
    whether the judge prefers what it is shown first.
    """
    found: dict[int, list[dict[str, Any]]] = {}
    returned: list[Picture] = []
    for number in ticks(trips) if trips else ():
        if judge.silent:
            break
        pictures = read(number)
        if pictures is None:
            continue
        # Of a trip of many steps the first edit is asked about, and whether all is back.
        moves = pair.trip(number).moves
        own = pair.of_move(number, moves[0]) if moves else pair
        trip = TripToJudge(source, *pictures, own)
        name = f"{about}, trip {number}"
        said = [judge.look(trip, name)]
        if number == 1 and own.change != "none":
            said.append(judge.rubric(trip, name))
        found[number] = [one.to_dict() for one in said if one]
        returned.append(pictures[2])
    if len(returned) > 1 and not judge.silent:
        judge.closer(source, returned[0], returned[-1], about)
    return found


def with_judge(evidence: Sequence[Any], heard: Sequence[dict[str, Any]]) -> list[Any]:
    """The evidence of a trip with the judge's, which replaces what it said before."""
    return [*(one for one in evidence if one["witness"] != Judge.name), *heard]
