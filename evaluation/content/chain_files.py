"""File names of a chain's images: I0_source.png, I1_forward.png, I1_backward.png, ..."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Generic, TypeVar

from evaluation.errors import UserFacingError
from evaluation.images import EXTENSIONS

File = TypeVar("File")
SOURCE = "I0_source.png"
_NAMED = re.compile(r"I(?P<number>[0-9]{1,4})_(?P<step>source|forward|backward)", re.IGNORECASE)


class ChainFilesError(UserFacingError):
    """The files do not form a chain."""


@dataclass(frozen=True)
class ChainFiles(Generic[File]):
    """The files of a chain: the source and, by trip, (forward or None, backward)."""

    source: File
    trips: tuple[tuple[File | None, File], ...]


def answer_name(number: int, direction: str, mime: str) -> str:
    """Return the file name of an answer."""
    return f"I{number}_{direction}.{EXTENSIONS[mime]}"


def is_named(name: str) -> bool:
    """Return True if the file name identifies an image of a chain."""
    return _NAMED.fullmatch(PurePath(name).stem) is not None


def assign_files(
    files: Sequence[File], name: Callable[[File], str], *, in_turn: bool = False
) -> ChainFiles[File]:
    """Assign the files to the trips of a chain. Raises ChainFilesError.

    If any file is named like I1_forward.png, only files with such names are used. Otherwise the
    files are sorted: first the source image, then restored images or, with `in_turn`, edited and
    restored images in turn.
    """
    if any(is_named(name(file)) for file in files):
        return _by_names(files, name)
    if len(files) < 2:
        raise ChainFilesError("a chain needs a source image and at least one restored image")
    source, *rest = sorted(files, key=lambda file: natural_key(name(file)))
    if not in_turn:
        return ChainFiles(source, tuple((None, file) for file in rest))
    if len(rest) % 2:
        raise ChainFilesError(
            f"there are {len(rest)} images after the source; their number must be even if edited "
            "and restored images alternate"
        )
    return ChainFiles(source, tuple(zip(rest[::2], rest[1::2], strict=True)))


def natural_key(name: str) -> list[Any]:
    """Return a sort key that orders 2 before 10."""
    parts = re.split(r"([0-9]+)", name.casefold())
    return [int(part) if odd % 2 else part for odd, part in enumerate(parts)]


def _by_names(files: Sequence[File], name: Callable[[File], str]) -> ChainFiles[File]:
    by_step: dict[tuple[int, str], File] = {}
    for file in sorted(files, key=name):
        match = _NAMED.fullmatch(PurePath(name(file)).stem)
        if match is None:
            continue
        key = int(match["number"]), match["step"].lower()
        if (key[0] == 0) != (key[1] == "source"):
            raise ChainFilesError(f"{name(file)}: only the source has the number 0")
        if key in by_step:
            raise ChainFilesError(f"{name(by_step[key])} and {name(file)} name the same image")
        by_step[key] = file
    if (0, "source") not in by_step:
        raise ChainFilesError("I0_source is missing")
    last = max((number for number, step in by_step if step == "backward"), default=0)
    if not last:
        raise ChainFilesError("I1_backward is missing: there is no restored image yet")
    for number in range(1, last):
        if (number, "backward") not in by_step:
            raise ChainFilesError(f"I{number}_backward is missing, but I{last}_backward exists")
    # A later forward image belongs to an incomplete trip.
    return ChainFiles(
        by_step[0, "source"],
        tuple((by_step.get((n, "forward")), by_step[n, "backward"]) for n in range(1, last + 1)),
    )
