"""Recompute the measures and scores of a bundle's chains from its images."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from evaluation.bundle.checks import image_checks
from evaluation.bundle.document import Bundle
from evaluation.images import EncodedImage
from evaluation.measuring.calibration import stored_source_data
from evaluation.measuring.scoring import Scorer
from evaluation.measuring.trip_measures import scoring_findings
from evaluation.metrics.base import Subject
from evaluation.play.folder_scores import MemoryScores
from evaluation.play.run_folder import chain_slug
from evaluation.play.run_scores import ChainScores
from evaluation.play.score import score_chains
from evaluation.play.store import ImageGone, PlayedTrips, ScoredTrips
from evaluation.records import ChainRecord, FileRecord


class _Key(NamedTuple):
    image: str
    repeat: int
    record: ChainRecord


class BundleScores(MemoryScores):
    """A bundle as a store: its chains are read from the file and their scores computed again."""

    def __init__(self, bundle: Bundle, scorer: Scorer) -> None:
        super().__init__(bundle.suite, scorer)
        self.bundle = bundle
        self._sources = {row.slug: row for row in bundle.document.sources}
        self._cases = {case.slug: case for case in bundle.suite.cases}
        #: The fields of `TripMeasures` that the last call of `rescore` filled from the scores.
        self.scored_fields: Collection[str] = ()

    def played_trips(self, record: ChainRecord) -> PlayedTrips | None:
        """Return the chain up to its first unmeasured trip; None if the suite lacks its case."""
        if (case := self._cases.get(record.case)) is None:
            return None
        pair = self.bundle.arm.measured_pair(self.suite.pair_by_slug[case.pair])
        count = 0
        for trip in record.trips:
            if trip.step is None or len(trip.edits) != len(pair.trip(trip.number)):
                break
            count += 1
        key = _Key(case.image, record.repeat, record)
        slug = chain_slug(record.case, record.repeat)
        image = self.suite.image_by_slug[case.image]
        return PlayedTrips(key, slug, pair, image, record.outcome, count, count)

    def chains(self) -> Iterator[PlayedTrips]:
        yield from filter(None, map(self.played_trips, self.bundle.document.chains))

    def rescore(self, chain: PlayedTrips, scorer: Scorer) -> ChainScores:
        """Measure and score the chain from its first trip on."""
        score_chains(self, scorer, [replace(chain, scored=0)])
        return self.scores.pop(chain.slug)

    def source_of(self, chain: PlayedTrips) -> EncodedImage | None:
        """Return the chain's source image; None if it is missing or damaged."""
        return self.image(self._sources.get(chain.key.image))

    def image(self, row: FileRecord | None) -> EncodedImage | None:
        return image_checks(self.bundle, "", row)[0]

    def source(self, chain: PlayedTrips) -> EncodedImage:
        if (source := self.source_of(chain)) is None:
            raise ImageGone(chain.slug)
        return source

    def answer(self, chain: PlayedTrips, trip: int, place: int) -> EncodedImage | None:
        _, edit = chain.key.record.trips[trip - 1].edits[place]
        return self.image(edit)

    def calibrate(
        self, chain: PlayedTrips, source: EncodedImage, subject: Subject, scorer: Scorer
    ) -> Mapping[str, Mapping[str, Any]]:
        """Return the source data that `Verification` stored with its calibrations."""
        return stored_source_data(self.images.get(chain.key.image, {}))

    def save_scores(self, chain: PlayedTrips, trips: ScoredTrips) -> None:
        super().save_scores(chain, trips)
        if trips.measures:
            self.scored_fields = scoring_findings(trips.scores, 0).keys()
