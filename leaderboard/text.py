"""Text of strangers, cleaned and compared by its looks; addresses and cells for other programs."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from django import forms
from django.conf import settings

#: Cyrillic and Greek letters that pass for Latin ones.
LOOKALIKES = str.maketrans(
    "аеорсухіјѕԁһӏАВЕКМНОРСТХΑΒΕΖΗΙΚΜΝΟΡΤΥΧοαν", "aeopcyxijsdhlABEKMHOPCTXABEZHIKMNOPTYXoav"
)


def plain_text(text: str) -> str:
    """The text without control and bidirectional characters, spaces folded."""
    kept = "".join(c for c in text if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co"))
    return " ".join(kept.split())


class PlainCharField(forms.CharField):
    """A form's text without control and bidirectional characters."""

    def to_python(self, value: Any) -> str:
        return plain_text(super().to_python(value) or "")


def skeleton(name: str) -> str:
    """Fold a name to its looks: compatible letters, no accents, no punctuation, no case."""
    folded = unicodedata.normalize("NFKD", name).translate(LOOKALIKES)
    return re.sub(r"[^a-z0-9]", "", folded.casefold())


#: What people call a secret.
SECRET_NAME = re.compile(
    r"key|token|secret|password|passwd|authori[sz]ation|bearer|cookie|credential", re.IGNORECASE
)
#: Far deeper than any parameter of a model.
MAX_DEPTH = 20


def secret_names(value: Any, depth: int = 0) -> list[str]:
    """The names in a structure, however deep, that tell of a secret."""
    if depth > MAX_DEPTH:
        return ["something nested too deeply"]
    if isinstance(value, dict):
        own = [name for name in value if SECRET_NAME.search(name)]
        return own + [n for inner in value.values() for n in secret_names(inner, depth + 1)]
    if isinstance(value, list):
        return [name for inner in value for name in secret_names(inner, depth + 1)]
    return []


_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)*([eE][+-]?\d+)?")
_FORMULA = re.compile(r"\s*[=+\-@|%]|[\t\r\n]")


def safe_cell(value: Any) -> Any:
    """The value; a text that could be read as a formula begins with an apostrophe."""
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        return value
    return f"'{value}" if _FORMULA.match(value) else value


def absolute(path: str) -> str:
    """Return the whole address of a page of this site."""
    return settings.SITE_URL.rstrip("/") + path
