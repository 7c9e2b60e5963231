"""Datasheets of images: where they come from, and who is in the portraits.

One curator labelled sex, age, skin and the pose of the head by eye. The labels describe the image,
not the person.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol
from urllib.parse import urlsplit

from evaluation.content.suites import ORIGINS, origin_of

#: Curators are warned if one origin, or one source of faces, has a larger share.
LARGEST_SHARE = 1 / 3
#: Shares of fewer portraits have no meaning.
MIN_PORTRAITS = 3
#: Poses of a head: frontal (both cheeks equally wide), three-quarter (both eyes visible), profile
#: (one eye visible).
POSES = ("frontal", "three-quarter", "profile")
#: Groups of labels; a portrait has at most one label of each.
LABELS = {
    "sex": ("woman", "man"),
    "age": ("child", "young adult", "middle-aged", "old"),
    "skin": ("light skin", "medium skin", "dark skin"),
}
BLACK_AND_WHITE = "black and white"
UNLABELLED = "not labelled"

Counts = Mapping[str, Mapping[str, int]]


class Sourced(Protocol):
    """A source image in the catalogue, the database or a frozen suite."""

    @property
    def kind(self) -> str: ...
    @property
    def made(self) -> str: ...
    @property
    def author(self) -> str: ...
    @property
    def source_url(self) -> str: ...
    @property
    def contains(self) -> Sequence[str]: ...


def is_portrait(image: Sourced) -> bool:
    """Return True if the image is a portrait of one person."""
    return image.kind == "face" and "person" in image.contains


def source_of(image: Sourced) -> str:
    """Return the source of an image: the host it was taken from, else its author."""
    host = urlsplit(image.source_url).hostname or image.author or UNLABELLED
    return host.removeprefix("www.")


def datasheet(images: Iterable[Sourced]) -> dict[str, Counts]:
    """Count images and portraits by the values of each attribute, in the order of display.

    Images of a frozen suite have no pose; pass images of the catalogue to count poses.
    """
    every = list(images)
    portraits = [image for image in every if is_portrait(image)]
    sheet: dict[str, Counts] = {
        "Images": {
            "origin": _counted(map(_origin, every), ORIGINS.values()),
            "colour": _counted(map(_colour, every), ("colour", BLACK_AND_WHITE)),
        },
        "Portraits": {
            "origin": _counted(map(_origin, portraits), ORIGINS.values()),
            "source": _counted(map(source_of, portraits)),
            **{
                group: _counted((_label(image, names) for image in portraits), names)
                for group, names in LABELS.items()
            },
            "pose": _counted(
                (getattr(image, "pose", "") or UNLABELLED for image in portraits), POSES
            ),
        },
    }
    return {what: groups for what, groups in sheet.items() if any(groups.values())}


def concentrations(images: Iterable[Sourced]) -> list[str]:
    """Return a warning for each origin of images, or source of faces, with more than a third."""
    every = list(images)
    faces = [image for image in every if is_portrait(image)]
    shares = [(Counter(map(_origin, every)), len(every), "images")]
    if len(faces) >= MIN_PORTRAITS:
        shares.append((Counter(map(source_of, faces)), len(faces), "portraits"))
    return [
        f"{name}: {count} of {total} {what}, more than a third from one "
        f"{'origin' if what == 'images' else 'source'}"
        for counts, total, what in shares
        for name, count in counts.most_common()
        if count > LARGEST_SHARE * total
    ]


def _origin(image: Sourced) -> str:
    return ORIGINS[origin_of(image)]


def _colour(image: Sourced) -> str:
    return BLACK_AND_WHITE if BLACK_AND_WHITE in image.contains else "colour"


def _label(image: Sourced, names: Sequence[str]) -> str:
    return next((name for name in names if name in image.contains), UNLABELLED)


def _counted(values: Iterable[str], order: Collection[str] = ()) -> dict[str, int]:
    """Count the values of `order`, then all others by frequency."""
    counts = Counter(values)
    names = [*order, *(name for name, _ in counts.most_common() if name not in order)]
    return {name: counts[name] for name in names if counts[name]}
