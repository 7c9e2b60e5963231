"""An invented board of many models, for budgets and benchmarks, never for a real site."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from django.db import transaction
from django.utils import timezone

from evaluation.analysis.thresholds import THRESHOLDS
from evaluation.content.suites import Case as CoreCase
from evaluation.content.suites import EditPair as CorePair
from leaderboard.content.loading import store_suite
from leaderboard.models import (
    Calibration,
    CaseValues,
    Chain,
    MetricVersion,
    Score,
    Standing,
    StoredImage,
    Suite,
    Trip,
)
from leaderboard.testing import factories
from leaderboard.testing.boards import KINDS, make_chains, make_model, make_run, metric_version

CATEGORIES = ("accessories", "objects", "geometry")
METRICS = ("overall", "lpips", "imagenet")
PAIRS = 30
SCOPES = (
    "all",
    *(f"category:{category}" for category in CATEGORIES),
    *(f"kind:{kind}" for kind in KINDS),
    *(f"pair:pair-{number}" for number in range(PAIRS)),
)
BLANK = 0.8


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

    With `with_trips` False only the runs' results are stored, which is quick and enough for the
    board.
    """
    suite = _suite(slug, cases, trips)
    metrics = [metric_version(name) for name in METRICS]
    Calibration.objects.bulk_create(
        (
            Calibration(
                pixels_sha256=image.pixels_sha256, metric=metric, blank=BLANK, ladder={"75": 0.05}
            )
            for image in suite.images.all()
            for metric in metrics
        ),
        ignore_conflicts=True,
    )
    images = list(StoredImage.objects.all()[:40])
    details = _details(suite)
    for number in range(models + references):
        model = make_model(
            f"Invented model {number}",
            slug=f"{slug}-{number}",
            provider=f"Provider {number % 9}",
            organisation=f"Provider {number % 9}",
            open_weights=bool(number % 2),
            is_reference=number >= models,
            price_per_edit=f"{0.01 + 0.002 * (number * 7 % 50):.5f}",
        )
        half_life = 1.5 + 22 * (number + 1) / (models + references)
        run = make_run(
            model, suite, half_life, metrics=METRICS, thresholds=THRESHOLDS, scopes=SCOPES
        )
        run.standings.filter(scope="all").update(details=details)
        if with_trips:
            _add_trips(make_chains(run, half_life, METRICS), metrics, images)
    _add_case_values(suite, metrics, cases)
    _rank(suite)
    return suite


def _suite(slug: str, count: int, trips: int) -> Suite:
    """Store a frozen suite with three cases for each image."""
    core, images = factories.core_suite(-(-count // 3), (), trips=trips, slug=slug)
    pairs = tuple(
        CorePair(f"pair-{n}", CATEGORIES[n % 3], f"Add thing {n}.", f"Remove thing {n}.", "local")
        for n in range(PAIRS)
    )
    sources = tuple(
        replace(image, kind=KINDS[number % 3]) for number, image in enumerate(core.images)
    )
    cases = tuple(
        CoreCase(sources[number // 3].slug, pairs[7 * number % PAIRS].slug)
        for number in range(count)
    )
    return store_suite(replace(core, images=sources, pairs=pairs, cases=cases), images)


def _details(suite: Suite) -> dict[str, Any]:
    """Return the details of a standing (a run's result), as large as those of a real run."""
    keys = list(suite.cases.order_by("pk").values_list("pk", flat=True))
    return {
        "jpeg": {str(n): round(95 / n, 1) for n in range(1, suite.trips + 1)},
        "worst": [{"case": key, "auc": 0.5} for key in keys[:5]],
        "best": [{"case": key, "auc": 0.9} for key in keys[-5:]],
        "dynamics": {
            "contraction": 0.9,
            "path_efficiency": 0.74,
            "limit_retention": 0.4,
            "chains": len(keys),
            "regimes": {"contracting": len(keys)},
        },
        "shape": {"shape": "exponential", "rate": 0.05},
    }


def _add_trips(
    chains: Sequence[Chain], metrics: Sequence[MetricVersion], images: Sequence[StoredImage]
) -> None:
    """Store the played and scored trips of chains whose results exist."""
    now = timezone.now()
    trips = Trip.objects.bulk_create(
        (
            Trip(
                chain=chain,
                number=number,
                edited=images[number % len(images)],
                restored=images[(number + 1) % len(images)],
                edited_seconds=8,
                restored_seconds=8,
                change_seen=True,
                step=0.02,
                from_source=0.02 * number,
                scored_at=now,
            )
            for chain in chains
            for number in range(1, chain.trips_played + 1)
        ),
        batch_size=5_000,
    )
    Score.objects.bulk_create(
        (
            Score(
                trip=trip,
                metric=metric,
                distance=BLANK * (1 - trip.chain.retention(metric.name)[trip.number - 1]),
            )
            for trip in trips
            for metric in metrics
        ),
        batch_size=5_000,
    )


def _add_case_values(suite: Suite, metrics: Sequence[MetricVersion], cases: int) -> None:
    """Store the usable trips of each case of all runs on the board."""
    random = np.random.default_rng(suite.trips)
    ease = np.exp(random.normal(0, 0.5, cases))  # how easy each case is for every model
    runs = list(suite.runs.filter(current=True).order_by("pk"))
    CaseValues.objects.bulk_create(
        (
            CaseValues(
                run=run,
                metric=metric,
                threshold=threshold,
                usable_trips=np.minimum(
                    suite.trips, strength * ease * np.exp(random.normal(0, 0.5, cases))
                ).tobytes(),
            )
            for run, strength in zip(runs, np.geomspace(1, suite.trips, len(runs)), strict=True)
            for metric in metrics
            for threshold in THRESHOLDS
        ),
        batch_size=1_000,
    )


def _rank(suite: Suite) -> None:
    """Rank invented standings by their usable trips; three models share each rank."""
    for metric, threshold in itertools.product(METRICS, THRESHOLDS):
        standings = Standing.objects.filter(
            run__suite=suite,
            run__current=True,
            metric__name=metric,
            threshold=threshold,
            scope="all",
        ).filter(run__editing_model__is_reference=False)
        # As in `board_order`, so that the leader has the first rank.
        ordered = sorted(
            standings.only("usable_trips", "auc"), key=lambda s: (-s.usable_trips, -(s.auc or 0))
        )
        for place, standing in enumerate(ordered):
            standing.rank = place // 3 * 3 + 1
            standing.rank_low, standing.rank_high = standing.rank, standing.rank + 2
            standing.p_first = 0.33 if place < 3 else 0.0
        Standing.objects.bulk_update(
            ordered, ["rank", "rank_low", "rank_high", "p_first"], batch_size=500
        )
