"""Votes and the returns they are about, as rows: for statistics, downloads and bundles."""

from __future__ import annotations

import csv
import io
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from django.db.models import QuerySet

from evaluation.analysis.votes import Ballots, Checks
from evaluation.metrics import METRICS
from evaluation.records import VoteRecord
from leaderboard.models import Question, Run, Trip, Vote, Voter
from leaderboard.models.votes import Kind
from leaderboard.text import safe_cell

#: The flags of a witness that speak for a return.
FLAGS = ("undone", "kept")
#: Rows read at a time.
BATCH = 500


@dataclass(frozen=True)
class Return:
    """One return of one chain, with all that was measured of it."""

    trip: int
    number: int
    chain: int
    run: int
    repeat: int
    model: str
    picture: str
    kept: Mapping[str, float]
    evidence: Sequence[Mapping[str, Any]]

    @property
    def headline(self) -> float | None:
        return headline(self.kept)

    @cached_property
    def verdicts(self) -> dict[str, dict[str, bool]]:
        return verdicts(self.evidence)


def verdicts(evidence: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, bool]]:
    """Return by witness the flags for or against a return that it could tell."""
    found: dict[str, dict[str, bool]] = {}
    for one in evidence:
        told = {flag: bool(one[flag]) for flag in FLAGS if one.get(flag) is not None}
        if told and one.get("witness"):
            found.setdefault(str(one["witness"]), {}).update(told)
    return found


def headline(kept: Mapping[str, float]) -> float | None:
    """Return the retention by the headline, or by the first metric that was run."""
    return next((kept[name] for name in METRICS if name in kept), None)


def returns(trips: Iterable[int]) -> dict[int, Return]:
    """These returns by the keys of their trips; those that are gone are not among them."""
    found = {}
    wanted = sorted(set(trips))
    for start in range(0, len(wanted), BATCH):
        keys = wanted[start : start + BATCH]
        rows = Trip.objects.filter(pk__in=keys).select_related("chain__run__editing_model")
        for trip in rows.defer("loss_map", "change_measure", "damage"):
            chain = trip.chain
            found[trip.pk] = Return(
                trip=trip.pk,
                number=trip.number,
                chain=chain.pk,
                run=chain.run_id,
                repeat=chain.repeat,
                model=chain.run.editing_model.slug,
                picture=trip.restored_id or "",
                kept=chain.retentions_after(trip.number),
                evidence=trip.evidence,
            )
    return found


def returns_of(votes: Iterable[Vote]) -> dict[int, Return]:
    """Return the returns that these votes are about, by the keys of their trips."""
    asked = [vote.question for vote in votes]
    return returns(pk for one in asked for pk in (one.first_id, one.second_id) if pk)


def metric_says(metric: str, first: Return, second: Return) -> float:
    """1 where the first keeps more, -1 for the second, 0 for both alike, NaN where it was not run."""
    if metric not in first.kept or metric not in second.kept:
        return math.nan
    gap = first.kept[metric] - second.kept[metric]
    return float((gap > 0) - (gap < 0))


def witness_says(witness: str, first: Return, second: Return) -> float:
    """1 or -1 where it speaks for one alone; NaN where it cannot tell them apart."""
    one, other = first.verdicts.get(witness, {}), second.verdicts.get(witness, {})
    shared = one.keys() & other.keys()
    gap = sum(one[flag] - other[flag] for flag in shared)
    return float((gap > 0) - (gap < 0)) if gap else math.nan


Gold, Role = Question.Gold, Vote.Role
FIELDS = (
    *("pk", "voter", "session", "question", "kind", "role", "first_left", "answer"),
    *("question__case", "question__first", "question__second", "question__gold"),
)


class Row(NamedTuple):
    """One answered vote."""

    pk: int
    voter: int
    session: str
    question: int
    kind: str
    role: str
    first_left: bool
    answer: int
    case: int
    first: int
    second: int | None
    gold: str


def counted() -> list[Row]:
    """Every vote that counts, in the order in which they were asked."""
    rows = Vote.objects.answered().filter(answer__isnull=False).order_by("pk")
    return [Row(*values) for values in rows.values_list(*FIELDS).iterator(chunk_size=5000)]


def checks(rows: Iterable[Row]) -> dict[int, Checks]:
    """By voter: how they did where we know the answer, and where it was their own."""
    made: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    own: dict[tuple[str, int], int] = {}
    for row in rows:
        mine = made[row.voter]
        if row.role == Role.GOLD:
            mine[0] += 1
            mine[1] += is_right(row.gold, row.answer)
        elif row.role == Role.ORDINARY:
            own[row.session, row.question] = row.answer
        # A repeat comes after its own question, and tells nothing without it.
        elif (row.session, row.question) in own:
            mine[2] += 1
            mine[3] += own[row.session, row.question] == row.answer
    return {voter: Checks(*numbers) for voter, numbers in made.items()}


def is_right(gold: str, answer: int) -> bool:
    return answer == {Gold.FIRST: 1, Gold.YES: 1, Gold.NO: 0}.get(Gold(gold), answer)


@dataclass(frozen=True)
class Table:
    """Ordinary votes of one kind: the rows, and the same as columns."""

    rows: Sequence[Row]
    ballots: Ballots


def table(
    rows: Iterable[Row], kind: str, known: Mapping[int, Return], models: Mapping[int, int]
) -> Table:
    """Ordinary votes on returns that are known; `models` numbers the runs that are compared."""
    own = [
        row
        for row in rows
        if row.kind == kind
        and row.role == Role.ORDINARY
        and row.first in known
        and (row.second is None or row.second in known)
    ]
    columns = [_columns(row, known, models) for row in own]
    made = np.array(columns, dtype=float).reshape(-1, 7)
    whole = made[:, :5].astype(np.int64)
    voter, case, question, first, second = whole.T
    return Table(own, Ballots(voter, case, question, first, second, made[:, 5], made[:, 6]))


def _columns(row: Row, known: Mapping[int, Return], models: Mapping[int, int]) -> tuple[float, ...]:
    one = known[row.first]
    first, second = models.get(one.run, -1), -1
    left = 0
    if row.kind == Kind.PAIR and row.second is not None:
        other = known[row.second]
        left = row.answer if row.first_left else -row.answer
        second = models.get(other.run, -1)
        if other.number != one.number or other.run == one.run or min(first, second) < 0:
            first = second = -1
    return row.voter, row.case, row.question, first, second, row.answer, left


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
    """Return the public name of a voter: a hash, since the cookie's key signs in."""
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
    """Yield a line for each vote, with what every metric keeps of the returns in `…_kept`."""
    found = with_all(votes).iterator(chunk_size=BATCH)
    while batch := list(islice(found, BATCH)):
        yield from lines(batch)


def lines(votes: Sequence[Vote]) -> Iterator[dict[str, Any]]:
    """Yield the lines of votes that were read `with_all`."""
    known = returns_of(votes)
    return (_line(vote, known) for vote in votes)


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
        "first_evidence": first.verdicts if first else {},
        "second_evidence": second.verdicts if second else {},
    }


def _side(name: str, back: Return | None) -> dict[str, Any]:
    return {
        f"{name}_model": back.model if back else None,
        f"{name}_run": back.run if back else None,
        f"{name}_trip": back.number if back else None,
        f"{name}_picture": back.picture if back else None,
    }


def of_run(run: Run) -> list[VoteRecord]:
    """Return the public votes on a run's images, as its bundle carries them."""
    votes = list(with_all(Vote.objects.public().about(run)))
    known = returns_of(votes)
    found = []
    for vote in votes:
        first, second = known[vote.question.first_id], known.get(vote.question.second_id or 0)
        # Of two returns of this run the first is the one that is spoken of.
        is_first = first.run == run.pk
        own, other = (first, second) if is_first or second is None else (second, first)
        answer = vote.answer or 0
        found.append(
            VoteRecord.of(
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
