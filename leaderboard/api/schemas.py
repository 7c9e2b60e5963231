"""What the API answers. The descriptions are its documentation."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from typing import Any

from django.conf import settings
from ninja import Field, Schema

from leaderboard.board.rows import BoardFilters, BoardRow
from leaderboard.models import (
    Case,
    Chain,
    EditingModel,
    PublishedFigure,
    Run,
    Standing,
    Suite,
    Trip,
)
from leaderboard.models.pictures import StoredImage


def absolute(path: str) -> str:
    return settings.SITE_URL.rstrip("/") + path


class Problem(Schema):
    detail: str | list[dict[str, Any]] = Field(description="What is wrong, and what to do.")


class Interval(Schema):
    low: float | None = Field(description="None: beyond the suite's trips.")
    high: float | None = Field(description="None: beyond the suite's trips.")

    @classmethod
    def of(cls, standing: Standing, name: str) -> Interval | None:
        if not standing.has_interval:
            return None
        return cls(low=getattr(standing, f"{name}_low"), high=getattr(standing, f"{name}_high"))


class CurveOut(Schema):
    mean: list[float | None] = Field(description="Mean retention at n = 0..N.")
    low: list[float | None]
    high: list[float | None]
    shown: list[float | None] = Field(description="On the metric's own scale; scope all only.")


class StandingOut(Schema):
    metric: str
    metric_version: str
    weights_sha256: str
    level: float
    scope: str
    half_life: float | None = Field(
        description="Round trips; None: not reached within the suite's."
    )
    half_life_interval: Interval | None = Field(description="95 %; None: too few pictures.")
    usable_trips: float
    usable_trips_interval: Interval | None
    auc: float
    auc_interval: Interval | None
    rank: int | None = Field(description="Models that cannot be told apart share a rank.")
    rank_low: int | None
    rank_high: int | None
    p_first: float | None
    counts: dict[str, float | None]
    curve: CurveOut
    method_version: str

    @classmethod
    def of(cls, standing: Standing) -> StandingOut:
        curve = {name: standing.curve.get(name, []) for name in ("mean", "low", "high", "shown")}
        return cls(
            metric=standing.metric.name,
            metric_version=standing.metric.version,
            weights_sha256=standing.metric.weights_sha256,
            level=standing.level,
            scope=standing.scope,
            half_life=standing.half_life,
            half_life_interval=Interval.of(standing, "half_life"),
            usable_trips=standing.usable_trips,
            usable_trips_interval=Interval.of(standing, "usable_trips"),
            auc=standing.auc,
            auc_interval=Interval.of(standing, "auc"),
            rank=standing.rank,
            rank_low=standing.rank_low,
            rank_high=standing.rank_high,
            p_first=standing.p_first,
            counts=standing.counts,
            curve=CurveOut(**curve),
            method_version=standing.method_version,
        )


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
    is_reference: bool = Field(description="A yardstick: never ranked.")
    verified: bool
    url: str

    @classmethod
    def of(cls, model: EditingModel) -> ModelOut:
        price = model.price_per_edit
        return cls(
            slug=model.slug,
            name=model.name,
            provider=model.provider,
            organisation=model.organisation,
            access=model.access,
            open_weights=model.open_weights,
            licence=model.licence,
            homepage=model.homepage,
            price_per_edit=None if price is None else float(price),
            price_date=model.price_date,
            is_reference=model.is_reference,
            verified=model.verified,
            url=absolute(model.get_absolute_url()),
        )


class SuiteOut(Schema):
    slug: str
    version: int
    title: str
    description: str
    trips: int
    size: int
    repeats: int
    content_hash: str
    elsewhere: bool = Field(description="Published elsewhere: never mixed into our ranks.")
    source_url: str
    frozen_at: datetime | None
    url: str

    @classmethod
    def of(cls, suite: Suite) -> SuiteOut:
        return cls(
            slug=suite.slug,
            version=suite.version,
            title=suite.title,
            description=suite.description,
            trips=suite.trips,
            size=suite.size,
            repeats=suite.repeats,
            content_hash=suite.content_hash,
            elsewhere=suite.elsewhere,
            source_url=suite.source_url,
            frozen_at=suite.frozen_at,
            url=absolute(suite.get_absolute_url()),
        )


class BoardRowOut(Schema):
    group: str = Field(description="ranked, unranked or yardstick")
    reason: str = Field(description="Why it is not ranked.")
    run: int
    model: ModelOut
    standing: StandingOut | None = Field(description="None: the metric was not run.")
    semantic: StandingOut | None
    change_seen: float | None
    refusals: float | None
    usd_per_edit: float | None
    seconds_per_edit: float | None
    date: datetime | None

    @classmethod
    def of(cls, row: BoardRow) -> BoardRowOut:
        return cls(
            group=row.group,
            reason=row.reason,
            run=row.run.pk,
            model=ModelOut.of(row.model),
            standing=StandingOut.of(row.standing) if row.standing else None,
            semantic=StandingOut.of(row.semantic) if row.semantic else None,
            change_seen=row.change_seen,
            refusals=row.refusals,
            usd_per_edit=row.price,
            seconds_per_edit=row.seconds,
            date=row.date,
        )


class BoardOut(Schema):
    suite: SuiteOut
    metric: str
    level: float
    cases: str
    remarks: list[str] = Field(description="What of the query was not understood and ignored.")
    page: str = Field(description="The same board as a page.")
    rows: list[BoardRowOut]

    @classmethod
    def of(cls, filters: BoardFilters, rows: Iterable[BoardRow], remarks: list[str]) -> BoardOut:
        return cls(
            suite=SuiteOut.of(filters.suite),
            metric=filters.metric,
            level=filters.level,
            cases=filters.scope,
            remarks=remarks,
            page=absolute(f"/?{filters.query()}"),
            rows=[BoardRowOut.of(row) for row in rows],
        )


class PictureOut(Schema):
    sha256: str
    mime: str
    width: int
    height: int
    thumbnail: str
    copy_url: str = Field(description="Re-encoded without loss, in canonical form.")
    original: str = Field(description="The bytes as answered.")

    @classmethod
    def of(cls, stored: StoredImage | None) -> PictureOut | None:
        if stored is None:
            return None
        return cls(
            sha256=stored.sha256,
            mime=stored.mime,
            width=stored.width,
            height=stored.height,
            thumbnail=absolute(stored.thumbnail_url),
            copy_url=absolute(stored.copy_url),
            original=absolute(stored.original_url),
        )


class CaseOut(Schema):
    id: int
    slug: str
    suite: str
    picture: str
    pair: str
    category: str
    kind: str
    forward: str
    backward: str
    licence: str
    attribution: str
    source: PictureOut | None
    url: str

    @classmethod
    def of(cls, case: Case) -> CaseOut:
        return cls(
            id=case.pk,
            slug=case.slug,
            suite=f"{case.suite.slug}-v{case.suite.version}",
            picture=case.picture.title,
            pair=case.pair_slug,
            category=case.category,
            kind=case.kind,
            forward=case.forward,
            backward=case.backward,
            licence=case.picture.licence,
            attribution=case.picture.attribution,
            source=PictureOut.of(case.picture.stored),
            url=absolute(case.get_absolute_url()),
        )


class RunOut(Schema):
    id: int
    model: str
    suite: str
    state: str
    reason: str
    source: str
    verified: bool | None
    current: bool = Field(description="Stands for its model on the board.")
    complete: bool
    ranked: bool
    seed: int
    edits_done: int
    edits_total: int
    calls: int
    spent_usd: float
    seconds_per_edit: float | None
    metrics: dict[str, Any] = Field(description="Versions and weights, or why one was not run.")
    provenance: dict[str, Any]
    started_at: datetime | None
    finished_at: datetime | None
    url: str

    @classmethod
    def of(cls, run: Run) -> RunOut:
        return cls(
            id=run.pk,
            model=run.editing_model.slug,
            suite=f"{run.suite.slug}-v{run.suite.version}",
            state=run.state,
            reason=run.reason_text,
            source=run.source,
            verified=run.verified,
            current=run.current,
            complete=run.complete,
            ranked=run.current and run.is_ranked,
            seed=run.seed,
            edits_done=run.edits_done,
            edits_total=run.edits_total,
            calls=run.calls,
            spent_usd=float(run.spent_usd),
            seconds_per_edit=run.seconds_per_edit,
            metrics=run.metrics,
            provenance=run.provenance,
            started_at=run.started_at,
            finished_at=run.finished_at,
            url=absolute(run.get_absolute_url()),
        )


class ChainOut(Schema):
    case: int
    case_slug: str
    repeat: int
    state: str
    outcome: str
    outcome_text: str
    trips_played: int
    results: dict[str, Any] = Field(
        description="By metric: retention and distances by trip, AUC, event and time by level."
    )
    url: str

    @classmethod
    def of(cls, chain: Chain) -> ChainOut:
        return cls(
            case=chain.case_id,
            case_slug=chain.case.slug,
            repeat=chain.repeat,
            state=chain.state,
            outcome=chain.outcome,
            outcome_text=chain.outcome_text,
            trips_played=chain.trips_played,
            results=chain.results,
            url=absolute(chain.get_absolute_url()),
        )


class TripOut(Schema):
    repeat: int
    number: int
    edited: PictureOut | None
    restored: PictureOut | None
    edited_seconds: float | None
    restored_seconds: float | None
    change_seen: bool | None = Field(description="None: not judged.")
    change_measure: dict[str, Any]
    reframed: bool
    step: float | None
    from_source: float | None
    worst_window: list[int] | None
    distances: dict[str, float]

    @classmethod
    def of(cls, trip: Trip) -> TripOut:
        return cls(
            repeat=trip.chain.repeat,
            number=trip.number,
            edited=PictureOut.of(trip.edited),
            restored=PictureOut.of(trip.restored),
            edited_seconds=trip.edited_seconds,
            restored_seconds=trip.restored_seconds,
            change_seen=trip.change_seen,
            change_measure=trip.change_measure,
            reframed=trip.reframed,
            step=trip.step,
            from_source=trip.from_source,
            worst_window=trip.worst_window,
            distances={
                f"{score.metric.name}@{score.metric.version}": score.distance
                for score in trip.scores.all()
            },
        )


class PublishedFigureOut(Schema):
    """A number somebody else published: context, not a measurement of ours."""

    model: str
    metric: str
    trip: int
    value: float = Field(description="As published, on the metric's own scale.")
    source: str
    source_url: str
    published_on: date | None
    notes: str

    @classmethod
    def of(cls, figure: PublishedFigure) -> PublishedFigureOut:
        same = ("metric", "trip", "value", "source", "source_url", "published_on", "notes")
        return cls(model=figure.model_name, **{name: getattr(figure, name) for name in same})
