"""Play into a run folder: budgets, the ledger, and every answer on disk at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evaluation.analysis.events import LOST, Case
from evaluation.analysis.stopping import edits_saved, known_at, last_trip, may_stop, stopped
from evaluation.audits.plan import Audit, of_chain
from evaluation.audits.touch import Touch
from evaluation.editors.base import Answer, Editor, Refused
from evaluation.errors import EditorError
from evaluation.measuring.scoring import Scorer
from evaluation.metrics import in_order
from evaluation.play.plan import Position
from evaluation.play.player import Player
from evaluation.play.retries import Attempt, Limits
from evaluation.play.round_trips import AnsweredStep
from evaluation.play.run_folder import PlayedChain, RunFolder
from evaluation.play.run_scores import RunScores, read_scores, score_run
from evaluation.play.store import WAIT, ClaimedChain, Paused, RunStore
from evaluation.run_secret import shuffled


@dataclass
class FolderStore(RunStore):
    """A run folder that is played; `budget` and `price` (of one edit) are in USD.

    `max_edits` bounds all calls, repeated tries included. `share` names the chains to play
    where others are another machine's. `until` gives the trip after which a chain waits for
    scores, `is_over` the outcome of one that needs no more trips.
    """

    folder: RunFolder
    budget: float | None = None
    price: float | None = None
    max_edits: int | None = None
    audits: Sequence[Audit] = ()
    share: Collection[str] | None = None
    until: Callable[[PlayedChain], int] | None = None
    is_over: Callable[[PlayedChain], str] = lambda chain: ""
    on_answer: Callable[[PlayedChain], None] = lambda chain: None
    on_attempt: Callable[[str, Attempt], None] = lambda slug, attempt: None
    _open: set[str] = field(default_factory=set)
    _todo: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        calls = self.folder.calls()
        self.calls = len(calls)
        self.spent = sum(self._cost(call["cost"]) for call in calls)
        self._counting = threading.Lock()

    @property
    def waiting(self) -> list[PlayedChain]:
        """The chains that are still to be played here."""
        return [
            chain
            for slug, chain in self.folder.chains.items()
            if not chain.outcome and (self.share is None or slug in self.share)
        ]

    def start(self) -> None:
        self._open.clear()
        self._todo = shuffled(self.folder.secret, (chain.slug for chain in self.waiting), str)

    def free(self) -> int:
        return len(self._todo)

    def claim(self) -> ClaimedChain | None:
        with self._counting:
            slug = self._todo.pop(0) if self._todo else None
        if slug is None:
            return None
        chain = self.folder.chains[slug]
        self.folder.begin(chain)
        made = {audit.number for audit in chain.audits}
        planned = of_chain(self.audits, chain.case, chain.repeat)
        audits = {number: audit for number, audit in planned.items() if number not in made}
        return ClaimedChain(slug, self.folder.secret, self.folder.plan(chain), audits)

    def position(self, chain: ClaimedChain) -> Position:
        return self.folder.position(self.folder.chains[chain.key])

    def stop_before(self, chain: ClaimedChain, trip: int) -> str:
        played = self.folder.chains[chain.key]
        if outcome := self.is_over(played):
            return outcome
        return WAIT if self.until and trip > self.until(played) else ""

    def open_call(self, chain: ClaimedChain, trip: int, name: str) -> None:
        """Set the price of a call aside, so that threads cannot overspend."""
        price = self.price or 0.0
        with self._counting:
            committed = self.spent + price * len(self._open)
            if self.budget is not None and committed + price > self.budget:
                raise Paused(
                    f"${committed:,.2f} of the budget of ${self.budget:,.2f} is spent; "
                    "go on with a larger --budget"
                )
            if self.max_edits is not None and self.calls + len(self._open) >= self.max_edits:
                raise Paused(f"--max-edits {self.max_edits} is reached; go on with more")
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
        touch: Touch,
        ended: Answer | Refused | EditorError,
        attempt: Attempt | None,
    ) -> None:
        if attempt is not None:
            self.close_call(chain, audit.number, "audit", attempt)
        self.folder.add_audit(chain.key, audit, touch, audit.seed(self.folder.secret), ended)

    def end_chain(self, chain: ClaimedChain, outcome: str, reason: str = "") -> None:
        self.folder.end(chain.key, outcome, reason)

    def release(self, chain: ClaimedChain) -> None:
        """Nothing to do: a chain without an outcome is still to be played."""

    def _cost(self, known: float | None) -> float:
        """A call's own cost, or the price of an edit where that is not known."""
        return (self.price or 0.0) if known is None else known


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
    """Return a player of the folder; `options` are those of its store."""
    store = FolderStore(folder, **options)
    return FolderPlayer(editor, store, max(1, parallel), limits or Limits())


def stop_after(folder: RunFolder) -> int:
    """Trips that chains of the run are played on after their end is known; 0: to the end."""
    return int(folder.header.get("stop_after", 0))


def saved(folder: RunFolder) -> int:
    """Edits that were not asked for, because the end of their chains was known."""
    ends = [len(c.trips) for c in folder.chains.values() if c.outcome in ("known", "converged")]
    return edits_saved(folder.suite.trips, ends)


@dataclass
class Rounds:
    """Plays a run in rounds: after each, what came back is scored and says who goes on."""

    player: FolderPlayer
    scorer: Scorer
    _known: dict[str, int | None] = field(default_factory=dict)
    _scored: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder = self.player.store.folder
        self.stop_after = stop_after(self.folder)
        self.player.store.until, self.player.store.is_over = self.until, self.outcome

    def play(self) -> None:
        """Until every chain has an outcome; raises what `Player.play` raises."""
        self.look()
        while self.player.store.waiting:
            self.player.play()
            self.look()

    def until(self, chain: PlayedChain) -> int:
        """The trip after which this chain must wait for the next look."""
        slug, trips = chain.slug, self.folder.suite.trips
        own = self.stop_after if may_stop(chain.pair, self.folder.suite) else 0
        return last_trip(self._known.get(slug), self._scored.get(slug, 0), own, trips)

    def look(self) -> None:
        """Score what is there, and end the chains that need no more trips."""
        folder = self.folder
        if not any(chain.trips for chain in folder.chains.values()):
            return
        scores = score_run(folder, self.scorer, read_scores(folder), on_chain=self._keep)
        for slug, chain in folder.chains.items():
            if slug in scores.chains:
                self._scored[slug] = len(scores.chains[slug].restored)
                self._known[slug] = self._known_at(scores, chain)
        for chain in self.player.store.waiting:
            if outcome := self.outcome(chain):
                folder.end(chain.slug, outcome)
        ends = {slug: folder.chains[slug].outcome for slug in scores.chains}
        told = {slug: replace(c, outcome=ends[slug]) for slug, c in scores.chains.items()}
        self._keep(replace(scores, chains=told))

    def outcome(self, chain: PlayedChain) -> str:
        """How a chain ends that needs no more trips; empty where it does, or is half way."""
        suite, played = self.folder.suite, len(chain.trips)
        whole = not chain.open_steps and played < suite.trips
        if not whole or not may_stop(chain.pair, suite):
            return ""
        pictures = [(steps[0].sha256, steps[-1].sha256) for steps in chain.trips]
        return stopped(played, self._known.get(chain.slug), pictures, self.stop_after)

    def _keep(self, scores: RunScores) -> None:
        self.folder.write_json("scores.json", scores.to_dict())

    def _known_at(self, scores: RunScores, played: PlayedChain) -> int | None:
        """By which trip the chain's end is known by the headline."""
        suite, chain = self.folder.suite, replace(scores.chains[played.slug], outcome=LOST)
        pair, kind = suite.pair_by_slug[chain.pair], suite.picture_by_slug[chain.picture].kind
        case = Case(chain.picture, chain.pair, pair.category, kind)
        headline = next(iter(in_order(scores.metrics)), "")
        calibration = scores.pictures[chain.picture].get(headline)
        measured = chain.measured(case, headline, calibration, 0)
        return known_at(measured.result) if measured else None
