"""Votes and their images as records for the count, the API, downloads and bundles."""

from __future__ import annotations

import csv
import io
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple

from django.db.models import Prefetch, QuerySet
from ninja import Field, Schema

from evaluation.analysis.votes import Checks
from evaluation.metrics import METRICS
from evaluation.records import VoteRecord
from evaluation.witnesses.judge import Judge
from leaderboard.models import Chain, Question, Run, Trip, Vote, Voter
from leaderboard.models.votes import Kind
from leaderboard.text import safe_cell

#: Flags of a witness (an automatic check) that count for or against a restored image.
FLAGS = ("undone", "kept")
#: Rows read at a time.
BATCH = 500
#: Large columns of a trip that are not needed to count or publish votes.
DEFERRED = ("change_measure",)


@dataclass(frozen=True)
class VotedImage:
    """A restored image that voters may be asked about, with its measurements."""

    trip: int
    number: int
    chain: int
    run: int
    case: int
    image: str
    is_reference: bool
    kept: Mapping[str, float]
    verdicts: Mapping[str, Mapping[str, bool]]

    @property
    def headline(self) -> float | None:
        return headline(self.kept)


def voted_images(trips: QuerySet[Trip]) -> dict[int, VotedImage]:
    """Return the restored images of these trips, keyed by trip."""
    # The results of a chain are large, so they are read once for all its trips.
    chains = Chain.objects.select_related("run__editing_model")
    chains = chains.defer("quality", "run__provenance", "run__editing_model__options")
    rows = trips.order_by("chain_id", "number").defer(*DEFERRED)
    images = {}
    for trip in rows.prefetch_related(Prefetch("chain", chains)).iterator(chunk_size=BATCH):
        chain = trip.chain
        images[trip.pk] = VotedImage(
            trip=trip.pk,
            number=trip.number,
            chain=chain.pk,
            run=chain.run_id,
            case=chain.case_id,
            image=trip.restored_id or "",
            is_reference=chain.run.editing_model.is_reference,
            kept=chain.retentions_after(trip.number),
            verdicts=verdicts(trip.evidence),
        )
    return images


def verdicts(evidence: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, bool]]:
    """Return the flags for or against a restored image, by witness.

    A judge is a witness that asks a vision-language model. Its name here includes its version, so
    that each such model is a separate witness.
    """
    by_witness: dict[str, dict[str, bool]] = {}
    for record in evidence:
        flags = {flag: bool(record[flag]) for flag in FLAGS if record.get(flag) is not None}
        if flags and record.get("witness"):
            name = str(record["witness"])
            name = judge_name(record.get("version", "")) if name == Judge.name else name
            by_witness.setdefault(name, {}).update(flags)
    return by_witness


def judge_name(version: Any) -> str:
    return f"{Judge.name} {version}"


def headline(kept: Mapping[str, float]) -> float | None:
    """Return the retention by the headline metric, or else by the first metric that was run."""
    return next((kept[name] for name in METRICS if name in kept), None)


def metric_preference(metric: str, first: VotedImage, second: VotedImage) -> float:
    """Return 1 if the first image keeps more, -1 if the second, 0 if equal, NaN if unknown."""
    if metric not in first.kept or metric not in second.kept:
        return math.nan
    gap = first.kept[metric] - second.kept[metric]
    return float((gap > 0) - (gap < 0))


def witness_preference(witness: str, first: VotedImage, second: VotedImage) -> float:
    """Return 1 if the witness favours the first image, -1 if the second, else NaN."""
    first_flags, second_flags = first.verdicts.get(witness, {}), second.verdicts.get(witness, {})
    shared = first_flags.keys() & second_flags.keys()
    gap = sum(first_flags[flag] - second_flags[flag] for flag in shared)
    return float((gap > 0) - (gap < 0)) if gap else math.nan


# Records for the count.

FIELDS = (
    *("voter", "session", "question", "kind", "role", "first_left", "answer"),
    *("question__case", "question__first", "question__second", "question__gold"),
)


class CountedVote(NamedTuple):
    """One answered vote."""

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


def counted_votes() -> list[CountedVote]:
    """Return every answered vote, oldest first."""
    rows = Vote.objects.answered().filter(answer__isnull=False).order_by("pk")
    return [CountedVote(*values) for values in rows.values_list(*FIELDS).iterator(chunk_size=5000)]


def checks(votes: Iterable[CountedVote]) -> dict[int, Checks]:
    """Count each voter's answers to gold questions and repeats, and how many passed.

    A gold question has a known answer. A repeat asks an earlier question of the session again and
    is passed by the same answer.
    """
    by_voter: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    ordinary: dict[tuple[str, int], int] = {}
    for vote in votes:
        counts = by_voter[vote.voter]
        if vote.role == Vote.Role.GOLD:
            counts[0] += 1
            counts[1] += is_right(vote.gold, vote.answer)
        elif vote.role == Vote.Role.ORDINARY:
            ordinary[vote.session, vote.question] = vote.answer
        # A repeat comes after its question. It checks nothing if that question was not answered.
        elif (vote.session, vote.question) in ordinary:
            counts[2] += 1
            counts[3] += ordinary[vote.session, vote.question] == vote.answer
    return {voter: Checks(*numbers) for voter, numbers in by_voter.items()}


def is_right(gold: str, answer: int) -> bool:
    right = {Question.Gold.FIRST: 1, Question.Gold.YES: 1, Question.Gold.NO: 0}
    return answer == right.get(Question.Gold(gold), answer)


# Published records.

SIDES = ("first", "second")


class ImageOut(Schema):
    """One of the images that were shown."""

    model: str = Field(alias="chain.run.editing_model.slug")
    run: int = Field(alias="chain.run_id")
    trip: int = Field(alias="number")
    sha256: str | None = Field(
        alias="restored_id", description="The image as the model returned it."
    )
    retention: dict[str, float] = Field(description="Retention of the image by each metric.")
    evidence: dict[str, dict[str, bool]] = Field(
        description="What each witness (an automatic check) found: whether the edit was undone, "
        "and whether other things were kept."
    )

    @staticmethod
    def resolve_retention(trip: Trip) -> dict[str, float]:
        return trip.chain.retentions_after(trip.number)

    @staticmethod
    def resolve_evidence(trip: Trip) -> dict[str, dict[str, bool]]:
        return verdicts(trip.evidence)


class VoteOut(Schema):
    """The answer of a person who did not know the models."""

    id: int
    kind: str = Field(description="pair or usable.")
    suite: str = Field(alias="question.case.suite.key")
    case: str = Field(alias="question.case.slug")
    category: str = Field(alias="question.case.category")
    source: str | None = Field(alias="question.case.image.stored_id")
    first: ImageOut = Field(alias="question.first")
    second: ImageOut | None = Field(alias="question.second")
    answer: str | None = Field(
        description="Of a pair first, second or cannot say; of one image yes or no (usable). Which "
        "image is first does not depend on the sides shown."
    )
    first_left: bool
    role: str = Field(description="Empty, gold (known answer) or repeat (same question again).")
    known_answer: str = Field(
        alias="question.gold", description="The answer of a gold question, or empty."
    )
    voter: str = Field(description="A hash that is the same for all votes of one person.")
    weight: float = Field(
        alias="voter.weight", description="Weight of the voter's answers, from 0 to 1."
    )
    session: str = Field(description="A hash that is the same for all votes of one session.")
    place: int = Field(description="Position of the question in its session, from 0.")
    seconds: float | None
    looked: dict[str, Any] = Field(description="Use of zoom and flicker, width of the window.")
    answered_at: datetime | None

    @staticmethod
    def resolve_voter(vote: Vote) -> str:
        return pseudonym(vote.voter)

    @staticmethod
    def resolve_session(vote: Vote) -> str:
        return sha256(vote.session.encode()).hexdigest()[:12]

    @staticmethod
    def resolve_answer(vote: Vote) -> str | None:
        return answer_words(vote)


def pseudonym(voter: Voter) -> str:
    """Return a voter's public name: a hash, so that the key in the cookie stays secret."""
    return sha256(f"voter:{voter.key}".encode()).hexdigest()[:12]


def answer_words(vote: Vote) -> str | None:
    """Return the answer in words: first, second or cannot say; yes or no."""
    if vote.answer is None:
        return None
    if vote.kind == Kind.USABLE:
        return "yes" if vote.answer else "no"
    return {1: "first", -1: "second", 0: "cannot say"}[vote.answer]


def with_related(votes: QuerySet[Vote]) -> QuerySet[Vote]:
    """Return these votes, oldest first, with the related rows that a record needs."""
    models = [f"question__{side}__chain__run__editing_model" for side in SIDES]
    deferred = [f"question__{side}__{name}" for side in SIDES for name in DEFERRED]
    rows = votes.select_related("voter", "question__case__suite", "question__case__image", *models)
    return rows.defer("question__case__suite__definition", *deferred).order_by("pk")


def records_of_run(run: Run) -> list[VoteRecord]:
    """Return the public votes on a run's images, as records for its bundle."""
    records = []
    for vote in with_related(Vote.objects.public().about(run)):
        first, second = vote.question.first, vote.question.second
        # If both images are of this run, the record describes the first.
        is_first = first.chain.run_id == run.pk
        image, other = (first, second) if is_first or second is None else (second, first)
        answer = vote.answer or 0
        records.append(
            VoteRecord.of(
                {
                    "kind": vote.kind,
                    "case": vote.question.case.slug,
                    "repeat": image.chain.repeat,
                    "trip": image.number,
                    "against": other
                    and {
                        "model": other.chain.run.editing_model.slug,
                        "trip": other.number,
                        "sha256": other.restored_id or "",
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


def as_csv(votes: QuerySet[Vote], metrics: Sequence[str]) -> Iterator[str]:
    """Yield the votes as CSV lines, with cells that spreadsheets do not run as formulas."""
    names = ("model", "run", "trip", "sha256", *metrics)
    scalars = [name for name in VoteOut.model_fields if name not in SIDES]
    line = io.StringIO()
    writer = csv.writer(line)
    writer.writerow([*scalars, *(f"{side}_{name}" for side in SIDES for name in names)])
    for vote in with_related(votes).iterator(chunk_size=BATCH):
        yield line.getvalue()
        line.seek(0)
        line.truncate()
        row = VoteOut.from_orm(vote).model_dump(mode="json")
        images = [{**(row[side] or {}), **(row[side] or {}).get("retention", {})} for side in SIDES]
        cells = [row[name] for name in scalars]
        cells += [image.get(name) for image in images for name in names]
        writer.writerow(["" if cell is None else safe_cell(cell) for cell in cells])
    yield line.getvalue()
