"""Admin of votes and voters, read-only: the weight of a vote follows from rules."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, StreamingHttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from evaluation.metrics import full_reference_metrics
from leaderboard.admin.base import ReadOnly
from leaderboard.models import Trip, Vote, Voter
from leaderboard.people import vote_rows


def votes_file(votes: QuerySet[Vote], name: str) -> StreamingHttpResponse:
    """Return votes as a CSV download."""
    response = StreamingHttpResponse(
        vote_rows.as_csv(votes, full_reference_metrics()), content_type="text/csv; charset=utf-8"
    )
    response["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return response


@admin.register(Vote)
class VoteAdmin(ReadOnly):
    list_display = (
        *("pk", "asked", "case", "first", "second", "said", "role", "voter", "weight"),
        *("seconds", "answered_at"),
    )
    list_filter = ("kind", "role", "question__case__suite")
    list_select_related = (
        *("voter", "question__case__picture"),
        "question__first__chain__run__editing_model",
        "question__second__chain__run__editing_model",
    )
    search_fields = ("voter__key", "question__case__slug")
    date_hierarchy = "answered_at"
    actions = ("download",)
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Vote]:
        return super().get_queryset(request).filter(answered_at__isnull=False)

    @admin.display(description="kind", ordering="kind")
    def asked(self, vote: Vote) -> str:
        return vote.kind

    @admin.display(description="case")
    def case(self, vote: Vote) -> str:
        return vote.question.case.slug

    @admin.display(description="first")
    def first(self, vote: Vote) -> SafeString:
        return _link(vote.question.first)

    @admin.display(description="second")
    def second(self, vote: Vote) -> SafeString | str:
        return _link(vote.question.second) if vote.question.second else "–"

    @admin.display(description="answer")
    def said(self, vote: Vote) -> Any:
        return vote_rows.said(vote)

    @admin.display(description="weight", ordering="voter__weight")
    def weight(self, vote: Vote) -> str:
        return f"{vote.voter.weight:.2f}"

    @admin.action(description="Download as CSV", permissions=["view"])
    def download(self, request: HttpRequest, queryset: QuerySet[Vote]) -> StreamingHttpResponse:
        return votes_file(queryset, "votes")


@admin.register(Voter)
class VoterAdmin(ReadOnly):
    list_display = (
        *("__str__", "weight_shown", "why", "answers", "golds", "own_again", "created_at"),
    )
    search_fields = ("key",)
    fields = (
        *("key", "weight", "reasons", "gold", "gold_right"),
        *("repeats", "repeats_same", "created_at"),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Voter]:
        answered = Count("votes", Q(votes__answered_at__isnull=False))
        return super().get_queryset(request).annotate(n_votes=answered)

    @admin.display(description="weight", ordering="weight")
    def weight_shown(self, voter: Voter) -> str:
        return f"{voter.weight:.2f}"

    @admin.display(description="because")
    def why(self, voter: Voter) -> str:
        return ", ".join(map(str, voter.reasons)) or "–"

    @admin.display(description="votes", ordering="n_votes")
    def answers(self, voter: Any) -> int:
        return voter.n_votes

    @admin.display(description="known answers right")
    def golds(self, voter: Voter) -> str:
        return f"{voter.gold_right} of {voter.gold}"

    @admin.display(description="own again, the same")
    def own_again(self, voter: Voter) -> str:
        return f"{voter.repeats_same} of {voter.repeats}"


def _link(trip: Trip) -> SafeString:
    return format_html(
        '<a href="{}#trip-{}">{} {}</a>',
        trip.chain.get_absolute_url(),
        trip.number,
        trip.chain.run.editing_model,
        trip.number,
    )
