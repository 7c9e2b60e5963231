"""A tour in one minute: what a round trip is, on one real strip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard import formatting
from leaderboard.board.example import Example, example
from leaderboard.board.query import BoardQuery
from leaderboard.board.rows import RANKED, YARDSTICK, board_rows, stamp
from leaderboard.models import StoredImage
from leaderboard.page_cache import keep_page
from leaderboard.views.board import examples


@dataclass(frozen=True)
class Stop:
    """One moment of the tour: pictures, the newest last, and what is said."""

    pictures: Sequence[tuple[StoredImage, str]]
    title: str
    text: str = ""


@require_safe
@keep_page(stamp)
def index(request: HttpRequest) -> HttpResponse:
    asked = BoardQuery.parse({})
    found = None
    if asked:
        rows = board_rows(asked.filters, asked.runs)
        ranked, known = ([r for r in rows if r.group == group] for group in (RANKED, YARDSTICK))
        found = example(examples(ranked, known), asked.filters)
    context = {"stops": stops(found) if found else [], "example": found}
    return render(request, "leaderboard/tour.html", context)


def stops(found: Example) -> list[Stop]:
    """What is said of the example's pictures, one after the other."""
    case, name = found.chain.case, found.row.model.name
    source, edited, *returns = found.steps
    first = returns[0]
    before = (source.picture, "source")
    told = [
        Stop([before], "A picture.", "It is the source: what comes back is measured against it."),
        Stop(
            [before, (edited.picture, "edited")],
            f"“{case.forward}”",
            f"{name} is asked to change it.",
        ),
        Stop(
            [before, (first.picture, "undone")],
            f"“{case.backward}”",
            "And to take the change back. That was one round trip."
            + (f" {_kept(first.kept)}" if first.kept is not None else ""),
        ),
    ]
    for step in returns[1:]:
        told.append(
            Stop(
                [before, (step.picture, step.words)],
                f"The same again and again: {step.words}.",
                _kept(step.kept) if step.kept is not None else "",
            )
        )
    return [*told, *_meaning(found)]


def _kept(share: float) -> str:
    kept = formatting.percent(max(0.0, share))
    return f"{kept} of the picture is kept."


def _meaning(found: Example) -> list[Stop]:
    ends = [(found.steps[0].picture, "source"), (found.steps[-1].picture, found.steps[-1].words)]
    trips = found.row.filters.suite.trips
    life = found.row.standing.half_life if found.row.standing else None
    lasts = formatting.in_trips(life, trips)
    return [
        Stop(
            ends,
            "How much is kept?",
            "100 % is the source itself; at 0 % a card of one colour would be as like it. "
            "The worst place, the colours and the face count, too.",
        ),
        Stop(
            ends,
            "How long does a picture last?",
            "Until half of it is lost, or the edit is not made. Over many pictures and edits that "
            f"is the half-life: {found.row.model.name} lasts {lasts}.",
        ),
    ]
