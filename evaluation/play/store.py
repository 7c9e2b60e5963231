"""Where a run is kept while it is played: a folder on disk, or the site's database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from evaluation.audits.plan import Audit
from evaluation.audits.touch import Touch
from evaluation.editors.base import Answer, Refused
from evaluation.errors import EditorError, UserFacingError
from evaluation.play.plan import Plan, Position
from evaluation.play.retries import Attempt
from evaluation.play.round_trips import AnsweredStep

#: A chain that must not be played on before more of it is scored.
WAIT = "wait"


class Paused(UserFacingError):
    """Playing cannot go on now; every saved answer is kept.

    `seconds`: after which it may go on by itself; None: a person decides.
    """

    def __init__(self, message: str, reason: str = "", seconds: float | None = None) -> None:
        super().__init__(message)
        self.reason, self.seconds = reason, seconds


class ChainTaken(Exception):
    """Another worker has taken the chain over: nothing more of it may be written here."""


class ImageGone(Exception):
    """An image that a chain needs is no longer stored: the chain is lost, by our fault."""


@dataclass(eq=False)
class ClaimedChain:
    """A chain that one thread plays; `key` is the store's own name of it."""

    key: Any
    secret: str
    plan: Plan
    #: Audits that are still to be made, by trip.
    audits: dict[int, Audit] = field(default_factory=dict)
    #: Calls made for the current edit.
    attempt: int = 0


class RunStore(ABC):
    """A run that is played. Threads call it at the same time, each with a chain of its own."""

    #: Rate limits are shared with other workers: the next call is granted after the block.
    paces_calls = False

    def start(self) -> None:
        """Prepare for playing, or for playing on."""

    @abstractmethod
    def free(self) -> int:
        """Return how many chains could be claimed now."""

    @abstractmethod
    def claim(self) -> ClaimedChain | None:
        """Take a chain to play; None where there is none now."""

    @abstractmethod
    def position(self, chain: ClaimedChain) -> Position:
        """Return where the chain goes on. Raises ImageGone."""

    def stop_before(self, chain: ClaimedChain, trip: int) -> str:
        """Return the outcome of a chain that needs no such trip, WAIT, or "" to play it."""
        return ""

    @abstractmethod
    def open_call(self, chain: ClaimedChain, trip: int, name: str) -> None:
        """Enter a call into the ledger before it is made; wait until it may be.

        Raises Paused, ChainTaken, or Stopped where playing ends.
        """

    @abstractmethod
    def close_call(self, chain: ClaimedChain, trip: int, name: str, attempt: Attempt) -> None:
        """Save how a call ended that brought no image."""

    @abstractmethod
    def save_answer(
        self, chain: ClaimedChain, answered: AnsweredStep, attempt: Attempt | None, *, blank: bool
    ) -> None:
        """Save an answer and the end of its call; a synthetic step has no call."""

    @abstractmethod
    def save_audit(
        self,
        chain: ClaimedChain,
        audit: Audit,
        touch: Touch,
        ended: Answer | Refused | EditorError,
        attempt: Attempt | None,
    ) -> None:
        """Save what an audit sent and what came back; an attempt with an answer is still open."""

    @abstractmethod
    def end_chain(self, chain: ClaimedChain, outcome: str, reason: str = "") -> None:
        """Save how the chain ended."""

    @abstractmethod
    def release(self, chain: ClaimedChain) -> None:
        """Put the chain back: it is played on later, or by another worker."""

    def attempts_made(self, chain: ClaimedChain, trip: int, name: str) -> int:
        """Return how often this edit was tried, by anyone."""
        return chain.attempt

    def pause(self, pause: Paused) -> None:
        """Note at once that playing must stop; calls in flight still end."""

    def tick(self) -> bool:
        """Do what is due a few times a second; False ends playing between two edits.

        Raises Cancelled to end it now.
        """
        return True

    def close(self) -> None:
        """Refuse everything from now on: playing has ended."""


class Cancelled(Exception):
    """The run was cancelled: calls in flight are not waited for."""
