"""A chain that a score job has taken: its new trips, read a few at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from django.db import models
from django.db.models import Q

from evaluation.content.suites import EditPair, SourcePicture
from evaluation.images import Picture
from evaluation.measuring.scoring import Returns
from evaluation.measuring.subject import ChainSubject
from evaluation.metrics.base import Subject
from leaderboard.jobs.job_errors import stored_safely
from leaderboard.models import Chain, StoredImage, Trip


@dataclass(frozen=True)
class Part:
    """Trips of one chain that follow each other, with their pictures; entries are by trip."""

    chain: ClaimedChain
    trips: Sequence[Trip]
    #: What each began with, what was answered to its steps, and what was known by then.
    starts: Sequence[Picture]
    answers: Sequence[Sequence[Picture]]
    subjects: Sequence[Subject]
    #: The answers as they are stored.
    stored: Sequence[Sequence[StoredImage | None]]

    @property
    def returns(self) -> Returns:
        """What the scorer needs of it."""
        return Returns(
            self.chain.source,
            [own[-1] for own in self.answers],
            self.subjects[-1],
            [subject.footprint for subject in self.subjects],
        )


class ClaimedChain:
    """The trips of one chain that are not scored yet, in order."""

    def __init__(self, row: Chain, picture: SourcePicture, pair: EditPair) -> None:
        self.row, self.picture, self.pair = row, picture, pair
        self.source = read(row.case.picture.stored)
        self._known = ChainSubject(picture, self.source, pair)
        self._before: Picture | None = None

    def next(self, most: int) -> Part | None:
        """The next trips, at most so many; None when no more are left."""
        trips, self._todo[:most] = self._todo[:most], []
        if not trips:
            return None
        before = self._before or self._what_came_before()
        stored = [self._stored(trip) for trip in trips]
        answers = [[read(one) for one in own] for own in stored]
        starts = [before, *(own[-1] for own in answers[:-1])]
        subjects = [
            self._known.see(trip.number, (start, *own))
            for trip, start, own in zip(trips, starts, answers, strict=True)
        ]
        self._before = answers[-1][-1]
        return Part(self, trips, starts, answers, subjects, stored)

    def give_up(self) -> None:
        """Read no more of it: its pictures are gone, or somebody else scores it."""
        self._todo.clear()

    @cached_property
    def _todo(self) -> list[Trip]:
        first, last = self.row.trips_scored, self.row.trips_played
        return list(self._trips.filter(number__gt=first, number__lte=last))

    def _what_came_before(self) -> Picture:
        """The picture that the first new trip began with.

        What was scored before also says where the edits were made.
        """
        scored = self.row.trips_scored
        early = Q(number__lte=len(self.pair.cycle)) | Q(number=scored)
        before = self.source
        for trip in self._trips.filter(early, number__lte=scored):
            answers = [read(one) for one in self._stored(trip)]
            self._known.see(trip.number, (before, *answers))
            before = answers[-1]
        return before

    def _stored(self, trip: Trip) -> list[StoredImage | None]:
        return [trip.edited, *self._between.get(trip.number, ()), trip.restored]

    @cached_property
    def _between(self) -> dict[int, list[StoredImage]]:
        """By trip, the answers between its first and its last; none of round trips."""
        found: dict[int, list[StoredImage]] = defaultdict(list)
        if self.pair.shape:
            for step in self.row.steps.select_related("picture").order_by("number", "place"):
                if step.picture:
                    found[step.number].append(step.picture)
        return found

    @property
    def _trips(self) -> models.QuerySet[Trip]:
        return self.row.trips.select_related("edited", "restored").order_by("number")


def read(stored: StoredImage | None) -> Picture:
    """The picture; one that cannot be read says why."""
    if stored is None:
        raise LookupError("a trip that counts as played lacks a picture")
    return stored_safely(stored.read)
