"""Cleaning of untrusted text, safe CSV cells, and helpers for URLs and downloads."""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

from django import forms
from django.conf import settings

#: Cyrillic and Greek letters that look like Latin letters.
LOOKALIKES = str.maketrans(
    "аеорсухіјѕԁһӏАВЕКМНОРСТХΑΒΕΖΗΙΚΜΝΟΡΤΥΧοαν", "aeopcyxijsdhlABEKMHOPCTXABEZHIKMNOPTYXoav"
)


def plain_text(text: str) -> str:
    """Return the text without control and bidirectional characters, with single spaces."""
    printable = "".join(c for c in text if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co"))
    return " ".join(printable.split())


class PlainCharField(forms.CharField):
    """A form field that removes control and bidirectional characters."""

    def to_python(self, value: Any) -> str:
        return plain_text(super().to_python(value) or "")


def skeleton(name: str) -> str:
    """Return a key that is equal for names that look alike.

    Lookalike letters, accents, punctuation and case are folded.
    """
    folded = unicodedata.normalize("NFKD", name).translate(LOOKALIKES)
    return re.sub(r"[^a-z0-9]", "", folded.casefold())


#: Names that suggest a secret.
SECRET_NAME = re.compile(
    r"key|token|secret|password|passwd|authori[sz]ation|bearer|cookie|credential", re.IGNORECASE
)
#: The maximum nesting of a structure; parameters of real models are far less nested.
MAX_DEPTH = 20


def secret_names(value: Any, depth: int = 0) -> list[str]:
    """Return the names that suggest a secret, at any depth of a structure."""
    if depth > MAX_DEPTH:
        return ["something nested too deeply"]
    if isinstance(value, dict):
        names = [name for name in value if SECRET_NAME.search(name)]
        return names + [n for inner in value.values() for n in secret_names(inner, depth + 1)]
    if isinstance(value, list):
        return [name for inner in value for name in secret_names(inner, depth + 1)]
    return []


_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)*([eE][+-]?\d+)?")
#: Letters that print nothing: Hangul fillers and the blank Braille pattern.
_FILLERS = "\u115f\u1160\u2800"


def safe_cell(value: Any) -> Any:
    """Return the value, with an apostrophe before text that a spreadsheet takes for a formula.

    Spreadsheets skip invisible characters and accept full-width signs.
    """
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        return value
    is_formula = value.startswith(("\t", "\r", "\n")) or _first_visible(value) in set("=+-@|%")
    return f"'{value}" if is_formula else value


def _first_visible(text: str) -> str:
    """Return the first visible character in normal width; empty if there is none."""
    normal = unicodedata.normalize("NFKC", text)
    visible = (c for c in normal if unicodedata.category(c)[0] not in "CMZ" and c not in _FILLERS)
    return next(visible, "")


def csv_lines(rows: Iterable[Iterable[Any]]) -> Iterator[str]:
    """Yield each row as a line of CSV with safe cells; None is an empty cell."""

    class Line:
        def write(self, text: str) -> str:
            return text  # `writerow` returns what `write` returns

    writer = csv.writer(Line())
    for row in rows:
        yield writer.writerow(["" if value is None else safe_cell(value) for value in row])


def attachment(name: str) -> dict[str, str]:
    """Return the headers of a download with this file name."""
    return {"Content-Disposition": f'attachment; filename="{name}"'}


def absolute(path: str) -> str:
    """Return the absolute URL of a page of this site."""
    return settings.SITE_URL.rstrip("/") + path
