"""Votes read from the database as the statistics want them: columns of numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evaluation.analysis.people.ballots import Ballots
from evaluation.analysis.people.voters import Checks
from leaderboard.models import Question, Vote
from leaderboard.models.votes import Kind
from leaderboard.people.returns import Return

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
