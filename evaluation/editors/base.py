"""What every editor offers, and the three ways an edit can end.

An edit ends with an `Answer` (a picture), with `Refused` (a result: the model
declined), or with `EditorError` (something went wrong; it says whether asking
again can help and whom the fault concerns).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from evaluation.images import Picture


class Fault(StrEnum):
    """Why an edit gave no picture. The value is stored; `label` is what people read."""

    label: str
    breaks_chain: bool

    def __new__(cls, value: str, label: str, breaks_chain: bool) -> Fault:
        member = str.__new__(cls, value)
        member._value_ = value
        member.label = label
        member.breaks_chain = breaks_chain
        return member

    # The endpoint as a whole is unwell: after the retries the run pauses.
    UNREACHABLE = "unreachable", "The endpoint cannot be reached", False
    TIMEOUT = "timeout", "The endpoint did not answer in time", False
    RATE_LIMITED = "rate_limited", "The endpoint limits the rate of calls", False
    SERVER_ERROR = "server_error", "The endpoint answers with server errors", False
    KEY_REJECTED = "key_rejected", "The endpoint rejected the key", False
    OUT_OF_CREDIT = "out_of_credit", "The endpoint's account is out of credit", False
    TLS = "tls", "The endpoint's TLS certificate is not valid", False
    BLOCKED = "blocked", "The endpoint's address is not public", False
    CONFIGURATION = "configuration", "The editor is not set up", False
    # This one picture came out wrong: after the retries the chain is broken.
    BAD_ANSWER = "bad_answer", "The answer is not a usable picture", True
    BAD_REQUEST = "bad_request", "The endpoint rejected the request", True


class EditorError(Exception):
    """An edit that failed. `permanent` errors are not retried."""

    def __init__(
        self,
        message: str,
        *,
        fault: Fault,
        permanent: bool = False,
        retry_after: float | None = None,
        billed: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.fault = fault
        self.permanent = permanent
        self.retry_after = retry_after
        self.billed = billed


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


class Editor(ABC):
    """Edits a picture by a prompt. Threads may share one editor."""

    #: Which RQ queue plays it: "edits" (waits on others, no torch) or "gpu" (computes with torch).
    queue: ClassVar[str] = "edits"

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
