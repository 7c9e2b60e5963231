"""An invented board of many models, for budgets and benchmarks. Never on a real site."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from django.db import transaction
from django.utils import timezone
from PIL import Image

from evaluation.analysis.half_life import METHOD_VERSION
from evaluation.analysis.levels import LEVELS
from evaluation.content.suites import Case as CoreCase
from evaluation.content.suites import EditPair as CorePair
from evaluation.content.suites import SourcePicture
from evaluation.content.suites import Suite as CoreSuite
from evaluation.images import Picture
from leaderboard.content import loading
from leaderboard.models import (
    Calibration,
    Case,
    Chain,
    EditingModel,
    MetricVersion,
    Run,
    Score,
    Standing,
    StoredImage,
    Suite,
    Trip,
)
from leaderboard.models.runs import ChainState, Outcome, RunState

CATEGORIES = ("accessories", "objects", "geometry")
KINDS = ("face", "object", "scene")
METRICS = ("picture", "lpips", "imagenet")
BATCH = 5_000


@transaction.atomic
def invent_board(
    slug: str = "invented",
    *,
    models: int = 100,
    references: int = 0,
    cases: int = 300,
    trips: int = 20,
    with_trips: bool = True,
) -> Suite:
    """Store a suite and invented results of many models and some reference editors.

    Without trips there are standings only: quick, and enough for the board.
    """
    random = np.random.default_rng(7)
    suite = _suite(slug, cases, trips, random)
    metrics = [MetricVersion.objects.get_or_create(name=n, version="invented")[0] for n in METRICS]
    calibrations = (
        Calibration(
            pixels_sha256=p.pixels_sha256, metric=m, blank=0.8, ladder={"75": 0.05, "1": 0.7}
        )
        for p in suite.pictures.all()
        for m in metrics
    )
    Calibration.objects.bulk_create(calibrations, ignore_conflicts=True)
    pictures = list(StoredImage.objects.all()[:40])
    stored_cases = list(suite.cases.all())
    count = models + references
    for number in range(count):
        strength = 1.5 + 22 * (number + 1) / count
        reference = number >= models
        run = _run(suite, number, strength, metrics, random, reference=reference)
        if with_trips:
            _chains(run, stored_cases, strength, metrics, pictures, random)
    rank(suite)
    return suite


def _suite(name: str, count: int, trips: int, random: np.random.Generator) -> Suite:
    per_picture = 3
    sources, stored = [], {}
    for number in range(-(-count // per_picture)):
        slug = f"invented-{number}"
        noise = random.integers(0, 255, (16, 16, 3)).astype(np.uint8)
        stored[slug] = Picture.from_image(Image.fromarray(noise).resize((64, 64)))
        sources.append(
            SourcePicture(
                *(slug, f"{number:064x}", 64, 64, KINDS[number % 3], "file:none"),
                *(f"Invented {number}", "nobody", "CC0-1.0", "invented"),
            )
        )
    pairs = [
        CorePair(f"pair-{n}", CATEGORIES[n % 3], f"Add thing {n}.", f"Remove thing {n}.", "local")
        for n in range(30)
    ]
    cases = [
        CoreCase(sources[n // per_picture].slug, pairs[(7 * n) % 30].slug) for n in range(count)
    ]
    core = CoreSuite(
        *(name, 1, name.capitalize(), trips, 64, tuple(sources), tuple(pairs), tuple(cases)),
        description="Invented numbers for load tests.",
    )
    return loading.store_suite(core, stored)


def _run(
    suite: Suite,
    number: int,
    strength: float,
    metrics: list[MetricVersion],
    random: np.random.Generator,
    *,
    reference: bool,
) -> Run:
    model = EditingModel.objects.create(
        slug=f"{suite.slug}-{number}",
        name=f"Invented model {number}",
        provider=f"Provider {number % 9}",
        organisation=f"Provider {number % 9}",
        editor="noop",
        open_weights=bool(number % 2),
        is_reference=reference,
        price_per_edit=f"{0.01 + 0.002 * (number * 7 % 50):.5f}",
    )
    _, chains, edits = suite.counts
    now = timezone.now()
    run = Run.objects.create(
        editing_model=model,
        suite=suite,
        state=RunState.FINISHED,
        published=True,
        current=True,
        complete=True,
        metrics={m.name: {"version": m.version, "weights_sha256": ""} for m in metrics},
        chains_total=chains,
        chains_done=chains,
        edits_total=edits,
        edits_done=edits,
        edit_seconds=edits * 8.0,
        median_seconds=4.0 + number % 13,
        p95_seconds=9.0 + number % 17,
        trips_scored=edits // 2,
        started_at=now - datetime.timedelta(hours=3),
        finished_at=now,
    )
    names = ["all", *(f"category:{c}" for c in CATEGORIES), *(f"kind:{k}" for k in KINDS)]
    names += [f"pair:pair-{n}" for n in range(30)]
    Standing.objects.bulk_create(
        _standing(run, metric, level, scope, strength * random.uniform(0.8, 1.2))
        for metric, level, scope in itertools.product(metrics, LEVELS, names)
    )
    return run


def _standing(
    run: Run, metric: MetricVersion, level: float, scope: str, strength: float
) -> Standing:
    trips = run.suite.trips
    half = strength * (1 - level) / 0.5
    mean = [round(float(np.exp(-0.69 * n / strength)), 4) for n in range(trips + 1)]
    return Standing(
        run=run,
        metric=metric,
        level=level,
        scope=scope,
        half_life=half if half <= trips else None,
        half_life_low=half * 0.85 if half * 0.85 <= trips else None,
        half_life_high=half * 1.2 if half * 1.2 <= trips else None,
        has_interval=True,
        usable_trips=min(half, trips) * 0.95,
        usable_trips_low=min(half, trips) * 0.85,
        usable_trips_high=min(half, trips),
        auc=float(np.mean(mean)),
        auc_low=float(np.mean(mean)) * 0.93,
        auc_high=min(1.0, float(np.mean(mean)) * 1.06),
        curve={
            "mean": mean,
            "low": [round(q * 0.94, 4) for q in mean],
            "high": [round(min(1, q * 1.05), 4) for q in mean],
            "shown": [None, *(round(1 - q, 4) for q in mean[1:])],
        },
        median=half if half <= trips else None,
        usable_by_trip=[round(min(half, n) * 0.95, 4) for n in range(trips + 1)],
        survival=mean,
        incidence={
            "whole": [round(0.6 * (1 - q), 4) for q in mean],
            "place": [round(0.4 * (1 - q), 4) for q in mean],
        },
        counts={
            "cases": run.progress.chains_total,
            "chains": run.progress.chains_total,
            "completed": run.progress.chains_total,
            "causes": {
                "whole": run.progress.chains_total - 14,
                "place": 9,
                "not_made": 3,
                "refused": 2,
            },
            "change_not_seen": 3,
            "refused": 2,
            "blank": 0,
            "failed": 0,
            "lost": 0,
            "censored": 9,
            "reframed": 4,
            "recovered": 6,
            "change_seen": 0.97,
        },
        details=_details(run, trips) if scope == "all" else {},
        method_version=METHOD_VERSION,
    )


def _details(run: Run, trips: int) -> dict[str, Any]:
    """What a model's page says beside its numbers, as large as a real run makes it."""
    keys = list(run.suite.cases.order_by("pk").values_list("pk", flat=True))
    worst = [{"case": key, "auc": 0.5} for key in keys[:5]]
    return {
        "jpeg": {str(n): round(95 / n, 1) for n in range(1, trips + 1)},
        "worst": worst,
        "best": [{"case": key, "auc": 0.9} for key in keys[-5:]],
        "dynamics": {
            "contraction": 0.9,
            "path_efficiency": 0.74,
            "limit_retention": 0.4,
            "chains": run.progress.chains_total,
            "regimes": {"contracting": run.progress.chains_total},
        },
        "shape": {"shape": "exponential", "rate": 0.05},
    }


def _chains(
    run: Run,
    cases: list[Case],
    strength: float,
    metrics: list[MetricVersion],
    pictures: list[StoredImage],
    random: np.random.Generator,
) -> None:
    trips = run.suite.trips
    numbers = np.arange(1, trips + 1)
    kept = np.exp(-0.69 * numbers / (strength * random.uniform(0.6, 1.4, (len(cases), 1))))
    chains = [
        Chain(
            run=run,
            case=case,
            state=ChainState.PLAYED,
            outcome=Outcome.COMPLETED,
            trips_played=trips,
            trips_scored=trips,
            results={m.name: _results(kept[row]) for m in metrics},
        )
        for row, case in enumerate(cases)
    ]
    for chain in chains:
        chain.sum_up()
    chains = Chain.objects.bulk_create(chains, batch_size=BATCH)
    made = Trip.objects.bulk_create(_trips(chains, trips, pictures), batch_size=BATCH)
    distances = 0.8 * (1 - kept.ravel())
    Score.objects.bulk_create(
        (
            Score(trip=trip, metric=metric, distance=distance)
            for trip, distance in zip(made, distances, strict=True)
            for metric in metrics
        ),
        batch_size=BATCH,
    )


def rank(suite: Suite) -> None:
    """Ranks of invented standings in the order of strength, three models to a shared rank."""
    for metric, level in itertools.product(METRICS, LEVELS):
        standings = Standing.objects.filter(
            run__suite=suite, run__current=True, metric__name=metric, level=level, scope="all"
        ).filter(run__editing_model__is_reference=False)
        ordered = sorted(standings.only("usable_trips"), key=lambda s: -s.usable_trips)
        for place, standing in enumerate(ordered):
            standing.rank = place // 3 * 3 + 1
            standing.rank_low, standing.rank_high = standing.rank, standing.rank + 2
            standing.p_first = 0.33 if place < 3 else 0.0
        Standing.objects.bulk_update(
            ordered, ["rank", "rank_low", "rank_high", "p_first"], batch_size=500
        )


def _trips(chains: list[Chain], trips: int, pictures: list[StoredImage]) -> Iterator[Trip]:
    now = timezone.now()
    for chain, number in itertools.product(chains, range(1, trips + 1)):
        yield Trip(
            chain=chain,
            number=number,
            edited=pictures[number % len(pictures)],
            restored=pictures[(number + 1) % len(pictures)],
            edited_seconds=8,
            restored_seconds=8,
            change_seen=True,
            step=0.02,
            from_source=0.02 * number,
            scored_at=now,
        )


def _results(kept: np.ndarray) -> dict[str, Any]:
    below = np.flatnonzero(kept <= 0.5)
    time = float(below[0]) + 0.5 if below.size else float(len(kept))
    cause = "whole" if below.size else "censored"
    return {
        "retention": [round(float(q), 4) for q in kept],
        "auc": round(float(kept.mean()), 4),
        "recovered": False,
        "because": [],
        "gate": None,
        "events": {f"{level:g}": {"time": time, "cause": cause} for level in LEVELS},
    }
