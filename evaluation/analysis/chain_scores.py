"""One chain scored: its distances by every metric, and what each trip did to the picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import ConfigDict

from evaluation.analysis.events import COMPLETED, Case
from evaluation.analysis.standings import MeasuredChain, ScoredTrip, measured_chain
from evaluation.content.suites import EditPair, SourcePicture
from evaluation.images import Picture
from evaluation.measuring.cheating import signs
from evaluation.measuring.scoring import Calibration, Scorer
from evaluation.measuring.subject import ChainSubject
from evaluation.measuring.trip_measures import found_by_scoring, half_errors, measure_trip
from evaluation.metrics.base import Mask
from evaluation.records import TripMeasures

#: One trip: the answers to its steps, what came back the last; the first is None where what was
#: edited was not kept.
TripPictures = tuple[Picture | None, ...]


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


def score_chain(
    scorer: Scorer,
    source: Picture,
    trips: Iterable[TripPictures],
    pair: EditPair,
    picture: SourcePicture | None = None,
    known: ChainScores | None = None,
) -> ChainScores:
    """The scores of one chain, whoever played it; `picture` is what a suite says of its source.

    What is `known` of its first trips, by the same scorer, is not computed again.
    """
    measures: list[TripMeasures] = []
    restored: list[str] = []
    done = known.restored if known else ()
    face = scorer.only_face(source) if picture is None else None
    about = ChainSubject(picture, source, pair, face)
    footprints: list[Mask | None] = []

    def measured_on_the_way() -> Iterator[Picture]:
        before = source
        for number, (edited, *between, back) in enumerate(trips, start=1):
            if back is None or None in between:
                raise ValueError(f"trip {number} lacks an answer")
            middle = [picture for picture in between if picture]
            subject = about.see(number, (before, edited, *middle, back))
            place = len(restored)
            restored.append(back.sha256)
            if tuple(restored) != done[: place + 1]:
                measures.append(
                    measure_trip(
                        *(source, before, edited, back, pair, scorer.panel, subject),
                        number=number,
                        between=middle,
                    )
                )
                footprints.append(subject.footprint)
                yield back
            before = back

    scores = scorer.score(source, measured_on_the_way(), about.subject, footprints=footprints)
    measures = [
        measure.model_copy(update=found_by_scoring(scores, index))
        for index, measure in enumerate(measures)
    ]
    distances, quality = scores.distances, scores.quality
    if known and (kept := len(restored) - len(measures)):
        measures = [*known.trips[:kept], *measures]
        distances = {
            name: None if values is None else [*(known.distances[name] or ())[:kept], *values]
            for name, values in distances.items()
        }
        quality = {
            name: [*known.quality[name][: kept + 1], *values[1:]]
            for name, values in quality.items()
        }
    errors = [error for n, trip in enumerate(measures, start=1) for error in half_errors(n, trip)]
    return ChainScores(
        picture="",
        pair=pair.slug,
        repeat=0,
        outcome=COMPLETED,
        restored=tuple(restored),
        distances={n: None if v is None else tuple(v) for n, v in distances.items()},
        trips=tuple(measures),
        signs=tuple(
            f"trip {sign.number}, {sign.direction}: {sign.name} ({sign.detail})"
            for sign in signs(errors, pair)
        ),
        quality={name: tuple(values) for name, values in quality.items()},
    )
