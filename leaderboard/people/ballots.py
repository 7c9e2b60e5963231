"""Ballots: voters, the ten questions of a session, their answers and images.

A voter is a signed cookie with a random number and nothing else. An image file does not reveal
its model: it is encoded again at the size of the source without metadata, its length is padded,
and only this site can derive its name. The pixels cannot be hidden: a voter who compares them with
every image on the public pages can identify the image.
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


def current_voter(request: HttpRequest) -> Voter | None:
    key = voter_key(request)
    return Voter.objects.filter(key=key).first() if key else None


def set_voter_cookie(response: HttpResponse, voter: Voter) -> None:
    """Set the voter's cookie, which is sent to the voting pages only."""
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


#: Number of questions of a session. GOLDS of them have a known answer, and REPEATS of them are
#: earlier questions again, with the sides exchanged. All others are ordinary questions.
LENGTH = 10
GOLDS, REPEATS = 1, 1
#: A session needs at least this many ordinary questions.
MIN_QUESTIONS = 3
#: Maximum number of open questions considered for a session: those with the smallest `due`.
CANDIDATES = 60
#: Added to a question's `due` each time it is shown, so that other questions come first.
DUE_STEP = 0.25
#: Smallest distance from a question to its repeat in a session.
REPEAT_DISTANCE = 3
#: Longer answering times that a page reports are stored as this time.
LONGEST_SECONDS = 3600.0
#: Answers that the page may send, by kind of question.
ANSWERS: Mapping[str, frozenset[str]] = {
    Kind.PAIR: frozenset({"left", "right", "neither"}),
    Kind.USABLE: frozenset({"yes", "no"}),
}
# Voters must not be able to predict the sides, the order and the gold questions (those with a
# known answer).
_random = random.SystemRandom()


class NotAccepted(ValueError):
    """Raised for an invalid answer; the message is shown to the voter."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def open_session(voter: Voter, kind: str) -> list[Vote]:
    """Return the unanswered questions of the voter's last session."""
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
    """Start a session of the most informative open questions; [] if there are too few.

    If a voter starts two sessions at the same time, both calls return the same session.
    """
    if unfinished := _locked_session(voter, kind):
        return unfinished
    shown = Vote.objects.filter(voter=voter, question=OuterRef("pk"))
    unseen = Question.objects.open().votable().filter(~Exists(shown), kind=kind)
    unseen = unseen.select_related("case__image__stored").order_by("due")
    golds = list(unseen.exclude(gold="")[:CANDIDATES])
    ordinary = _ordinary(unseen.filter(gold=""), kind, LENGTH - GOLDS - REPEATS)
    if len(ordinary) < MIN_QUESTIONS:
        return []
    votes = [_vote(voter, question) for question in ordinary]
    _random.shuffle(votes)
    for question in _random.sample(golds, min(GOLDS, len(golds))):
        gold = _vote(voter, question, Vote.Role.GOLD)
        votes.insert(_random.randrange(len(votes) + 1), gold)
    if len(votes) > REPEAT_DISTANCE:
        _repeat(votes)
    return _save(votes)


def _locked_session(voter: Voter, kind: str) -> list[Vote]:
    """Lock the voter; return the session that a parallel request has started, if any."""
    Voter.objects.select_for_update().get(pk=voter.pk)
    return open_session(voter, kind)


def _ordinary(unseen: QuerySet[Question], kind: str, number: int) -> list[Question]:
    """Return up to `number` ordinary questions. The majority of pairs differ visibly."""
    if kind != Kind.PAIR:
        return _choose(list(unseen[:CANDIDATES]), number)
    visible = list(unseen.filter(ease__gte=VISIBLE)[:CANDIDATES])
    hard = list(unseen.filter(ease__lt=VISIBLE)[:CANDIDATES])
    few = _choose(hard, max(round(number * HARD), number - len(visible)))
    return [*_choose(visible, number - len(few)), *few]


def _choose(questions: Sequence[Question], number: int) -> list[Question]:
    """Choose up to `number` of these questions, from different cases as far as possible."""
    # The order is varied, so that simultaneous voters do not all see the same questions.
    pool = sorted(questions, key=lambda question: (question.due or 0) + 0.1 * _random.random())
    chosen: list[Question] = []
    for may_repeat_case in (False, True):
        for question in pool:
            if len(chosen) < number and question not in chosen:
                is_new_case = all(question.case_id != other.case_id for other in chosen)
                if is_new_case or may_repeat_case:
                    chosen.append(question)
    return chosen


def _vote(voter: Voter, question: Question, role: str = "") -> Vote:
    return Vote(
        voter=voter,
        question=question,
        kind=question.kind,
        role=role,
        first_left=_random.random() < 0.5,
    )


def _repeat(votes: list[Vote]) -> None:
    """Insert the easiest of the early questions again, with its sides exchanged."""
    early = [vote for vote in votes[: len(votes) - REPEAT_DISTANCE + 1] if not vote.role]
    if not early:
        return
    easiest = max(early, key=lambda vote: vote.question.ease)
    repeat = Vote(
        voter=easiest.voter,
        question=easiest.question,
        kind=easiest.kind,
        role=Vote.Role.REPEAT,
        first_left=not easiest.first_left,
    )
    first = votes.index(easiest) + REPEAT_DISTANCE
    votes.insert(_random.randint(first, len(votes)), repeat)


def _save(votes: list[Vote]) -> list[Vote]:
    session, now = new_ticket(), timezone.now()
    for place, vote in enumerate(votes):
        vote.session, vote.place, vote.asked_at = session, place, now
    Vote.objects.bulk_create(votes)
    keys = {vote.question_id for vote in votes}
    rows = Question.objects.filter(pk__in=keys)
    rows.update(asked=F("asked") + 1, due=F("due") + DUE_STEP)
    return votes


def answer(
    vote: Vote, choice: str, seconds: Any = None, looked: Mapping[str, Any] | None = None
) -> None:
    """Store the answer to an open question.

    Raises NotAccepted if the answer is invalid, too late, or not the first.
    """
    if choice not in ANSWERS[vote.kind]:
        allowed = ", ".join(sorted(ANSWERS[vote.kind]))
        raise NotAccepted(f"answer: {choice[:20]!r} is not one of {allowed}", 422)
    if vote.answered_at is None and not vote.is_open:
        raise NotAccepted("This question has expired. Please start again.", 410)
    ticket = Vote.objects.open().filter(pk=vote.pk)
    if not ticket.update(
        answer=_number(choice, vote.first_left),
        answered_at=timezone.now(),
        seconds=_seconds(seconds),
        looked=_looked(looked or {}),
    ):
        raise NotAccepted("This question is already answered.", 409)


def _number(choice: str, first_left: bool) -> int:
    side = 1 if first_left else -1
    return {"yes": 1, "no": 0, "neither": 0, "left": side, "right": -side}[choice]


def _seconds(value: Any) -> float | None:
    number = bounded(value, LONGEST_SECONDS)
    return None if number is None else round(number, 3)


def _looked(reported: Mapping[str, Any]) -> dict[str, Any]:
    """Return the voter's use of zoom and flicker, and the window width to the nearest 100."""
    width = reported.get("width")
    valid = isinstance(width, int) and not isinstance(width, bool) and 0 < width < 20_000
    return {
        "zoom": reported.get("zoom") is True,
        "flicker": reported.get("flicker") is True,
        **({"width": round(width / 100) * 100} if valid else {}),  # type: ignore[operator]
    }


def is_finished(session: str, voter: Voter) -> bool:
    """Return True if every question of this voter's session is answered."""
    votes = Vote.objects.filter(session=session, voter=voter)
    return votes.exists() and not votes.filter(answered_at=None).exists()


FOLDER = "ballots"
#: Files are padded to a multiple of this length. Decoders ignore the zeros at the end.
PADDED_TO = 32 * 1024
#: Files older than this are deleted, and written again on request.
MAX_IMAGE_AGE = timedelta(days=2)


def image_name(stored: StoredImage, size: tuple[int, int]) -> str:
    value = f"{stored.pk}:{size[0]}x{size[1]}"
    digest = salted_hmac("leaderboard.people.ballots", value, algorithm="sha256").hexdigest()
    return f"{FOLDER}/{digest[:2]}/{digest}.webp"


def read_image(stored: StoredImage, size: tuple[int, int]) -> bytes:
    """Return the image at this size.

    Raises FileNotFoundError if the stored image is missing, ImageError if it is broken.
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
    return data + bytes(-len(data) % PADDED_TO)


def prepare_image(stored: StoredImage, size: tuple[int, int]) -> None:
    """Render the image in advance, so that no voter waits for it."""
    if not default_storage.exists(image_name(stored, size)):
        write(image_name(stored, size), draw_image(stored, size))


def delete_old_images() -> int:
    """Delete files older than MAX_IMAGE_AGE; return the number deleted."""
    removed, before = 0, timezone.now() - MAX_IMAGE_AGE
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
