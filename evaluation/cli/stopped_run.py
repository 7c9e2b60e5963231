"""Stop the chains of a run folder when their end is known: play, score, look, play on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from evaluation.analysis.events import LOST, Case
from evaluation.analysis.stopping import edits_saved, known_at, last_trip, may_stop, stopped
from evaluation.cli.folder_store import FolderPlayer
from evaluation.cli.played_chain import PlayedChain
from evaluation.cli.run_folder import RunFolder
from evaluation.cli.run_scores import RunScores, read_scores, score_run
from evaluation.measuring.scoring import Scorer
from evaluation.metrics import in_order


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
