"""What a suite is to be made of: the filters of a draft, and the pictures it may take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from evaluation.content import catalog, curation, sources
from evaluation.content.annotations import UNANNOTATED, Annotations
from evaluation.content.suites import EditPair, SourcePicture
from evaluation.images import Picture

Stratum = tuple[str, str]  # kind of picture, category of pair


@dataclass(frozen=True)
class Candidate:
    """A prepared picture, and the operators that would not show on it."""

    picture: SourcePicture
    symmetric_under: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Draft:
    """What a suite is to be made of. Empty filters let everything through."""

    slug: str
    title: str
    trips: int
    size: int
    cases: int = 0  # spread evenly over the strata; 0 when `shares` says how many
    shares: Mapping[Stratum, int] = field(default_factory=dict)
    seed: int = 0
    version: int = 1
    repeats: int = 1
    repeated: int = 0  # this many cases, spread over the suite, are played twice
    description: str = ""
    importance: int = 0  # a board opens on the most important suite that has results
    stop_after: int = 0  # what runs begin with, see evaluation.analysis.stopping; 0: never
    kinds: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()  # beginnings of origins, such as "skimage:"
    picture_slugs: tuple[str, ...] = ()
    without_pictures: tuple[str, ...] = ()
    without_subkinds: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()  # labels of which a picture contains at least one
    smallest_side: int = 0  # of the prepared picture, in pixels
    categories: tuple[str, ...] = ()
    pair_slugs: tuple[str, ...] = ()
    without_pairs: tuple[str, ...] = ()
    without_cases: tuple[str, ...] = ()
    must_pictures: tuple[str, ...] = ()  # in at least one case each, whatever the lot says
    must_pairs: tuple[str, ...] = ()
    shapes: bool = False  # takes pairs with a shape, and no others
    narrow: bool = False  # a suite on purpose too narrow to compare models by

    def takes_picture(self, picture: SourcePicture | catalog.SourceImage) -> bool:
        return (
            (not self.kinds or picture.kind in self.kinds)
            and (not self.made or picture.made in self.made)
            and (not self.origins or picture.origin.startswith(self.origins))
            and (not self.picture_slugs or picture.slug in self.picture_slugs)
            and picture.slug not in self.without_pictures
            and picture.subkind not in self.without_subkinds
            and (not self.needs or not set(self.needs).isdisjoint(picture.contains))
        )

    def takes_pair(self, pair: EditPair) -> bool:
        return (
            bool(pair.shape) == self.shapes
            and (not self.categories or pair.category in self.categories)
            # One edit a trip and ours to degrade: such pairs are no round trips, and come by name.
            and (pair.change != "operator" or pair.category in self.categories)
            and (not self.pair_slugs or pair.slug in self.pair_slugs)
            and pair.slug not in self.without_pairs
        )


def candidate(source: catalog.SourceImage, size: int) -> Candidate:
    """A catalogued picture at a working size; OriginError or ImageError when it cannot be had."""
    image = Picture.from_bytes(sources.original(source.origin, source.sha256)).image
    places = sources.prepare_annotations(source.annotations, image.size, size)
    return from_facts(source, facts(sources.prepare(image, size)), places)


@dataclass(frozen=True)
class Facts:
    """What of a prepared image a suite needs; small enough to keep."""

    sha256: str
    width: int
    height: int
    symmetric_under: frozenset[str]


def facts(image: Image.Image) -> Facts:
    """What the pixels say: their hash and size, and which operators would not show."""
    return Facts(sources.pixel_sha256(image), image.width, image.height, curation.symmetries(image))


def from_facts(source: Any, known: Facts, places: Annotations = UNANNOTATED) -> Candidate:
    """The candidate of an image whose facts are known, without its pixels.

    `source` is a row of the catalogue or of the database, `places` are its annotations as
    they are on the prepared picture.
    """
    picture = SourcePicture(
        slug=source.slug,
        sha256=known.sha256,
        width=known.width,
        height=known.height,
        kind=source.kind,
        origin=source.origin,
        title=source.title,
        author=source.author,
        licence=source.licence,
        attribution=source.attribution,
        subkind=source.subkind,
        source_url=source.source_url,
        made=source.made,
        contains=tuple(source.contains),
        annotations=places,
    )
    return Candidate(picture, known.symmetric_under)
