"""Figures that others published, from a table: context lines in charts."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

from django import forms
from django.db import transaction

from evaluation.metrics import full_reference_metrics
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
#: What makes two figures the same one; the later import replaces the earlier.
KEY = ("model_name", "metric", "trip", "source")


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
        if name not in full_reference_metrics():
            raise forms.ValidationError(f"{name} is none of {', '.join(full_reference_metrics())}.")
        return name

    def clean_value(self) -> float:
        value: float = self.cleaned_data["value"]
        if not math.isfinite(value):
            raise forms.ValidationError("Enter a number.")
        return value


def import_figures(path: Path) -> tuple[int, int]:
    """All of the table's figures or none: how many are new, how many were replaced."""
    seen: dict[tuple[Any, ...], int] = {}
    wrong: list[str] = []
    checked: list[FigureForm] = []
    for line, values in _read(path):
        form = FigureForm(values, instance=_known(values))
        if not form.is_valid():
            names = {field: column for column, field in COLUMNS.items()}
            wrong += [
                f"line {line}, {names.get(field, field)}: {message}"
                for field, messages in form.errors.items()
                for message in messages
            ]
            continue
        key = tuple(form.cleaned_data[name] for name in KEY)
        if key in seen:
            wrong.append(f"line {line}, model: the same figure as in line {seen[key]}.")
        seen[key] = line
        checked.append(form)
    if wrong:
        raise FiguresError("\n".join(wrong))
    replaced = sum(form.instance.pk is not None for form in checked)
    with transaction.atomic():
        for form in checked:
            form.save()
    return len(checked) - replaced, replaced


def _known(values: dict[str, str]) -> PublishedFigure | None:
    """The figure that a line replaces."""
    if not values["trip"].isdecimal():
        return None
    same = {name: values[name].strip() for name in KEY}
    return PublishedFigure.objects.filter(**same).first()


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
