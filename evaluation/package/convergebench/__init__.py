"""ConvergeBench as a library: `evaluate(editor, suite)`; see docs/library.md."""

from evaluation import __version__
from evaluation.library import (
    Answer,
    Editor,
    EditorError,
    EncodedImage,
    Fault,
    Paused,
    PlayOptions,
    Refused,
    Results,
    ScoreOptions,
    Suite,
    evaluate,
    suite,
)

__all__ = [
    "Answer",
    "Editor",
    "EditorError",
    "EncodedImage",
    "Fault",
    "Paused",
    "PlayOptions",
    "Refused",
    "Results",
    "ScoreOptions",
    "Suite",
    "__version__",
    "evaluate",
    "suite",
]
