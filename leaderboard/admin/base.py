"""Shared parts of the admin: thumbnails, conflicts, bulk actions, list fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core import signing
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path, reverse
from django.utils.dateparse import parse_datetime
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST
from import_export.forms import ExportForm
from import_export.resources import ModelResource
from simple_history.admin import SimpleHistoryAdmin

from leaderboard.formatting import count
from leaderboard.models import Case, StoredImage, Suite
from leaderboard.models.suites import Curation
from leaderboard.text import safe_cell

#: Time for which the undo button of a bulk change works.
UNDO_SECONDS = 3600


def image_tag(stored: StoredImage | None, side: int = 64, alt: str = "") -> SafeString | str:
    """Return a thumbnail; its size is stated, so that rows do not move. Links need `alt`."""
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


class WithPages:
    """An admin with extra pages; `pages` maps the name of a view to its path."""

    pages: dict[str, str] = {}
    model: Any
    opts: Any
    admin_site: Any

    def get_urls(self) -> list[Any]:
        pages = [
            path(
                route,
                self.admin_site.admin_view(getattr(self, f"{name}_view")),
                name=f"leaderboard_{self.opts.model_name}_{name}",
            )
            for name, route in self.pages.items()
        ]
        return [*pages, *super().get_urls()]  # type: ignore[misc]

    def row_to_change(self, request: HttpRequest, pk: int, *related: str) -> Any:
        """Return the row of a page. Raises PermissionDenied or Http404."""
        row = get_object_or_404(self.model._default_manager.select_related(*related), pk=pk)
        if not self.has_change_permission(request, row):  # type: ignore[attr-defined]
            raise PermissionDenied
        return row

    def page(self, request: HttpRequest, template: str, **context: Any) -> HttpResponse:
        """Render a template of this admin within the site's frame."""
        frame = {**self.admin_site.each_context(request), "opts": self.opts}
        name = f"admin/leaderboard/{self.opts.model_name}/{template}.html"
        return render(request, name, frame | context)


class ReadOnly(admin.ModelAdmin):
    """An admin of rows that only visitors and workers write."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class HistoryAdmin(SimpleHistoryAdmin):
    """An admin with history, which fills in the slug of a new row from its title."""

    prepopulated_fields = {"slug": ("title",)}

    def get_prepopulated_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return {} if obj else self.prepopulated_fields


class SafeResource(ModelResource):
    """An export for spreadsheets whose cells cannot run as formulas."""

    def export_field(self, field: Any, instance: Any, **options: Any) -> Any:
        return safe_cell(super().export_field(field, instance, **options))


class DetectsConflicts(forms.ModelForm):
    """A form that refuses to overwrite changes saved since it was opened."""

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
                who = last.history_user if last and last.history_user else "another person"
                raise ValidationError(
                    f"This was saved by {who} at {current.updated_at:%H:%M:%S} UTC, after you "
                    "opened the page. Open the page in a second tab, compare, and save your "
                    "changes there.",
                    code="conflict",
                )
        return cleaned


class CurationActions(WithPages):
    """Activate or retire rows in bulk. A bulk change can be undone until a row changes again.

    Rows that frozen suites use cannot be deleted. `frozen_cases` is the lookup from a case of a
    suite to the row.
    """

    pages = {"undo": "undo/"}
    actions = ("activate", "retire")
    frozen_cases: str
    # Exports all fields: the form to choose them needs inline scripts, which the CSP forbids.
    export_form_class = ExportForm

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        deleted, counts, perms_needed, protected = super().get_deleted_objects(objs, request)  # type: ignore[misc]
        frozen = Case.objects.filter(suite__status=Suite.Status.FROZEN)
        for row in objs:
            if cases := frozen.filter(**{self.frozen_cases: row}).count():
                protected.append(
                    f"{row}: in {count(cases, 'case')} of frozen suites. Retire it instead."
                )
        return deleted, counts, perms_needed, protected

    @admin.action(description="Activate", permissions=["change"])
    def activate(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._set(request, queryset, Curation.ACTIVE)

    @admin.action(description="Retire", permissions=["change"])
    def retire(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._set(request, queryset, Curation.RETIRED)

    def _set(self, request: HttpRequest, queryset: QuerySet[Any], status: Curation) -> None:
        rows = list(queryset.exclude(status=status))
        before = [(row.pk, row.status) for row in rows]
        for row in rows:
            row.status = status
            row.save()  # saved one by one, so that each change is in the history
        done = f"{self._counted(rows)} now {status.label.lower()}."
        messages.success(request, self._undoable(request, done, before, status) if rows else done)

    def _undoable(
        self, request: HttpRequest, done: str, before: list[tuple[int, str]], status: Curation
    ) -> SafeString:
        """Return a message with a button that undoes the change."""
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

    @method_decorator(require_POST)
    def undo_view(self, request: HttpRequest) -> HttpResponse:
        """Restore the former status of each row of a bulk change."""
        if not self.has_change_permission(request):  # type: ignore[attr-defined]
            raise PermissionDenied
        back = redirect(f"admin:leaderboard_{self.opts.model_name}_changelist")
        try:
            status, before = signing.loads(
                request.POST.get("change", ""), salt=self.opts.label, max_age=UNDO_SECONDS
            )
        except signing.BadSignature:
            messages.error(request, "This change is too old to be undone here.")
            return back
        statuses = dict(before)
        rows = list(self.opts.model._default_manager.filter(pk__in=statuses, status=status))
        for row in rows:
            row.status = statuses[row.pk]
            row.save()
        left = len(statuses) - len(rows)
        changed = f" {left} changed since then and were not restored." if left else ""
        messages.success(request, f"{self._counted(rows)} as before.{changed}")
        return back

    def _counted(self, rows: Sequence[Any]) -> str:
        """Return "1 edit pair is" or "2 edit pairs are"."""
        one, many = self.opts.verbose_name, self.opts.verbose_name_plural
        return f"1 {one} is" if len(rows) == 1 else f"{len(rows)} {many} are"


def checkboxes(choices: Any, label: str, help_text: str = "") -> forms.MultipleChoiceField:
    """Return an optional field with a checkbox for each choice."""
    return forms.MultipleChoiceField(
        choices=choices,
        label=label,
        help_text=help_text,
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )


#: Empty rows for new wordings in a form.
NEW_ROWS = 2
WORDING = ("name", "forward", "backward")


class WordsField(forms.CharField):
    """A list of words, separated by commas."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("widget", forms.TextInput(attrs={"class": "vTextField"}))
        super().__init__(**{"required": False, "max_length": 1000} | options)

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        if isinstance(value, list):
            return value
        words = (word.strip() for word in (value or "").replace("\n", ",").split(","))
        return list(dict.fromkeys(filter(None, words)))

    def run_validators(self, value: Any) -> None:
        super().run_validators(", ".join(value))


class WordingsWidget(forms.Widget):
    """A row of three inputs for each wording, and some empty rows."""

    template_name = "admin/leaderboard/editpair/_wordings.html"

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        rows = [*(value or []), *({} for _ in range(NEW_ROWS))]
        return {"name": name, "rows": rows, "count": len(rows)}

    def value_from_datadict(self, data: Any, files: Any, name: str) -> list[dict[str, str]]:
        count = data.get(f"{name}-count", "0")
        numbers = range(min(int(count), 100) if count.isdecimal() else 0)
        rows = [
            {part: data.get(f"{name}-{n}-{part}", "").strip() for part in WORDING} for n in numbers
        ]
        return [row for row in rows if any(row.values())]

    def value_omitted_from_data(self, data: Any, files: Any, name: str) -> bool:
        return f"{name}-count" not in data

    def id_for_label(self, id_: str, index: str | None = None) -> str:
        return ""  # each input has a label of its own


class WordingsField(forms.Field):
    """Other wordings of a pair; clearing a row removes its wording."""

    widget = WordingsWidget

    def to_python(self, value: Any) -> list[dict[str, str]]:
        for place, row in enumerate(value or [], start=1):
            if missing := [part for part in WORDING if not row.get(part)]:
                raise ValidationError(f"Wording {place} lacks: {', '.join(missing)}.")
        return value or []


class ThumbnailChoices(forms.CheckboxSelectMultiple):
    """Checkboxes of images with thumbnails, folded until opened."""

    template_name = "admin/leaderboard/suite/_choices.html"
    #: Thumbnail URLs by choice; a choice without a thumbnail shows only its label.
    thumbnails: Mapping[str, str] = {}

    def create_option(self, name: str, value: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        option = super().create_option(name, value, *args, **kwargs)
        return option | {"thumbnail": self.thumbnails.get(value, "")}
