"""Votes as tables: everything that is needed to analyse them, and nothing that names a person."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from django.db.models import QuerySet

from leaderboard.models import Run, Vote, Voter
from leaderboard.models.votes import Kind
from leaderboard.people.returns import Return, returns
from leaderboard.text import safe_cell

RELATED = ("voter", "question__case__suite", "question__case__picture")
SIDE = ("model", "run", "trip", "picture")
#: One line for each vote; `first_…` and `second_…` are the returns, whichever side they stood on.
COLUMNS = (
    *("vote", "kind", "voter", "weight", "role", "session", "place"),
    *("suite", "case", "picture", "pair", "category", "source"),
    *(f"first_{name}" for name in SIDE),
    *(f"second_{name}" for name in SIDE),
    *("first_left", "answer", "known_answer", "seconds", "zoom", "flicker", "window_width"),
    *("asked_at", "answered_at"),
)
ANSWERS = {1: "first", -1: "second", 0: "cannot say"}


def pseudonym(voter: Voter) -> str:
    """What a voter is called outside: not the number in the cookie, which could be signed in with."""
    return sha256(f"voter:{voter.key}".encode()).hexdigest()[:12]


def said(vote: Vote) -> str | None:
    """The answer as people read it: first, second, cannot say; yes, no."""
    if vote.answer is None:
        return None
    if vote.kind == Kind.USABLE:
        return "yes" if vote.answer else "no"
    return ANSWERS[vote.answer]


def with_all(votes: QuerySet[Vote]) -> QuerySet[Vote]:
    """These votes with the rows that a line needs, oldest first."""
    found = votes.select_related(*RELATED).defer("question__case__suite__definition")
    return found.order_by("pk")


def rows(votes: QuerySet[Vote]) -> Iterator[dict[str, Any]]:
    """A line for each vote, with what every metric keeps of the returns in `…_kept`."""
    batch: list[Vote] = []
    for vote in with_all(votes).iterator(chunk_size=500):
        batch.append(vote)
        if len(batch) == 500:
            yield from lines(batch)
            batch = []
    yield from lines(batch)


def lines(votes: Sequence[Vote]) -> Iterator[dict[str, Any]]:
    """The lines of votes that were read `with_all`."""
    known = returns(
        pk for vote in votes for pk in (vote.question.first_id, vote.question.second_id) if pk
    )
    for vote in votes:
        yield _line(vote, known)


def _line(vote: Vote, known: Mapping[int, Return]) -> dict[str, Any]:
    question, case = vote.question, vote.question.case
    first, second = known.get(question.first_id), known.get(question.second_id or 0)
    return {
        "vote": vote.pk,
        "kind": vote.kind,
        "voter": pseudonym(vote.voter),
        "weight": vote.voter.weight,
        "role": vote.role or "ordinary",
        "session": sha256(vote.session.encode()).hexdigest()[:12],
        "place": vote.place,
        "suite": case.suite.key,
        "case": case.slug,
        "picture": case.picture.slug,
        "pair": case.pair_slug,
        "category": case.category,
        "source": case.picture.stored_id,
        **_side("first", first),
        **_side("second", second),
        "first_left": vote.first_left if second else None,
        "answer": said(vote),
        "known_answer": question.gold or None,
        "seconds": vote.seconds,
        "zoom": vote.looked.get("zoom"),
        "flicker": vote.looked.get("flicker"),
        "window_width": vote.looked.get("width"),
        "asked_at": vote.asked_at.isoformat(timespec="seconds"),
        "answered_at": vote.answered_at and vote.answered_at.isoformat(timespec="seconds"),
        "first_kept": dict(first.kept) if first else {},
        "second_kept": dict(second.kept) if second else {},
        "first_evidence": _evidence(first),
        "second_evidence": _evidence(second),
    }


def _side(name: str, back: Return | None) -> dict[str, Any]:
    return {
        f"{name}_model": back.model if back else None,
        f"{name}_run": back.run if back else None,
        f"{name}_trip": back.number if back else None,
        f"{name}_picture": back.picture if back else None,
    }


def _evidence(back: Return | None) -> dict[str, dict[str, bool]]:
    """What each witness and judge says of it."""
    if back is None:
        return {}
    names = [str(one["witness"]) for one in back.evidence if one.get("witness")]
    return {name: told for name in dict.fromkeys(names) if (told := back.said(name))}


def of_run(run: Run) -> list[dict[str, Any]]:
    """The public votes on a run's returns, as its bundle carries them (evaluation.bundle.rows)."""
    votes = list(with_all(Vote.objects.public().about(run)))
    known = returns(
        pk for vote in votes for pk in (vote.question.first_id, vote.question.second_id) if pk
    )
    found = []
    for vote in votes:
        first, second = known[vote.question.first_id], known.get(vote.question.second_id or 0)
        # Of two returns of this run the first is the one that is spoken of.
        is_first = first.run == run.pk
        own, other = (first, second) if is_first or second is None else (second, first)
        answer = vote.answer or 0
        found.append(
            {
                "kind": vote.kind,
                "case": vote.question.case.slug,
                "repeat": own.repeat,
                "trip": own.number,
                "against": other
                and {"model": other.model, "trip": other.number, "sha256": other.picture},
                "answer": answer if is_first or vote.kind != Kind.PAIR else -answer,
                "stood_left": vote.first_left == is_first,
                "role": vote.role,
                "voter": pseudonym(vote.voter),
                "weight": vote.voter.weight,
                "seconds": vote.seconds,
                "answered_at": vote.answered_at.isoformat(timespec="seconds")
                if vote.answered_at
                else "",
            }
        )
    return found


def flat(row: Mapping[str, Any], metrics: Sequence[str]) -> list[Any]:
    """A line as cells: COLUMNS, then what each metric keeps of the first and of the second."""
    kept = [row[f"{side}_kept"].get(metric) for side in ("first", "second") for metric in metrics]
    return [*(row[name] for name in COLUMNS), *kept]


def head(metrics: Sequence[str]) -> list[str]:
    return [*COLUMNS, *(f"{side}_{m}" for side in ("first", "second") for m in metrics)]


def as_csv(votes: QuerySet[Vote], metrics: Sequence[str]) -> Iterator[str]:
    """The votes as a table, line by line; no text of ours is run as a formula."""
    line = io.StringIO()
    writer = csv.writer(line)
    writer.writerow(head(metrics))
    for row in rows(votes):
        yield line.getvalue()
        line.seek(0)
        line.truncate()
        cells = ("" if cell is None else safe_cell(cell) for cell in flat(row, metrics))
        writer.writerow(cells)
    yield line.getvalue()
