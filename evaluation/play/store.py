"""Where a run is kept while it is played and scored: a folder on disk, or the site's database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluation.audits.findings import Finding
from evaluation.audits.plan import Audit
from evaluation.audits.touch import Touch
from evaluation.content.suites import EditPair, SourcePicture, Suite
from evaluation.editors.base import Answer, Refused
from evaluation.errors import EditorError, UserFacingError
from evaluation.images import Picture
from evaluation.measuring.scoring import Scorer, Scores
from evaluation.metrics.base import Subject
from evaluation.play.plan import Plan, Position
from evaluation.play.retries import Attempt
from evaluation.play.round_trips import AnsweredStep
from evaluation.records import TripMeasures

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


@dataclass(eq=False)
class PlayedTrips:
    """The whole trips of a chain, and how many of them are scored.

    `key` is the store's own name of the chain, `slug` that of its case and repeat. `picture` is
    what the suite says of the source; None outside a suite.
    """

    key: Any
    slug: str
    pair: EditPair
    picture: SourcePicture | None
    outcome: str
    played: int
    scored: int


@dataclass(frozen=True)
class ScoredTrips:
    """The scores of consecutive trips from `first` on; every list has an entry per trip.

    Of the answers to a trip's steps the first is None if the edited image was not kept.
    """

    first: int
    answers: Sequence[Sequence[Picture | None]]
    measures: Sequence[TripMeasures]
    scores: Scores

    @property
    def last(self) -> int:
        return self.first + len(self.measures) - 1


@dataclass(frozen=True)
class AnsweredAudit:
    """An audit that an editor answered; `key` is the store's own name of it."""

    key: Any
    audit: Audit
    secret: str


class ScoreStore(ABC):
    """A run that is scored and finished. One thread calls it."""

    suite: Suite
    #: Maps of where an image was lost are kept.
    draws_maps = False

    # Scoring.

    @abstractmethod
    def claim(self) -> Sequence[PlayedTrips]:
        """Take a few chains with unscored trips, those of one image together; none if none is left."""

    def release(self) -> None:
        """Put back the chains that were claimed last."""

    @abstractmethod
    def source(self, chain: PlayedTrips) -> Picture:
        """Return the chain's source image."""

    @abstractmethod
    def answer(self, chain: PlayedTrips, trip: int, place: int) -> Picture | None:
        """Return the answer to a step of a trip, counted from 0. Raises ImageGone.

        None if the image was not kept.
        """

    @abstractmethod
    def calibrate(
        self, chain: PlayedTrips, source: Picture, subject: Subject, scorer: Scorer
    ) -> None:
        """Have the calibration of every metric on this source."""

    def lacking(self, trips: Iterable[tuple[PlayedTrips, int]], scorer: Scorer) -> list[str]:
        """Return the metrics that have not scored one of these trips."""
        return scorer.names

    @abstractmethod
    def save_scores(self, chain: PlayedTrips, trips: ScoredTrips) -> None:
        """Save the scores of some trips. Raises ChainTaken."""

    def lose(self, chain: PlayedTrips, reason: str) -> None:
        """End a chain whose images are gone where it was scored last."""
        raise ImageGone(reason)

    # Finishing.

    @abstractmethod
    def chains(self) -> Iterator[PlayedTrips]:
        """Yield every chain of the run."""

    @abstractmethod
    def measures(self, chain: PlayedTrips) -> list[TripMeasures]:
        """Return the measures of the chain's scored trips."""

    @abstractmethod
    def save_measures(self, chain: PlayedTrips, measures: Mapping[int, TripMeasures]) -> None:
        """Replace what was measured on some trips, by number."""

    @abstractmethod
    def save_quality(self, chain: PlayedTrips, name: str, values: Sequence[float | None]) -> None:
        """Save the values of one no-reference metric: of the source, then of each trip."""

    @abstractmethod
    def save_judge(self, summary: Mapping[str, Any]) -> None:
        """Save what a judge was and how often it was asked."""

    @abstractmethod
    def save_orders(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Save the comparison of chain shapes."""

    # The review.

    def audits(self, chain: PlayedTrips) -> Sequence[AnsweredAudit]:
        """Return the answered audits of a chain that have no finding yet."""
        return ()

    def audit_answer(self, audit: AnsweredAudit) -> Picture:
        """Return the image that an audit brought back."""
        raise NotImplementedError

    def save_finding(self, audit: AnsweredAudit, finding: Finding) -> None:
        """Save what an audit found."""
        raise NotImplementedError

    def findings(self) -> list[Finding]:
        """Return all findings of the run."""
        return []
