"""Admin of editing models and of security events of their endpoints."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Count
from django.http import HttpRequest

from evaluation.editors import EDITORS
from evaluation.errors import EditorError
from evaluation.untrusted_json import can_be_stored
from leaderboard import endpoints
from leaderboard.admin.base import DetectsConflicts, HistoryAdmin, ReadOnly
from leaderboard.models import EditingModel, SecurityEvent, Suite
from leaderboard.standings import refresh_ranks
from leaderboard.text import secret_names


class EditingModelForm(DetectsConflicts):
    new_api_key = forms.CharField(
        required=False,
        widget=forms.PasswordInput(render_value=False, attrs={"autocomplete": "off"}),
        help_text="The new key replaces the stored one and is never shown again. For hosted "
        "providers, set the key in the worker's environment instead.",
    )

    class Meta:
        model = EditingModel
        fields = "__all__"

    def clean_editor(self) -> str:
        name = self.cleaned_data["editor"]
        if name not in EDITORS:
            raise ValidationError(
                f"No editor is called {name!r}. Choose one of {', '.join(sorted(EDITORS))}."
            )
        return name

    def clean_options(self) -> dict[str, Any]:
        options = self.cleaned_data["options"] or {}
        if not isinstance(options, dict):
            raise ValidationError('Enter a JSON object, such as {"model": "…"}.')
        if secret := secret_names(options):
            raise ValidationError(
                f"Enter keys in their own field; remove {', '.join(secret)} here."
            )
        if not can_be_stored(options):
            raise ValidationError(
                "The options contain a zero byte, an invalid character or a number that is too "
                "large."
            )
        return options

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if "editor" in cleaned and "options" in cleaned:
            try:
                endpoints.check_key_destination(cleaned["editor"], cleaned["options"])
            except EditorError as error:
                self.add_error("options", error.message)
        return cleaned

    def save(self, commit: bool = True) -> EditingModel:
        if self.cleaned_data.get("new_api_key"):
            self.instance.api_key = self.cleaned_data["new_api_key"]
        return super().save(commit)


@admin.register(EditingModel)
class EditingModelAdmin(HistoryAdmin):
    form = EditingModelForm
    list_display = (
        *("name", "provider", "editor", "access", "open_weights", "price_per_edit", "is_reference"),
        *("verified", "canary", "run_count", "status"),
    )
    list_filter = ("status", "access", "is_reference", "verified", "canary", "open_weights")
    search_fields = ("slug", "name", "provider", "organisation")
    prepopulated_fields = {"slug": ("name",)}
    readonly_fields = ("key_state",)

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).annotate(n_runs=Count("runs"))

    def save_model(self, request: HttpRequest, obj: EditingModel, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if change and "status" in form.changed_data:  # the model joins or leaves the board
            for suite in Suite.objects.filter(runs__editing_model=obj).distinct():
                refresh_ranks(suite)

    @admin.display(description="runs", ordering="n_runs")
    def run_count(self, row: Any) -> int:
        return row.n_runs

    @admin.display(description="stored key")
    def key_state(self, row: EditingModel) -> str:
        return "set" if row.api_key else "none"


@admin.register(SecurityEvent)
class SecurityEventAdmin(ReadOnly):
    list_display = ("created_at", "kind", "detail", "submission", "editing_model")
    list_filter = ("kind",)
    list_select_related = ("submission", "editing_model")
    date_hierarchy = "created_at"
