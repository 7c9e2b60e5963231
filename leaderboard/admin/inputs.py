"""Form fields for lists that the database keeps as JSON: words, wordings, pictures to choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

#: Wordings that can be added at a time.
NEW_ROWS = 2
WORDING = ("name", "forward", "backward")


class WordsField(forms.CharField):
    """A list of words, written one after another with commas between."""

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


class _Rendered:
    """A widget that is drawn by a template of the project's own."""

    template = ""

    def _rendered(self, **context: Any) -> SafeString:
        return mark_safe(render_to_string(self.template, context))  # noqa: S308 - by a template


class WordingsWidget(_Rendered, forms.Widget):
    """A row of three inputs for each wording, and some empty rows."""

    template = "admin/leaderboard/editpair/_wordings.html"

    def render(
        self, name: str, value: Any, attrs: Mapping[str, Any] | None = None, renderer: Any = None
    ) -> SafeString:
        rows = [*(value or []), *({} for _ in range(NEW_ROWS))]
        return self._rendered(name=name, rows=rows, count=len(rows))

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
    """Other wordings of a pair; one that is cleared is removed."""

    widget = WordingsWidget

    def to_python(self, value: Any) -> list[dict[str, str]]:
        for place, row in enumerate(value or [], start=1):
            if lacking := [part for part in WORDING if not row.get(part)]:
                raise ValidationError(f"Wording {place} lacks its {' and its '.join(lacking)}.")
        return value or []


class ThumbnailChoices(_Rendered, forms.CheckboxSelectMultiple):
    """Pictures to tick, each with its thumbnail, folded away until somebody looks."""

    template = "admin/leaderboard/suite/_choices.html"
    #: Addresses of thumbnails by choice; where there are none, words stand alone.
    thumbnails: Mapping[str, str] = {}

    def render(
        self, name: str, value: Any, attrs: Mapping[str, Any] | None = None, renderer: Any = None
    ) -> SafeString:
        chosen: Sequence[str] = value or []
        rows = [
            {
                "value": slug,
                "label": label,
                "chosen": slug in chosen,
                "thumbnail": self.thumbnails.get(slug, ""),
            }
            for slug, label in self.choices
        ]
        return self._rendered(name=name, rows=rows, chosen=len(chosen), id=(attrs or {}).get("id"))
