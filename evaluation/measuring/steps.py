"""What each step of a trip made of the picture, where a trip has more than there and back."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.content.suites import Case, EditPair, Suite
from evaluation.images import Picture, fit
from evaluation.measuring.change_seen import ChangeSeen, change_seen
from evaluation.metrics.base import Subject
from evaluation.metrics.psnr import mse
from evaluation.witnesses import TripToJudge
from evaluation.witnesses.base import asked
from evaluation.witnesses.coco import detector
from evaluation.witnesses.panel import Panel

#: A detector counts what it is at least so sure of.
SURE = 0.2
#: A chain's picture: case, repeat, trip, and 0 for what the trip began with or k for the answer to
#: its k-th step; None where the chain did not come so far.
ReadStep = Callable[[Case, int, int, int], Picture | None]


def measure_steps(
    source: Picture,
    pictures: Sequence[Picture],
    pair: EditPair,
    number: int,
    panel: Panel | None,
    subject: Subject | None,
) -> tuple[ChangeSeen, list[dict[str, Any]], list[dict[str, Any]]]:
    """The verdict on all edits of trip `number` together, what witnesses say of each, and a row
    for each step.

    `pictures` are what the trip began with and the answers to its steps. The change was seen
    where that of every edit was. A step's row says under `seen` whether its own was (None: not
    judged), under `back` how far the picture is (RMSE) from the one that should be here again,
    and under `wanted` and `counted` how many things should be there, and how many a detector
    finds more than in the source.
    """
    shape = pair.trip(number)
    rows: list[dict[str, Any]] = [
        {"name": step.name, "letter": step.letter, "seen": None} for step in shape.steps
    ]
    evidence: list[dict[str, Any]] = []
    measure: dict[str, float] = {}
    for move in shape.moves:
        own = pair.of_move(number, move)
        before, edited = pictures[move.before], pictures[move.edited]
        found = change_seen(before.image, edited.image, own)
        rows[move.edited - 1]["seen"] = found.seen
        measure |= {f"{move.edited}-{name}": value for name, value in found.measure.items()}
        if panel is not None:
            returned = None if move.returned is None else pictures[move.returned]
            trip = TripToJudge(source, before, edited, returned, own, subject or Subject())
            evidence += [{**one, "step": move.edited} for one in panel.hear(trip)]
    for place, step in enumerate(shape.steps, start=1):
        if step.back_to is not None:
            rows[place - 1]["back"] = round(distance(pictures[step.back_to], pictures[place]), 6)
    if panel is not None and "detector" in panel.witnesses:
        _count(rows, source, pictures, pair, number)
    seen = [row["seen"] for row in rows if row["seen"] is not None]
    return ChangeSeen(all(seen) if seen else None, measure), evidence, rows


def _count(
    rows: list[dict[str, Any]],
    source: Picture,
    pictures: Sequence[Picture],
    pair: EditPair,
    number: int,
) -> None:
    """Add to each row how many things should be there by then, and how many are found."""
    shape = pair.trip(number)
    things = {
        move.edited: (thing, move.returned)
        for move in shape.moves
        if (thing := asked(pair.of_move(number, move), "detector"))
    }
    if len(things) < len(shape.moves) or not things:
        return  # a count without some of what was asked for would say nothing

    def shown(picture: Picture) -> Counter[str]:
        found = detector().things(picture.image)
        return Counter(one.name for one in found if one.sure >= SURE)

    kinds, there = {thing for thing, _ in things.values()}, shown(source)
    for place, row in enumerate(rows, start=1):
        row["wanted"] = sum(
            made <= place and (back is None or back > place) for made, (_, back) in things.items()
        )
        here = shown(pictures[place])
        row["counted"] = sum(max(0, here[kind] - there[kind]) for kind in kinds)


def compare_orders(suite: Suite, read: ReadStep) -> list[dict[str, Any]]:
    """How far the pictures of two shapes are apart where both should show the same.

    A pair that is laid against another (`against`) is compared with it on every picture that
    both are played on, wherever the same edits are standing after as many edits: with A and B
    made in either order (the commutator distance of A and B), and when all is taken back.
    `distance` is RMSE; `standing` is how many edits are not taken back.
    """
    rows = []
    cases = {(case.picture, case.pair): case for case in suite.cases}
    for case in suite.cases:
        pair = suite.pair_by_slug[case.pair]
        other = cases.get((case.picture, pair.against))
        if other is None:
            continue
        meetings = list(_meetings(pair, suite.pair_by_slug[other.pair], suite.trips))
        for repeat in range(min(suite.repeats_of(case), suite.repeats_of(other))):
            for edits, standing, mine, theirs in meetings:
                one, two = read(case, repeat, *mine), read(other, repeat, *theirs)
                if one is None or two is None:
                    continue
                rows.append(
                    {
                        "picture": case.picture,
                        "pair": case.pair,
                        "against": other.pair,
                        "repeat": repeat,
                        "edits": edits,
                        "standing": standing,
                        "distance": round(distance(one, two), 6),
                    }
                )
    return rows


Place = tuple[int, int]


def _meetings(
    one: EditPair, other: EditPair, trips: int
) -> Iterator[tuple[int, int, Place, Place]]:
    """After how many edits, with how many standing, and where in each."""
    both = zip(_states(one, trips), _states(other, trips), strict=False)  # the shorter one ends it
    for edits, (mine, theirs) in enumerate(both, start=1):
        if mine[0] == theirs[0]:
            yield edits, mine[0].total(), mine[1], theirs[1]


def _states(pair: EditPair, trips: int) -> Iterator[tuple[Counter[str], Place]]:
    """After each edit of a chain the prompts that are made and not taken back, and where it is."""
    prompts = {step.name: step.prompt for step in pair.steps}
    for number in range(1, trips + 1):
        standing: Counter[str] = Counter()
        for place, step in enumerate(pair.trip(number).steps, start=1):
            standing[prompts.get(step.letter.upper(), step.prompt)] += (
                1 if step.letter.isupper() else -1
            )
            if step.back_to == 0:
                standing.clear()
            yield +standing, (number, place)


def distance(one: Picture, other: Picture) -> float:
    """RMSE of two pictures, the second brought to the size of the first."""
    return rmse(np.asarray(one.image), np.asarray(fit(other.image, one.size)))


def rmse(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> float:
    """The root of the mean square difference of two pictures, of sRGB in [0, 1]."""
    return math.sqrt(mse(a, b))
