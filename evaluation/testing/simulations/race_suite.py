"""A suite that is just large enough for ranks and small enough to be played in seconds."""

from __future__ import annotations

from dataclasses import replace

from evaluation.content import catalog, sources
from evaluation.content.suites import Case, SourcePicture, Suite
from evaluation.images import Picture

PICTURES, SIDE = 24, 64


def race_suite(trips: int = 2) -> Suite:
    """Flips of 24 details of one photograph, by 24 pairs in two categories."""
    flip = catalog.suite("smoke").pair_by_slug["flip-horizontal"]
    pairs = [
        replace(flip, slug=f"flip-{n}", category=("objects", "geometry")[n % 2])
        for n in range(PICTURES)
    ]
    pictures = [_detail(n) for n in range(PICTURES)]
    cases = [
        Case(picture.slug, pairs[place].slug)
        for n, picture in enumerate(pictures)
        for place in (n, (n + 7) % PICTURES)
    ]
    return Suite(
        *("raced", 1, "Raced", trips, SIDE, tuple(pictures), tuple(pairs), tuple(cases)),
        description="Details of one photograph.",
    )


def _detail(number: int) -> SourcePicture:
    left, top = 64 * (number % 6) + 32, 64 * (number // 6) + 96
    origin = f"skimage:astronaut#{left},{top},{left + SIDE},{top + SIDE}"
    image = sources.prepare(Picture.from_bytes(sources.original(origin)).image, SIDE)
    return SourcePicture(
        *(f"detail-{number}", sources.pixel_sha256(image), *image.size, "scene", origin),
        *(f"Detail {number}", "NASA", "PD", "NASA"),
    )
