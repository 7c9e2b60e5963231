"""What every editor offers, and the three ways an edit can end.

An edit ends with an `Answer` (a picture), with `Refused` (a result: the model
declined), or with `evaluation.errors.EditorError` (something went wrong; it says
whether asking again can help and whom the fault concerns).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from evaluation.content.annotations import UNANNOTATED, Annotations
from evaluation.images import Picture, clean_wire


class Refused(Exception):
    """The model declined (policy, safety, text instead of a picture): an outcome, not a fault."""

    def __init__(
        self, reason: str, *, cost: float | None = None, notes: Mapping[str, Any] | None = None
    ):
        super().__init__(reason)
        self.reason = reason
        self.cost = cost
        self.notes = dict(notes or {})


@dataclass(frozen=True)
class Answer:
    """One edited picture with what it took. `cost` is in USD, None when unknown."""

    picture: Picture
    seconds: float
    cost: float | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Beside:
    """What a yardstick may know besides picture and prompt; it never goes over a wire.

    `before` is the picture before the forward edit that is to be taken back, `annotations`
    what is marked in the source picture.
    """

    before: Picture | None = None
    annotations: Annotations = UNANNOTATED


class Editor(ABC):
    """Edits a picture by a prompt. Threads may share one editor."""

    #: Which RQ queue plays it: "edits" (no torch) or "gpu" (computes with torch).
    queue: ClassVar[str] = "edits"

    def send(
        self, picture: Picture, prompt: str, seed: int | None = None, beside: Beside | None = None
    ) -> Answer:
        """An edit over the clean wire: whatever plays, probes or audits an editor asks here.

        What lies beside the picture goes no further; only yardsticks look at it.
        """
        return self.edit(clean_wire(picture), prompt, seed)

    @abstractmethod
    def edit(self, picture: Picture, prompt: str, seed: int | None = None) -> Answer:
        """The edited picture; raises Refused or EditorError."""

    def missing(self) -> list[str]:
        """What must be supplied before this editor can run, in words; empty when ready."""
        return []

    def describe(self) -> dict[str, Any]:
        """Everything that shapes an answer, for a run's provenance; never a secret."""
        return {}

    def close(self) -> None:
        """Let go of connections, so that calls in flight end at once."""
