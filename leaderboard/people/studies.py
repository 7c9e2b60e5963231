"""Closed studies: what raters are asked, their links, and how far they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import transaction
from django.db.models import Count, Q, QuerySet

from leaderboard import job_queue
from leaderboard.models import Question, Study, Suite, Voter
from leaderboard.models.entries import new_token
from leaderboard.models.people.questions import Kind, votable_trips
from leaderboard.people import vote_rows
from leaderboard.score_files import FOLDER

#: A study with more questions, or raters, is several studies.
MOST_QUESTIONS, MOST_RATERS = 5_000, 500
LINE = re.compile(
    r"^([\w-]{1,170})\s*,\s*([\w-]{1,80})@(\d{1,3})(?:\s*,\s*([\w-]{1,80})@(\d{1,3}))?$"
)
EXAMPLE = {
    Kind.PAIR: "case, model@trip, model@trip",
    Kind.USABLE: "case, model@trip",
    Kind.RATING: "case, model@trip",
}


class StudyError(ValueError):
    """A list of questions that cannot be asked; the message names the line."""


@dataclass(frozen=True)
class Wanted:
    """One line of a study's list: a case, and one or two returns of it."""

    case: str
    returns: tuple[tuple[str, int], ...]


def parse(text: str, kind: str) -> list[Wanted]:
    """The lines of a list; StudyError names the first that is none."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = LINE.match(line.strip())
        if not match:
            raise StudyError(f"line {number}: expected “{EXAMPLE[Kind(kind)]}”, as in a run's page")
        case, model, trip, other, second = match.groups()
        if bool(other) != (kind == Kind.PAIR):
            raise StudyError(f"line {number}: expected “{EXAMPLE[Kind(kind)]}”")
        returns = [(model, int(trip))] + ([(other, int(second))] if other else [])
        if len(set(returns)) < len(returns):
            raise StudyError(f"line {number}: a return is compared with itself")
        found.append(Wanted(case, tuple(returns)))
    if not found:
        raise StudyError("the list is empty")
    if len(found) > MOST_QUESTIONS:
        raise StudyError(f"{len(found):,} lines are too many; at most {MOST_QUESTIONS:,}")
    return found


def drawn(suite: Suite, models: list[str], trips: list[int], kind: str, cases: int) -> str:
    """A list of every model, or pair of models, after these trips on the suite's first cases."""
    slugs = suite.cases.order_by("position").values_list("slug", flat=True)[:cases]
    lines = []
    for case in slugs:
        for trip in trips:
            if kind == Kind.PAIR:
                lines += [
                    f"{case}, {one}@{trip}, {other}@{trip}"
                    for place, one in enumerate(models)
                    for other in models[place + 1 :]
                ]
            else:
                lines += [f"{case}, {model}@{trip}" for model in models]
    return "\n".join(lines)


@transaction.atomic
def set_questions(study: Study, suite: Suite, text: str) -> int:
    """Give the study these questions; how many. StudyError where one cannot be asked.

    What is not public, or of a sealed suite, is in no study either.
    """
    wanted = parse(text, study.kind)
    trips = {
        (case, model, number): (pk, case_id)
        for case, model, number, pk, case_id in votable_trips()
        .filter(chain__case__suite=suite, chain__repeat=0, chain__run__current=True)
        .filter(chain__case__slug__in={one.case for one in wanted})
        .values_list(
            *("chain__case__slug", "chain__run__editing_model__slug", "number"),
            *("pk", "chain__case"),
        )
    }
    rows = []
    for place, one in enumerate(wanted, start=1):
        keys = []
        for model, number in one.returns:
            found = trips.get((one.case, model, number))
            if found is None:
                raise StudyError(
                    f"question {place}: {suite} has no public return of {model} after trip "
                    f"{number} on {one.case}"
                )
            keys.append(found)
        first, *second = sorted(keys)
        rows.append(
            Question(
                kind=study.kind,
                case_id=first[1],
                first_id=first[0],
                second_id=second[0][0] if second else None,
            )
        )
    Question.objects.bulk_create(rows, batch_size=500, ignore_conflicts=True)
    study.questions.set(_stored(rows))
    return study.questions.count()


def _stored(rows: list[Question]) -> Iterator[int]:
    """The keys of these questions, new or there before."""
    firsts = {row.first_id for row in rows}
    there = Question.objects.filter(kind=rows[0].kind, first__in=firsts)
    known: dict[tuple[int, int | None], int] = {
        (first, second): pk for first, second, pk in there.values_list("first", "second", "pk")
    }
    return (known[row.first_id, row.second_id] for row in rows)


def add_raters(study: Study, number: int) -> list[Voter]:
    """So many more links, each for one rater."""
    there = Voter.objects.filter(study=study).count()
    if there + number > MOST_RATERS:
        raise StudyError(f"a study has at most {MOST_RATERS} raters; this one has {there}")
    return [
        Voter.objects.create(study=study, label=f"Rater {there + place}", token=new_token())
        for place in range(1, number + 1)
    ]


def progress(study: Study) -> QuerySet[Voter, Any]:
    """The raters with how many questions each has `said` something to."""
    answered = Count("votes", Q(votes__answered_at__isnull=False))
    return Voter.objects.filter(study=study).annotate(said=answered).order_by("pk")


def parquet_name(study: Study) -> str:
    """The file of the votes that there are now."""
    return f"{FOLDER}/study-{study.pk}-{study.votes.answered().count()}.parquet"


def parquet(study: Study) -> str | None:
    """The file's name where it is there; else a worker is asked to write it."""
    name = parquet_name(study)
    if default_storage.exists(name):
        return name
    job_queue.enqueue(study.pk, job_queue.EXPORT_STUDY, job_queue.GPU)
    return None


def write_parquet(study: Study) -> None:
    """Write the study's votes, in place of those of before."""
    name = parquet_name(study)
    try:
        _, files = default_storage.listdir(FOLDER)
    except FileNotFoundError:
        files = []
    for file in files:
        if file.startswith(f"study-{study.pk}-") and f"{FOLDER}/{file}" != name:
            default_storage.delete(f"{FOLDER}/{file}")
    if not default_storage.exists(name):
        votes = study.votes.answered()
        default_storage.save(name, ContentFile(vote_rows.as_parquet(votes)))
