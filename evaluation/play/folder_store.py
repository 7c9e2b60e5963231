"""Play into a run folder: apply budgets, log each call, save each answer at once.

Audits, extra requests that test the editor for cheating, are sent between the edits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluation.analysis.events import STOPPED
from evaluation.analysis.stopping import edits_saved, last_trip, may_stop, stopped
from evaluation.audits.cold import Cold
from evaluation.audits.plan import BEFORE_TRIPS, Audit, chain_audits
from evaluation.audits.touch import Touch
from evaluation.editors.base import Answer, Editor, Refused
from evaluation.errors import EditorError
from evaluation.measuring.scoring import Scorer
from evaluation.play.finish import finish
from evaluation.play.folder_scores import FolderScores
from evaluation.play.plan import Position
from evaluation.play.player import Player
from evaluation.play.retries import Attempt, Limits
from evaluation.play.round_trips import AnsweredStep
from evaluation.play.run_folder import PlayedChain, RunFolder
from evaluation.play.run_scores import RunScores
from evaluation.play.score import score
from evaluation.play.store import WAIT, ClaimedChain, Paused, RunStore
from evaluation.run_secret import shuffled


@dataclass
class FolderStore(RunStore):
    """The store of a run folder; `budget` and `price` (of one edit) are in USD.

    `max_edits` limits the number of calls, including retries. `share` lists the chains to play
    here if other machines play the others.
    """

    folder: RunFolder
    budget: float | None = None
    price: float | None = None
    max_edits: int | None = None
    audits: Sequence[Audit] = ()
    share: Collection[str] | None = None
    on_answer: Callable[[PlayedChain], None] = lambda chain: None
    on_attempt: Callable[[str, Attempt], None] = lambda slug, attempt: None
    _open: set[str] = field(default_factory=set)
    _todo: list[str] = field(default_factory=list)
    #: For each chain: the trip at which its result is known, and the number of its scored trips.
    _known_at: dict[str, int | None] = field(default_factory=dict)
    _scored: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        calls = self.folder.calls()
        self.calls = len(calls)
        self.spent = sum(self._cost(call.cost) for call in calls)
        self._counting = threading.Lock()

    @property
    def waiting(self) -> list[PlayedChain]:
        """The chains still to be played here."""
        return [
            chain
            for slug, chain in self.folder.chains.items()
            if not chain.outcome and (self.share is None or slug in self.share)
        ]

    def start(self) -> None:
        self._open.clear()
        self._todo = shuffled(self.folder.secret, (chain.slug for chain in self.waiting), str)

    def claimable(self) -> int:
        with self._counting:
            return len(self._ready())

    def claim(self) -> ClaimedChain | None:
        with self._counting:
            ready = self._ready()
            if not ready:
                return None
            slug = ready[0]
            self._todo.remove(slug)
        chain = self.folder.chains[slug]
        self.folder.begin(chain)
        return ClaimedChain(
            slug, self.folder.secret, self.folder.plan(chain), self.pending_audits(chain)
        )

    def pending_audits(self, chain: PlayedChain) -> dict[int, Audit]:
        """Return the audits that the chain must still send, by trip.

        A cold audit needs a source image that the editor has not seen. So it is dropped if any
        chain has sent the same image.
        """
        sent = {audit.number for audit in chain.audits}
        planned = chain_audits(self.audits, chain.case, chain.repeat)
        if any(other.edits for other in self.folder.chains.values() if other.image == chain.image):
            planned.pop(BEFORE_TRIPS, None)
        return {number: audit for number, audit in planned.items() if number not in sent}

    def _ready(self) -> list[str]:
        """Return the claimable chains; others wait for a cold audit of their source image."""
        if not self.audits:
            return self._todo
        cold = {
            chain.image: chain.slug
            for chain in self.waiting
            if BEFORE_TRIPS in self.pending_audits(chain)
        }
        images = {slug: self.folder.chains[slug].image for slug in self._todo}
        return [slug for slug in self._todo if cold.get(images[slug], slug) == slug]

    def position(self, chain: ClaimedChain) -> Position:
        return self.folder.position(self.folder.chains[chain.key])

    def stop_before(self, chain: ClaimedChain, trip: int) -> str:
        slug, suite, played = chain.key, self.folder.suite, self.folder.chains[chain.key]
        margin = self.folder.header.stop_after
        if not margin or not may_stop(played.pair, suite):
            return ""
        if outcome := self._outcome(played):
            return outcome
        scored = self._scored.get(slug, 0)
        last = last_trip(self._known_at.get(slug), scored, margin, suite.trips)
        return WAIT if trip > last else ""

    def apply_scores(self, scores: RunScores) -> None:
        """Note which trips are scored, and end the chains that need no more trips."""
        suite = self.folder.suite
        for slug, scored in scores.chains.items():
            self._scored[slug] = len(scored.restored)
            self._known_at[slug] = scores.known_at(suite, slug)
        for chain in self.waiting:
            at_trip_end = not chain.open_steps and len(chain.trips) < suite.trips
            if at_trip_end and may_stop(chain.pair, suite) and (outcome := self._outcome(chain)):
                self.folder.end(chain.slug, outcome)

    def _outcome(self, chain: PlayedChain) -> str:
        """Return the outcome of the chain if it needs no more trips, else ""."""
        images = [(steps[0].sha256, steps[-1].sha256) for steps in chain.trips]
        known_at = self._known_at.get(chain.slug)
        return stopped(len(chain.trips), known_at, images, self.folder.header.stop_after)

    def open_call(self, chain: ClaimedChain, trip: int, name: str) -> None:
        """Reserve the price of a call, so that threads together cannot overspend."""
        price = self.price or 0.0
        with self._counting:
            committed = self.spent + price * len(self._open)
            if self.budget is not None and committed + price > self.budget:
                raise Paused(
                    f"${committed:,.2f} of the budget of ${self.budget:,.2f} is spent, and one "
                    "more edit would exceed it; continue with a larger --budget"
                )
            if self.max_edits is not None and self.calls + len(self._open) >= self.max_edits:
                raise Paused(
                    f"--max-edits {self.max_edits} is reached; continue with a larger value"
                )
            self._open.add(chain.key)

    def close_call(self, chain: ClaimedChain, trip: int, name: str, attempt: Attempt) -> None:
        self.folder.log_call(chain.key, (trip, name), attempt)
        with self._counting:
            self.calls += 1
            self.spent += self._cost(attempt.cost)
            self._open.discard(chain.key)
        self.on_attempt(chain.key, attempt)

    def save_answer(
        self, chain: ClaimedChain, answered: AnsweredStep, attempt: Attempt | None, *, blank: bool
    ) -> None:
        if attempt is not None:
            self.close_call(chain, answered.step.trip, answered.step.name, attempt)
        self.on_answer(self.folder.add(chain.key, answered))

    def save_audit(
        self,
        chain: ClaimedChain,
        audit: Audit,
        request: Touch | Cold,
        result: Answer | Refused | EditorError,
        attempt: Attempt | None,
    ) -> None:
        if attempt is not None:
            self.close_call(chain, audit.number, "audit", attempt)
        self.folder.add_audit(chain.key, audit, request, audit.seed(self.folder.secret), result)

    def end_chain(self, chain: ClaimedChain, outcome: str, reason: str = "") -> None:
        self.folder.end(chain.key, outcome, reason)

    def release(self, chain: ClaimedChain) -> None:
        """Do nothing: a chain without an outcome remains to be played."""

    def _cost(self, cost: float | None) -> float:
        """Return the cost of a call, or the price of an edit if the cost is unknown."""
        return (self.price or 0.0) if cost is None else cost


@dataclass
class FolderPlayer(Player):
    """The player of a run folder."""

    store: FolderStore


def folder_player(
    folder: RunFolder,
    editor: Editor,
    *,
    parallel: int = 1,
    limits: Limits | None = None,
    **options: Any,
) -> FolderPlayer:
    """Return a player of the folder; `options` are fields of FolderStore."""
    store = FolderStore(folder, **options)
    return FolderPlayer(editor, store, max(1, parallel), limits or Limits())


def saved_edits(folder: RunFolder) -> int:
    """Return the number of edits that were not needed because chains stopped early."""
    ends = [len(c.trips) for c in folder.chains.values() if c.outcome in STOPPED]
    return edits_saved(folder.suite.trips, ends)


def play_in_rounds(player: FolderPlayer, scorer: Scorer) -> None:
    """Alternate between playing and scoring, so that chains stop once their result is known.

    Raises the exceptions of `Player.play`.
    """
    store = player.store
    scores = _score_round(store, scorer)
    while store.waiting:
        player.play()
        scores = _score_round(store, scorer)
    if scores.scores:
        finish(scores)
        scores.write()


def _score_round(store: FolderStore, scorer: Scorer) -> FolderScores:
    """Score all unscored trips, and end the chains that need no more trips."""
    scores = FolderScores(store.folder, scorer)
    if any(chain.trips for chain in store.folder.chains.values()):
        score(scores, scorer)
        store.apply_scores(scores.run_scores())
        scores.write()
    return scores
