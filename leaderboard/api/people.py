"""People's votes: every public vote, and their results."""

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Field, Query, Router, Schema
from ninja.pagination import paginate

from evaluation.content.suites import find_suite
from leaderboard.api.results import PROBLEMS, Page
from leaderboard.board.rows import suites
from leaderboard.models import PeopleReport, Trip, Vote
from leaderboard.people.vote_rows import pseudonym, said, verdicts

router = Router(tags=["people"])


class ReturnOut(Schema):
    """One of the images that were shown."""

    model: str = Field(alias="chain.run.editing_model.slug")
    run: int = Field(alias="chain.run_id")
    trip: int = Field(alias="number")
    sha256: str | None = Field(alias="restored_id", description="The picture as answered.")
    retention: dict[str, float] = Field(description="What each metric keeps of the picture.")
    evidence: dict[str, dict[str, bool]] = Field(
        description="What each witness and judge says: undone, kept."
    )

    @staticmethod
    def resolve_retention(trip: Trip) -> dict[str, float]:
        return trip.chain.retentions_after(trip.number)

    @staticmethod
    def resolve_evidence(trip: Trip) -> dict[str, dict[str, bool]]:
        return verdicts(trip.evidence)


class VoteOut(Schema):
    """One answer of one person who did not know the models."""

    id: int
    kind: str = Field(description="pair or usable.")
    suite: str = Field(alias="question.case.suite.key")
    case: str = Field(alias="question.case.slug")
    source: str | None = Field(alias="question.case.picture.stored_id")
    first: ReturnOut = Field(alias="question.first")
    second: ReturnOut | None = Field(alias="question.second")
    answer: str | None = Field(
        description="first, second or cannot say; yes or no. Whichever side it stood on."
    )
    first_left: bool
    role: str = Field(description="Empty, gold (known answer) or repeat (own pair again).")
    voter: str = Field(description="The same for all votes of one person; a hash.")
    weight: float = Field(alias="voter.weight", description="How far the voter is believed.")
    seconds: float | None
    answered_at: datetime

    @staticmethod
    def resolve_voter(vote: Vote) -> str:
        return pseudonym(vote.voter)

    @staticmethod
    def resolve_answer(vote: Vote) -> str | None:
        return said(vote)


@router.get(
    "/votes",
    response={200: list[VoteOut], **PROBLEMS},
    summary="People's votes",
    url_name="votes",
)
@paginate(Page)
def votes(
    request: HttpRequest,
    kind: str = Query("", max_length=8, description="pair or usable."),
    suite: str = Query("", max_length=80),
) -> Any:
    """List every vote on public runs, oldest first, with retention and evidence."""
    rows = Vote.objects.public().select_related(
        *("voter", "question__case__suite", "question__case__picture"),
        *("question__first__chain__run__editing_model",),
        *("question__second__chain__run__editing_model",),
    )
    if kind:
        rows = rows.filter(kind=kind)
    if suite:
        match = find_suite(suite, suites())
        rows = rows.filter(question__case__suite=match) if match else rows.none()
    deferred = ("loss_map", "damage", "change_measure")
    unread = [f"question__{side}__{name}" for side in ("first", "second") for name in deferred]
    return rows.defer("question__case__suite__definition", *unread).order_by("pk")


@router.get(
    "/agreement", response={200: dict[str, Any], **PROBLEMS}, summary="Who agrees with people"
)
def agreement(request: HttpRequest) -> Any:
    """Return agreement by metric and witness, the ceiling, levels and differences."""
    report = PeopleReport.objects.order_by("pk").first()
    return report.numbers | {"computed_at": report.computed_at.isoformat()} if report else {}
