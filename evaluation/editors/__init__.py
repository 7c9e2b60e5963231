"""The registry of editors; loads editors from rows of fixtures/editing_models.json."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

from evaluation.editors.base import Answer, Editor, Refused
from evaluation.editors.failures import misconfigured
from evaluation.errors import EditorError, Fault
from evaluation.registry import Registry

__all__ = [
    "EDITORS",
    "Answer",
    "Editor",
    "EditorError",
    "Fault",
    "Refused",
    "editor_class",
    "find_row",
    "load_editor",
    "load_row",
]

EDITORS: Registry[Editor] = Registry(
    "editor",
    misconfigured,
    {
        # Reference editors.
        "oracle": "evaluation.editors.reference:Oracle",
        "noop": "evaluation.editors.reference:NoOp",
        "blank-card": "evaluation.editors.reference:BlankCard",
        "thumbnail": "evaluation.editors.reference:Thumbnail",
        "jpeg": "evaluation.editors.reference:Jpeg",
        "noise": "evaluation.editors.reference:Noise",
        "misreader": "evaluation.editors.reference:Misreader",
        "resample": "evaluation.editors.reference:Resample",
        "colour-drift": "evaluation.editors.reference:ColourDrift",
        "loses-things": "evaluation.editors.reference:LosesThings",
        "hue-drift": "evaluation.editors.reference:HueDrift",
        "latent": "evaluation.editors.latent:Latent",
        "restorer": "evaluation.editors.restorers:Restorer",
        "super-resolver": "evaluation.editors.restorers:SuperResolver",
        "neural-eraser": "evaluation.editors.neural_eraser:NeuralEraser",
        "ark": "evaluation.editors.providers.ark:Ark",
        "bfl": "evaluation.editors.providers.bfl:BlackForestLabs",
        "dashscope": "evaluation.editors.providers.dashscope:DashScope",
        "diffusers": "evaluation.editors.diffusers_pipeline:DiffusersPipeline",
        "endpoint": "evaluation.editors.endpoint:Endpoint",
        "fal": "evaluation.editors.providers.fal:Fal",
        "gemini": "evaluation.editors.providers.gemini:Gemini",
        "openai-images": "evaluation.editors.providers.openai_images:OpenAIImages",
        "replicate": "evaluation.editors.providers.replicate:Replicate",
    },
)
load_editor = EDITORS.load


def editor_class(name: str) -> type[Editor] | None:
    """Return the editor class of this name; None if unknown or not importable here."""
    try:
        return EDITORS.find(name)
    except (EditorError, ImportError, AttributeError):
        return None


def load_row(row: Mapping[str, Any]) -> Editor:
    """Return the editor of this row, with its options and price."""
    name, options = row["editor"], dict(row.get("options") or {})
    if row.get("price_per_edit") is not None and "price" in _parameters(name):
        options.setdefault("price", float(row["price_per_edit"]))
        options.setdefault("price_date", str(row.get("price_date") or ""))
    try:
        return load_editor(name, **options)
    except (TypeError, ValueError) as error:
        raise misconfigured(
            f"the options of {row.get('slug', name)} are not valid: {error}"
        ) from None


def find_row(rows: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    """Return the row with this slug or model id ("gemini-3.1-flash-image")."""
    for row in rows:
        if row["slug"] == name:
            return row
    wanted = _plain(name)
    for row in rows:
        options = row.get("options") or {}
        ids = (row["slug"], row["name"], options.get("model"), options.get("checkpoint"))
        if wanted in {_plain(name_or_id) for name_or_id in ids if name_or_id}:
            return row
    slugs = ", ".join(str(row["slug"]) for row in rows)
    raise misconfigured(f"there is no editing model {name!r}; known are {slugs}")


def _parameters(editor: str) -> Mapping[str, Any]:
    return inspect.signature(EDITORS.find(editor)).parameters if editor in EDITORS else {}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower())
