"""The scores of a run as plain data: everything curves, tables and reports are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from evaluation.analysis.chain_scores import ChainScores, TripPictures, score_chain
from evaluation.analysis.diagnostics.no_reference import QualityChain, no_reference_numbers
from evaluation.analysis.events import OUTCOMES, Case, ChainResult
from evaluation.analysis.half_life import METHOD_VERSION
from evaluation.arms import DEFAULT, Arm
from evaluation.content.suites import Case as SuiteCase
from evaluation.content.suites import Suite
from evaluation.images import Picture
from evaluation.measuring.scoring import Calibration, Scorer, retention
from evaluation.measuring.steps import ReadStep, compare_orders
from evaluation.measuring.subject import chain_subject
from evaluation.measuring.trip_measures import identity_drift, judge_global
from evaluation.metrics import METRICS, no_reference_metrics
from evaluation.metrics.no_reference import no_reference_pins
from evaluation.play.calibration_cache import calibrated
from evaluation.play.run_folder import PlayedChain, RunFolder, chain_slug
from evaluation.records import TripMeasures
from evaluation.untrusted_json import read_json_file

#: What was told of a run beside what scoring finds.
KEPT = ("judge", "score_files")


@dataclass(frozen=True)
class RunScores:
    """RUN/scores.json: chains by slug, and each picture's calibration by metric."""

    suite: Annotated[str, Field(description="The content hash of the suite.")]
    provenance: Annotated[
        Mapping[str, Any], Field(description="Metrics, witnesses and packages by version.")
    ]
    pictures: Mapping[str, Mapping[str, Calibration | None]]
    chains: Mapping[str, ChainScores]
    orders: Annotated[
        tuple[Mapping[str, Any], ...],
        Field(description="Pictures of two chain shapes where both should show the same."),
    ] = ()
    method: str = METHOD_VERSION
    repeats: Annotated[
        int, Field(description="Of every case, where the run's arm says so; 0: the suite's.")
    ] = 0
    format: Literal[3] = 3

    __pydantic_config__ = ConfigDict(extra="forbid")

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = _SCORES.dump_python(self)
        return found

    @classmethod
    def from_dict(cls, data: Any) -> RunScores:
        """Read the content of a scores.json. Raises ValueError if it is anything else."""
        return _SCORES.validate_python(data)

    @property
    def metrics(self) -> list[str]:
        """The metrics that were run and compare with the source."""
        return [name for name in self.provenance["metrics"] if name not in no_reference_metrics()]

    @property
    def quality_metrics(self) -> dict[str, Mapping[str, Any]]:
        """The no-reference metrics, those of score files too, as each was run."""
        return no_reference_pins(self.provenance["metrics"], self.provenance)

    def no_reference(self, suite: Suite) -> dict[str, Any]:
        """What no-reference metrics say of the returns, by metric."""
        chains = []
        for chain in self.chains.values():
            found = (self.retention(chain, name) for name in METRICS if name in self.metrics)
            kept = next((values for values in found if values is not None), ())
            case = f"{chain.picture}--{chain.pair}"
            chains.append(QualityChain(case, chain.quality, kept))
        return no_reference_numbers(chains, suite.trips, self.quality_metrics)

    def retention(self, chain: ChainScores, metric: str) -> tuple[float, ...] | None:
        """Q(1..n) of a chain; None where the metric was not run on it."""
        calibration = self.pictures[chain.picture].get(metric)
        distances = chain.distances.get(metric)
        if calibration is None or distances is None:
            return None
        values = [retention(distance, calibration.blank) for distance in distances]
        return None if None in values else tuple(q for q in values if q is not None)

    def results(self, suite: Suite, metric: str) -> list[ChainResult]:
        """The chains that have an outcome, as half-lives and ranks are made of them."""
        found = []
        for chain in self.chains.values():
            if not chain.outcome:
                continue
            pair, kind = suite.pair_by_slug[chain.pair], suite.picture_by_slug[chain.picture].kind
            case = Case(chain.picture, chain.pair, pair.category, kind)
            calibration = self.pictures[chain.picture].get(metric)
            measured = chain.measured(case, metric, calibration, suite.trips)
            if measured:
                found.append(measured.result)
        return found


_SCORES = TypeAdapter(RunScores)
#: Of the provenance: each metric with what is told of it, and what a judge was.
_METRICS, _JUDGE = TypeAdapter(dict[str, dict[str, Any]]), TypeAdapter(dict[str, Any])


def read_scores(folder: RunFolder) -> RunScores | None:
    """The scores that lie in the folder; None where there are none of use."""
    try:
        content = read_json_file(folder.path / "scores.json")
        if isinstance(content, dict):
            content.pop("race", None)  # written by earlier versions
        scores = RunScores.from_dict(content)
        for name in ("metrics", "score_files"):
            _METRICS.validate_python(scores.provenance.get(name, {}))
        _JUDGE.validate_python(scores.provenance.get("judge", {}))
    except (OSError, ValueError):
        return None
    return scores if _are_of(scores, folder.suite) else None


def _are_of(scores: RunScores, suite: Suite) -> bool:
    """Whether these are scores of this suite, each chain with as many values as trips."""
    told = scores.suite == suite.content_hash and "metrics" in scores.provenance
    return told and all(
        chain.pair in suite.pair_by_slug
        and chain.picture in suite.picture_by_slug
        and chain.picture in scores.pictures
        and chain.outcome in ("", *OUTCOMES)
        and all(
            v is None or (len(v) == len(chain.trips) and all(0 <= d < math.inf for d in v))
            for v in chain.distances.values()
        )
        for chain in scores.chains.values()
    )


def score_run(
    folder: RunFolder,
    scorer: Scorer,
    before: RunScores | None = None,
    on_trip: Callable[[int], None] = lambda trips: None,
    calibrations: dict[str, Mapping[str, Calibration | None]] | None = None,
    on_chain: Callable[[RunScores], None] = lambda scores: None,
) -> RunScores:
    """The scores of all that is played; what `before` has and still holds is not done again.

    `calibrations` is filled by picture; with the same scorer it serves the next run too.
    `on_chain` gets all scores so far after every chain, so that they can be kept.
    """
    provenance = scorer.provenance()
    calibrations = {} if calibrations is None else calibrations
    # What a judge said of chains stays with them, as do the values of score files.
    judged_by = {k: v for k, v in before.provenance.items() if k in KEPT} if before else {}
    imported = _imported(before) if before else {}
    if before and (before.provenance != provenance | judged_by or before.method != METHOD_VERSION):
        before = None  # curves never mix versions
        judged_by.pop("judge", None)
    pictures: dict[str, Mapping[str, Calibration | None]] = {}
    chains: dict[str, ChainScores] = {}
    waiting: list[PlayedChain] = []

    def so_far() -> RunScores:
        there = {
            slug: _with_imported(chains[slug], imported.get(slug))
            for slug in folder.chains
            if slug in chains
        }
        verdicts = judged(there, folder.suite, folder.arm)
        told = provenance | judged_by
        return RunScores(
            folder.suite.content_hash,
            told,
            dict(pictures),
            verdicts,
            repeats=folder.arm.repeats,
        )

    for chain in folder.chains.values():
        known = before.chains.get(chain.slug) if before else None
        restored = tuple(steps[-1].sha256 for steps in chain.trips)
        if before and known and known.restored == restored:
            chains[chain.slug] = replace(known, outcome=chain.outcome)
            pictures.setdefault(chain.picture, before.pictures[chain.picture])
            on_trip(len(restored))
        else:
            waiting.append(chain)
    # By picture, so that a source's features are computed once.
    for chain in sorted(waiting, key=lambda chain: chain.picture):
        source, wanted = folder.source(chain), folder.suite.picture_by_slug[chain.picture]
        if chain.picture not in pictures:
            key = wanted.sha256
            if key not in calibrations:
                calibrations[key] = calibrated(scorer, source, chain_subject(wanted))
            pictures[chain.picture] = calibrations[key]
        trips = _trips(folder, chain, on_trip)
        known = before.chains.get(chain.slug) if before else None
        scored = score_chain(scorer, source, trips, folder.pair(chain), wanted, known)
        chains[chain.slug] = replace(
            scored,
            picture=chain.picture,
            repeat=chain.repeat,
            outcome=chain.outcome,
        )
        on_chain(so_far())
    return replace(so_far(), orders=tuple(compare_orders(folder.suite, _reader(folder))))


def _imported(before: RunScores) -> dict[str, ChainScores]:
    """The chains with nothing but what came in score files."""
    names = before.provenance.get("score_files", {})
    return {
        slug: replace(chain, quality={n: v for n, v in chain.quality.items() if n in names})
        for slug, chain in before.chains.items()
    }


def _with_imported(chain: ChainScores, known: ChainScores | None) -> ChainScores:
    """The chain with the values of score files, where it still has the pictures they are of."""
    if known is None or chain.restored[: len(known.restored)] != known.restored:
        return chain
    return replace(chain, quality={**chain.quality, **known.quality})


def _reader(folder: RunFolder) -> ReadStep:
    """Reads a picture of a chain by its trip and its place in it."""

    def read(case: SuiteCase, repeat: int, number: int, place: int) -> Picture | None:
        chain = folder.chains[chain_slug(case.slug, repeat)]
        if len(chain.trips) < number:
            return None
        return folder.read(chain, chain.trips[number - 1][place - 1])

    return read


def judged(
    chains: Mapping[str, ChainScores], suite: Suite, arm: Arm = DEFAULT
) -> dict[str, ChainScores]:
    """The chains with the verdicts that only the whole run can give: those on global edits."""

    def of(change: str) -> dict[str, ChainScores]:
        pairs = {slug: arm.measured(pair) for slug, pair in suite.pair_by_slug.items()}
        return {slug: c for slug, c in chains.items() if pairs[c.pair].change == change}

    drift = identity_drift(t.change_measure for c in of("none").values() for t in c.trips)

    def judge(trip: TripMeasures) -> TripMeasures:
        verdict = judge_global(trip.change_measure, drift)
        return trip.model_copy(
            update={"change_seen": verdict.seen, "change_measure": dict(verdict.measure)}
        )

    return dict(chains) | {
        slug: replace(chain, trips=tuple(judge(trip) for trip in chain.trips))
        for slug, chain in of("global").items()
    }


def _trips(
    folder: RunFolder, chain: PlayedChain, on_trip: Callable[[int], None]
) -> Iterator[TripPictures]:
    for steps in chain.trips:
        yield tuple(folder.read(chain, half) for half in steps)
        on_trip(1)
