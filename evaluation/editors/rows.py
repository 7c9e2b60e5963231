"""From a row of fixtures/editing_models.json (or of the site's table) to its editor."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

from evaluation.editors import EDITORS, Editor, load_editor
from evaluation.editors.failures import configuration


def load_row(row: Mapping[str, Any]) -> Editor:
    """The editor that plays this row, told what the row says of its price."""
    name, options = row["editor"], dict(row.get("options") or {})
    if row.get("price_per_edit") is not None and "price" in _parameters(name):
        options.setdefault("price", float(row["price_per_edit"]))
        options.setdefault("price_date", str(row.get("price_date") or ""))
    try:
        return load_editor(name, **options)
    except (TypeError, ValueError) as error:
        raise configuration(f"the options of {row.get('slug', name)} do not fit: {error}") from None


def find_row(rows: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    """The row called `name`: its slug, else its model's own id ("gemini-3.1-flash-image")."""
    for row in rows:
        if row["slug"] == name:
            return row
    wanted = _plain(name)
    for row in rows:
        options = row.get("options") or {}
        ids = (row["slug"], row["name"], options.get("model"), options.get("checkpoint"))
        if wanted in {_plain(known) for known in ids if known}:
            return row
    known = ", ".join(str(row["slug"]) for row in rows)
    raise configuration(f"there is no editing model {name!r}; there are {known}")


def _parameters(editor: str) -> Mapping[str, Any]:
    return inspect.signature(EDITORS.find(editor)).parameters if editor in EDITORS else {}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower())
