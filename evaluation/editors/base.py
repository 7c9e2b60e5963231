"""The interface of every editor, and the three ways an edit can end.

An edit ends with an `Answer` (an image), with `Refused` (a result: the model declined), or with
`evaluation.errors.EditorError` (a fault; it states whether a retry can help and whom the fault
concerns).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from evaluation.content.annotations import UNANNOTATED, Annotations
from evaluation.errors import EditorError, Fault
from evaluation.images import EncodedImage, clean_wire
from evaluation.untrusted_json import storable, storable_value


class Refused(Exception):
    """A model's refusal (policy, safety, text instead of an image): no fault."""

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
    """One edited image with its cost and time. `cost` is in USD, None when unknown.

    Notes have only those remarks of a provider that files and databases can store.
    """

    image: EncodedImage
    seconds: float
    cost: float | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "notes", storable_value(self.notes))


@dataclass(frozen=True)
class Turn:
    """An earlier edit of a conversation; `sent` is None if the model had the image."""

    prompt: str
    answer: EncodedImage
    sent: EncodedImage | None = None


@dataclass(frozen=True)
class EditSettings:
    """Settings of an edit that differ from the editor's own.

    `size` is one of TIERS, empty for a size like the image's. With a `history` of None the edit
    stands alone; else it continues a conversation, whose images are clean already. `floor`: no
    edit, only one pass through the model's autoencoder.
    """

    temperature: float | None = None
    size: str = ""
    history: tuple[Turn, ...] | None = None
    floor: bool = False


AS_USUAL = EditSettings()


@dataclass(frozen=True)
class EditContext:
    """Context of an edit besides image, prompt and seed.

    `settings` shape the request. The rest is for reference editors and is never sent: `before` is
    the image before the forward edit that is to be undone, `annotations` the annotations of the
    source image.
    """

    before: EncodedImage | None = None
    annotations: Annotations = UNANNOTATED
    settings: EditSettings = AS_USUAL


class Editor(ABC):
    """An editor of images by prompts. Threads may share one editor."""

    #: The RQ queue that plays it: "edits" (remote, or little computation) or "gpu" (a network).
    queue: ClassVar[str] = "edits"

    def send(
        self,
        image: EncodedImage,
        prompt: str,
        seed: int | None = None,
        context: EditContext | None = None,
    ) -> Answer:
        """Send a clean image to the editor: the entry point of plays, probes and audits.

        Only reference editors use the rest of `context`.
        """
        settings = context.settings if context else AS_USUAL
        if settings == AS_USUAL:
            return self.edit(clean_wire(image), prompt, seed)
        if unable := self.unable(settings):
            raise EditorError("; ".join(unable), fault=Fault.CONFIGURATION, permanent=True)
        return self.edit_so(clean_wire(image), prompt, seed, settings)

    @abstractmethod
    def edit(self, image: EncodedImage, prompt: str, seed: int | None = None) -> Answer:
        """Return the edited image. Raises Refused or EditorError."""

    def edit_so(
        self, image: EncodedImage, prompt: str, seed: int | None, settings: EditSettings
    ) -> Answer:
        """Return the edited image by these settings; for editors that take any of them."""
        raise NotImplementedError

    #: The EditSettings that an editor supports.
    takes_temperature: ClassVar[bool] = False
    takes_history: ClassVar[bool] = False
    #: True if its autoencoder can be played alone.
    has_floor: ClassVar[bool] = False
    #: The change of the pairs that it is made for; None: every pair.
    made_for: ClassVar[str | None] = None

    @property
    def tiers(self) -> Collection[str]:
        """Those of TIERS that a request can name."""
        return ()

    def unable(self, settings: EditSettings) -> list[str]:
        """Return reasons why the editor cannot follow the settings; empty if it can."""
        who, problems = type(self).__name__, []
        if settings.temperature is not None and not self.takes_temperature:
            problems.append(f"{who} has no temperature setting")
        if settings.size and settings.size not in self.tiers:
            offered = f"only {', '.join(self.tiers)}" if self.tiers else "none that can be chosen"
            problems.append(
                f"{who} cannot be asked for a size of {settings.size}: it has {offered}"
            )
        if settings.history is not None and not self.takes_history:
            problems.append(f"{who} has no conversations: it handles each edit alone")
        if settings.floor and not self.has_floor:
            problems.append(f"{who} has no autoencoder that can be played alone")
        return problems

    def missing(self) -> list[str]:
        """Name what must be supplied before this editor can run; empty when ready."""
        return []

    def describe(self) -> dict[str, Any]:
        """Return everything that shapes an answer, for provenance; never a secret."""
        return {}

    def close(self) -> None:
        """Close connections, so that calls in flight end at once."""
