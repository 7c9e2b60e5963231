"""Score the chains of a run folder; keep scores in memory or in its scores.json.

A calibration has the distances that set the scale of a metric for one source image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from evaluation.analysis.half_life import METHOD_VERSION
from evaluation.audits.findings import Finding
from evaluation.audits.plan import Audit
from evaluation.content.suites import Suite
from evaluation.images import EncodedImage
from evaluation.measuring.calibration import Calibration, stored_source_data
from evaluation.measuring.scoring import Scorer
from evaluation.metrics.base import Subject
from evaluation.play.calibration_cache import calibrated
from evaluation.play.finish import chain_signs, finish
from evaluation.play.run_folder import PlayedChain, RunFolder
from evaluation.play.run_scores import ChainScores, RunScores, read_scores
from evaluation.play.score import CHAINS_AT_ONCE, joined_quality, score
from evaluation.play.store import AnsweredAudit, PlayedTrips, ScoredTrips, ScoreStore
from evaluation.records import TripMeasures
from evaluation.witnesses.judge import Judge


class MemoryScores(ScoreStore):
    """A store in memory: scores by chain, and calibrations by source image.

    Each `PlayedTrips.key` must have the attributes `image` (a slug) and `repeat`.
    """

    def __init__(
        self, suite: Suite, scorer: Scorer, on_trips: Callable[[int], object] = lambda count: None
    ) -> None:
        self.suite, self.on_trips = suite, on_trips
        self.provenance = scorer.provenance()
        self.scores: dict[str, ChainScores] = {}
        self.images: dict[str, Mapping[str, Calibration | None]] = {}
        self.orders: Sequence[Mapping[str, Any]] = ()

    def run_scores(self) -> RunScores:
        """Return the scores of all chains so far."""
        used = {chain.image for chain in self.scores.values()}
        return RunScores(
            self.suite.content_hash,
            self.provenance,
            {slug: rows for slug, rows in self.images.items() if slug in used},
            dict(self.scores),
            tuple(self.orders),
        )

    def claim(self) -> Sequence[PlayedTrips]:
        waiting = [
            chain
            for chain in self.chains()
            if chain.slug not in self.scores or chain.scored < chain.played
        ]
        # Sorted by image, so that the features of a source are computed once.
        return sorted(waiting, key=lambda chain: str(chain.key.image))[:CHAINS_AT_ONCE]

    def calibrate(
        self, chain: PlayedTrips, source: EncodedImage, subject: Subject, scorer: Scorer
    ) -> Mapping[str, Mapping[str, Any]]:
        if chain.key.image not in self.images:
            self.images[chain.key.image] = calibrated(scorer, source, subject)
        return stored_source_data(self.images[chain.key.image])

    def save_scores(self, chain: PlayedTrips, trips: ScoredTrips) -> None:
        scored = trips.first - 1
        before = self.scores.get(chain.slug) or ChainScores(
            chain.key.image, chain.pair.slug, chain.key.repeat, chain.outcome, (), {}, ()
        )
        quality = joined_quality(before.quality, trips.scores.quality, scored)
        measures = (*before.trips, *trips.measures)
        self.scores[chain.slug] = replace(
            before,
            restored=(
                *before.restored,
                *(answers[-1].sha256 for answers in trips.answers if answers[-1]),
            ),
            distances={
                name: None if new is None else (*(before.distances.get(name) or ()), *new)
                for name, new in trips.scores.distances.items()
            },
            trips=measures,
            signs=tuple(
                f"trip {sign.number}, {sign.direction}: {sign.name} ({sign.detail})"
                for sign in chain_signs(measures, chain.pair)
            ),
            quality={name: tuple(values) for name, values in quality.items()},
        )
        self.on_trips(len(trips.measures))

    def measures(self, chain: PlayedTrips) -> list[TripMeasures]:
        scored = self.scores.get(chain.slug)
        return list(scored.trips) if scored else []

    def save_measures(self, chain: PlayedTrips, measures: Mapping[int, TripMeasures]) -> None:
        trips = enumerate(self.scores[chain.slug].trips, start=1)
        self._change(chain, trips=tuple(measures.get(number, trip) for number, trip in trips))

    def save_no_reference(
        self, chain: PlayedTrips, name: str, values: Sequence[float | None]
    ) -> None:
        self._change(chain, quality={**self.scores[chain.slug].quality, name: tuple(values)})

    def save_judge(self, summary: Mapping[str, Any]) -> None:
        self.provenance = {**self.provenance, "judge": dict(summary)}

    def save_orders(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.orders = rows

    def _change(self, chain: PlayedTrips, **changes: Any) -> None:
        self.scores[chain.slug] = replace(self.scores[chain.slug], **changes)


class FolderScores(MemoryScores):
    """The scores of a run folder. Valid scores in its scores.json are reused.

    With `again`, everything is scored again.
    """

    def __init__(
        self,
        folder: RunFolder,
        scorer: Scorer,
        *,
        again: bool = False,
        on_trips: Callable[[int], object] = lambda count: None,
    ) -> None:
        super().__init__(folder.suite, scorer, on_trips)
        self.folder = folder
        self.audit_findings: dict[tuple[str, int], Finding] = {}
        before = read_scores(folder)
        self._imported = _imported(before) if before else {}
        if before is None:
            return
        # Scoring does not produce these: the judge's answers, and values imported from score files
        # that other programs wrote.
        added = {n: v for n, v in before.provenance.items() if n in ("judge", "score_files")}
        is_valid = before.method == METHOD_VERSION and before.provenance == self.provenance | added
        if again or not is_valid:  # curves never mix versions
            added.pop("judge", None)
        else:
            self._reuse(before)
        self.provenance |= added

    def _reuse(self, before: RunScores) -> None:
        """Reuse the scores of the trips whose images are unchanged."""
        for slug, chain in self.folder.chains.items():
            scored = before.chains.get(slug)
            if scored is None:
                continue
            count = 0
            for now, then in zip(chain.trips, scored.restored, strict=False):
                if now[-1].sha256 != then:
                    break
                count += 1
            if count or not chain.trips:
                self.scores[slug] = scored.first(count)
                self.images[chain.image] = before.images[chain.image]
                self.on_trips(count)

    def run_scores(self) -> RunScores:
        chains = {
            slug: replace(_with_imported(scored, self._imported.get(slug)), outcome=chain.outcome)
            for slug, chain in self.folder.chains.items()
            if (scored := self.scores.get(slug)) and len(scored.trips) == len(chain.trips)
        }
        scores = super().run_scores()
        return replace(scores, chains=chains, repeats=self.folder.arm.repeats)

    def write(self) -> RunScores:
        """Write scores.json with every completely scored chain."""
        scores = self.run_scores()
        self.folder.write_json("scores.json", scores.to_dict())
        return scores

    def chains(self) -> Iterator[PlayedTrips]:
        for chain in self.folder.chains.values():
            scored = self.scores.get(chain.slug)
            yield PlayedTrips(
                chain,
                chain.slug,
                self.folder.pair(chain),
                self.suite.image_by_slug[chain.image],
                chain.outcome,
                len(chain.trips),
                len(scored.trips) if scored else 0,
            )

    def source(self, chain: PlayedTrips) -> EncodedImage:
        return self.folder.source(chain.key)

    def answer(self, chain: PlayedTrips, trip: int, place: int) -> EncodedImage:
        played: PlayedChain = chain.key
        return self.folder.read(played, played.trips[trip - 1][place])

    def save_scores(self, chain: PlayedTrips, trips: ScoredTrips) -> None:
        super().save_scores(chain, trips)
        if trips.last == chain.played:
            self.write()

    def audits(self, chain: PlayedTrips) -> list[AnsweredAudit]:
        played: PlayedChain = chain.key
        return [
            AnsweredAudit(
                (played, audit),
                Audit(played.case, played.repeat, audit.number, audit.kind),
                self.folder.secret,
            )
            for audit in played.audits
            if audit.file and (played.slug, audit.number) not in self.audit_findings
        ]

    def unanswered_audits(self, chain: PlayedTrips) -> list[Audit]:
        played: PlayedChain = chain.key
        return [
            Audit(played.case, played.repeat, audit.number, audit.kind)
            for audit in played.audits
            if not audit.file
        ]

    def audit_answer(self, audit: AnsweredAudit) -> EncodedImage:
        return self.folder.read(*audit.key)

    def save_finding(self, audit: AnsweredAudit, finding: Finding) -> None:
        played, played_audit = audit.key
        self.audit_findings[played.slug, played_audit.number] = finding

    def findings(self) -> list[Finding]:
        return list(self.audit_findings.values())


def score_run(
    folder: RunFolder,
    scorer: Scorer,
    *,
    again: bool = False,
    judge: Judge | None = None,
    on_trips: Callable[[int], object] = lambda count: None,
) -> RunScores:
    """Score all played trips of a run folder, finish the run, and write its scores.json."""
    store = FolderScores(folder, scorer, again=again, on_trips=on_trips)
    score(store, scorer)
    finish(store, judge)
    return store.write()


def _imported(before: RunScores) -> dict[str, ChainScores]:
    """Return the chains, each with only the values imported from score files."""
    names = before.provenance.get("score_files", {})
    return {
        slug: replace(chain, quality={n: v for n, v in chain.quality.items() if n in names})
        for slug, chain in before.chains.items()
    }


def _with_imported(chain: ChainScores, imported: ChainScores | None) -> ChainScores:
    """Add the imported values if the chain's images are unchanged."""
    if imported is None or chain.restored[: len(imported.restored)] != imported.restored:
        return chain
    return replace(chain, quality={**chain.quality, **imported.quality})
