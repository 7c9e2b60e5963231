"""The study of the headline: its numbers for damages whose look is known."""

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

HELP = "measure the headline on damages whose look is known, on the shipped images"
DESCRIPTION = """\
Measure the headline on damage that any viewer sees, and on changes that no viewer sees.
Shipped images of the standard suite, drawn with a seed, are changed in known ways; things in
them are painted over or take on another hue. Each group is shown with the count that the
method was published with, on other images. It takes a few minutes on a quiet machine."""
FILE = Path(__file__).resolve().parents[2] / "static" / "img" / "examples" / "damages.json"
SEED = 35
# The steps of the ladders are in pixels of large images.
LEAST_SIDE = 640
#: Of the method's first measurement, on other images: by group, and by step of a ladder.
GROUPS = {
    "harmless": "0 of 168 below, lowest 80 %",
    "a thing lost": "27 of 28 below",
    "another hue": "15 of 15 below",
    "step by step": "",
    "mild": "0 of 72 below",
    "strong": "75 of 88 below",
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
    """One damaged image: what the headline keeps, and the part that decided."""

    group: str
    what: str
    image: str
    kept: float
    because: str


@dataclass(frozen=True)
class Row:
    """All images with one damage, or with those of one group."""

    group: str
    what: str
    judged: int
    below: int
    lowest: float
    median: float
    highest: float
    #: The part that decided most often.
    because: str
    published: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--images", type=int, default=12, help="drawn from the suite (12)")
    parser.add_argument("--size", type=int, default=SIZE, help=f"working size ({SIZE})")
    parser.add_argument("--json", action="store_true", help="print every measurement as JSON")
    parser.add_argument(
        "--store", action="store_true", help="keep the table as the one that the site shows"
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
        print(json.dumps([asdict(one) for one in measured], indent=1, ensure_ascii=False))
        return
    print(as_text(rows))


def drawn(count: int) -> list[str]:
    """Draw images of the suite, with a seed."""
    suite = catalog.suite(SUITE)
    large = [image.slug for image in suite.images if min(image.width, image.height) >= LEAST_SIDE]
    return sorted(random.Random(SEED).sample(large, min(count, len(large))))


def measure(metric: Overall, slug: str, size: int, *, whole: bool) -> Iterator[Measured]:
    """Measure every damage of one image; `whole`: also those of the whole image."""
    source = shipped(slug, size)
    prepared = metric.prepare_subject(
        source, chain_subject(catalog.suite(SUITE).image_by_slug[slug])
    )

    def one(group: str, what: str, image: Image.Image) -> Measured:
        (loss,) = metric.losses([prepared], [image])
        return Measured(group, what, slug, round(1 - loss.distance, 4), loss.because)

    if whole:
        for group, damages in ON_WHOLE_IMAGES.items():
            for what, damage in damages.items():
                yield one(group, what, damage(source))
    for thing in of(THINGS, slug):
        yield one("a thing lost", thing.word, erased(source, thing.box))
    for thing in of(COLOURED, slug):
        yield one("another hue", thing.word, turned_hue(source, thing.box))


def of(things: Sequence[Thing], slug: str) -> list[Thing]:
    return [thing for thing in things if thing.image == slug]


def summary(measured: Sequence[Measured]) -> list[Row]:
    """Return a row for each step of a ladder, and one for each other group."""
    rows = []
    for group, published in GROUPS.items():
        own = [one for one in measured if one.group == group]
        by_step = group == "step by step"
        for what in dict.fromkeys(one.what for one in own) if by_step else [""]:
            some = [one for one in own if one.what == what] if by_step else own
            if some:
                rows.append(_row(group, what, some, PUBLISHED.get(what, published)))
    return rows


def _row(group: str, what: str, measured: Sequence[Measured], published: str) -> Row:
    kept = [one.kept for one in measured]
    reasons = [one.because for one in measured]
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
        "by",
        "method",
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
