"""What the admin's pages share."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.dateparse import parse_datetime
from django.utils.html import format_html
from django.utils.safestring import SafeString
from import_export.resources import ModelResource

from leaderboard.models import StoredImage
from leaderboard.models.suites import Curation
from leaderboard.text import safe_cell


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
    """Bulk activate and retire."""

    actions = ("activate", "retire")

    @admin.action(description="Activate", permissions=["change"])
    def activate(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._set(request, queryset, Curation.ACTIVE)

    @admin.action(description="Retire", permissions=["change"])
    def retire(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._set(request, queryset, Curation.RETIRED)

    def _set(self, request: HttpRequest, queryset: QuerySet[Any], status: Curation) -> None:
        rows = list(queryset.exclude(status=status))
        for row in rows:
            row.status = status
            row.save()  # one by one, so that each change is in the history
        messages.success(request, f"{len(rows)} row(s) are now {status.label.lower()}.")
