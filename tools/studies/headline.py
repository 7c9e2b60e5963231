"""The study of the headline metric: its values for known damages."""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from evaluation.analysis.thresholds import DEFAULT_THRESHOLD
from evaluation.cli.printing import CommandError, progress, table
from evaluation.content import catalog
from evaluation.measuring.subject import chain_subject
from evaluation.metrics.overall import Overall
from evaluation.testing.twin import Damage
from tools.studies.known_damages import (
    COLOURED,
    HARMLESS,
    LADDERS,
    MILD,
    SIZE,
    STRONG,
    SUITE,
    THINGS,
    Thing,
    erased,
    shipped,
    turned_hue,
)

HELP = "measure the headline metric on known damages of shipped images"
DESCRIPTION = """\
Measure the headline metric on damages that every viewer sees, and on changes that no viewer
sees. Random images of the standard suite are damaged in known ways. Things in images are
painted over or get another hue. Each group is shown with the published result, which was
measured on other images. The study takes a few minutes on an idle machine."""
FILE = Path(__file__).resolve().parents[2] / "static" / "img" / "examples" / "damages.json"
SEED = 35
# Smaller images are left out, because some damages (of known_damages.LADDERS) are in pixels.
LEAST_SIDE = 640
#: Published results of the first measurement, on other images: of each group of damages, and
#: (PUBLISHED) of each step by which a damage increases.
GROUPS = {
    "harmless": "0 of 168 below 50 %, lowest 80 %",
    "a thing lost": "27 of 28 below 50 %",
    "another hue": "15 of 15 below 50 %",
    "step by step": "",
    "mild": "0 of 72 below 50 %",
    "strong": "75 of 88 below 50 %",
}
PUBLISHED = {
    "JPEG 50": "95 %",
    "JPEG 20": "58–86 %",
    "JPEG 10": "38–66 %",
    "blur of 1 px": "88–98 %",
    "blur of 2 px": "42–79 %",
    "blur of 3 px": "19–48 %",
    "noise of 4 levels": "81–96 %",
    "noise of 8 levels": "51–80 %",
    "noise of 16 levels": "21–42 %",
    "a tenth lighter": "71 %",
    "a fifth lighter": "36–41 %",
    "2 % zoomed in": "98 %",
    "6 % zoomed in": "86 %",
    "10 % zoomed in": "60–71 %",
}
ON_WHOLE_IMAGES: Mapping[str, Mapping[str, Damage]] = {
    "harmless": HARMLESS,
    "step by step": LADDERS,
    "mild": MILD,
    "strong": STRONG,
}


@dataclass(frozen=True)
class Measured:
    """One damaged image: its retention, and the part of the metric that lost most."""

    group: str
    what: str
    image: str
    kept: float
    because: str


@dataclass(frozen=True)
class Row:
    """The results of all images with one damage, or with the damages of one group."""

    group: str
    what: str
    judged: int
    below: int
    lowest: float
    median: float
    highest: float
    #: The part that lost most in most of the images.
    because: str
    published: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--images", type=int, default=12, help="number of random images (default: 12)"
    )
    parser.add_argument("--size", type=int, default=SIZE, help=f"working size (default: {SIZE})")
    parser.add_argument("--json", action="store_true", help="print every measurement as JSON")
    parser.add_argument(
        "--store", action="store_true", help="store the table for the methodology page"
    )


def run(args: argparse.Namespace) -> None:
    """Measure and print the table."""
    metric = Overall()
    if missing := metric.missing():
        raise CommandError("; ".join(missing))
    images = drawn(args.images)
    everything = dict.fromkeys([*images, *(thing.image for thing in THINGS)])
    measured: list[Measured] = []
    with progress(len(everything), "Measuring", "image") as bar:
        for slug in everything:
            measured += measure(metric, slug, args.size, whole=slug in images)
            bar.update()
    rows = summary(measured)
    if args.store:
        stored = {
            "version": metric.running_version,
            "size": args.size,
            "images": images,
            "rows": [asdict(row) for row in rows],
        }
        FILE.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if args.json:
        print(json.dumps([asdict(row) for row in measured], indent=1, ensure_ascii=False))
        return
    print(as_text(rows))


def drawn(count: int) -> list[str]:
    """Choose random images of the suite, always the same ones."""
    suite = catalog.suite(SUITE)
    large = [image.slug for image in suite.images if min(image.width, image.height) >= LEAST_SIDE]
    return sorted(random.Random(SEED).sample(large, min(count, len(large))))


def measure(metric: Overall, slug: str, size: int, *, whole: bool) -> Iterator[Measured]:
    """Measure the damages to things in an image, and with `whole` also damages to the whole image."""
    source = shipped(slug, size)
    prepared = metric.prepare_subject(
        source, chain_subject(catalog.suite(SUITE).image_by_slug[slug])
    )

    def measured(group: str, what: str, image: Image.Image) -> Measured:
        (loss,) = metric.losses([prepared], [image])
        return Measured(group, what, slug, round(1 - loss.distance, 4), loss.because)

    if whole:
        for group, damages in ON_WHOLE_IMAGES.items():
            for what, damage in damages.items():
                yield measured(group, what, damage(source))
    for thing in things_in(slug, THINGS):
        yield measured("a thing lost", thing.word, erased(source, thing.box))
    for thing in things_in(slug, COLOURED):
        yield measured("another hue", thing.word, turned_hue(source, thing.box))


def things_in(slug: str, things: Sequence[Thing]) -> list[Thing]:
    return [thing for thing in things if thing.image == slug]


def summary(measured: Sequence[Measured]) -> list[Row]:
    """Return one row for each step of an increasing damage, and one for each other group."""
    rows = []
    for group, published in GROUPS.items():
        of_group = [row for row in measured if row.group == group]
        by_step = group == "step by step"
        for what in dict.fromkeys(row.what for row in of_group) if by_step else [""]:
            chosen = [row for row in of_group if row.what == what] if by_step else of_group
            if chosen:
                rows.append(_row(group, what, chosen, PUBLISHED.get(what, published)))
    return rows


def _row(group: str, what: str, measured: Sequence[Measured], published: str) -> Row:
    kept = [row.kept for row in measured]
    reasons = [row.because for row in measured]
    return Row(
        group=group,
        what=what,
        judged=len(kept),
        below=sum(q < DEFAULT_THRESHOLD for q in kept),
        lowest=min(kept),
        median=round(float(np.median(kept)), 4),
        highest=max(kept),
        because=max(dict.fromkeys(reasons), key=reasons.count),
        published=published,
    )


def as_text(rows: Sequence[Row]) -> str:
    head = [
        "group",
        "damage",
        "images",
        "below half",
        "lowest",
        "median",
        "highest",
        "lost most",
        "published",
    ]
    lines = [
        [
            row.group,
            row.what,
            str(row.judged),
            str(row.below),
            *(f"{q:.0%}" for q in (row.lowest, row.median, row.highest)),
            row.because,
            row.published,
        ]
        for row in rows
    ]
    return table(head, lines)
