"""Somebody's own chain: a folder of pictures, however it came to be.

Three ways are understood, in this order:

    manifest.json     {"source": "a.png", "trips": [{"forward": "b.png", "backward": "c.png"}, ...],
                       "model": "...", "pair": {"forward": "Add a hat.", "change": "local", ...}}
    named files       I0_source.png, I1_forward.png, I1_backward.png, I2_...; forward pictures
                      may be missing
    sorted files      the first is the source, the others are what came back, in order;
                      or edited and restored in turn
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evaluation.content import catalog
from evaluation.content.chain_files import ChainFilesError, arranged
from evaluation.content.operators import OPERATORS
from evaluation.content.sources import pixel_sha256
from evaluation.content.suites import Case, EditPair, SourcePicture, Suite
from evaluation.errors import UserFacingError
from evaluation.images import ImageError, Picture
from evaluation.outside_json import read_json_file

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
#: What is assumed of the edits where nobody says: something was added, then removed.
PAIR = EditPair(
    "own", "own", "the forward edit", "the backward edit", change="local", reversibility="clean"
)
PAIR_FIELDS = ("forward", "backward", "change", "operator", "category", "object")


class ChainFolderError(UserFacingError):
    """A folder that holds no chain."""


@dataclass(frozen=True)
class OwnChain:
    """The files of a chain: the source and, by trip, (forward or None, backward)."""

    name: str
    source: Path
    trips: tuple[tuple[Path | None, Path], ...]
    pair: EditPair = PAIR

    def suite(self, source: Picture) -> Suite:
        """The chain as a suite of one case, so that all the rest can be used on it."""
        row = SourcePicture(
            slug="source",
            sha256=pixel_sha256(source.image),
            width=source.width,
            height=source.height,
            kind="own",
            origin=f"own:{self.source.name}",
            title=self.name,
            author="",
            licence="",
            attribution="",
        )
        return Suite(
            slug="own-chain",
            version=1,
            title=f"a chain of {len(self.trips)} trip{'s' if len(self.trips) > 1 else ''}",
            trips=len(self.trips),
            size=max(source.size),
            pictures=(row,),
            pairs=(self.pair,),
            cases=(Case(row.slug, self.pair.slug),),
        )


def find_chain(folder: Path, *, in_turn: bool = False) -> OwnChain:
    """The chain in the folder; ChainFolderError says what is missing.

    `in_turn`: sorted files are edited and restored in turn.
    """
    if not folder.is_dir():
        raise ChainFolderError(f"there is no folder {folder}")
    if (folder / "manifest.json").is_file():
        return _from_manifest(folder)
    files = [f for f in folder.iterdir() if f.suffix.lower() in SUFFIXES and f.is_file()]
    if not files:
        raise ChainFolderError(
            f"{folder} holds no picture ({', '.join(SUFFIXES)}) and no manifest.json"
        )
    try:
        found = arranged(files, lambda file: file.name, in_turn=in_turn)
    except ChainFilesError as error:
        raise ChainFolderError(f"{folder}: {error}") from None
    return OwnChain(folder.resolve().name, found.source, found.trips)


def _from_manifest(folder: Path) -> OwnChain:
    file = folder / "manifest.json"
    try:
        data = read_json_file(file)
    except (OSError, ValueError) as error:
        raise ChainFolderError(f"{file}: {error}") from error
    if not isinstance(data, dict) or not isinstance(data.get("trips"), list) or not data["trips"]:
        raise ChainFolderError(f'{file}: expected {{"source": ..., "trips": [...]}}')
    trips = []
    for number, trip in enumerate(data["trips"], start=1):
        if isinstance(trip, str):
            trip = {"backward": trip}
        if not isinstance(trip, dict) or "backward" not in trip:
            raise ChainFolderError(f'{file}: trip {number} names no "backward" picture')
        forward = trip.get("forward")
        trips.append(
            (_inside(folder, forward) if forward else None, _inside(folder, trip["backward"]))
        )
    if "source" not in data:
        raise ChainFolderError(f'{file}: it names no "source"')
    pair = data.get("pair") or {}
    if not isinstance(pair, dict):
        raise ChainFolderError(f'{file}: "pair" is not an object')
    return OwnChain(
        str(data.get("model") or folder.resolve().name),
        _inside(folder, data["source"]),
        tuple(trips),
        with_pair(PAIR, pair),
    )


def known_pair(slug: str) -> EditPair:
    """A pair of the benchmark's own, with what its witnesses look for."""
    pairs = {row.slug: row.pair for row in catalog.edit_pairs()}
    if slug not in pairs:
        near = difflib.get_close_matches(slug, pairs, 3)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise ChainFolderError(f"there is no edit pair {slug!r}{hint}")
    return pairs[slug]


def read_trip(chain: OwnChain, number: int) -> tuple[Picture, Picture, Picture] | None:
    """Before, edited and returned of a trip; None where the edited picture was not kept."""
    forward, backward = chain.trips[number - 1]
    if forward is None:
        return None
    before = chain.source if number == 1 else chain.trips[number - 2][1]
    return read_picture(before), read_picture(forward), read_picture(backward)


def with_pair(pair: EditPair, changes: Mapping[str, Any]) -> EditPair:
    """The pair with what somebody says of it; an operator makes it exact."""
    known: dict[str, Any] = {k: str(v) for k, v in changes.items() if k in PAIR_FIELDS and v}
    operator = known.get("operator", pair.operator)
    if operator and operator not in OPERATORS:
        raise ChainFolderError(f"{operator!r} is not an operator; there are {', '.join(OPERATORS)}")
    if operator:
        known["change"] = "exact"
    if known.get("change", pair.change) not in ("exact", "local", "global", "none"):
        raise ChainFolderError(f"a change is exact, local, global or none, not {known['change']!r}")
    if known.get("change", pair.change) == "exact" and not operator:
        raise ChainFolderError("an exact change needs its operator")
    return replace(pair, **known)


def _inside(folder: Path, name: Any) -> Path:
    """A file of the folder: a manifest must not read what lies elsewhere."""
    said = str(name)[:200]
    try:
        file = (folder / str(name)).resolve()
        if not file.is_relative_to(folder.resolve()):
            raise ChainFolderError(f"{said} lies outside {folder}")
        if not file.is_file():
            raise ChainFolderError(f"{folder} has no file {said}")
    except OSError as error:
        raise ChainFolderError(f"{folder}: {said} cannot be a file: {error.strerror}") from None
    return file


def read_picture(file: Path) -> Picture:
    try:
        return Picture.from_bytes(file.read_bytes())
    except (OSError, ImageError) as error:
        raise ChainFolderError(f"{file}: {error}") from error
