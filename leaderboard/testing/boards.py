"""Small boards with invented results, for tests of pages."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from django.utils import timezone
from django.utils.text import slugify

from evaluation.analysis.half_life import METHOD_VERSION
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD, THRESHOLDS
from evaluation.metrics import METRICS, metric_class
from leaderboard.models import (
    Case,
    Chain,
    EditingModel,
    MetricVersion,
    Run,
    Standing,
    Suite,
    SuiteImage,
)
from leaderboard.models.runs import ChainState, Outcome, RunState

PAIRS = {
    "glasses": ("accessories", "Glasses on, glasses off"),
    "hat": ("accessories", "Hat on, hat off"),
    "flip": ("geometry", "Flip left-right"),
    "bird": ("objects", "A bird in the sky"),
}
KINDS = ("face", "object", "scene")


def make_suite(
    slug: str = "demo", trips: int = 20, images: int = 8, pairs: int = 4, **fields: Any
) -> Suite:
    """Create a frozen suite of all images with all pairs.

    Intervals need at least 10 images and 12 pairs.
    """
    suite = Suite.objects.create(
        slug=slug,
        title=fields.pop("title", slug.title()),
        trips=trips,
        status=Suite.Status.FROZEN,
        **fields,
    )
    places = itertools.count()
    for number in range(images):
        image = SuiteImage.objects.create(
            suite=suite,
            slug=f"image-{number}",
            pixels_sha256=f"{number:064x}",
            title=f"Image {number}",
            kind=KINDS[number % 3],
            licence="CC0-1.0",
        )
        Case.objects.bulk_create(
            Case(
                edits=2 * suite.trips,
                suite=suite,
                slug=f"{image.slug}--{slug}",
                image=image,
                pair_slug=slug,
                pair_title=title,
                category=category,
                kind=image.kind,
                origin="photograph",
                forward=f"Do {title}.",
                backward=f"Undo {title}.",
                position=next(places),
            )
            for slug, category, title in islice(_pairs(), pairs)
        )
    return suite


def _pairs() -> Iterator[tuple[str, str, str]]:
    """Yield the pairs, then the same pairs under other names, without end."""
    yield from ((slug, *about) for slug, about in PAIRS.items())
    for number in itertools.count(2):
        for slug, (category, title) in PAIRS.items():
            yield f"{slug}-{number}", category, f"{title} ({number})"


def make_model(name: str, **fields: Any) -> EditingModel:
    slug = fields.pop("slug", slugify(name))
    defaults = {"provider": "Acme", "editor": "noop", "open_weights": False}
    return EditingModel.objects.create(slug=slug, name=name, **{**defaults, **fields})


def make_run(
    model: EditingModel | str,
    suite: Suite,
    half_life: float = 5.0,
    *,
    metrics: Sequence[str] = ("overall", "lpips", "imagenet"),
    thresholds: Iterable[float] = (DEFAULT_THRESHOLD,),
    scopes: Iterable[str] = ("all",),
    rank: int | None = None,
    chains: bool = False,
    **fields: Any,
) -> Run:
    """Create a finished, published run whose curves fall to a half every `half_life` trips."""
    model = make_model(model) if isinstance(model, str) else model
    versions = [metric_version(name) for name in metrics]
    count = suite.cases.count()
    now = timezone.now()
    run = Run.objects.create(
        **{
            "editing_model": model,
            "suite": suite,
            "state": RunState.FINISHED,
            "published": True,
            "current": True,
            "complete": True,
            "metrics": {v.name: {"version": v.version, "weights_sha256": ""} for v in versions},
            "chains_total": count,
            "chains_done": count,
            "edits_total": 2 * count * suite.trips,
            "edits_done": 2 * count * suite.trips,
            "edit_seconds": 16.0 * count * suite.trips,
            "started_at": now,
            "finished_at": now,
            **fields,
        }
    )
    Standing.objects.bulk_create(
        make_standing(run, version, half_life, threshold, scope, rank)
        for version, threshold, scope in itertools.product(versions, thresholds, scopes)
    )
    if chains:
        make_chains(run, half_life, [version.name for version in versions])
    return run


def metric_version(name: str) -> MetricVersion:
    version = metric_class(name).version if name in METRICS else "1"
    return MetricVersion.objects.get_or_create(name=name, version=version)[0]


def make_standing(
    run: Run,
    metric: MetricVersion,
    half_life: float,
    threshold: float = DEFAULT_THRESHOLD,
    scope: str = "all",
    rank: int | None = None,
) -> Standing:
    trips = run.suite.trips
    time = half_life * (1 - threshold) / 0.5

    def reached(value: float) -> float | None:
        return round(value, 4) if value <= trips else None

    mean = [
        round(0.5 ** (n / half_life), 4) if half_life else float(n == 0) for n in range(trips + 1)
    ]
    usable = min(time, trips)
    return Standing(
        run=run,
        metric=metric,
        threshold=threshold,
        scope=scope,
        half_life=reached(time),
        half_life_low=reached(0.8 * time),
        half_life_high=reached(1.25 * time),
        has_interval=True,
        usable_trips=usable,
        usable_trips_low=0.85 * usable,
        usable_trips_high=min(trips, 1.1 * usable),
        auc=sum(mean) / len(mean),
        rank=rank,
        rank_low=rank,
        rank_high=rank and rank + 1,
        curve={
            "mean": mean,
            "low": [round(0.92 * q, 4) for q in mean],
            "high": [round(min(1, 1.07 * q), 4) for q in mean],
            "shown": [None, *mean[1:]],
        },
        survival=mean,
        incidence={
            "object": [round(0.7 * (1 - q), 4) for q in mean],
            "refused": [round(0.3 * (1 - q), 4) for q in mean],
        },
        counts={
            "cases": run.progress.chains_total,
            "chains": run.progress.chains_total,
            "causes": {"object": run.progress.chains_total - 1, "refused": 1},
            "refused": 1,
            "change_seen": 0.97,
        },
        method_version=METHOD_VERSION,
    )


def make_chains(run: Run, half_life: float, metrics: Iterable[str]) -> list[Chain]:
    """Create a played chain for each case; cases differ, so that intervals have a width."""
    numbers = range(1, run.suite.trips + 1)
    retention = {}
    for place, case in enumerate(run.suite.cases.select_related("image")):
        case_half_life = half_life * (0.7 + 0.6 * (place * 7 % 10) / 10)
        retention[case] = [round(0.5 ** (n / case_half_life), 4) for n in numbers]
    return played_chains(run, retention, metrics)


def played_chains(
    run: Run, retention: Mapping[Case, Sequence[float]], metrics: Iterable[str]
) -> list[Chain]:
    """Create chains with these retentions by case, the same by every metric."""
    metrics = list(metrics)
    chains = [
        Chain(
            run=run,
            case=case,
            state=ChainState.PLAYED,
            outcome=Outcome.COMPLETED,
            trips_played=len(kept),
            trips_scored=len(kept),
            results=dict.fromkeys(metrics, _results(kept)),
        )
        for case, kept in retention.items()
    ]
    for chain in chains:
        chain.summarise()
    return Chain.objects.bulk_create(chains, batch_size=5_000)


def _results(kept: Sequence[float]) -> dict[str, Any]:
    usable = {threshold: sum(value > threshold for value in kept) for threshold in THRESHOLDS}
    return {
        "retention": list(kept),
        "auc": sum(kept) / len(kept),
        "recovered": False,
        "because": [],
        "gate": None,
        "events": {
            f"{threshold:g}": {
                "time": float(count),
                "cause": "whole" if count < len(kept) else "censored",
            }
            for threshold, count in usable.items()
        },
    }
