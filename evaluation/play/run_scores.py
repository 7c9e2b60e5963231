"""The scores of a run (scores.json) as plain data, for curves, tables and reports.

A calibration has the distances that set the scale of a metric for one source image.
"""

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
    """The scores of one chain: distances by metric (None: not run), and measures by trip."""

    image: str
    pair: str
    repeat: int
    outcome: str
    restored: tuple[str, ...]  # SHA-256 of the scored images X1..Xn
    distances: Mapping[str, tuple[float, ...] | None]
    trips: tuple[TripMeasures, ...]
    signs: tuple[str, ...] = ()
    #: For each no-reference metric, its values for the source and X1..Xn; None where it failed.
    quality: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)

    __pydantic_config__ = ConfigDict(extra="forbid")

    def first(self, count: int) -> ChainScores:
        """Return the scores of the first `count` trips."""
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
        """RMSE between successive restored images, and between the last one and the source."""
        end = self.trips[-1].from_source if self.trips else None
        return [trip.step or 0.0 for trip in self.trips], end or 0.0

    def measured(
        self, case: Case, metric: str, calibration: Calibration | None, until: int
    ) -> MeasuredChain | None:
        """Return the chain as measured by one metric; None if the metric was not run.

        A converged chain, whose image no longer changes, is extended to trip `until`.
        """
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
    """The content of RUN/scores.json: chains by slug, and calibrations by image and metric."""

    suite: Annotated[str, Field(description="The content hash of the suite.")]
    provenance: Annotated[
        Mapping[str, Any], Field(description="Versions of metrics, witnesses and packages.")
    ]
    images: Mapping[str, Mapping[str, Calibration | None]]
    chains: Mapping[str, ChainScores]
    orders: Annotated[
        tuple[Mapping[str, Any], ...],
        Field(
            description="Differences between images that should be equal, because the same edits "
            "were made in another order."
        ),
    ] = ()
    method: str = METHOD_VERSION
    repeats: Annotated[
        int,
        Field(
            description="The repeats of every case, if the run's arm (a variant of the suite's "
            "settings) sets them; 0: as in the suite."
        ),
    ] = 0
    format: Literal[3] = 3

    __pydantic_config__ = ConfigDict(extra="forbid")

    def to_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = _SCORES.dump_python(self)
        return data

    @classmethod
    def from_dict(cls, data: Any) -> RunScores:
        """Parse the content of a scores.json. Raises ValueError if it is invalid."""
        return _SCORES.validate_python(data)

    @property
    def metrics(self) -> list[str]:
        """The metrics that were run, without no-reference metrics."""
        return [name for name in self.provenance["metrics"] if name not in no_reference_metrics()]

    @property
    def quality_metrics(self) -> dict[str, Mapping[str, Any]]:
        """The pinned versions of the no-reference metrics, including those from score files."""
        return no_reference_pins(self.provenance["metrics"], self.provenance)

    @property
    def first_edits_made(self) -> list[bool]:
        """The verdicts on the first edits of all chains: True if the edit was made."""
        first = (
            Verdict.from_evidence(c.trips[0].evidence).made for c in self.chains.values() if c.trips
        )
        return [made for made in first if made is not None]

    def no_reference(self, suite: Suite) -> dict[str, Any]:
        """Return the statistics of the no-reference metrics, by metric."""
        chains = []
        for chain in self.chains.values():
            candidates = (self.retention(chain, name) for name in METRICS if name in self.metrics)
            retention_values = next((values for values in candidates if values is not None), ())
            case = f"{chain.image}--{chain.pair}"
            chains.append(QualityChain(case, chain.quality, retention_values))
        return no_reference_numbers(chains, suite.trips, self.quality_metrics)

    def retention(self, chain: ChainScores, metric: str) -> tuple[float, ...] | None:
        """Return the retention of a chain after each trip; None if the metric was not run."""
        calibration = self.images[chain.image].get(metric)
        distances = chain.distances.get(metric)
        if calibration is None or distances is None:
            return None
        values = [retention(distance, calibration.blank) for distance in distances]
        return None if None in values else tuple(q for q in values if q is not None)

    def results(self, suite: Suite, metric: str) -> list[ChainResult]:
        """Return the finished chains as input for half-lives and ranks."""
        measured = (
            self._measured(suite, chain, metric, suite.trips)
            for chain in self.chains.values()
            if chain.outcome
        )
        return [chain.result for chain in measured if chain]

    def known_at(self, suite: Suite, slug: str) -> int | None:
        """Return the trip at which the headline metric shows the chain's result, or None.

        The headline metric is the first of the metrics that were run, in display order.
        """
        headline = next(iter(in_order(self.metrics)), "")
        # The chain's current outcome must not count as its end.
        measured = self._measured(suite, replace(self.chains[slug], outcome=LOST), headline, 0)
        return known_at(measured.result) if measured else None

    def _measured(
        self, suite: Suite, chain: ChainScores, metric: str, until: int
    ) -> MeasuredChain | None:
        case = Case.of(suite, chain.image, chain.pair)
        return chain.measured(case, metric, self.images[chain.image].get(metric), until)


_SCORES = TypeAdapter(RunScores)
#: The parts of the provenance that describe the metrics and the judge.
_METRICS, _JUDGE = TypeAdapter(dict[str, dict[str, Any]]), TypeAdapter(dict[str, Any])


def read_scores(folder: RunFolder) -> RunScores | None:
    """Return the scores in the folder; None if missing or invalid."""
    try:
        scores = RunScores.from_dict(read_json_file(folder.path / "scores.json"))
        for name in ("metrics", "score_files"):
            _METRICS.validate_python(scores.provenance.get(name, {}))
        _JUDGE.validate_python(scores.provenance.get("judge", {}))
    except (OSError, ValueError):
        return None
    return scores if _match(scores, folder.suite) else None


def _match(scores: RunScores, suite: Suite) -> bool:
    """Return True if the scores belong to this suite and have a value for each trip."""
    same_suite = scores.suite == suite.content_hash and "metrics" in scores.provenance
    return same_suite and all(
        chain.pair in suite.pair_by_slug
        and chain.image in suite.image_by_slug
        and chain.image in scores.images
        and chain.outcome in ("", *OUTCOMES)
        and all(
            v is None or (len(v) == len(chain.trips) and all(0 <= d < math.inf for d in v))
            for v in chain.distances.values()
        )
        for chain in scores.chains.values()
    )
