"""ConvergeBench as a library: `evaluate(editor, suite)`; see docs/library.md."""

from evaluation import __version__
from evaluation.library import (
    Answer,
    Editor,
    EditorError,
    Paused,
    Picture,
    Refused,
    Results,
    Suite,
    evaluate,
    suite,
)

__all__ = [
    "Answer",
    "Editor",
    "EditorError",
    "Paused",
    "Picture",
    "Refused",
    "Results",
    "Suite",
    "__version__",
    "evaluate",
    "suite",
]
