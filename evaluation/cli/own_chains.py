"""Many chains of somebody's own as one run, and those of several models as runs of one suite.

FOLDER/CHAIN/...           one run, called by the folder
FOLDER/MODEL/CHAIN/...     a run for every model; chains with the same source and the same
                           edit are the same case
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from evaluation.analysis.chain_scores import ChainScores, TripPictures, score_chain
from evaluation.cli.calibration_cache import calibrated
from evaluation.cli.judged_run import judged_chain
from evaluation.cli.played_chain import chain_slug
from evaluation.cli.report import ReportedRun
from evaluation.cli.run_scores import RunScores
from evaluation.cli.run_scores import judged as judged_globally
from evaluation.cli.uploaded_chain import (
    PAIR,
    SUFFIXES,
    ChainFolderError,
    OwnChain,
    find_chain,
    read_picture,
    read_trip,
)
from evaluation.content.sources import pixel_sha256
from evaluation.content.suites import Case, EditPair, SourcePicture, Suite
from evaluation.images import Picture
from evaluation.measuring.scoring import Calibration, Scorer
from evaluation.metrics.base import Subject
from evaluation.witnesses.judge.judge import Judge


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


def reported(own: OwnRuns, model: str, scores: RunScores) -> ReportedRun:
    """A model's chains as the report needs them."""

    def chain(slug: str) -> OwnChain:
        return own.runs[model][slug].chain

    def trip(slug: str, number: int) -> TripPictures:
        forward, backward = chain(slug).trips[number - 1]
        return read_picture(forward) if forward else None, read_picture(backward)

    return ReportedRun(
        model,
        scores,
        {"editor": model},
        source=lambda slug: read_picture(chain(slug).source),
        trip=trip,
    )


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
