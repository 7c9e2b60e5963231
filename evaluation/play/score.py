"""Score a run a few chains at a time; images of the same size share batches."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.images import EncodedImage
from evaluation.measuring.scoring import RestoredImages, Scorer
from evaluation.measuring.subject import ChainSubject
from evaluation.measuring.trip_measures import measure_trip, scoring_findings
from evaluation.metrics.base import Subject
from evaluation.play.store import ChainTaken, ImageGone, PlayedTrips, ScoredTrips, ScoreStore
from evaluation.records import TripMeasures

#: Pixel limits of one batch: all its trips are decoded at once, and the features of its source
#: images stay in memory.
TRIPS_PIXELS, SOURCES_PIXELS = 8_400_000, 2_400_000
#: The number of chains that a worker claims (reserves for itself) at once.
CHAINS_AT_ONCE = 8


def score(store: ScoreStore, scorer: Scorer) -> None:
    """Score every played trip that is not scored yet."""
    while chains := store.claim():
        try:
            score_chains(store, scorer, chains)
        finally:
            store.release()


def score_chains(store: ScoreStore, scorer: Scorer, chains: Sequence[PlayedTrips]) -> None:
    """Score the new trips of these chains, in shared batches for each image size."""
    by_size: dict[tuple[int, int], list[_Reader]] = defaultdict(list)
    for chain in chains:
        reader = _Reader(store, scorer, chain)
        reader.stored = store.calibrate(chain, reader.source, reader.subject, scorer)
        by_size[reader.source.size].append(reader)
    for size, readers in by_size.items():
        while parts := _next_parts(store, scorer, size, readers):
            trips = [(part.chain, number) for part in parts for number in part.numbers]
            unscored = scorer.only(store.unscored_metrics(trips, scorer))
            together = unscored.score_together([part.to_score for part in parts])
            for part, scores in zip(parts, together, strict=True):
                measures = [
                    measured.model_copy(update=scoring_findings(scores, index))
                    for index, measured in enumerate(_measures(part, scorer))
                ]
                try:
                    store.save_scores(
                        part.chain, ScoredTrips(part.first, part.answers, measures, scores)
                    )
                except ChainTaken:
                    part.reader.give_up()


@dataclass(frozen=True)
class _Part:
    """Consecutive trips of one chain with their images; each list has one entry per trip."""

    reader: _Reader
    first: int
    #: The first image of each trip, and the answers to its steps.
    starts: Sequence[EncodedImage]
    answers: Sequence[Sequence[EncodedImage | None]]
    restored: Sequence[EncodedImage]
    subjects: Sequence[Subject]

    @property
    def chain(self) -> PlayedTrips:
        return self.reader.chain

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + len(self.answers))

    @property
    def to_score(self) -> RestoredImages:
        return RestoredImages(
            self.reader.source,
            self.restored,
            self.reader.subject,
            [subject.footprint for subject in self.subjects],
            self.reader.stored,
        )


class _Reader:
    """Reads the unscored trips of one chain, in order."""

    def __init__(self, store: ScoreStore, scorer: Scorer, chain: PlayedTrips) -> None:
        self.store, self.chain = store, chain
        self.source = store.source(chain)
        # Suites annotate faces; in other images the face must be detected.
        face = None if chain.image else scorer.only_face(self.source)
        #: The source's features stored with its calibration, by metric.
        self.stored: Mapping[str, Mapping[str, Any]] = {}
        self._subject = ChainSubject(chain.image, self.source, chain.pair, face)
        self._before: EncodedImage | None = None
        self._next = chain.scored + 1
        #: True until a chain without a played trip has yielded its one empty part.
        self._is_empty = not chain.played

    @property
    def subject(self) -> Subject:
        return self._subject.subject

    def next(self, most: int) -> _Part | None:
        """Read up to `most` further trips; None after the last trip. Raises ImageGone."""
        first = self._next
        self._next = min(first + most, self.chain.played + 1)
        numbers = range(first, self._next)
        if self._is_empty:
            self._is_empty = False
            return _Part(self, first, (), (), (), ())
        if not numbers:
            return None
        before = self._before or self._image_before(first)
        starts: list[EncodedImage] = []
        answers: list[list[EncodedImage | None]] = []
        restored: list[EncodedImage] = []
        subjects: list[Subject] = []
        for number in numbers:
            starts.append(before)
            answers.append(self._answers(number))
            subjects.append(self._subject.update(number, (before, *answers[-1])))
            before = self._restored(answers[-1], number)
            restored.append(before)
        self._before = before
        return _Part(self, first, starts, answers, restored, subjects)

    def give_up(self) -> None:
        """Stop reading the chain: its images are gone, or another worker scores it."""
        self._next, self._is_empty = self.chain.played + 1, False

    def _image_before(self, first: int) -> EncodedImage:
        """Return the first image of trip `first`.

        Also read the scored trips of the pair's first cycle, because they show where the edits are.
        """
        before, scored = self.source, first - 1
        for number in range(1, first):
            if number <= len(self.chain.pair.cycle) or number == scored:
                answers = self._answers(number)
                self._subject.update(number, (before, *answers))
                before = self._restored(answers, number)
        return before

    def _answers(self, number: int) -> list[EncodedImage | None]:
        steps = len(self.chain.pair.trip(number))
        return [self.store.answer(self.chain, number, place) for place in range(steps)]

    def _restored(self, answers: Sequence[EncodedImage | None], number: int) -> EncodedImage:
        *others, restored = answers
        if restored is None or None in others[1:]:
            raise ValueError(f"trip {number} has a step without an answer")
        return restored


def _next_parts(
    store: ScoreStore, scorer: Scorer, size: tuple[int, int], readers: Sequence[_Reader]
) -> list[_Part]:
    """Read the next trips to score together; an empty list when all are scored."""
    room = scorer.images_per_batch(size, TRIPS_PIXELS)
    sources: set[str] = set()
    parts: list[_Part] = []
    for reader in readers:
        source = reader.source.sha256
        count = len(sources | {source})
        if not room or (sources and count * math.prod(size) > SOURCES_PIXELS):
            break
        try:
            part = reader.next(room)
        except ImageGone as error:
            store.end_lost_chain(reader.chain, str(error))
            reader.give_up()
            continue
        if part is not None:
            parts.append(part)
            sources.add(source)
            room -= len(part.answers)
    return parts


def _measures(part: _Part, scorer: Scorer) -> Iterator[TripMeasures]:
    """Yield the measures of each trip of a part."""
    for index, answers in enumerate(part.answers):
        edited, *between, _ = answers
        yield measure_trip(
            part.reader.source,
            part.starts[index],
            edited,
            part.restored[index],
            part.chain.pair,
            scorer.panel,
            part.subjects[index],
            number=part.first + index,
            between=[image for image in between if image],
        )


def joined_quality(
    before: Mapping[str, Sequence[float | None]],
    new: Mapping[str, Sequence[float | None]],
    scored: int,
) -> dict[str, list[float | None]]:
    """Append the no-reference values of new trips to those of the `scored` trips before them."""
    joined = {
        name: [*(before.get(name) or [values[0], *[None] * scored])[: scored + 1], *values[1:]]
        for name, values in new.items()
    }
    return {name: list(values) for name, values in before.items()} | joined
