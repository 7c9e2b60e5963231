"""The records of a run, shared by all stores, files and API answers.

The lines of a bundle are these records. The API's answers, the files of a run folder, the output of
`--json`, their JSON Schemas and the exported tables are built on these records. Rows of the
database use the same field names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field, StringConstraints

from evaluation.content.shapes import BACKWARD, FORWARD, MAX_STEPS

T = TypeVar("T")
#: A list that reports only its first invalid row: a million errors would fill the memory.
Many = Annotated[list[T], FailFast()]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Number = Annotated[float, Field(allow_inf_nan=False)]
TripNumber = Annotated[int, Field(ge=1, le=1000)]
Repeat = Annotated[int, Field(ge=0, le=1000)]
SeedNumber = Annotated[int, Field(ge=0, lt=2**31)]
Slug = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,170}$")]
Short = Annotated[str, StringConstraints(max_length=500)]
#: An address that pages link to: only web addresses are allowed.
Link = Annotated[str, StringConstraints(max_length=500, pattern=r"^(https?://[!-~]+)?$")]


def _check_evidence(row: dict[str, Any]) -> dict[str, Any]:
    """Check the fields of a witness's verdict. Raises ValueError."""
    for name in ("witness", "thing"):
        if not isinstance(row.get(name), str):
            raise ValueError(f"{name} is not a string")
    for name in ("made", "undone"):
        if name not in row or row[name] not in (True, False, None):
            raise ValueError(f"{name} must be true, false or null")
    if not isinstance(row.get("gates"), bool) or row.get("kept") not in (True, False, None):
        raise ValueError("gates must be true or false; kept must be true, false or null")
    if not isinstance(row.get("said", ""), str) or type(row.get("step", 0)) is not int:
        raise ValueError("said must be a string; step must be a whole number")
    return row


#: The verdict of a witness (an automatic check of the edit) on a trip (evaluation.witnesses.base).
EvidenceRow = Annotated[dict[str, Any], AfterValidator(_check_evidence)]


class Record(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Validate plain values in the same way as JSON. Raises ValidationError."""
        return cls.model_validate_json(json.dumps(fields, allow_nan=False))


class TripMeasures(Record):
    """The measures of one trip other than its scores; defaults if it was not measured."""

    reframed: bool = False
    step: Number | None = Field(default=None, description="RMSE to the image before the trip.")
    from_source: Number | None = Field(default=None, description="RMSE to the source image.")
    change_seen: bool | None = Field(
        default=None, description="True if the edit is visible; None: not judged."
    )
    change_measure: dict[str, Number] = {}
    because: Short = Field(
        default="", description="The part of the headline metric that fell most, such as “object”."
    )
    window: Annotated[list[Number], Field(max_length=4)] | None = Field(
        default=None,
        description="The area of the image in which the part in `because` fell most: left, top, "
        "right, bottom as shares of the image; None: the whole image.",
    )
    undo: Number | None = Field(
        default=None,
        description="Retention of objects and shapes where the edit was made; None: the area of "
        "the edit is unknown.",
    )
    evidence: Many[EvidenceRow] = Field(
        default=[], description="The verdict of each witness (automatic check) on the edit."
    )
    steps: Annotated[Many[dict[str, Any]], Field(max_length=MAX_STEPS)] = Field(
        default=[],
        description="The measures of each step, if the pair is a chain shape (has its own sequence "
        "of edits); empty for a round trip.",
    )

    @property
    def is_empty(self) -> bool:
        """Return True if the trip was not measured."""
        fields = TripMeasures.model_fields
        return all(getattr(self, name) == field.default for name, field in fields.items())


MEASURES = tuple(TripMeasures.model_fields)


class FileRecord(Record):
    """The file of an image."""

    sha256: Sha256
    mime: Literal["image/png", "image/jpeg", "image/webp"]
    width: Annotated[int, Field(gt=0)]
    height: Annotated[int, Field(gt=0)]
    bytes: Annotated[int, Field(gt=0)]


class SourceRecord(FileRecord):
    """The file of a prepared source image."""

    slug: Slug


class EditRecord(FileRecord):
    """One edit: its request, and the file of its answer."""

    prompt: str
    seed: SeedNumber | None
    seconds: Number | None
    cost: str | None
    attempts: int
    notes: dict[str, Any]


class StepRecord(EditRecord):
    """An edit between the first and the last edit of a trip."""

    name: Annotated[str, StringConstraints(pattern=r"^[0-9]{1,2}-[A-Za-z]$")]


class TripRecord(TripMeasures):
    """One trip: `forward` is the first edit, `backward` the last, `between` all others."""

    number: TripNumber
    forward: EditRecord | None
    backward: EditRecord | None
    between: Annotated[Many[StepRecord], Field(max_length=MAX_STEPS)] = []
    scores: dict[Slug, Number]

    @property
    def edits(self) -> list[tuple[str, EditRecord | None]]:
        """The edits in order, with their names; the first and the last may be None."""
        between = [(step.name, step) for step in self.between]
        return [(FORWARD, self.forward), *between, (BACKWARD, self.backward)]


def chain_name(case: str, repeat: int) -> str:
    return f"{case} (repeat {repeat + 1})" if repeat else case


class ChainRecord(Record):
    case: Slug
    repeat: Repeat
    outcome: Literal["completed", "known", "converged", "refused", "blank", "failed", "lost"]
    outcome_text: Short
    results: dict[Slug, dict[str, Any]]
    trips: Many[TripRecord]
    quality: Annotated[
        dict[Slug, Annotated[list[Number | None], Field(max_length=1001)]], Field(max_length=64)
    ] = {}

    @property
    def name(self) -> str:
        """The display name of the chain: its case and repeat."""
        return chain_name(self.case, self.repeat)


class AuditRecord(Record):
    """An audit: an extra request that tests the model for cheating.

    The model must undo an edit in an altered copy of its own answer or, with `number` 0, remove an
    object that we drew into the source. `outcome` is empty if the audit's trip was not played.
    """

    case: Slug
    repeat: Repeat
    number: Annotated[int, Field(ge=0, le=1000)]
    kind: Literal["cold", "mark", "fragility"]
    outcome: Literal["", "answered", "refused", "failed"] = ""
    words: Short = ""
    seed: SeedNumber | None = None
    sent: FileRecord | None = None
    answer: FileRecord | None = None
    seconds: Number | None = None
    cost: str | None = None
    attempts: int = 0
    finding: dict[Slug, Number | str | None] = {}

    @property
    def name(self) -> str:
        return f"audit of {chain_name(self.case, self.repeat)}, trip {self.number}"


class CalibrationRecord(Record):
    """A metric's distances from a source to its blank card and, by quality, to JPEG copies."""

    image: Slug
    metric: Slug
    blank: Number
    ladder: dict[Annotated[str, StringConstraints(pattern=r"^\d{1,3}$")], Number]


class ModelRecord(Record):
    """The model that was measured, without keys and private addresses."""

    slug: Slug
    name: Annotated[str, StringConstraints(min_length=1, max_length=120)]
    provider: Annotated[str, StringConstraints(max_length=80)]
    organisation: Annotated[str, StringConstraints(max_length=120)]
    editor: Annotated[str, StringConstraints(max_length=60)]
    options: dict[str, Any]
    access: Annotated[str, StringConstraints(max_length=12)]
    open_weights: bool | None
    licence: Annotated[str, StringConstraints(max_length=120)]
    homepage: Link
    paper_url: Link
    code_url: Link
    price_per_edit: str | None
    is_reference: bool


class Played(StrEnum):
    """The place where a run was played. A model's host could store images and return them."""

    HERE = "run here"
    ENDPOINT = "submitted endpoint"
    RECOMPUTED = "recomputed"
    REPORTED = "reported"

    @classmethod
    def by_editor(cls, editor: str) -> Played:
        """Return the value for a run that we played: only endpoints are hosted by submitters."""
        return cls.ENDPOINT if editor == "endpoint" else cls.HERE


#: Runs played by us. Only these are ranked.
RANKED_WAYS = (Played.HERE, Played.ENDPOINT)


class RunRecord(Record):
    """The settings and facts of a run.

    `played` is what the writer states; a site that imports the run sets its own value. `metrics`
    gives the version of each metric, or why it is missing. If chains were played again after a
    secret was published, that secret is in `earlier_secrets`, the latest first. With `stop_after`,
    a chain stops this many trips after its result is known; 0: chains never stop early. `arm` lists
    the settings that differ from the suite's.
    """

    secret: Sha256
    earlier_secrets: Many[Sha256] = []
    arm: dict[str, Any] = {}
    stop_after: Annotated[int, Field(ge=0, le=100)] = 0
    state: str
    source: str
    played: Annotated[Played, Field(strict=False)]
    metrics: dict[Slug, dict[str, str]]
    provenance: dict[str, Any]
    flags: Many[Any]
    cleared: bool = False
    decision: Short = ""
    marks_kept: Number | None = None
    loss_under_audit: Number | None = None
    cold_gap: Number | None = None
    changed_elsewhere: Number | None = None
    orders: Many[dict[Slug, Number | str]] = []
    started_at: str | None
    finished_at: str | None
    calls: Annotated[int, Field(ge=0)]
    spent_usd: str
    method_version: str

    @property
    def secrets(self) -> list[str]:
        """All secrets that were used for parts of the run, the latest first."""
        return [self.secret, *self.earlier_secrets]

    @property
    def commitments(self) -> list[str]:
        """The hashes of the secrets, which are published before the secrets; the earliest first."""
        later = self.provenance.get("later")
        entries = [self.provenance, *(later if isinstance(later, list) else ())]
        published = [entry.get("secret_sha256") for entry in entries if isinstance(entry, dict)]
        return [sha256 for sha256 in published if sha256]


class StandingNumbers(Record):
    """The results of one run by one metric at one threshold, for one scope (a group of cases).

    A half-life of None is longer than the suite's trips. If `has_interval` is true, a bound of None
    means the same; otherwise the scope has too few images for a 95 % interval.
    """

    metric: Slug
    threshold: Number
    scope: Annotated[str, StringConstraints(max_length=100)]
    half_life: Number | None = Field(
        description="The trip by which half of the cases have ended; None: after the last trip."
    )
    half_life_low: Number | None
    half_life_high: Number | None
    has_interval: bool
    usable_trips: Number
    usable_trips_low: Number | None
    usable_trips_high: Number | None
    auc: Number | None = Field(description="None if chains were stopped early.")
    auc_low: Number | None
    auc_high: Number | None
    usable_by_trip: Many[Number | None] = Field(
        description="Usable trips among the first n trips, for n = 0..N."
    )
    curve: dict[str, Many[Number | None]] = Field(
        description='Mean retention after n = 0..N trips: "mean", "low", "high"; in the scope of '
        'all cases also "shown", on the scale that pages show.'
    )
    survival: Many[Number | None] = Field(
        description="Share of cases still usable after n = 0..N trips."
    )
    incidence: dict[Slug, Many[Number | None]] = Field(
        description="For each cause: the share of cases that it has ended after n = 0..N trips."
    )
    counts: dict[str, Any]


class StandingRecord(StandingNumbers):
    """One standing of the run. Its rank depends on other runs and is not stored here."""

    details: dict[str, Any]


class OtherImage(Record):
    """The other image of a vote on two images; its model is often not in the bundle."""

    model: Slug
    trip: TripNumber
    sha256: Sha256


class VoteRecord(Record):
    """One blind vote.

    For two images (kind "pair"), `answer` is 1 for this run's image, -1 for the other image, 0 for
    "cannot say". For a single image it is 1 for "still usable", else 0. `role` is "gold" for a
    question whose answer is known. `voter` is an anonymous id, the same for all votes of a person.
    """

    kind: Literal["pair", "usable"]
    case: Slug
    repeat: Repeat
    trip: TripNumber
    against: OtherImage | None
    answer: Annotated[int, Field(ge=-1, le=1)]
    stood_left: bool
    role: Literal["", "gold", "repeat"]
    voter: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12}$")]
    weight: Annotated[float, Field(ge=0, le=1)]
    seconds: Annotated[float, Field(ge=0, le=3600)] | None
    answered_at: Annotated[str, StringConstraints(max_length=40)]


class ScoreRecord(Record):
    """One score with its run, case and trip, as a row of the exported tables."""

    run: int
    model: str
    played: Annotated[Played, Field(strict=False)]
    suite: str
    case: str
    image: str
    pair: str
    category: str
    kind: str
    origin: str
    repeat: int
    trip: int
    outcome: str
    change_seen: bool | None
    reframed: bool
    metric: str
    metric_version: str
    distance: float
    retention: float | None
