"""Baselines for restoration that a CPU can run: classical filters by rule, and a small network.

Asked for anything else, they do what every yardstick does.
"""

from __future__ import annotations

import re
import time
from abc import abstractmethod
from typing import ClassVar

from PIL import Image

from evaluation.editors.base import Answer, Beside
from evaluation.editors.reference import RuleEditor
from evaluation.images import Picture

#: Prompts that ask for a better picture of the same thing.
_RESTORE = re.compile(
    r"\b(restor\w*|enhanc\w*|denois\w*|deblur\w*)\b|\bimprove\b.*\b(clarity|quality)\b"
    r"|\bbring it back to how it should look\b",
    re.IGNORECASE | re.DOTALL,
)


class RestoringEditor(RuleEditor):
    """Restores the picture where that is asked for; a subclass says how."""

    made_for: ClassVar[str | None] = "operator"

    def edit(
        self, picture: Picture, prompt: str, seed: int | None = None, beside: Beside | None = None
    ) -> Answer:
        if not _RESTORE.search(prompt):
            return super().edit(picture, prompt, seed, beside)
        started = time.perf_counter()
        answer = Picture.from_image(self.restored(picture.image))
        return Answer(answer, time.perf_counter() - started, 0.0, {"understood": "restore"})

    @abstractmethod
    def restored(self, image: Image.Image) -> Image.Image:
        """The image as it may have been."""
