"""What is known of a run: the shapes that every store, file and answer shares.

The lines of a bundle, the API's answers, the files of a run folder, `--json` and their JSON
Schemas are these classes or built on them; rows of the database have the same field names.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field, StringConstraints

from evaluation.content.shapes import MOST_STEPS

T = TypeVar("T")
#: A list that reports its first invalid row only: a million errors would fill the memory.
Many = Annotated[list[T], FailFast()]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Number = Annotated[float, Field(allow_inf_nan=False)]
SeedNumber = Annotated[int, Field(ge=0, lt=2**31)]
Slug = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,170}$")]
Short = Annotated[str, StringConstraints(max_length=500)]
#: Pages link to it: nothing but an address of the web.
Link = Annotated[str, StringConstraints(max_length=500, pattern=r"^(https?://[!-~]+)?$")]


def _is_evidence(row: dict[str, Any]) -> dict[str, Any]:
    """Check the fields of a witness's verdict that pages and ranks read. Raises ValueError."""
    for name in ("witness", "thing"):
        if not isinstance(row.get(name), str):
            raise ValueError(f"{name} is not a text")
    for name in ("made", "undone"):
        if name not in row or row[name] not in (True, False, None):
            raise ValueError(f"{name} is neither true nor false nor null")
    if not isinstance(row.get("gates"), bool) or row.get("kept") not in (True, False, None):
        raise ValueError("gates and kept are true or false")
    if not isinstance(row.get("said", ""), str) or type(row.get("step", 0)) is not int:
        raise ValueError("said is a text, step a whole number")
    return row


#: The verdict of one witness on a trip (evaluation.witnesses.Evidence).
EvidenceRow = Annotated[dict[str, Any], AfterValidator(_is_evidence)]


class Record(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class TripMeasures(Record):
    """What one trip did to the image, beside the metrics; nothing of a trip that was not measured."""

    reframed: bool = False
    step: Number | None = Field(default=None, description="RMSE to the image before the trip.")
    from_source: Number | None = Field(default=None, description="RMSE to the source image.")
    change_seen: bool | None = Field(
        default=None, description="Whether the edit was seen; None: not judged."
    )
    change_measure: dict[str, Number] = {}
    because: Short = Field(default="", description="The metric with the lowest retention.")
    worst_place: Annotated[list[Number], Field(max_length=8)] | None = Field(
        default=None,
        description="Left, top, right, bottom as shares of the image, and its retention.",
    )
    undo: Number | None = Field(
        default=None,
        description="Retention where the edit was made; None: that place is not known.",
    )
    evidence: Many[EvidenceRow] = Field(
        default=[], description="What each witness says of the edit."
    )
    damage: dict[str, Number] = Field(
        default={}, description="How the restored image differs: moved, tinted, grainy, drawn anew."
    )
    steps: Annotated[Many[dict[str, Any]], Field(max_length=MOST_STEPS)] = Field(
        default=[], description="What each step of a chain shape did; empty for a round trip."
    )

    @property
    def is_empty(self) -> bool:
        """Whether nothing was measured of the trip."""
        fields = TripMeasures.model_fields
        return all(getattr(self, name) == field.default for name, field in fields.items())


MEASURES = tuple(TripMeasures.model_fields)


class ScoreRecord(Record):
    """One score with what it belongs to: a row of the exported tables."""

    run: int
    model: str
    suite: str
    case: str
    picture: str
    pair: str
    category: str
    kind: str
    repeat: int
    trip: int
    outcome: str
    change_seen: bool | None
    reframed: bool
    metric: str
    metric_version: str
    distance: float
    retention: float | None
