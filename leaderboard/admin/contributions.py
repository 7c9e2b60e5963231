"""Admin of contributed runs: their state, and the link to the decision on ranks."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from leaderboard.contributions.forms import withdraw
from leaderboard.models import ContributedRun


@admin.register(ContributedRun)
class ContributedRunAdmin(admin.ModelAdmin):
    """Read-only; the page of a run admits it to the ranks, with a public reason."""

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
        return False  # contributors use the form, operators `import_results bundle`

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # withdrawn ones are deleted after 30 days

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
