"""A chain while it is played, and what its thread reports to the job."""

from __future__ import annotations

import queue
import time
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import TypeAlias

from evaluation.analysis.stopping import last_trip
from evaluation.arms import Arm
from evaluation.content.suites import EditPair
from evaluation.editors.base import Turn
from evaluation.errors import EditorError
from evaluation.round_trips import Half, following, history
from evaluation.run_secret import Seed
from leaderboard.jobs.job_errors import stored_safely
from leaderboard.models import Audit, Call, Chain, StoredImage


@dataclass(slots=True)
class OpenCall:
    """A call that was granted, as the ledger will have it; a model's instance costs far more."""

    started_at: datetime
    cost: Decimal | None
    outcome: str = Call.CALLING
    message: str = ""
    seconds: float = 0.0
    bytes: int = 0

    def close(
        self, outcome: str, message: str, started: float, cost: float | Decimal | None
    ) -> None:
        """Say how it ended; `started` on the monotonic clock."""
        self.outcome, self.message = outcome, message[:500]
        self.seconds = time.monotonic() - started
        self.cost = None if cost is None else round(Decimal(cost), 5)


@dataclass(eq=False)
class ChainInPlay:
    """A claimed chain while a thread plays it: where it stands, and its open call."""

    chain: Chain
    pair: EditPair
    picture: StoredImage
    number: int
    seed: Seed
    #: The pictures of the trip so far without that one, where the chain goes on in the middle.
    earlier: tuple[StoredImage, ...] = ()
    #: Which of the trip's steps is next, counted from 0.
    step: int = 0
    #: Trips that it is played on after its end is known; 0: to the end.
    stop_after: int = 0
    #: The hashes of both answers of its last trips.
    pictures: list[tuple[str, str]] = field(default_factory=list)
    #: Its audits that are still to be made, by trip.
    audits: dict[int, Audit] = field(default_factory=dict)
    #: Its answers so far, where it is a conversation.
    answers: list[StoredImage] = field(default_factory=list)
    #: Whether the call that it asks for belongs to an audit.
    auditing: bool = False
    #: Answers that the main thread is told of with what happens next.
    untold: list[AnswerReceived] = field(default_factory=list)
    attempt: int = 0
    call: OpenCall | None = None
    expected: Decimal = Decimal(0)
    #: When its current edit was first tried, on the monotonic clock.
    began: float = 0.0
    #: Seconds to wait before the call that is granted; None: stop here.
    reply: queue.SimpleQueue[float | None] = field(default_factory=queue.SimpleQueue)

    def step_on(self) -> None:
        """To the next edit."""
        self.attempt = 0
        self.number, self.step = following(self.pair, self.number, self.step)

    def history(self, arm: Arm) -> tuple[Turn, ...]:
        """What was said before, where it is a conversation."""
        case = self.chain.case
        if not self.answers or case.picture.stored is None:
            return ()
        pictures = [stored_safely(kept.read) for kept in (case.picture.stored, *self.answers)]
        return history(pictures[0], pictures[1:], self.pair, arm)

    def is_beyond(self, trips: int) -> bool:
        """Whether the next trip is not to be played, or not before more is scored."""
        chain = self.chain
        return self.number > last_trip(chain.known_at, chain.trips_scored, self.stop_after, trips)

    @property
    def asks_for(self) -> str:
        """What its next call is, as the ledger has it."""
        return "audit" if self.auditing else self.pair.trip(self.number).steps[self.step].name

    @property
    def open_call(self) -> OpenCall:
        """The call that was granted last."""
        if self.call is None:
            raise RuntimeError("no call was granted")
        return self.call


@dataclass(frozen=True)
class Event:
    """Something a thread says of its chain."""

    work: ChainInPlay


class CallRequested(Event):
    """It wants to make a call."""


@dataclass(frozen=True)
class CallFailed(Event):
    """A call ended without a picture; `call` says how."""

    call: OpenCall
    error: EditorError | None = None


@dataclass(frozen=True)
class AnswerReceived(Event):
    """A picture came, and its bytes are in storage; no call where an operator of ours made it."""

    call: OpenCall | None
    half: Half
    stored: StoredImage
    usable: bool = True


@dataclass(frozen=True)
class AuditAnswered(Event):
    """An audit's picture came, and the bytes of what was sent and answered are in storage."""

    call: OpenCall
    audit: Audit
    sent: StoredImage
    stored: StoredImage


@dataclass(frozen=True)
class AuditBroken(Event):
    """An audit ended without a picture; its chain goes on."""

    audit: Audit


@dataclass(frozen=True)
class ChainEnded(Event):
    """The chain is over."""

    outcome: str
    text: str = ""


@dataclass(frozen=True)
class ChainBlocked(Event):
    """The chain cannot go on now, for a reason that lies outside it."""

    error: Exception


class ThreadStopped(Event):
    """The thread stopped, as it was asked to."""


@dataclass(frozen=True)
class Alarm:
    """A submitted address tried something that it must not."""

    kind: str
    detail: str


@dataclass(frozen=True)
class SlotFree:
    """A call has ended, and one that waits may be made."""


Inbox: TypeAlias = "queue.SimpleQueue[Event | Alarm | SlotFree]"
