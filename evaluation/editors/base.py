"""The interface of every editor, and the three ways an edit can end.

An edit returns an `Answer` with the edited image, raises `Refused` if the model declined, or raises
`evaluation.errors.EditorError` for a fault. The error states who is at fault and whether a retry
can help.
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
    """A model's refusal (policy, safety, text instead of an image): a result, not a fault."""

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
    """One edited image with its time and cost. `cost` is in USD; None if unknown.

    `notes` are the provider's remarks, cleaned so that files and databases can store them.
    """

    image: EncodedImage
    seconds: float
    cost: float | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "notes", storable_value(self.notes))


@dataclass(frozen=True)
class Turn:
    """An earlier edit of a conversation.

    `sent` is the image sent with the prompt; None if it was the model's own last answer.
    """

    prompt: str
    answer: EncodedImage
    sent: EncodedImage | None = None


@dataclass(frozen=True)
class EditSettings:
    """Settings of an edit that differ from the editor's own.

    `size` is a key of `sizes.TIERS`; empty: about the size of the image. `history` is the
    conversation to continue, with images cleaned by `clean_wire`; None: the edit is sent alone.
    `floor` replaces the edit by one pass through the model's autoencoder. (The `floor` in
    annotations is something else: free ground.)
    """

    temperature: float | None = None
    size: str = ""
    history: tuple[Turn, ...] | None = None
    floor: bool = False


DEFAULT_SETTINGS = EditSettings()


@dataclass(frozen=True)
class EditContext:
    """Inputs of an edit besides image, prompt and seed.

    `settings` shape the request. The other fields are for reference editors and are never sent:
    `before` is the image before the forward edit that is being undone, `annotations` are those of
    the source image.
    """

    before: EncodedImage | None = None
    annotations: Annotations = UNANNOTATED
    settings: EditSettings = DEFAULT_SETTINGS


class Editor(ABC):
    """A model or program that edits images by prompts. Threads may share one editor."""

    #: The RQ queue of the editor's jobs: "edits" (remote, or little computation), or "gpu" (a
    #: network that runs here).
    queue: ClassVar[str] = "edits"

    def send(
        self,
        image: EncodedImage,
        prompt: str,
        seed: int | None = None,
        context: EditContext | None = None,
    ) -> Answer:
        """Clean the image and send it to the editor.

        Runs, probes (tests of an endpoint) and audits (tests for cheating) all call this. Only
        reference editors use more of `context` than its settings.
        """
        settings = context.settings if context else DEFAULT_SETTINGS
        if settings == DEFAULT_SETTINGS:
            return self.edit(clean_wire(image), prompt, seed)
        if unable := self.unable(settings):
            raise EditorError("; ".join(unable), fault=Fault.CONFIGURATION, permanent=True)
        return self.edit_with(clean_wire(image), prompt, seed, settings)

    @abstractmethod
    def edit(self, image: EncodedImage, prompt: str, seed: int | None = None) -> Answer:
        """Return the edited image. Raises Refused or EditorError."""

    def edit_with(
        self, image: EncodedImage, prompt: str, seed: int | None, settings: EditSettings
    ) -> Answer:
        """Return the edited image. Editors that support any of the settings implement this."""
        raise NotImplementedError

    #: True if the editor supports these fields of EditSettings.
    takes_temperature: ClassVar[bool] = False
    takes_history: ClassVar[bool] = False
    #: True if the model's autoencoder can be run alone.
    has_floor: ClassVar[bool] = False
    #: The kind of change (`EditPair.change`) that the editor is made for; None: any.
    made_for: ClassVar[str | None] = None

    @property
    def tiers(self) -> Collection[str]:
        """The keys of `sizes.TIERS` that a request can name."""
        return ()

    def unable(self, settings: EditSettings) -> list[str]:
        """Return the reasons why the editor cannot follow the settings; empty if it can."""
        name, problems = type(self).__name__, []
        if settings.temperature is not None and not self.takes_temperature:
            problems.append(f"{name} has no temperature setting")
        if settings.size and settings.size not in self.tiers:
            offered = f"only {', '.join(self.tiers)}" if self.tiers else "no size setting"
            problems.append(f"{name} does not support the size {settings.size}: it has {offered}")
        if settings.history is not None and not self.takes_history:
            problems.append(f"{name} has no conversations: it handles each edit alone")
        if settings.floor and not self.has_floor:
            problems.append(f"{name} has no autoencoder that can be run alone")
        return problems

    def missing(self) -> list[str]:
        """Return what to install or configure before the editor can run; empty when ready."""
        return []

    def describe(self) -> dict[str, Any]:
        """Return all settings that affect answers, without secrets. Runs store them."""
        return {}

    def close(self) -> None:
        """Close all connections, which ends calls in flight at once."""
