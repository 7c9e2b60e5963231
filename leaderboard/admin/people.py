"""Admin of accounts, API tokens, votes and voters."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.widgets import AdminSplitDateTime
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import Count, DateTimeField, Q, QuerySet
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.cache import never_cache

from evaluation.metrics import full_reference_metrics
from leaderboard.admin.base import ReadOnly
from leaderboard.models import ApiToken, Trip, Vote, Voter
from leaderboard.people import vote_rows

admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class StaffAdmin(UserAdmin):
    """Django's form without the widgets that screen readers cannot use."""

    filter_horizontal = ()
    readonly_fields = ("last_login", "date_joined")


@admin.register(Group)
class RoleAdmin(GroupAdmin):
    filter_horizontal = ()


class LabelledDateTime(AdminSplitDateTime):
    """Django's two inputs, each with its own label."""

    def __init__(self, attrs: Any = None) -> None:
        super().__init__(attrs)
        for part, name in zip(self.widgets, ("Date", "Time"), strict=True):
            part.attrs["aria-label"] = name


@admin.register(ApiToken)
class ApiTokenAdmin(admin.ModelAdmin):
    list_display = (
        *("holder", "email", "start", "valid", "submission_count", "last_used_at", "created_at"),
    )
    search_fields = ("holder", "email", "start")
    date_hierarchy = "created_at"
    actions = ("revoke",)
    fields = ("holder", "email", "expires_at")
    formfield_overrides = {DateTimeField: {"widget": LabelledDateTime}}

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).annotate(n_submissions=Count("submissions"))

    def get_fields(self, request: HttpRequest, obj: ApiToken | None = None) -> Any:
        issued = ("start", "issued_by", "created_at", "last_used_at", "revoked_at")
        return (*self.fields, *issued) if obj else self.fields

    def get_readonly_fields(self, request: HttpRequest, obj: ApiToken | None = None) -> Any:
        return [name for name in self.get_fields(request, obj) if name not in self.fields]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # a token is revoked instead: its submissions still refer to it

    def save_model(self, request: HttpRequest, obj: ApiToken, form: Any, change: bool) -> None:
        if not change:
            obj.issued_by_id = request.user.pk
            request.new_secret = obj.draw()  # type: ignore[attr-defined]
        super().save_model(request, obj, form, change)

    def response_add(self, request: HttpRequest, obj: ApiToken, *args: Any) -> HttpResponse:
        """Show the secret once, on a page of its own: a message would stay in a cookie."""
        context = {
            **self.admin_site.each_context(request),
            "token": obj,
            "secret": request.new_secret,  # type: ignore[attr-defined]
            "title": f"A token for {obj.holder}",
            "opts": self.opts,
        }
        return never_cache(render)(request, "admin/leaderboard/apitoken/issued.html", context)

    @admin.display(description="valid", boolean=True)
    def valid(self, token: ApiToken) -> bool:
        expired = token.expires_at is not None and token.expires_at <= timezone.now()
        return token.revoked_at is None and not expired

    @admin.display(description="submissions", ordering="n_submissions")
    def submission_count(self, token: Any) -> int:
        return token.n_submissions

    @admin.action(description="Revoke", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        tokens = list(queryset.filter(revoked_at=None))
        for token in tokens:
            ApiToken.objects.filter(pk=token.pk).update(revoked_at=timezone.now())
            self.log_change(request, token, "Revoked.")
        messages.success(
            request, f"{len(tokens)} token(s) revoked; the API refuses them from now on."
        )


@admin.register(Vote)
class VoteAdmin(ReadOnly):
    list_display = (
        *("pk", "kind", "question__case", "first", "second", "answer_words", "role", "voter"),
        *("weight", "seconds", "answered_at"),
    )
    list_filter = ("kind", "role", "question__case__suite")
    list_select_related = (
        *("voter", "question__case__image"),
        "question__first__chain__run__editing_model",
        "question__second__chain__run__editing_model",
    )
    search_fields = ("voter__key", "question__case__slug")
    date_hierarchy = "answered_at"
    actions = ("download",)
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Vote]:
        return super().get_queryset(request).filter(answered_at__isnull=False)

    @admin.display(description="first")
    def first(self, vote: Vote) -> SafeString:
        return _link(vote.question.first)

    @admin.display(description="second")
    def second(self, vote: Vote) -> SafeString | str:
        return _link(vote.question.second) if vote.question.second else "–"

    @admin.display(description="answer")
    def answer_words(self, vote: Vote) -> Any:
        return vote_rows.answer_words(vote)

    @admin.display(description="weight", ordering="voter__weight")
    def weight(self, vote: Vote) -> str:
        return f"{vote.voter.weight:.2f}"

    @admin.action(description="Download as CSV", permissions=["view"])
    def download(self, request: HttpRequest, queryset: QuerySet[Vote]) -> StreamingHttpResponse:
        rows = vote_rows.as_csv(queryset, full_reference_metrics())
        response = StreamingHttpResponse(rows, content_type="text/csv; charset=utf-8")
        response["Content-Disposition"] = 'attachment; filename="votes.csv"'
        return response


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

    @admin.display(description="reasons")
    def why(self, voter: Voter) -> str:
        return ", ".join(map(str, voter.reasons)) or "–"

    @admin.display(description="votes", ordering="n_votes")
    def answers(self, voter: Any) -> int:
        return voter.n_votes

    @admin.display(description="right, where known")
    def golds(self, voter: Voter) -> str:
        return f"{voter.gold_right} of {voter.gold}"

    @admin.display(description="same answer to a repeat")
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
