"""Registry of the editors."""

from __future__ import annotations

from evaluation.editors.base import Answer, Editor, Refused
from evaluation.editors.failures import configuration
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
    "load_editor",
]

EDITORS: Registry[Editor] = Registry(
    "editor",
    configuration,
    {
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
    },
)
load_editor = EDITORS.load


def editor_class(name: str) -> type[Editor] | None:
    """Return the class of this name; None if it is unknown or cannot be imported here."""
    try:
        return EDITORS.find(name)
    except (EditorError, ImportError, AttributeError):
        return None
