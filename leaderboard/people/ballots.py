"""Ballots: voters, the ten questions of a session, their answers and images.

A voter is a signed cookie with a random number and nothing else. No image reveals its model: it
is drawn again from its pixels at the size of the source, with no chunk but pixels; its length is
rounded up; it is stored under a name that only this site can derive. The pixels themselves
cannot be hidden: a comparison with every image of the public pages identifies the image.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.files.storage import default_storage
from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.crypto import salted_hmac

from evaluation.images import encode_webp, fit
from evaluation.untrusted_json import bounded
from leaderboard.models import Question, StoredImage, Vote, Voter
from leaderboard.models.images import decoding, write
from leaderboard.models.votes import Kind, new_ticket
from leaderboard.people.questions import HARD, VISIBLE

COOKIE, SALT, PATH = "voter", "leaderboard.people.voter", "/vote/"
YEAR = 365 * 24 * 3600


def voter_key(request: HttpRequest) -> str | None:
    """Return the key in the signed cookie; None for a new visitor or a forged cookie."""
    return request.get_signed_cookie(COOKIE, default=None, salt=SALT, max_age=YEAR)  # type: ignore[no-any-return]


def voter_of(request: HttpRequest) -> Voter | None:
    key = voter_key(request)
    return Voter.objects.filter(key=key).first() if key else None


def remember(response: HttpResponse, voter: Voter) -> None:
    """Set the voter's cookie, for the pages of votes alone."""
    response.set_signed_cookie(
        COOKIE,
        voter.key,
        salt=SALT,
        max_age=YEAR,
        path=PATH,
        httponly=True,
        samesite="Lax",
        secure=settings.HTTPS,
    )


LENGTH = 10
#: Of the ten: questions with a known answer, and repeats with the sides exchanged.
GOLDS, REPEATS = 1, 1
#: With fewer open questions no session starts.
LEAST = 3
#: Open questions read for one session: the first in order of `due`.
LOOKED_AT = 60
#: A question moves back so far each time it is shown.
BACK = 0.25
#: A repeat comes at least so many questions later.
APART = 3
#: Upper limit of the seconds that a page reports.
LONGEST_SECONDS = 3600.0
#: Answers that the page may send, by kind of question.
ANSWERS: Mapping[str, frozenset[str]] = {
    Kind.PAIR: frozenset({"left", "right", "neither"}),
    Kind.USABLE: frozenset({"yes", "no"}),
}
# Voters must not be able to predict sides, order and golds.
_lot = random.SystemRandom()


class NotAccepted(ValueError):
    """An answer that is rejected; the message is written for people."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def open_session(voter: Voter, kind: str) -> list[Vote]:
    """Return the open tickets of the voter's last session."""
    last = Vote.objects.open().filter(voter=voter, kind=kind).order_by("-pk").first()
    if last is None:
        return []
    return list(
        Vote.objects.open()
        .filter(session=last.session)
        .select_related("question__case__image__stored")
        .order_by("place")
    )


@transaction.atomic
def start(voter: Voter, kind: str) -> list[Vote]:
    """Start a session of the most informative open questions; [] if they are too few.

    If a voter starts two sessions at once, the second call returns the first session.
    """
    if left := _locked_session(voter, kind):
        return left
    shown = Vote.objects.filter(voter=voter, question=OuterRef("pk"))
    free = Question.objects.open().votable().filter(~Exists(shown), kind=kind)
    free = free.select_related("case__image__stored").order_by("due")
    golds = list(free.exclude(gold="")[:LOOKED_AT])
    ordinary = _ordinary(free.filter(gold=""), kind, LENGTH - GOLDS - REPEATS)
    if len(ordinary) < LEAST:
        return []
    votes = [_vote(voter, question) for question in ordinary]
    _lot.shuffle(votes)
    for question in _lot.sample(golds, min(GOLDS, len(golds))):
        gold = _vote(voter, question, Vote.Role.GOLD)
        votes.insert(_lot.randrange(len(votes) + 1), gold)
    if len(votes) > APART:
        _repeat(votes)
    return _stored(votes)


def _locked_session(voter: Voter, kind: str) -> list[Vote]:
    """Lock the voter and return the session that began meanwhile."""
    Voter.objects.select_for_update().get(pk=voter.pk)
    return open_session(voter, kind)


def _ordinary(free: QuerySet[Question], kind: str, most: int) -> list[Question]:
    """Return the session's ordinary questions: of pairs, most differ visibly."""
    if kind != Kind.PAIR:
        return _varied(list(free[:LOOKED_AT]), most)
    visible = list(free.filter(ease__gte=VISIBLE)[:LOOKED_AT])
    hard = list(free.filter(ease__lt=VISIBLE)[:LOOKED_AT])
    few = _varied(hard, max(round(most * HARD), most - len(visible)))
    return [*_varied(visible, most - len(few)), *few]


def _varied(questions: Sequence[Question], most: int) -> list[Question]:
    """Choose questions of different cases among the first, as far as there are."""
    # Not always the very first: simultaneous voters must not all see the same questions.
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
    """Insert the easiest of the early questions again, with its sides exchanged."""
    early = [vote for vote in made[: len(made) - APART + 1] if not vote.role]
    if not early:
        return
    easiest = max(early, key=lambda vote: vote.question.ease)
    again = Vote(
        voter=easiest.voter,
        question=easiest.question,
        kind=easiest.kind,
        role=Vote.Role.REPEAT,
        first_left=not easiest.first_left,
    )
    made.insert(_lot.randint(made.index(easiest) + APART, len(made)), again)


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
    """Store the answer of an open ticket, once. Raises NotAccepted if it is invalid."""
    if said not in ANSWERS[vote.kind]:
        allowed = ", ".join(sorted(ANSWERS[vote.kind]))
        raise NotAccepted(f"answer: {said[:20]!r} is not one of {allowed}", 422)
    if vote.answered_at is None and not vote.is_open:
        raise NotAccepted("This question has expired. Please start again.", 410)
    ticket = Vote.objects.open().filter(pk=vote.pk)
    if not ticket.update(
        answer=_number(said, vote.first_left),
        answered_at=timezone.now(),
        seconds=_seconds(seconds),
        looked=_looked(looked or {}),
    ):
        raise NotAccepted("This question is already answered.", 409)


def _number(said: str, first_left: bool) -> int:
    side = 1 if first_left else -1
    return {"yes": 1, "no": 0, "neither": 0, "left": side, "right": -side}[said]


def _seconds(value: Any) -> float | None:
    number = bounded(value, LONGEST_SECONDS)
    return None if number is None else round(number, 3)


def _looked(reported: Mapping[str, Any]) -> dict[str, Any]:
    """Return the use of zoom and flicker, and the window's width to the nearest 100."""
    width = reported.get("width")
    valid = isinstance(width, int) and not isinstance(width, bool) and 0 < width < 20_000
    return {
        "zoom": reported.get("zoom") is True,
        "flicker": reported.get("flicker") is True,
        **({"width": round(width / 100) * 100} if valid else {}),  # type: ignore[operator]
    }


def is_finished(session: str, voter: Voter) -> bool:
    """Return True if every question of this voter's session has its answer."""
    votes = Vote.objects.filter(session=session, voter=voter)
    return votes.exists() and not votes.filter(answered_at=None).exists()


FOLDER = "ballots"
#: Lengths are multiples of this: padded with zeros, which no decoder reads.
ROUNDED = 32 * 1024
#: Images older than this are removed; they are drawn again on request.
KEPT = timedelta(days=2)


def image_name(stored: StoredImage, size: tuple[int, int]) -> str:
    value = f"{stored.pk}:{size[0]}x{size[1]}"
    digest = salted_hmac("leaderboard.people.ballots", value, algorithm="sha256").hexdigest()
    return f"{FOLDER}/{digest[:2]}/{digest}.webp"


def read_image(stored: StoredImage, size: tuple[int, int]) -> bytes:
    """Return the image at this size.

    Raises FileNotFoundError if it is missing, ImageError if it is broken.
    """
    file = image_name(stored, size)
    try:
        with default_storage.open(file) as stream:
            return stream.read()
    except FileNotFoundError:
        with decoding:
            data = draw_image(stored, size)
        write(file, data)
        return data


def draw_image(stored: StoredImage, size: tuple[int, int]) -> bytes:
    data = encode_webp(fit(stored.read().decoded, size))
    return data + bytes(-len(data) % ROUNDED)


def prepare_image(stored: StoredImage, size: tuple[int, int]) -> None:
    """Draw the image in advance, so that no voter waits for it."""
    if not default_storage.exists(image_name(stored, size)):
        write(image_name(stored, size), draw_image(stored, size))


def forget_images() -> int:
    """Remove images drawn days ago and return their number."""
    removed, before = 0, timezone.now() - KEPT
    try:
        shards, _ = default_storage.listdir(FOLDER)
    except FileNotFoundError:
        return 0
    for shard in shards:
        for file in default_storage.listdir(f"{FOLDER}/{shard}")[1]:
            path = f"{FOLDER}/{shard}/{file}"
            try:
                if default_storage.get_modified_time(path) < before:
                    default_storage.delete(path)
                    removed += 1
            except FileNotFoundError:
                continue
    return removed
