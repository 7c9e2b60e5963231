"""The editors by name: dotted paths, not classes, so that nothing heavy loads early."""

from __future__ import annotations

import pkgutil
from typing import Any

from evaluation.editors.base import Answer, Editor, Refused
from evaluation.errors import EditorError, Fault

__all__ = [
    "EDITORS",
    "Answer",
    "Editor",
    "EditorError",
    "Fault",
    "Refused",
    "editor_class",
    "load_editor",
]

EDITORS: dict[str, str] = {
    # Reference editors, the yardsticks.
    "oracle": "evaluation.editors.reference:Oracle",
    "noop": "evaluation.editors.reference:NoOp",
    "blank-card": "evaluation.editors.reference:BlankCard",
    "thumbnail": "evaluation.editors.reference:Thumbnail",
    "jpeg": "evaluation.editors.reference:Jpeg",
    "noise": "evaluation.editors.reference:Noise",
    "misreader": "evaluation.editors.reference:Misreader",
    "resample": "evaluation.editors.reference:Resample",
    "colour-drift": "evaluation.editors.reference:ColourDrift",
    "latent": "evaluation.editors.latent:Latent",
    "restorer": "evaluation.editors.restorers.classical:Restorer",
    "super-resolver": "evaluation.editors.restorers.super_resolution:SuperResolver",
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
}


def editor_class(name: str) -> type[Editor] | None:
    """The class behind a name; None for an unknown one, or one that cannot be imported here."""
    try:
        found: type[Editor] = pkgutil.resolve_name(EDITORS[name])
    except (KeyError, ImportError, AttributeError):
        return None
    return found


def load_editor(name: str, **options: Any) -> Editor:
    """The editor registered under `name`, made with its row's options."""
    try:
        path = EDITORS[name]
    except KeyError:
        known = ", ".join(sorted(EDITORS))
        raise EditorError(
            f"there is no editor called {name!r}; known are {known}",
            fault=Fault.CONFIGURATION,
            permanent=True,
        ) from None
    editor: Editor = pkgutil.resolve_name(path)(**options)
    return editor
