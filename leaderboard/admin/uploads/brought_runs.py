"""Runs that people bring: what became of each, and the way to an admin's word on its rank."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from leaderboard.exchange import brought_runs
from leaderboard.models import BroughtRun


@admin.register(BroughtRun)
class BroughtRunAdmin(admin.ModelAdmin):
    """To read; a run is let into the ranks on its own page, with a reason that is public."""

    list_display = ("name", "brought_by", "state", "progress", "decide", "created_at")
    list_filter = ("state",)
    list_select_related = ("run__review", "run__progress", "run__editing_model")
    search_fields = ("name", "brought_by", "email")
    date_hierarchy = "created_at"
    actions = ("withdraw",)
    fields = (
        *("name", "brought_by", "email", "paper_url", "code_url", "state", "progress", "error"),
        *("decide", "editing_model", "bytes", "attempts", "created_at", "ended_at"),
    )
    readonly_fields = fields

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False  # whoever brings a run uses the form, or an operator `import_bundle`

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # withdrawn ones are deleted after 30 days

    @admin.display(description="progress")
    def progress(self, brought: BroughtRun) -> str:
        return f"{brought.steps_done:,} of {brought.steps_total:,} lines"

    @admin.display(description="rank")
    def decide(self, brought: BroughtRun) -> str:
        if brought.run is None:
            return "–"
        address = reverse("admin:leaderboard_run_change", args=[brought.run.pk])
        return format_html('<a href="{}">{}</a>', address, brought.run.public_state)

    @admin.action(description="Withdraw from the site", permissions=["change"])
    def withdraw(self, request: HttpRequest, queryset: QuerySet[BroughtRun]) -> None:
        rows = list(queryset.exclude(state=BroughtRun.State.WITHDRAWN))
        for brought in rows:
            brought_runs.withdraw(brought)
            self.log_change(request, brought, "withdrawn")
        messages.success(request, f"{len(rows)} run(s) withdrawn.")
