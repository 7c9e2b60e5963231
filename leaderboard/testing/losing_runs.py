"""Stored runs whose chains lose a known share of the image at every trip."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
from django.utils import timezone
from django.utils.text import slugify
from PIL import Image

from evaluation.content.suites import Case as CoreCase
from evaluation.content.suites import EditPair as CorePair
from evaluation.content.suites import Suite as CoreSuite
from evaluation.content.suites import SuiteImage
from evaluation.images import EncodedImage
from leaderboard.content import loading
from leaderboard.models import (
    Calibration,
    Chain,
    EditingModel,
    MetricVersion,
    Run,
    Score,
    Suite,
    Trip,
)
from leaderboard.models.runs import ChainState, Outcome, RunState
from leaderboard.standings import rebuild

TRIPS, IMAGES, BLANK = 10, 12, 0.8


def losing_suite(images: int = IMAGES) -> Suite:
    """Store a frozen suite with two cases for each image, calibrated for one metric.

    12 images are just enough for intervals.
    """
    sources = [
        SuiteImage(
            *(f"p{n}", f"{n:064x}", 64, 64, ("face", "scene")[n % 2], "file:x", f"P{n}", "a"),
            *("CC0-1.0", "a"),
        )
        for n in range(images)
    ]
    hats = [
        CorePair(f"hat-{n}", "accessories", f"Add hat {n}.", "Remove the hat.", "local")
        for n in range(images // 2)
    ]
    balls = [
        CorePair(f"ball-{n}", "objects", f"Add ball {n}.", "Remove the ball.", "local")
        for n in range(images // 2)
    ]
    pairs = [*hats, *balls]
    cases = [
        CoreCase(source.slug, pair.slug)
        for n, source in enumerate(sources)
        for pair in (hats[n // 2], balls[n % len(balls)])
    ]
    core = CoreSuite("s", 1, "S", TRIPS, 64, tuple(sources), tuple(pairs), tuple(cases))
    stored = {
        p.slug: EncodedImage.from_image(Image.new("RGB", (64, 64), (n * 20 % 256, n, 9)))
        for n, p in enumerate(sources)
    }
    row = loading.store_suite(core, stored)
    metric = MetricVersion.objects.create(name="lpips", version="1")
    for source in sources:
        Calibration.objects.create(
            pixels_sha256=source.sha256, metric=metric, blank=BLANK, ladder={"90": 0.05, "10": 0.5}
        )
    return row


def losing_run(suite: Suite, name: str, loss: float, *, spread: float = 0.0, **model: Any) -> Run:
    """Store a finished run whose chains lose `loss` of the image at every trip."""
    random = np.random.default_rng(len(name))
    now = timezone.now()
    run = Run.objects.create(
        editing_model=EditingModel.objects.create(
            slug=slugify(name), name=name, editor="noop", **model
        ),
        suite=suite,
        state=RunState.FINISHED,
        published=True,
        finished_at=now,
        metrics={
            "lpips": {"version": "1", "weights_sha256": ""},
            "clip": {"missing": "no weights"},
        },
    )
    state = {"state": ChainState.PLAYED, "outcome": Outcome.COMPLETED}
    chains = Chain.objects.bulk_create(
        Chain(run=run, case=case, token=uuid.uuid4(), **state) for case in suite.cases.all()
    )
    seen = {"change_seen": True, "step": 0.01, "scored_at": now}
    trips = Trip.objects.bulk_create(
        Trip(chain=chain, number=number, from_source=0.01 * number, **seen)
        for chain in chains
        for number in range(1, TRIPS + 1)
    )
    losses = loss * (1 + spread * random.standard_normal(len(chains)))
    metric = MetricVersion.objects.get(name="lpips")
    Score.objects.bulk_create(
        Score(trip=trip, metric=metric, distance=BLANK * min(1.2, chain_loss * trip.number))
        for trip, chain_loss in zip(trips, np.repeat(losses, TRIPS), strict=True)
    )
    rebuild(run)
    return run
