"""Figures that others published, from a table: context lines in charts."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

from django import forms
from django.db import transaction

from evaluation.metrics import METRICS
from leaderboard.models import PublishedFigure

#: The table's columns, and the fields that they fill.
COLUMNS = {
    "model": "model_name",
    "metric": "metric",
    "trip": "trip",
    "value": "value",
    "source": "source",
    "url": "source_url",
    "date": "published_on",
    "notes": "notes",
}
OPTIONAL = ("date", "notes")


class FiguresError(ValueError):
    """A table that is not imported: every line and field that does not fit."""


class FigureForm(forms.ModelForm):  # type: ignore[type-arg]
    source_url = forms.URLField(max_length=500, assume_scheme="https")
    trip = forms.IntegerField(min_value=1, max_value=1000)

    class Meta:
        model = PublishedFigure
        fields = tuple(COLUMNS.values())

    def clean_metric(self) -> str:
        name: str = self.cleaned_data["metric"]
        if name not in METRICS:
            raise forms.ValidationError(f"{name} is none of {', '.join(METRICS)}.")
        return name

    def clean_value(self) -> float:
        value: float = self.cleaned_data["value"]
        if not math.isfinite(value):
            raise forms.ValidationError("Enter a number.")
        return value

    def validate_unique(self) -> None:
        """A figure that is here already is replaced by the new one."""


def import_figures(path: Path) -> tuple[int, int]:
    """All of the table's figures or none: how many are new, how many were replaced."""
    rows = _read(path)
    seen: dict[tuple[Any, ...], int] = {}
    wrong: list[str] = []
    good: list[dict[str, Any]] = []
    for line, values in rows:
        form = FigureForm(values)
        if not form.is_valid():
            names = {field: column for column, field in COLUMNS.items()}
            wrong += [
                f"line {line}, {names.get(field, field)}: {message}"
                for field, messages in form.errors.items()
                for message in messages
            ]
            continue
        key = tuple(form.cleaned_data[name] for name in _KEY)
        if key in seen:
            wrong.append(f"line {line}, model: the same figure as in line {seen[key]}.")
        seen[key] = line
        good.append(form.cleaned_data)
    if wrong:
        raise FiguresError("\n".join(wrong))
    with transaction.atomic():
        new = [
            PublishedFigure.objects.update_or_create(
                **{name: row[name] for name in _KEY},
                defaults={name: value for name, value in row.items() if name not in _KEY},
            )[1]
            for row in good
        ]
    return sum(new), len(new) - sum(new)


_KEY = ("model_name", "metric", "trip", "source")


def _read(path: Path) -> list[tuple[int, dict[str, str]]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            table = csv.DictReader(file)
            have = table.fieldnames or ()
            lacking = [name for name in COLUMNS if name not in have and name not in OPTIONAL]
            if lacking:
                raise FiguresError(f"{path.name} lacks the columns {', '.join(lacking)}")
            return [
                (table.line_num, {field: row.get(name) or "" for name, field in COLUMNS.items()})
                for row in table
            ]
    except (UnicodeDecodeError, csv.Error) as error:
        raise FiguresError(f"{path.name} is not a CSV table: {error}") from None
