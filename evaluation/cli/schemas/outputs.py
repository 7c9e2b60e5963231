"""What the commands print with `--json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from evaluation.analysis.covariance import Interval
from evaluation.analysis.events import Event
from evaluation.cli.results import MetricResult
from evaluation.cli.schemas.files import RunScores, Strict
from evaluation.records import TripMeasures


class Output(Strict):
    """The text of a `--json`."""

    schema_: str = Field(alias="schema")


class Played(Strict):
    """A run after playing."""

    run: str = Field(description="Its folder.")
    editor: str
    suite: str
    chains: int
    edits: int = Field(description="That are played, in all.")
    outcomes: dict[str, int] = Field(description='Chains by how they ended; "" is to be played.')
    spent: float = Field(description="USD, by this command.")
    saved_edits: int = Field(description="Not asked for, as their chain's end was known.")
    paused: str = Field(description="Why it did not come to its end; then the exit code is 3.")


class Rank(Strict):
    """A run's place among those compared."""

    run: str
    rank: int | None
    rank_set: tuple[int, int] | None = Field(description="The ranks that are possible.")
    metric: str
    usable_trips: float | None
    half_life: float | None = Field(description="None: longer than the suite can tell.")
    interval: Interval | None
    shown: str
    interval_shown: str
    complete: bool


Results = Mapping[str, MetricResult]


class Play(Output, Played):
    """`play`, of one editor."""


class PlayModels(Output):
    """`play --models`; also `run` where it paused."""

    runs: list[Played]


class ReturnsCalled(Strict):
    """What a no-reference metric says of the returns of one trip."""

    returns: int
    worse: int
    better: int
    gap: float | None = Field(description="Mean; above 0 it calls them better.")


class ReturnsOfTrip(Strict):
    source: ReturnsCalled = Field(description="Compared with the source.")
    first: ReturnsCalled | None = Field(description="Compared with the first return.")
    better_cases: list[str]
    worse_cases: list[str]


class NoReference(Strict):
    """One no-reference metric on a run; lists have an entry for n = 0..N."""

    label: str
    higher_is_better: bool
    version: str
    imported: bool = Field(description="Whether it came in a score file.")
    in_points: bool = Field(description="Gaps are in hundredths of the metric's usual range.")
    value: list[float | None] = Field(description="Mean over chains.")
    gained: list[float | None] = Field(description="Since the source; above 0 is better.")
    lost: list[float | None] = Field(description="Of the picture, by the headline metric.")
    trips: dict[str, ReturnsOfTrip]
    by_kept: list[dict[str, float]] = Field(
        [],
        description="Of a model that was asked: how many returns it calls worn, by what was kept.",
    )


class Score(Output):
    run: str
    name: str
    complete: bool
    no_reference: dict[str, NoReference] = Field({}, description="By no-reference metric.")
    results: Results = Field(description="By metric, the headline first.")
    scores: RunScores


class Report(Output):
    page: str
    charts: list[str]
    ranks: list[Rank]


class PlayedResults(Played):
    results: Results


class Run(Output):
    runs: list[PlayedResults]
    ranks: list[Rank]
    page: str


class Merge(Output):
    run: str
    runs: list[str]
    chains: int
    ended: int
    complete: bool


class ChainByMetric(Strict):
    label: str
    version: str
    distances: list[float] | None
    shown: list[float | None] | None = Field(description="On the metric's own scale.")
    blank: float | None
    retention: list[float] | None
    jpeg_equivalent: list[float | None] | None
    event: Event | None
    half_life: float | None
    usable_trips: float | None
    auc: float | None


class ChainQuality(Strict):
    """One no-reference metric on one chain."""

    label: str
    version: str
    higher_is_better: bool
    values: list[float | None] = Field(description="Of the source, then of each return.")


class ImportScores(Output):
    """`import-scores`."""

    run: str
    metrics: list[str]
    values: int
    no_reference: dict[str, NoReference]


class ScoreChain(Output):
    """`score-chain`, of one chain."""

    name: str
    source: str
    trips: list[TripMeasures]
    metrics: dict[str, ChainByMetric]
    quality: dict[str, ChainQuality] = {}
    signs: list[str]
    provenance: dict[str, Any]
    report: str | None


class OwnRun(Strict):
    chains: dict[str, str] = Field(description="The folder of each chain.")
    results: Results
    scores: RunScores


class ScoreChains(Output):
    """`score-chain`, of a folder of chains or of models with their chains."""

    suite: dict[str, Any]
    runs: dict[str, OwnRun]
    ranks: list[Rank]
    report: str | None


class EditorEntry(Strict):
    name: str
    id: str
    title: str
    editor: str
    paid: bool | None
    price: float | None = Field(description="USD per edit; None: not known, or nothing.")
    missing: list[str] = Field(description="What is lacking to run it here; empty: ready.")


class Editors(Output):
    editors: list[EditorEntry]


class EditorOption(Strict):
    name: str
    type: str
    required: bool
    default: Any
    least: float | None
    most: float | None


class EditorOptions(Output):
    """`editors NAME`."""

    name: str
    about: str
    options: list[EditorOption]


class Suites(Output):
    suites: list[dict[str, Any]] = Field(description="Whole suite files.")


class Weight(Strict):
    name: str
    label: str
    needed_by: str
    file: str
    ready: bool
    sha256: str | None
    size: int | None
    problem: str


class Weights(Output):
    weights: list[Weight]


class ProbeStep(Strict):
    name: str
    label: str
    state: str = Field(description='"passed", "warning", "failed" or "skipped".')
    detail: str
    advice: str
    data: dict[str, Any] = Field(description="What was measured in this step.")


class CheckEndpoint(Output):
    ok: bool
    seconds: float
    steps: list[ProbeStep]


class Found(Strict):
    median: float | None
    each: list[float]


class Audit(Output):
    verdict: str = Field(description='"clean" or "review".')
    reasons: list[str]
    change_seen: float | None
    edits_made: float | None
    undone: float | None
    marks_kept: Found
    loss_under_audit: Found
    hints: list[str]


class CheckLine(Strict):
    line: str
    what: str
    verdict: str = Field(description='"equal", "different" or "not checked".')
    detail: str


class Verify(Output):
    bundle: str
    digest: str
    equal: int
    different: int
    not_checked: int
    verified: bool | None = Field(description="None: nothing differs, some could not be checked.")
    checks: list[CheckLine]


class Bundle(Output):
    bundle: str
    bytes: int
    digest: str
    run: str
    suite: str
    whole_suite: bool = Field(description="Whether it is a suite as shipped, not a part of one.")
    chains: int
    pictures: bool


class ExperimentEstimate(Output):
    """`experiment --estimate`."""

    edits: int
    usd: float | None = Field(description="None: a price is not known.")
    seconds: float
    stop_after: int


class ExperimentModel(Strict):
    model: str
    name: str
    arms: dict[str, dict[str, Any]] = Field(description="Their runs and settings.")
    metrics: dict[str, dict[str, Any]] = Field(description="Effects, ranks and reruns by metric.")
    finding: str
    page: str


class Experiment(Output):
    """`experiment`: what each arm changes; experiment.json holds the same."""

    format: int
    title: str
    question: str
    suite: dict[str, Any]
    models: list[ExperimentModel]
