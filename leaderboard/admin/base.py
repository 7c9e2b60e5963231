"""What the admin's pages share."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core import signing
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect
from django.urls import path, reverse
from django.utils.dateparse import parse_datetime
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST
from import_export.forms import ExportForm
from import_export.resources import ModelResource

from evaluation.estimate import Estimate
from leaderboard.models import StoredImage
from leaderboard.models.suites import Curation
from leaderboard.text import safe_cell

#: How long a bulk change can be taken back by its button.
UNDO_SECONDS = 3600


def picture(stored: StoredImage | None, side: int = 64, alt: str = "") -> SafeString | str:
    """A thumbnail that does not move the row when it arrives; one in a link needs `alt`."""
    if stored is None:
        return "–"
    scale = side / max(stored.width, stored.height)
    return format_html(
        '<img src="{}" alt="{}" loading="lazy" width="{}" height="{}">',
        stored.thumbnail_url,
        alt,
        round(stored.width * scale),
        round(stored.height * scale),
    )


def start_budget(estimate: Estimate) -> dict[str, Any]:
    """Limits to begin with: what a run should take, and a tenth for calls that fail."""
    usd = None if estimate.usd is None else round(Decimal(estimate.usd) * Decimal("1.1"), 2)
    return {"budget_calls": math.ceil(estimate.edits * 1.1), "budget_usd": usd}


class SafeResource(ModelResource):
    """Rows as files for spreadsheets, in which no text of ours is run as a formula."""

    def export_field(self, field: Any, instance: Any, **options: Any) -> Any:
        return safe_cell(super().export_field(field, instance, **options))


class NoticesConflicts(forms.ModelForm):
    """Refuses to overwrite what somebody else saved since this form was opened."""

    seen_at = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial["seen_at"] = self.instance.updated_at.isoformat()

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        seen = parse_datetime(cleaned.get("seen_at") or "")
        if self.instance.pk and seen:
            current = type(self.instance)._default_manager.get(pk=self.instance.pk)
            if current.updated_at > seen:
                last = current.history.select_related("history_user").first()
                who = last.history_user if last and last.history_user else "somebody else"
                raise ValidationError(
                    f"Saved by {who} at {current.updated_at:%H:%M:%S} UTC, after you opened this "
                    "page. Open it in a second tab, compare, and save your changes there.",
                    code="conflict",
                )
        return cleaned


class CurationActions:
    """Bulk activate and retire, each to be undone as long as nobody changed the rows since."""

    actions = ("activate", "retire")
    # All fields: the form that lets one choose needs inline script, which the CSP forbids.
    export_form_class = ExportForm
    opts: Any
    admin_site: Any

    @admin.action(description="Activate", permissions=["change"])
    def activate(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._set(request, queryset, Curation.ACTIVE)

    @admin.action(description="Retire", permissions=["change"])
    def retire(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._set(request, queryset, Curation.RETIRED)

    def get_urls(self) -> list[Any]:
        undo = self.admin_site.admin_view(require_POST(self.undo_view))
        own = path("undo/", undo, name=f"leaderboard_{self.opts.model_name}_undo")
        return [own, *super().get_urls()]  # type: ignore[misc]

    def _set(self, request: HttpRequest, queryset: QuerySet[Any], status: Curation) -> None:
        rows = list(queryset.exclude(status=status))
        before = [(row.pk, row.status) for row in rows]
        for row in rows:
            row.status = status
            row.save()  # one by one, so that each change is in the history
        done = f"{len(rows)} row(s) are now {status.label.lower()}."
        messages.success(request, self._undoable(request, done, before, status) if rows else done)

    def _undoable(
        self, request: HttpRequest, done: str, before: list[tuple[int, str]], status: Curation
    ) -> SafeString:
        """What was done, with a button that takes it back."""
        return format_html(
            '{} <form method="post" action="{}">'
            '<input type="hidden" name="csrfmiddlewaretoken" value="{}">'
            '<input type="hidden" name="change" value="{}">'
            '<button type="submit" class="button">Undo</button></form>',
            done,
            reverse(f"admin:leaderboard_{self.opts.model_name}_undo"),
            get_token(request),
            signing.dumps([status.value, before], salt=self.opts.label, compress=True),
        )

    def undo_view(self, request: HttpRequest) -> HttpResponse:
        """Give the rows of a bulk change the status that each had before."""
        if not self.has_change_permission(request):  # type: ignore[attr-defined]
            raise PermissionDenied
        back = redirect(f"admin:leaderboard_{self.opts.model_name}_changelist")
        try:
            status, before = signing.loads(
                request.POST.get("change", ""), salt=self.opts.label, max_age=UNDO_SECONDS
            )
        except signing.BadSignature:
            messages.error(request, "This is too long ago to be undone here.")
            return back
        statuses = dict(before)
        rows = list(self.opts.model._default_manager.filter(pk__in=statuses, status=status))
        for row in rows:
            row.status = statuses[row.pk]
            row.save()
        left = len(statuses) - len(rows)
        changed = f" {left} changed since and stay(s) as they are." if left else ""
        messages.success(request, f"{len(rows)} row(s) are as before.{changed}")
        return back
