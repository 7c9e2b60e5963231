"""The interface of every editor, and the three ways an edit can end.

An edit ends with an `Answer` (a picture), with `Refused` (a result: the model
declined), or with `evaluation.errors.EditorError` (something went wrong; it says
whether asking again can help and whom the fault concerns).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from evaluation.content.annotations import UNANNOTATED, Annotations
from evaluation.errors import EditorError, Fault
from evaluation.images import Picture, clean_wire
from evaluation.untrusted_json import storable, storable_value


class Refused(Exception):
    """The model declined (policy, safety, text instead of a picture): an outcome, not a fault."""

    def __init__(
        self, reason: str, *, cost: float | None = None, notes: Mapping[str, Any] | None = None
    ):
        reason = storable(reason)
        super().__init__(reason)
        self.reason = reason
        self.cost = cost
        self.notes: dict[str, Any] = storable_value(notes or {})


@dataclass(frozen=True)
class Answer:
    """One edited picture with what it took. `cost` is in USD, None when unknown.

    Of what a provider says beside a picture only that is noted which files and databases take.
    """

    picture: Picture
    seconds: float
    cost: float | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "notes", storable_value(self.notes))


@dataclass(frozen=True)
class Turn:
    """An earlier edit of a conversation; `sent` is None where the model had the picture already."""

    prompt: str
    answer: Picture
    sent: Picture | None = None


@dataclass(frozen=True)
class EditSettings:
    """Settings of an edit that differ from the editor's own.

    `size` is one of TIERS, empty for a size like the picture's. A `history` of None: the edit
    stands alone; else it goes on with a conversation, whose pictures are clean already. `floor`:
    no edit at all, one pass through the model's autoencoder.
    """

    temperature: float | None = None
    size: str = ""
    history: tuple[Turn, ...] | None = None
    floor: bool = False


AS_USUAL = EditSettings()


@dataclass(frozen=True)
class Beside:
    """Context of an edit besides picture, prompt and seed.

    `settings` say how it is asked for. The rest is for yardsticks and never goes over a wire:
    `before` is the picture before the forward edit that is to be taken back, `annotations` what
    is marked in the source picture.
    """

    before: Picture | None = None
    annotations: Annotations = UNANNOTATED
    settings: EditSettings = AS_USUAL


class Editor(ABC):
    """Edits a picture by a prompt. Threads may share one editor."""

    #: Which RQ queue plays it: "edits" (calls others, or computes little) or "gpu" (a network).
    queue: ClassVar[str] = "edits"

    def send(
        self, picture: Picture, prompt: str, seed: int | None = None, beside: Beside | None = None
    ) -> Answer:
        """An edit over the clean wire: whatever plays, probes or audits an editor asks here.

        Only yardsticks look at the rest of `beside`.
        """
        settings = beside.settings if beside else AS_USUAL
        if settings == AS_USUAL:
            return self.edit(clean_wire(picture), prompt, seed)
        if unable := self.unable(settings):
            raise EditorError("; ".join(unable), fault=Fault.CONFIGURATION, permanent=True)
        return self.edit_so(clean_wire(picture), prompt, seed, settings)

    @abstractmethod
    def edit(self, picture: Picture, prompt: str, seed: int | None = None) -> Answer:
        """The edited picture; raises Refused or EditorError."""

    def edit_so(
        self, picture: Picture, prompt: str, seed: int | None, settings: EditSettings
    ) -> Answer:
        """The edited picture, asked for in this way; for editors that take any of it."""
        raise NotImplementedError

    #: What an editor takes of EditSettings.
    takes_temperature: ClassVar[bool] = False
    takes_history: ClassVar[bool] = False
    #: Whether its autoencoder can be played alone.
    has_floor: ClassVar[bool] = False
    #: The change of the pairs that it is made for; None: every pair.
    made_for: ClassVar[str | None] = None

    @property
    def tiers(self) -> Collection[str]:
        """Those of TIERS that a picture can be asked for at."""
        return ()

    def unable(self, settings: EditSettings) -> list[str]:
        """Return the settings that the editor cannot follow, in words; empty if it can all."""
        who, problems = type(self).__name__, []
        if settings.temperature is not None and not self.takes_temperature:
            problems.append(f"{who} takes no temperature")
        if settings.size and settings.size not in self.tiers:
            offered = f"only {', '.join(self.tiers)}" if self.tiers else "none that can be chosen"
            problems.append(
                f"{who} cannot be asked for a size of {settings.size}: it has {offered}"
            )
        if settings.history is not None and not self.takes_history:
            problems.append(f"{who} keeps no conversation: it takes each edit alone")
        if settings.floor and not self.has_floor:
            problems.append(f"{who} has no autoencoder here that could be played alone")
        return problems

    def missing(self) -> list[str]:
        """Return what must be supplied before this editor can run, in words; empty when ready."""
        return []

    def describe(self) -> dict[str, Any]:
        """Everything that shapes an answer, for a run's provenance; never a secret."""
        return {}

    def close(self) -> None:
        """Let go of connections, so that calls in flight end at once."""
