"""Interfaces of a run's stores: a folder on disk, or the site's database.

Audits are extra requests to the editor, outside the chains, that test for cheating. The measured
result of an audit is its finding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluation.audits.cold import Cold
from evaluation.audits.findings import Finding
from evaluation.audits.plan import Audit
from evaluation.audits.touch import Touch
from evaluation.content.suites import EditPair, Suite, SuiteImage
from evaluation.editors.base import Answer, Refused
from evaluation.errors import EditorError, UserFacingError
from evaluation.images import EncodedImage
from evaluation.measuring.scoring import Scorer, Scores
from evaluation.metrics.base import Subject
from evaluation.play.plan import Plan, Position
from evaluation.play.retries import Attempt
from evaluation.play.round_trips import AnsweredStep
from evaluation.records import TripMeasures

#: The chain must not continue until more of its trips are scored.
WAIT = "wait"


class Paused(UserFacingError):
    """Playing cannot continue now; every answer is saved.

    `seconds` is the time after which it may continue by itself; None if a person must decide.
    """

    def __init__(self, message: str, reason: str = "", seconds: float | None = None) -> None:
        super().__init__(message)
        self.reason, self.seconds = reason, seconds


class ChainTaken(Exception):
    """Another worker has claimed the chain, so this one must not write to it."""


class ImageGone(Exception):
    """An image that a chain needs is no longer stored, so the chain cannot continue."""


@dataclass(eq=False)
class ClaimedChain:
    """A chain claimed by one thread; `key` identifies it in the store."""

    key: Any
    secret: str
    plan: Plan
    #: The audits that must still be sent to the editor, by trip.
    audits: dict[int, Audit] = field(default_factory=dict)
    #: The number of calls made for the current edit.
    attempt: int = 0


class RunStore(ABC):
    """The store of a run that is played; threads call it concurrently for different chains."""

    #: True if `open_call` waits for rate limits that other workers share.
    paces_calls = False

    def start(self) -> None:
        """Prepare for playing or continuing."""

    @abstractmethod
    def claimable(self) -> int:
        """Return the number of chains that could be claimed now."""

    @abstractmethod
    def claim(self) -> ClaimedChain | None:
        """Claim a chain, so that no other worker plays it; None if none can be claimed now."""

    @abstractmethod
    def position(self, chain: ClaimedChain) -> Position:
        """Return the position from which the chain continues. Raises ImageGone."""

    def stop_before(self, chain: ClaimedChain, trip: int) -> str:
        """Return WAIT, the outcome that ends the chain, or "" if the trip must be played."""
        return ""

    @abstractmethod
    def open_call(self, chain: ClaimedChain, trip: int, name: str) -> None:
        """Wait until a call is allowed, and record that it begins.

        Raises Paused, ChainTaken, or Stopped if playing ends.
        """

    @abstractmethod
    def close_call(self, chain: ClaimedChain, trip: int, name: str, attempt: Attempt) -> None:
        """Save the result of a call that returned no image."""

    @abstractmethod
    def save_answer(
        self, chain: ClaimedChain, answered: AnsweredStep, attempt: Attempt | None, *, blank: bool
    ) -> None:
        """Save an answer and close its call.

        `attempt` is None for a step that we compute ourselves, without a call.
        """

    @abstractmethod
    def save_audit(
        self,
        chain: ClaimedChain,
        audit: Audit,
        request: Touch | Cold,
        result: Answer | Refused | EditorError,
        attempt: Attempt | None,
    ) -> None:
        """Save the image that an audit sent and the result; close the open call if there is one."""

    @abstractmethod
    def end_chain(self, chain: ClaimedChain, outcome: str, reason: str = "") -> None:
        """Save the chain's outcome."""

    @abstractmethod
    def release(self, chain: ClaimedChain) -> None:
        """Give the chain back, to be played later or by another worker."""

    def attempts_made(self, chain: ClaimedChain, trip: int, name: str) -> int:
        """Return the number of attempts at this edit by all workers."""
        return chain.attempt

    def pause(self, pause: Paused) -> None:
        """Record at once that playing must stop; calls in flight still finish."""

    def tick(self) -> bool:
        """Do periodic work, a few times a second; return False to stop after the current edits.

        Raises Cancelled to stop at once.
        """
        return True

    def close(self) -> None:
        """Refuse all further calls, because playing has ended."""


class Cancelled(Exception):
    """The run was cancelled, so calls in flight are dropped."""


@dataclass(eq=False)
class PlayedTrips:
    """A chain to score, with how many of its trips are played and how many are scored.

    `key` identifies the chain in the store; `slug` names its case and repeat. `image` is the
    suite's description of the source image; None outside a suite.
    """

    key: Any
    slug: str
    pair: EditPair
    image: SuiteImage | None
    outcome: str
    played: int
    scored: int


@dataclass(frozen=True)
class ScoredTrips:
    """The scores of consecutive trips from `first` on, one entry per trip.

    The first answer of a trip is None if the edited image was not saved.
    """

    first: int
    answers: Sequence[Sequence[EncodedImage | None]]
    measures: Sequence[TripMeasures]
    scores: Scores

    @property
    def last(self) -> int:
        return self.first + len(self.measures) - 1


@dataclass(frozen=True)
class AnsweredAudit:
    """An audit that the editor answered; `key` identifies it in the store."""

    key: Any
    audit: Audit
    secret: str


class ScoreStore(ABC):
    """The store of a run that is scored and finished by one thread."""

    suite: Suite

    # Scoring.

    @abstractmethod
    def claim(self) -> Sequence[PlayedTrips]:
        """Claim a few chains with unscored trips, sorted by image; empty if none is left."""

    def release(self) -> None:
        """Give back the last claimed chains."""

    @abstractmethod
    def source(self, chain: PlayedTrips) -> EncodedImage:
        """Return the chain's source image."""

    @abstractmethod
    def answer(self, chain: PlayedTrips, trip: int, place: int) -> EncodedImage | None:
        """Return the answer to step `place` (from 0) of a trip; None if it was never saved.

        Raises ImageGone if the image was saved but is no longer stored.
        """

    @abstractmethod
    def calibrate(
        self, chain: PlayedTrips, source: EncodedImage, subject: Subject, scorer: Scorer
    ) -> Mapping[str, Mapping[str, Any]]:
        """Calibrate every metric on this source; return the source's features, by metric."""

    def unscored_metrics(
        self, trips: Iterable[tuple[PlayedTrips, int]], scorer: Scorer
    ) -> list[str]:
        """Return the metrics that must still score some of these trips."""
        return scorer.names

    @abstractmethod
    def save_scores(self, chain: PlayedTrips, trips: ScoredTrips) -> None:
        """Save the scores of some trips. Raises ChainTaken."""

    def end_lost_chain(self, chain: PlayedTrips, reason: str) -> None:
        """End a chain at its last scored trip, because later images are gone."""
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
        """Replace the measures of the trips with these numbers."""

    @abstractmethod
    def save_no_reference(
        self, chain: PlayedTrips, name: str, values: Sequence[float | None]
    ) -> None:
        """Save the values of a no-reference metric: first for the source, then for each trip."""

    @abstractmethod
    def save_judge(self, summary: Mapping[str, Any]) -> None:
        """Save the judge's summary: version, calls, cost and outcomes."""

    @abstractmethod
    def save_orders(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Save the comparisons of edit pairs that apply the same edits in different orders."""

    # The review of the audits.

    def audits(self, chain: PlayedTrips) -> Sequence[AnsweredAudit]:
        """Return the answered audits of a chain that have no finding yet."""
        return ()

    def unanswered_audits(self, chain: PlayedTrips) -> Sequence[Audit]:
        """Return the audits of a chain that were not answered with an image."""
        return ()

    def audit_answer(self, audit: AnsweredAudit) -> EncodedImage:
        """Return the image with which the editor answered an audit."""
        raise NotImplementedError

    def save_finding(self, audit: AnsweredAudit, finding: Finding) -> None:
        """Save the finding of an audit."""
        raise NotImplementedError

    def findings(self) -> list[Finding]:
        """Return all findings of the run."""
        return []
