"""Chains that were played elsewhere: folders of images, scored as runs of one suite.

    FOLDER/...                 one chain
    FOLDER/CHAIN/...           one run, called by the folder
    FOLDER/MODEL/CHAIN/...     a run for every model; chains with the same source and the same
                               edit are the same case

A folder holds a chain in one of three ways, tried in this order:

    manifest.json     {"source": "a.png", "trips": [{"forward": "b.png", "backward": "c.png"}, ...],
                       "model": "...", "pair": {"forward": "Add a hat.", "change": "local", ...}}
    named files       I0_source.png, I1_forward.png, I1_backward.png, I2_...; forward images
                      may be missing
    sorted files      the first is the source, the others are what came back, in order;
                      or edited and restored in turn
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from evaluation.analysis.chain_scores import ChainScores, TripPictures, score_chain
from evaluation.content import catalog
from evaluation.content.chain_files import ChainFilesError, arranged
from evaluation.content.operators import OPERATORS
from evaluation.content.sources import pixel_sha256
from evaluation.content.suites import Case, EditPair, SourcePicture, Suite
from evaluation.errors import UserFacingError
from evaluation.images import ImageError, Picture
from evaluation.measuring.scoring import Calibration, Scorer
from evaluation.metrics.base import Subject
from evaluation.play.calibration_cache import calibrated
from evaluation.play.finish import judged_chain
from evaluation.play.run_folder import chain_slug
from evaluation.play.run_scores import RunScores
from evaluation.play.run_scores import judged as judged_globally
from evaluation.untrusted_json import read_json_file
from evaluation.witnesses.judge.judge import Judge

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


@dataclass(frozen=True)
class PlacedChain:
    """A chain with its place in the suite that is made of all of them."""

    chain: OwnChain
    picture: str
    pair: EditPair
    repeat: int

    @property
    def slug(self) -> str:
        return chain_slug(Case(self.picture, self.pair.slug).slug, self.repeat)


@dataclass(frozen=True)
class OwnRuns:
    """The chains of every model, by their names in one suite."""

    suite: Suite
    runs: Mapping[str, Mapping[str, PlacedChain]]

    @property
    def trips(self) -> int:
        return self.suite.trips * sum(map(len, self.runs.values()))


def is_chain(folder: Path) -> bool:
    """Whether the pictures of a chain lie in the folder itself."""
    return (folder / "manifest.json").is_file() or any(
        file.suffix.lower() in SUFFIXES for file in folder.iterdir() if file.is_file()
    )


def find_runs(
    folder: Path,
    *,
    in_turn: bool = False,
    name: str = "",
    changed: Callable[[EditPair], EditPair] = lambda pair: pair,
) -> OwnRuns:
    """All chains below the folder; ChainFolderError names the one that is wrong."""
    chains = {
        name or folder.resolve().name: _chains(folder, in_turn),
        **{child.name: _chains(child, in_turn) for child in _folders(folder)},
    }
    chains = {model: found for model, found in chains.items() if found}
    if not chains:
        raise ChainFolderError(
            f"{folder} holds no picture ({', '.join(SUFFIXES)}), no manifest.json and no folder "
            "of a chain"
        )
    return _placed(chains, changed)


def score_runs(
    own: OwnRuns, scorer: Scorer, on_trip: Callable[[], None] = lambda: None
) -> dict[str, RunScores]:
    """The scores of every model's chains."""
    pictures: dict[str, Mapping[str, Calibration | None]] = {}
    found: dict[str, RunScores] = {}
    for model, chains in own.runs.items():
        scores: dict[str, ChainScores] = {}
        for slug, placed in chains.items():
            source = read_picture(placed.chain.source)
            if placed.picture not in pictures:
                subject = Subject(scorer.only_face(source))
                pictures[placed.picture] = calibrated(scorer, source, subject)
            scored = score_chain(scorer, source, _trips(placed.chain, on_trip), placed.pair)
            scores[slug] = replace(scored, picture=placed.picture, repeat=placed.repeat)
        used = {chain.picture: pictures[chain.picture] for chain in scores.values()}
        found[model] = RunScores(
            own.suite.content_hash, scorer.provenance(), used, judged_globally(scores, own.suite)
        )
    return found


def judged(judge: Judge, own: OwnRuns, model: str, scores: RunScores) -> RunScores:
    """A model's scores with what a judge says of its chains."""
    chains = {}
    for slug, scored in scores.chains.items():
        placed = own.runs[model][slug]
        source, read = read_picture(placed.chain.source), partial(read_trip, placed.chain)
        about = f"{model}, {slug}"
        chains[slug] = judged_chain(judge, source, read, placed.pair, about, scored)
    provenance = {**scores.provenance, "judge": judge.summary()}
    return replace(scores, chains=chains, provenance=provenance)


def _folders(folder: Path) -> list[Path]:
    return sorted(child for child in folder.iterdir() if child.is_dir() and child.name[0] != ".")


def _chains(folder: Path, in_turn: bool) -> list[tuple[str, OwnChain]]:
    """The chains that lie in a folder, by their folders' names; a report of ours is none."""
    return [
        (child.name, find_chain(child, in_turn=in_turn))
        for child in ([] if is_chain(folder) else _folders(folder))
        if is_chain(child) and not (child / "index.html").is_file()
    ]


def _placed(
    chains: Mapping[str, list[tuple[str, OwnChain]]], changed: Callable[[EditPair], EditPair]
) -> OwnRuns:
    # A case is usable for as many trips as all have.
    trips = min(len(chain.trips) for found in chains.values() for _, chain in found)
    pictures: dict[str, SourcePicture] = {}
    pairs: dict[EditPair, EditPair] = {}
    runs: dict[str, dict[str, PlacedChain]] = {}
    repeats: Counter[tuple[str, str]] = Counter()
    for model, found in chains.items():
        seen: Counter[tuple[str, str]] = Counter()
        runs[model] = {}
        for folder, chain in found:
            source = read_picture(chain.source)
            key = pixel_sha256(source.image)
            picture = pictures.setdefault(key, _picture(len(pictures) + 1, folder, key, source))
            said = changed(chain.pair)
            # Where nobody says what the edit was, every folder is an edit of its own.
            if said == PAIR:
                said = replace(PAIR, forward=f"{PAIR.forward} of {folder}")
            slug = f"own-{len(pairs) + 1}-{_plain(said.object or folder)}"
            pair = pairs.setdefault(said, replace(said, slug=slug))
            case = (picture.slug, pair.slug)
            chain = replace(chain, trips=chain.trips[:trips])
            placed = PlacedChain(chain, picture.slug, pair, seen[case])
            seen[case] += 1
            runs[model][placed.slug] = placed
        repeats |= seen
    suite = Suite(
        slug="own-chains",
        version=1,
        title=f"{sum(repeats.values())} own chains of {trips} trip{'s' if trips > 1 else ''}",
        trips=trips,
        size=max(max(picture.width, picture.height) for picture in pictures.values()),
        pictures=tuple(pictures.values()),
        pairs=tuple(pairs.values()),
        cases=tuple(Case(picture, pair, count) for (picture, pair), count in repeats.items()),
    )
    return OwnRuns(suite, runs)


def _picture(number: int, folder: str, sha256: str, source: Picture) -> SourcePicture:
    return SourcePicture(
        slug=f"source-{number}",
        sha256=sha256,
        width=source.width,
        height=source.height,
        kind="own",
        origin=f"own:{folder}",
        title=folder,
        author="",
        licence="",
        attribution="",
    )


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40]


def _trips(chain: OwnChain, on_trip: Callable[[], None]) -> Iterator[TripPictures]:
    for forward, backward in chain.trips:
        yield read_picture(forward) if forward else None, read_picture(backward)
        on_trip()
