"""Ten questions for one voter, and their answers: each ticket is answered once."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import Exists, F, OuterRef
from django.utils import timezone

from evaluation.untrusted_json import bounded
from leaderboard.models import Question, Vote, Voter
from leaderboard.models.votes import Kind, new_ticket

LENGTH = 10
#: Of the ten: a known answer, and an own question again with its sides exchanged.
GOLDS, REPEATS = 1, 1
#: With fewer open questions nobody is asked.
LEAST = 3
#: Looked at for one session: the first by their turn.
LOOKED_AT = 60
#: How far a question moves back each time it is asked.
BACK = 0.25
#: A repeat comes at least so many questions later.
APART = 3
#: Kept of what a page says of itself.
LONGEST_SECONDS = 3600.0
#: By kind, what the page may answer.
ANSWERS: Mapping[str, frozenset[str]] = {
    Kind.PAIR: frozenset({"left", "right", "neither"}),
    Kind.USABLE: frozenset({"yes", "no"}),
}
# Sides, order and golds must not be foreseen.
_lot = random.SystemRandom()


class NotAccepted(ValueError):
    """An answer that is not taken; the message is written for people."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def open_session(voter: Voter, kind: str) -> list[Vote]:
    """What the voter still has to answer of the last session; nobody holds more tickets."""
    last = Vote.objects.open().filter(voter=voter, kind=kind).order_by("-pk").first()
    if last is None:
        return []
    return list(
        Vote.objects.open()
        .filter(session=last.session)
        .select_related("question__case__picture__stored")
        .order_by("place")
    )


@transaction.atomic
def start(voter: Voter, kind: str) -> list[Vote]:
    """A session of the most informative open questions; empty where there are too few.

    Of two that one voter begins at once the second is the first again: nobody is asked twice.
    """
    if left := _own_turn(voter, kind):
        return left
    asked = Vote.objects.filter(voter=voter, question=OuterRef("pk"))
    free = Question.objects.open().votable().filter(~Exists(asked), kind=kind)
    free = free.select_related("case__picture__stored").order_by("due")
    golds = list(free.exclude(gold="")[:LOOKED_AT])
    ordinary = _varied(list(free.filter(gold="")[:LOOKED_AT]), LENGTH - GOLDS - REPEATS)
    if len(ordinary) < LEAST:
        return []
    made = [_vote(voter, question) for question in ordinary]
    _lot.shuffle(made)
    for question in _lot.sample(golds, min(GOLDS, len(golds))):
        gold = _vote(voter, question, Vote.Role.GOLD)
        made.insert(_lot.randrange(len(made) + 1), gold)
    if len(made) > APART:
        _repeat(made)
    return _stored(made)


def _own_turn(voter: Voter, kind: str) -> list[Vote]:
    """What was begun for this voter meanwhile; nothing else is begun before our transaction ends."""
    Voter.objects.select_for_update().get(pk=voter.pk)
    return open_session(voter, kind)


def _varied(questions: Sequence[Question], most: int) -> list[Question]:
    """Of the first by their turn, some that show different cases, as far as there are."""
    # Not always the very first: voters at one moment shall not all see the same.
    pool = sorted(questions, key=lambda question: (question.due or 0) + 0.1 * _lot.random())
    chosen: list[Question] = []
    for again in (False, True):
        for question in pool:
            if len(chosen) < most and question not in chosen:
                fresh = all(question.case_id != other.case_id for other in chosen)
                if fresh or again:
                    chosen.append(question)
    return chosen


def _vote(voter: Voter, question: Question, role: str = "") -> Vote:
    return Vote(
        voter=voter,
        question=question,
        kind=question.kind,
        role=role,
        first_left=_lot.random() < 0.5,
    )


def _repeat(made: list[Vote]) -> None:
    """Have the easiest question of the first ones come again, its sides exchanged."""
    early = [vote for vote in made[: len(made) - APART + 1] if not vote.role]
    if not early:
        return
    own = max(early, key=lambda vote: vote.question.ease)
    again = Vote(
        voter=own.voter,
        question=own.question,
        kind=own.kind,
        role=Vote.Role.REPEAT,
        first_left=not own.first_left,
    )
    made.insert(_lot.randint(made.index(own) + APART, len(made)), again)


def _stored(made: list[Vote]) -> list[Vote]:
    session, now = new_ticket(), timezone.now()
    for place, vote in enumerate(made):
        vote.session, vote.place, vote.asked_at = session, place, now
    Vote.objects.bulk_create(made)
    keys = {vote.question_id for vote in made}
    rows = Question.objects.filter(pk__in=keys)
    rows.update(asked=F("asked") + 1, due=F("due") + BACK)
    return made


def answer(
    vote: Vote, said: str, seconds: Any = None, looked: Mapping[str, Any] | None = None
) -> None:
    """Write the answer of an open ticket, once; NotAccepted where it is none."""
    if said not in ANSWERS[vote.kind]:
        allowed = ", ".join(sorted(ANSWERS[vote.kind]))
        raise NotAccepted(f"answer: {said[:20]!r} is not one of {allowed}", 422)
    if vote.answered_at is None and not vote.is_open:
        raise NotAccepted("This question was asked too long ago; please start anew.", 410)
    taken = Vote.objects.open().filter(pk=vote.pk)
    if not taken.update(
        answer=_number(said, vote.first_left),
        answered_at=timezone.now(),
        seconds=_seconds(seconds),
        looked=_looked(looked or {}),
    ):
        raise NotAccepted("This question has been answered already.", 409)


def _number(said: str, first_left: bool) -> int:
    side = 1 if first_left else -1
    return {"yes": 1, "no": 0, "neither": 0, "left": side, "right": -side}[said]


def _seconds(value: Any) -> float | None:
    found = bounded(value, LONGEST_SECONDS)
    return None if found is None else round(found, 3)


def _looked(told: Mapping[str, Any]) -> dict[str, Any]:
    """How the voter looked: zoom and flicker used, and the window's width to the nearest 100."""
    width = told.get("width")
    known = isinstance(width, int) and not isinstance(width, bool) and 0 < width < 20_000
    return {
        "zoom": told.get("zoom") is True,
        "flicker": told.get("flicker") is True,
        **({"width": round(width / 100) * 100} if known else {}),  # type: ignore[operator]
    }


def is_finished(session: str, voter: Voter) -> bool:
    """Whether every question of this voter's session has its answer."""
    own = Vote.objects.filter(session=session, voter=voter)
    return own.exists() and not own.filter(answered_at=None).exists()
