"""The scores of a run as plain data: everything curves, tables and reports are made of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from evaluation.analysis.events import LOST, OUTCOMES, Case, ChainResult
from evaluation.analysis.half_life import METHOD_VERSION
from evaluation.analysis.no_reference import QualityChain, no_reference_numbers
from evaluation.analysis.standings import MeasuredChain, ScoredTrip, measured_chain
from evaluation.analysis.stopping import known_at
from evaluation.content.suites import Suite
from evaluation.measuring.calibration import Calibration, retention
from evaluation.metrics import METRICS, in_order, no_reference_metrics
from evaluation.metrics.no_reference import no_reference_pins
from evaluation.play.run_folder import RunFolder
from evaluation.records import TripMeasures
from evaluation.untrusted_json import read_json_file
from evaluation.witnesses.base import Verdict


@dataclass(frozen=True)
class ChainScores:
    """One chain: its distances by metric (None: not run) and what each trip did."""

    picture: str
    pair: str
    repeat: int
    outcome: str
    restored: tuple[str, ...]  # SHA-256 of X1..Xn: what these scores are of
    distances: Mapping[str, tuple[float, ...] | None]
    trips: tuple[TripMeasures, ...]
    signs: tuple[str, ...] = ()
    #: What each no-reference metric says of the source and of X1..Xn; None where it says nothing.
    quality: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)

    __pydantic_config__ = ConfigDict(extra="forbid")

    def first(self, count: int) -> ChainScores:
        """Return the scores of the first trips."""
        distances = {n: None if v is None else v[:count] for n, v in self.distances.items()}
        return replace(
            self,
            restored=self.restored[:count],
            distances=distances,
            trips=self.trips[:count],
            quality={name: values[: count + 1] for name, values in self.quality.items()},
        )

    @property
    def steps_and_end(self) -> tuple[list[float], float]:
        """The RMSE of each trip to the image before it, and of the last to the source."""
        end = self.trips[-1].from_source if self.trips else None
        return [trip.step or 0.0 for trip in self.trips], end or 0.0

    def measured(
        self, case: Case, metric: str, calibration: Calibration | None, until: int
    ) -> MeasuredChain | None:
        """The chain of up to `until` trips by one metric; None where it says nothing of it."""
        distances = self.distances.get(metric)
        if calibration is None or distances is None:
            return None
        trips = [
            ScoredTrip(number, distance, trip)
            for number, (distance, trip) in enumerate(
                zip(distances, self.trips, strict=True), start=1
            )
        ]
        return measured_chain(
            metric,
            case,
            self.repeat,
            self.outcome,
            trips,
            calibration.blank,
            calibration.ladder,
            until,
        )


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

    @property
    def first_edits_made(self) -> list[bool]:
        """Of each chain whose first edit a witness looked at, whether it was made."""
        first = (Verdict.of(c.trips[0].evidence).made for c in self.chains.values() if c.trips)
        return [made for made in first if made is not None]

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
        measured = (
            self._measured(suite, chain, metric, suite.trips)
            for chain in self.chains.values()
            if chain.outcome
        )
        return [one.result for one in measured if one]

    def known_at(self, suite: Suite, slug: str) -> int | None:
        """Return the trip by which a chain's end is known by the headline; None: not yet."""
        headline = next(iter(in_order(self.metrics)), "")
        # Where it stands is not where it ends.
        measured = self._measured(suite, replace(self.chains[slug], outcome=LOST), headline, 0)
        return known_at(measured.result) if measured else None

    def _measured(
        self, suite: Suite, chain: ChainScores, metric: str, until: int
    ) -> MeasuredChain | None:
        pair, kind = suite.pair_by_slug[chain.pair], suite.picture_by_slug[chain.picture].kind
        case = Case(chain.picture, chain.pair, pair.category, kind)
        return chain.measured(case, metric, self.pictures[chain.picture].get(metric), until)


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
