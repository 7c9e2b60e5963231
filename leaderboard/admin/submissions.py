"""Review of submissions, and contributed runs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from simple_history.admin import SimpleHistoryAdmin

from leaderboard.admin.base import WithPages, image_tag
from leaderboard.contributions.forms import withdraw
from leaderboard.jobs.control import start_budget
from leaderboard.models import ContributedRun, EditingModel, Submission, Suite
from leaderboard.models.entries import SUBMISSION_MOVES
from leaderboard.submissions import status, workflow
from leaderboard.submissions.forms import SubmissionForm as SubmitForm

#: Fields that change automatically and are not listed for reviewers.
UNLISTED = frozenset({"probe", "probed_at", "updated_at", "state", "reviewed_at", "reviewed_by"})


class ReviewForm(forms.Form):
    """A reviewer's decision."""

    #: `updated_at` of the submission when the reviewer opened the page.
    seen = forms.DateTimeField(widget=forms.HiddenInput)
    decision = forms.ChoiceField(
        choices=[("approve", "Evaluate it"), ("ask", "Ask a question"), ("reject", "Reject")],
        widget=forms.RadioSelect,
    )
    suite = forms.ModelChoiceField(
        queryset=Suite.objects.playable().defer("definition"), empty_label=None
    )
    budget_calls = forms.IntegerField(
        label="Budget (calls)",
        min_value=1,
        required=False,
        help_text="The run pauses before it exceeds this number of calls.",
    )
    budget_usd = forms.DecimalField(
        label="Budget (USD)", min_value=0, required=False, max_digits=10, decimal_places=4
    )
    message = forms.CharField(
        required=False,
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text="The question, or the reason for the rejection. The submitter sees it.",
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("decision") in ("ask", "reject") and not cleaned.get("message", "").strip():
            self.add_error("message", "State the question, or the reason for the rejection.")
        return cleaned


def _can_be_reviewed(submission: Submission) -> bool:
    return Submission.State.REJECTED in SUBMISSION_MOVES[submission.state]


def _changes(submission: Submission) -> list[tuple[Any, str, str, Any, Any]]:
    """Return the changes since submission: time, user, field, old and new value."""
    records = list(submission.history.select_related("history_user").order_by("history_date"))
    changes = []
    for before, after in pairwise(records):
        who = str(after.history_user or "the submitter")
        for change in after.diff_against(before).changes:
            if change.field not in UNLISTED:
                model_field = Submission._meta.get_field(change.field)
                field = str(getattr(model_field, "verbose_name", change.field))
                changes.append((after.history_date, who, field, change.old, change.new))
    return changes[::-1]


class SubmissionForm(forms.ModelForm):
    """A form with the field labels of the submitter's form."""

    class Meta:
        labels = {
            name: field.label
            for name, field in SubmitForm.base_fields.items()
            if field.label and name in SubmitForm.Meta.fields
        }


@admin.register(Submission)
class SubmissionAdmin(WithPages, SimpleHistoryAdmin):
    form = SubmissionForm
    pages = {"review": "<int:pk>/review/"}
    list_display = ("name", "review_link", "state", "tested", "suite", "organisation", "created_at")
    list_filter = ("state", "contract", "suite")
    list_select_related = ("suite", "probe_edited")
    search_fields = ("name", "organisation", "email", "endpoint_url")
    date_hierarchy = "created_at"
    readonly_fields = (
        *("state", "key_state", "remote_address", "token", "created_at"),
        *("updated_at", "editing_model", "reviewed_by", "reply", "options", "api_token"),
    )
    fields = (
        *("name", "organisation", "email", "paper_url", "code_url", "open_weights", "licence"),
        *("endpoint_url", "contract", "model_id", "options", "key_state", "price_per_edit"),
        *("max_in_flight", "suite", "state", "message", "reply"),
        *(
            "editing_model",
            "reviewed_by",
            "remote_address",
            "api_token",
            "created_at",
            "updated_at",
        ),
    )

    actions = ("test_again",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    @admin.action(description="Test the endpoint again", permissions=["change"])
    def test_again(self, request: HttpRequest, queryset: Any) -> None:
        for submission in queryset:
            try:
                workflow.test_again(submission)
                messages.success(request, f"{submission} is being tested again.")
            except workflow.NotPossible as error:
                messages.error(request, f"{submission}: {error}")

    @admin.display(description="test")
    def tested(self, row: Submission) -> str:
        if row.probed_at is None:
            return "under way" if row.state == Submission.State.PROBING else "–"
        words = "passed" if row.probe.get("ok") else "failed"
        return format_html("{} {}", image_tag(row.probe_edited, 40), words)

    @admin.display(description="key")
    def key_state(self, row: Submission) -> str:
        return "set" if row.api_key else "none"

    @admin.display(description="review")
    def review_link(self, row: Submission) -> str:
        if not _can_be_reviewed(row):
            return "–"
        return format_html(
            '<a class="button" href="{}" aria-label="Review {}">Review</a>',
            reverse("admin:leaderboard_submission_review", args=[row.pk]),
            row.name,
        )

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        row = self.get_object(request, object_id)
        more = {"can_be_reviewed": bool(row and _can_be_reviewed(row))}
        return super().change_view(request, object_id, form_url, (extra_context or {}) | more)

    def review_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Show the submission with its test and cost, and carry out the decision."""
        images = ("probe_sent", "probe_edited", "probe_restored")
        submission = self.row_to_change(request, pk, "suite", "editing_model", *images)
        estimate = status.estimate(submission)
        budget = start_budget(estimate)
        decision = request.GET.get("decision", "approve")
        seen = submission.updated_at.isoformat()
        form = ReviewForm(
            request.POST or None,
            initial={"seen": seen, "suite": submission.suite, "decision": decision, **budget},
        )
        if form.is_valid():
            try:
                messages.success(request, self._decide(request, submission, form.cleaned_data))
                return redirect("admin:leaderboard_submission_change", pk)
            except workflow.NotPossible as error:
                messages.error(request, str(error))
                # The next decision applies to the version that is shown now.
                form.data = {**request.POST.dict(), "seen": submission.updated_at.isoformat()}
        return self.page(
            request,
            "review",
            submission=submission,
            form=form,
            estimate=estimate,
            changes=_changes(submission),
            steps=submission.probe.get("steps", []),
            others=workflow.similar(submission),
            same_name=EditingModel.objects.filter(name__iexact=submission.name).first(),
        )

    def _decide(self, request: HttpRequest, submission: Submission, values: dict[str, Any]) -> str:
        message = values["message"].strip()
        if values["decision"] == "approve":
            run = workflow.approve(
                submission,
                suite=values["suite"],
                budget_calls=values["budget_calls"],
                budget_usd=values["budget_usd"],
                by=request.user,
                seen=values["seen"],
            )
            self.log_change(request, submission, f"Approved as run {run.pk}.")
            return f"{submission} is being evaluated as run {run.pk}."
        is_question = values["decision"] == "ask"
        to = Submission.State.ASKED if is_question else Submission.State.REJECTED
        now = timezone.now()
        reviewed = {"message": message, "reviewed_by": request.user, "reviewed_at": now}
        workflow.move(submission, to, seen=values["seen"], **reviewed)
        self.log_change(request, submission, f"{to.label}: {message[:200]}")
        return "The question was sent." if is_question else "The submission is rejected."


@admin.register(ContributedRun)
class ContributedRunAdmin(admin.ModelAdmin):
    """Read-only; a contributed run is published or withdrawn, but never ranked."""

    list_display = ("name", "contributed_by", "state", "progress", "decide", "created_at")
    list_filter = ("state",)
    list_select_related = ("run__review", "run__progress", "run__editing_model")
    search_fields = ("name", "contributed_by", "email")
    date_hierarchy = "created_at"
    actions = ("withdraw",)
    fields = (
        "name",
        "contributed_by",
        "email",
        "paper_url",
        "code_url",
        "state",
        "progress",
        "error",
        "decide",
        "editing_model",
        "bytes",
        "attempts",
        "created_at",
        "ended_at",
    )
    readonly_fields = fields

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False  # contributors use the form; operators use `import_results bundle`

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # withdrawn runs are deleted after 30 days

    @admin.display(description="progress")
    def progress(self, contribution: ContributedRun) -> str:
        return f"{contribution.steps_done:,} of {contribution.steps_total:,} lines"

    @admin.display(description="rank")
    def decide(self, contribution: ContributedRun) -> str:
        if contribution.run is None:
            return "–"
        address = reverse("admin:leaderboard_run_change", args=[contribution.run.pk])
        return format_html('<a href="{}">{}</a>', address, contribution.run.public_state)

    @admin.action(description="Withdraw from the site", permissions=["change"])
    def withdraw(self, request: HttpRequest, queryset: QuerySet[ContributedRun]) -> None:
        rows = list(queryset.exclude(state=ContributedRun.State.WITHDRAWN))
        for contribution in rows:
            withdraw(contribution)
            self.log_change(request, contribution, "withdrawn")
        messages.success(request, f"{len(rows)} run(s) withdrawn.")
