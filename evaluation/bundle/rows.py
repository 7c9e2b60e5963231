"""The base of a bundle's lines, and the lines of people's votes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from evaluation.records import Record, Sha256, Slug


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
    return alone 1 for "still usable" and 0 for not. `voter` is the same for all votes of one
    person, and tells nobody who that is.
    """

    kind: Literal["pair", "usable"]
    case: Slug
    repeat: Annotated[int, Field(ge=0, le=1000)]
    trip: Trip
    against: OtherReturn | None
    answer: Annotated[int, Field(ge=-1, le=1)]
    stood_left: bool
    role: Literal["", "gold", "repeat"]
    voter: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12}$")]
    weight: Annotated[float, Field(ge=0, le=1)]
    seconds: Annotated[float, Field(ge=0, le=3600)] | None
    answered_at: Annotated[str, StringConstraints(max_length=40)]
