"""Rows of votes and of the images they are about: statistics, downloads, bundles."""

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

#: Flags of a witness in favour of a restored image.
FLAGS = ("undone", "kept")
#: Rows read at a time.
BATCH = 500


@dataclass(frozen=True)
class Return:
    """One restored image of a chain, with all its measurements."""

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
    """Return the flags for or against a restored image, by witness."""
    by_witness: dict[str, dict[str, bool]] = {}
    for record in evidence:
        flags = {flag: bool(record[flag]) for flag in FLAGS if record.get(flag) is not None}
        if flags and record.get("witness"):
            by_witness.setdefault(str(record["witness"]), {}).update(flags)
    return by_witness


def headline(kept: Mapping[str, float]) -> float | None:
    """Return the retention by the headline, or by the first metric that was run."""
    return next((kept[name] for name in METRICS if name in kept), None)


def returns(trips: Iterable[int]) -> dict[int, Return]:
    """Return the restored images by the keys of their trips, without missing ones."""
    by_trip = {}
    wanted = sorted(set(trips))
    for start in range(0, len(wanted), BATCH):
        keys = wanted[start : start + BATCH]
        rows = Trip.objects.filter(pk__in=keys).select_related("chain__run__editing_model")
        for trip in rows.defer("loss_map", "change_measure", "damage"):
            chain = trip.chain
            by_trip[trip.pk] = Return(
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
    return by_trip


def returns_of(votes: Iterable[Vote]) -> dict[int, Return]:
    """Return the restored images that these votes are about, by trip."""
    questions = [vote.question for vote in votes]
    return returns(
        pk for question in questions for pk in (question.first_id, question.second_id) if pk
    )


def metric_says(metric: str, first: Return, second: Return) -> float:
    """Return 1 if the first keeps more, -1 if the second, 0 if equal, NaN if not run."""
    if metric not in first.kept or metric not in second.kept:
        return math.nan
    gap = first.kept[metric] - second.kept[metric]
    return float((gap > 0) - (gap < 0))


def witness_says(witness: str, first: Return, second: Return) -> float:
    """Return 1 or -1 if the witness favours one image, else NaN."""
    first_flags, second_flags = first.verdicts.get(witness, {}), second.verdicts.get(witness, {})
    shared = first_flags.keys() & second_flags.keys()
    gap = sum(first_flags[flag] - second_flags[flag] for flag in shared)
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
    """Return every vote that counts, in the order of the questions."""
    rows = Vote.objects.answered().filter(answer__isnull=False).order_by("pk")
    return [Row(*values) for values in rows.values_list(*FIELDS).iterator(chunk_size=5000)]


def checks(rows: Iterable[Row]) -> dict[int, Checks]:
    """Count by voter the right answers to gold questions and to repeats."""
    by_voter: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    ordinary: dict[tuple[str, int], int] = {}
    for row in rows:
        counts = by_voter[row.voter]
        if row.role == Role.GOLD:
            counts[0] += 1
            counts[1] += is_right(row.gold, row.answer)
        elif row.role == Role.ORDINARY:
            ordinary[row.session, row.question] = row.answer
        # A repeat comes after its question, and means nothing without it.
        elif (row.session, row.question) in ordinary:
            counts[2] += 1
            counts[3] += ordinary[row.session, row.question] == row.answer
    return {voter: Checks(*numbers) for voter, numbers in by_voter.items()}


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
    """Return ordinary votes on `known` images; `models` numbers the compared runs."""
    ordinary = [
        row
        for row in rows
        if row.kind == kind
        and row.role == Role.ORDINARY
        and row.first in known
        and (row.second is None or row.second in known)
    ]
    columns = [_columns(row, known, models) for row in ordinary]
    made = np.array(columns, dtype=float).reshape(-1, 7)
    whole = made[:, :5].astype(np.int64)
    voter, case, question, first, second = whole.T
    return Table(ordinary, Ballots(voter, case, question, first, second, made[:, 5], made[:, 6]))


def _columns(row: Row, known: Mapping[int, Return], models: Mapping[int, int]) -> tuple[float, ...]:
    image = known[row.first]
    first, second = models.get(image.run, -1), -1
    left = 0
    if row.kind == Kind.PAIR and row.second is not None:
        other_image = known[row.second]
        left = row.answer if row.first_left else -row.answer
        second = models.get(other_image.run, -1)
        if (
            other_image.number != image.number
            or other_image.run == image.run
            or min(first, second) < 0
        ):
            first = second = -1
    return row.voter, row.case, row.question, first, second, row.answer, left


RELATED = ("voter", "question__case__suite", "question__case__picture")
SIDE = ("model", "run", "trip", "picture")
#: One line for each vote; `first_…` and `second_…` are the images, regardless of their sides.
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
    """Return the answer for people to read: first, second, cannot say; yes, no."""
    if vote.answer is None:
        return None
    if vote.kind == Kind.USABLE:
        return "yes" if vote.answer else "no"
    return ANSWERS[vote.answer]


def with_all(votes: QuerySet[Vote]) -> QuerySet[Vote]:
    """Return these votes with the rows that a line needs, oldest first."""
    rows_needed = votes.select_related(*RELATED).defer("question__case__suite__definition")
    return rows_needed.order_by("pk")


def rows(votes: QuerySet[Vote]) -> Iterator[dict[str, Any]]:
    """Yield a line for each vote, with retentions by every metric in `…_kept`."""
    remaining = with_all(votes).iterator(chunk_size=BATCH)
    while batch := list(islice(remaining, BATCH)):
        yield from lines(batch)


def lines(votes: Sequence[Vote]) -> Iterator[dict[str, Any]]:
    """Yield the lines of votes that were read by `with_all`."""
    images = returns_of(votes)
    return (_line(vote, images) for vote in votes)


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
    images = returns_of(votes)
    records = []
    for vote in votes:
        first, second = images[vote.question.first_id], images.get(vote.question.second_id or 0)
        # If both images are of this run, the record describes the first.
        is_first = first.run == run.pk
        image, other_image = (first, second) if is_first or second is None else (second, first)
        answer = vote.answer or 0
        records.append(
            VoteRecord.of(
                {
                    "kind": vote.kind,
                    "case": vote.question.case.slug,
                    "repeat": image.repeat,
                    "trip": image.number,
                    "against": other_image
                    and {
                        "model": other_image.model,
                        "trip": other_image.number,
                        "sha256": other_image.picture,
                    },
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
    return records


def flat(row: Mapping[str, Any], metrics: Sequence[str]) -> list[Any]:
    """Return a line as cells: COLUMNS, then retentions of the first and the second."""
    retentions = [
        row[f"{side}_kept"].get(metric) for side in ("first", "second") for metric in metrics
    ]
    return [*(row[name] for name in COLUMNS), *retentions]


def head(metrics: Sequence[str]) -> list[str]:
    return [*COLUMNS, *(f"{side}_{m}" for side in ("first", "second") for m in metrics)]


def as_csv(votes: QuerySet[Vote], metrics: Sequence[str]) -> Iterator[str]:
    """Yield the votes as CSV lines, with cells safe from being run as formulas."""
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
