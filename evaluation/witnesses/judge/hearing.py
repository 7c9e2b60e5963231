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


#: The trips after which a picture is asked about outright, and the last.
WORN_AT = (1, 2, 3, 5, 10, 20)


def ask_worn(
    judge: Judge,
    source: Picture,
    trips: int,
    read: Callable[[int], Picture | None],
    about: str,
) -> list[float | None]:
    """Whether the source and each of these returns looks worn to the judge, shown alone.

    1 is yes; None where it was not asked, or did not tell. What it says of sources, which nobody
    edited, is its rate of false alarms; a source is paid for once, however many chains it has.
    """
    found: list[float | None] = [None] * (trips + 1)
    for number in (0, *(n for n in range(1, trips + 1) if n in WORN_AT or n == trips)):
        if judge.silent:
            break
        picture = read(number) if number else source
        if picture is not None:
            found[number] = judge.worn(picture, f"{about}, trip {number}")
    return found


def with_judge(evidence: Sequence[Any], heard: Sequence[dict[str, Any]]) -> list[Any]:
    """The evidence of a trip with the judge's, which replaces what it said before."""
    return [*(one for one in evidence if one["witness"] != Judge.name), *heard]
