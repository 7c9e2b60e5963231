"""Response schemas of the API. The descriptions of fields are part of the public documentation.

By default a field shows the row's attribute of the same name. `alias` names another attribute, or
one of a related row ("metric.name"). `resolve_*` computes a value that is not an attribute.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any

from ninja import Field, Schema
from pydantic import AfterValidator, ConfigDict, create_model

from evaluation.records import Played, StandingNumbers, TripMeasures
from leaderboard.board.columns import api_columns
from leaderboard.board.query import BoardQuery
from leaderboard.board.rows import board_rows
from leaderboard.experiments.pages import ExperimentView, ModelView, settings
from leaderboard.models import ExperimentArm, Run, Trip, TripStep
from leaderboard.models.runs import RunState
from leaderboard.pages import run_page
from leaderboard.pages.run_page import progress
from leaderboard.text import absolute

#: A path on this site, returned as an absolute URL.
Url = Annotated[str, AfterValidator(absolute)]


#: Read a record from the attributes of a row, which may have more attributes.
FROM_ROWS = ConfigDict(extra="ignore", from_attributes=True, strict=False)


class Problem(Schema):
    detail: str | list[dict[str, Any]] = Field(description="What is wrong and what to do.")


class StandingOut(StandingNumbers, Schema):
    model_config = FROM_ROWS

    metric: str = Field(alias="metric.name")
    metric_version: str = Field(alias="metric.version")
    weights_sha256: str = Field(alias="metric.weights_sha256")
    rank: int | None = Field(description="Models that cannot be distinguished share a rank.")
    rank_low: int | None = Field(description="The best possible rank.")
    rank_high: int | None = Field(description="The worst possible rank.")
    tier: str | None = Field(
        description="Class letter. A class begins with its best model and includes the following "
        "models while their possible ranks overlap with those of the best one."
    )
    p_first: float | None = Field(description="Probability that the model is first.")
    method_version: str


class ModelOut(Schema):
    slug: str
    name: str
    provider: str
    organisation: str
    access: str
    open_weights: bool | None
    licence: str
    homepage: str
    price_per_edit: float | None = Field(description="USD, as listed by the provider.")
    price_date: date | None
    is_reference: bool = Field(
        description="A reference editor (a simple test program): never ranked."
    )
    verified: bool
    url: Url = Field(alias="get_absolute_url")


class SuiteOut(Schema):
    slug: str
    version: int
    title: str
    description: str
    trips: int
    size: int = Field(
        description="Images keep their aspect ratio; their area is about size × size pixels."
    )
    repeats: int
    content_hash: str
    elsewhere: bool = Field(
        alias="published_elsewhere",
        description="The results were published by others: never ranked.",
    )
    source_url: str
    frozen_at: datetime | None
    url: Url = Field(alias="get_absolute_url")


_fields: dict[str, Any] = {c.file_name: (c.type, Field(description=c.help)) for c in api_columns()}
#: The board's columns that are not fields of the model or the standing.
BoardColumns: Any = create_model("BoardColumns", __base__=Schema, **_fields)


class BoardRowOut(BoardColumns):
    model: ModelOut
    standing: StandingOut | None = Field(
        description="The results by the metric; null: the metric was not run."
    )
    semantic: StandingOut | None = Field(
        description="The results by a metric that compares meaning; null: none was run."
    )


class BoardOut(Schema):
    suite: SuiteOut = Field(alias="filters.suite")
    metric: str = Field(alias="filters.metric")
    threshold: float = Field(alias="filters.threshold")
    cases: str = Field(
        alias="filters.scope",
        description="Cases that count: all, or one category, kind, origin or pair.",
    )
    remarks: list[str] = Field(description="Parts of the query that were ignored.")
    page: Url = Field(description="The same board as a page.")
    rows: list[BoardRowOut]

    @staticmethod
    def resolve_page(board_query: BoardQuery) -> str:
        return f"/?{board_query.filters.query()}"

    @staticmethod
    def resolve_rows(board_query: BoardQuery) -> list[dict[str, Any]]:
        return [
            {"model": row.model, "standing": row.standing, "semantic": row.semantic}
            | {column.file_name: column.value(row) for column in api_columns()}
            for row in board_rows(board_query.filters, board_query.runs, with_trips=True)
        ]


class ImageOut(Schema):
    sha256: str
    mime: str
    width: int
    height: int
    thumbnail: Url = Field(alias="thumbnail_url")
    copy_url: Url = Field(description="Re-encoded without loss as upright 8-bit sRGB.")
    original: Url = Field(
        alias="original_url",
        description="The bytes as the model returned them, or for a source as the suite has them.",
    )


class CaseOut(Schema):
    id: int
    slug: str
    suite: str = Field(alias="suite.key")
    image: str = Field(alias="image.title")
    pair: str = Field(alias="pair_slug")
    category: str
    kind: str
    origin: str
    forward: str
    backward: str
    steps: list[list[list[str]]] = Field(
        description="One list for each trip; after the last list, the first is used again. Each "
        "step is [name, letter, prompt]. Empty if every trip is one forward and one backward edit."
    )
    licence: str = Field(alias="image.licence")
    attribution: str = Field(alias="image.attribution")
    source: ImageOut | None = Field(alias="image.stored")
    url: Url = Field(alias="get_absolute_url")


class RunOut(Schema):
    id: int
    model: str = Field(alias="editing_model.slug")
    suite: str = Field(alias="suite.key")
    state: str
    reason: str = Field(alias="reason_text")
    arm: dict[str, Any] = Field(
        description="Settings that an experiment changed; such a run (an arm) is never ranked. "
        "Empty: the suite's own settings."
    )
    source: str
    played: Played = Field(
        description="How the run was played; only `run here` and `submitted endpoint` are ranked."
    )
    verified: bool | None
    current: bool = Field(description="The run that represents its model on the board.")
    complete: bool
    ranked: bool
    secret: str | None = Field(
        alias="published_secret",
        description="The secret from which the seeds and the order of play are derived; null until "
        "the run ends.",
    )
    marks_kept: float | None = Field(
        alias="review.marks_kept",
        description="Audits (extra requests that test for cheating) paint a mark on an edited "
        "image before the model undoes the edit. Median share of the mark that the model kept.",
    )
    loss_under_audit: float | None = Field(
        alias="review.loss_under_audit",
        description="Median extra loss if an audit alters an edited image slightly before the "
        "model undoes the edit.",
    )
    cold_gap: float | None = Field(
        alias="review.cold_gap",
        description="Before any trip, an audit draws an object into the source, and the model "
        "must remove this object. Median LPIPS loss of this one edit, minus the chain's loss after "
        "three trips.",
    )
    changed_elsewhere: float | None = Field(
        alias="review.changed_elsewhere",
        description="Median change outside the edited region by one edit, measured by the headline "
        "metric (Overall).",
    )
    held_because: list[str] = Field(
        alias="review.flag_texts",
        description="Why the run is not ranked unless a reviewer decides otherwise.",
    )
    decision: str = Field(
        alias="review.decision", description="The reviewer's decision and reason."
    )
    edits_done: int = Field(alias="progress.edits_done")
    edits_total: int = Field(alias="progress.edits_total")
    stop_after: int = Field(
        description="A chain stops this many trips after its result is known. 0: every chain "
        "plays all trips."
    )
    edits_saved: int = Field(
        alias="progress.edits_saved",
        description="Edits not made because chains stopped early.",
    )
    calls: int = Field(alias="progress.calls")
    spent_usd: float = Field(alias="progress.spent_usd")
    median_seconds: float | None = Field(
        alias="progress.median_seconds", description="Median seconds per edit."
    )
    p95_seconds: float | None = Field(
        alias="progress.p95_seconds", description="Seconds within which 95 % of the edits ended."
    )
    metrics: dict[str, Any] = Field(
        description="Version and weights of each metric, or why it was not run."
    )
    provenance: dict[str, Any]
    started_at: datetime | None
    finished_at: datetime | None
    url: Url = Field(alias="get_absolute_url")

    @staticmethod
    def resolve_ranked(run: Run) -> bool:
        return run.current and run.is_ranked


class Done(Schema):
    done: int
    total: int


class RunStatusOut(Schema):
    """The progress of a run, as its page polls it."""

    id: int
    state: str = Field(
        description="queued, playing, scoring, paused, finished, failed or cancelled"
    )
    label: str
    ended: bool = Field(description="True when the state is final: stop polling.")
    public: bool = Field(description="True if the run's results are at /runs/{id}.")
    now: str = Field(description="A sentence on the current state.")
    next: str = Field(description="A sentence on the next step; may be empty.")
    reason: str = Field(
        alias="reason_text", description="A sentence on why the run is paused or failed."
    )
    resume_at: datetime | None = Field(description="When a paused run resumes by itself.")
    position: int | None = Field(description="Place among the queued runs, from 1.")
    edits: Done
    chains: Done
    trips_scored: Done
    edits_per_minute: float | None = Field(description="Average of the last two minutes.")
    seconds_left: int | None = Field(description="Seconds left for the edits at the current rate.")
    calls: int
    spent_usd: float
    started_at: datetime | None
    finished_at: datetime | None


def run_progress(run: Run) -> dict[str, Any]:
    """Return the fields of RunStatusOut: the numbers of the run's page, and sentences."""
    numbers = progress(run)
    return numbers | {
        "id": run.pk,
        "public": run.published,
        "now": run_page.NOW[RunState(run.state)],
        "next": run_page.what_next(run),
        "trips_scored": {"done": numbers["trips"]["scored"], "total": numbers["trips"]["total"]},
    }


class ChainOut(Schema):
    case: int = Field(alias="case_id")
    case_slug: str = Field(alias="case.slug")
    repeat: int
    state: str
    outcome: str
    outcome_text: str
    trips_played: int
    results: dict[str, Any] = Field(
        description="For each metric: retention after each trip, its average over the trips (auc), "
        "and for each threshold when and why the chain ended."
    )
    url: Url = Field(alias="get_absolute_url")


class StepOut(Schema):
    """A step between the edited and the restored image, if a trip has more than two edits."""

    place: int
    name: str
    image: ImageOut | None
    seconds: float | None


class TripOut(TripMeasures, Schema):
    model_config = FROM_ROWS

    repeat: int = Field(alias="chain.repeat")
    number: int
    edited: ImageOut | None
    restored: ImageOut | None
    edited_seconds: float | None
    restored_seconds: float | None
    between: list[StepOut] = Field(
        description="The steps between the edited and the restored image, if a trip has more than "
        "two edits."
    )
    distances: dict[str, float]

    @staticmethod
    def resolve_between(trip: Trip) -> list[TripStep]:
        return [step for step in trip.chain.steps.all() if step.number == trip.number]

    @staticmethod
    def resolve_distances(trip: Trip) -> dict[str, float]:
        scores = trip.scores.all()
        return {f"{row.metric.name}@{row.metric.version}": row.distance for row in scores}


class ArmOut(Schema):
    name: str
    in_words: str = Field(description="How this arm runs the suite, in words.")
    settings: dict[str, Any] = Field(description="The arm's settings, as in an experiment's file.")

    @staticmethod
    def resolve_in_words(arm: ExperimentArm) -> str:
        return str(arm.core)

    @staticmethod
    def resolve_settings(arm: ExperimentArm) -> dict[str, Any]:
        return settings(arm.core)


class ExperimentResultOut(Schema):
    """The result of an experiment for one model."""

    model: str = Field(alias="model.slug", description="Slug of the editing model.")
    finding: str
    runs: dict[str, int] = Field(description="The id of each arm's run, by the name of the arm.")
    metrics: dict[str, Any] = Field(
        alias="results",
        description="For each metric: effects with intervals, a rank test, sensitivity by "
        "category, and the spread between repeats.",
    )

    @staticmethod
    def resolve_runs(view: ModelView) -> dict[str, int]:
        return {name: run.pk for name, run in view.runs.items()}


class ExperimentOut(Schema):
    """A suite that is run in several ways, called arms. The first arm is the baseline."""

    slug: str = Field(alias="experiment.slug")
    title: str = Field(alias="experiment.title")
    question: str = Field(alias="experiment.question")
    suite: str = Field(alias="experiment.suite.key")
    repeats: int = Field(
        alias="experiment.repeats",
        description="Chains per case; 0: the suite's own number.",
    )
    started_at: datetime | None = Field(alias="experiment.started_at")
    arms: list[ArmOut]
    results: list[ExperimentResultOut]
    url: Url = Field(alias="experiment.get_absolute_url")

    @staticmethod
    def resolve_results(view: ExperimentView) -> list[ModelView]:
        return [model for model in view.models if model.results]


class PublishedFigureOut(Schema):
    """A number published by others, for context. It was not measured here."""

    model: str = Field(alias="model_name")
    metric: str
    trip: int
    value: float = Field(description="As published, on the metric's own scale.")
    cases: int | None = Field(description="The number of cases that were averaged.")
    source: str
    source_url: str
    published_on: date | None
    notes: str
