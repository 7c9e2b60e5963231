"""What lines of a bundle are made of, the lines of people's votes, and the rows of a race."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from evaluation.analysis.racing import MOST_NUMBER, MOST_ROUNDS
from evaluation.records import Number, Record, Sha256, Short, Slug


class Line(Record):
    """A row with the digest of itself."""

    digest: Sha256


Trip = Annotated[int, Field(ge=1, le=1000)]


class OtherReturn(Record):
    """What a return was compared with: often of a model that is not in the bundle."""

    model: Slug
    trip: Trip
    sha256: Sha256


class VoteLine(Line):
    """What one person said who did not know the models.

    `answer` of a pair: 1 for this run's return, -1 for the other, 0 for "cannot say"; of one
    return alone 1 for "still usable" and 0 for not; of a rating 0 to 5. `voter` is the same for
    all votes of one person, and tells nobody who that is.
    """

    kind: Literal["pair", "usable", "rating"]
    case: Slug
    repeat: Annotated[int, Field(ge=0, le=1000)]
    trip: Trip
    against: OtherReturn | None
    answer: Annotated[int, Field(ge=-1, le=5)]
    stood_left: bool
    role: Literal["", "gold", "repeat"]
    voter: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12}$")]
    weight: Annotated[float, Field(ge=0, le=1)]
    seconds: Annotated[float, Field(ge=0, le=3600)] | None
    answered_at: Annotated[str, StringConstraints(max_length=40)]


class RaceRow(Record):
    """What was asked of a raced run's rank (evaluation.analysis.racing)."""

    goal: Literal["top", "width"]
    number: Annotated[int, Field(ge=1, le=MOST_NUMBER)]
    rounds: Annotated[int, Field(ge=2, le=MOST_ROUNDS)]


Models = Annotated[int, Field(ge=0, le=1_000_000)]


class LookRow(Record):
    """What was known of a raced run after a round, beside runs that are not in the bundle."""

    round: Annotated[int, Field(ge=1, le=MOST_ROUNDS)]
    alpha: Annotated[float, Field(ge=0, le=1)]
    runs: Models
    cases: Models
    usable_trips: Number
    interval: Annotated[list[Number], Field(min_length=2, max_length=2)] | None
    low: Models
    high: Models
    settled: Short
