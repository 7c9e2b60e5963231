"""Score chains that were played elsewhere, from folders of images, as runs of one suite.

    FOLDER/...                 one chain: an image with its round trips of edits
    FOLDER/CHAIN/...           one run, named after the folder
    FOLDER/MODEL/CHAIN/...     one run for each model; chains with the same source and the same
                               edit belong to the same case

The images of a chain are found in one of three ways, tried in this order:

    manifest.json     {"source": "a.png", "trips": [{"forward": "b.png", "backward": "c.png"}, ...],
                       "model": "...", "pair": {"forward": "Add a hat.", "change": "local", ...}}
    named files       I0_source.png, I1_forward.png, I1_backward.png, I2_...; the forward images
                      may be missing
    sorted files      the source image first, then the restored images, or edited and restored
                      images in turn
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic

from evaluation.analysis.events import COMPLETED
from evaluation.content import catalog
from evaluation.content.chain_files import ChainFilesError, File, assign_files
from evaluation.content.operators import OPERATORS
from evaluation.content.sources import pixel_sha256
from evaluation.content.suites import Case, EditPair, Suite, SuiteImage, plain_slug
from evaluation.errors import UserFacingError
from evaluation.images import EncodedImage, ImageError
from evaluation.measuring.scoring import Scorer
from evaluation.play.finish import finish
from evaluation.play.folder_scores import MemoryScores
from evaluation.play.run_folder import chain_slug
from evaluation.play.run_scores import RunScores
from evaluation.play.score import score
from evaluation.play.store import PlayedTrips
from evaluation.untrusted_json import read_json_file
from evaluation.witnesses.judge import Judge

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
#: The edit pair of a chain without a description: a local object is added, then removed.
DEFAULT_PAIR = EditPair(
    "own", "own", "the forward edit", "the backward edit", change="local", reversibility="clean"
)
PAIR_FIELDS = ("forward", "backward", "change", "operator", "category", "object")


class ChainFolderError(UserFacingError):
    """A folder that does not contain a valid chain."""


@dataclass(frozen=True)
class ExternalChain(Generic[File]):
    """The files of a chain: the source, and for each trip (forward or None, backward)."""

    name: str
    source: File
    trips: tuple[tuple[File | None, File], ...]
    pair: EditPair = DEFAULT_PAIR


def find_chain(folder: Path, *, in_turn: bool = False) -> ExternalChain[Path]:
    """Return the chain in the folder. Raises ChainFolderError naming the problem.

    With `in_turn`, sorted files are edited and restored images in turn.
    """
    if not folder.is_dir():
        raise ChainFolderError(f"there is no folder {folder}")
    if (folder / "manifest.json").is_file():
        return _from_manifest(folder)
    files = [f for f in folder.iterdir() if f.suffix.lower() in SUFFIXES and f.is_file()]
    if not files:
        raise ChainFolderError(
            f"{folder} contains no image ({', '.join(SUFFIXES)}) and no manifest.json"
        )
    try:
        chain_files = assign_files(files, lambda file: file.name, in_turn=in_turn)
    except ChainFilesError as error:
        raise ChainFolderError(f"{folder}: {error}") from None
    return ExternalChain(folder.resolve().name, chain_files.source, chain_files.trips)


def _from_manifest(folder: Path) -> ExternalChain[Path]:
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
            raise ChainFolderError(f'{file}: trip {number} has no "backward" image')
        forward = trip.get("forward")
        trips.append(
            (_inside(folder, forward) if forward else None, _inside(folder, trip["backward"]))
        )
    if "source" not in data:
        raise ChainFolderError(f'{file}: "source" is missing')
    pair = data.get("pair") or {}
    if not isinstance(pair, dict):
        raise ChainFolderError(f'{file}: "pair" must be an object')
    return ExternalChain(
        str(data.get("model") or folder.resolve().name),
        _inside(folder, data["source"]),
        tuple(trips),
        changed_pair(DEFAULT_PAIR, pair),
    )


def catalog_pair(slug: str) -> EditPair:
    """Return the benchmark's edit pair with this slug. Raises ChainFolderError if unknown."""
    pairs = {row.slug: row.pair for row in catalog.edit_pairs()}
    if slug not in pairs:
        near = difflib.get_close_matches(slug, pairs, 3)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise ChainFolderError(f"there is no edit pair {slug!r}{hint}")
    return pairs[slug]


def changed_pair(pair: EditPair, changes: Mapping[str, Any]) -> EditPair:
    """Return the pair with some fields changed; an operator sets `change` to "exact"."""
    fields: dict[str, Any] = {k: str(v) for k, v in changes.items() if k in PAIR_FIELDS and v}
    operator = fields.get("operator", pair.operator)
    if operator and operator not in OPERATORS:
        raise ChainFolderError(f"unknown operator {operator!r}; choose from {', '.join(OPERATORS)}")
    if operator:
        fields["change"] = "exact"
    if fields.get("change", pair.change) not in ("exact", "local", "global", "none"):
        raise ChainFolderError(
            f"change must be exact, local, global or none, not {fields['change']!r}"
        )
    if fields.get("change", pair.change) == "exact" and not operator:
        raise ChainFolderError("change is exact, but operator is empty")
    return replace(pair, **fields)


def _inside(folder: Path, name: Any) -> Path:
    """Return a file in the folder. Raises ChainFolderError for paths that leave the folder."""
    shown = str(name)[:200]
    try:
        file = (folder / str(name)).resolve()
        if not file.is_relative_to(folder.resolve()):
            raise ChainFolderError(f"{shown} is outside {folder}")
        if not file.is_file():
            raise ChainFolderError(f"{folder} has no file {shown}")
    except OSError as error:
        raise ChainFolderError(f"{folder}: {shown} is not a file: {error.strerror}") from None
    return file


def read_image(file: Path) -> EncodedImage:
    """Read an image file. Raises ChainFolderError if it cannot be read."""
    try:
        return EncodedImage.from_bytes(file.read_bytes())
    except (OSError, ImageError) as error:
        raise ChainFolderError(f"{file}: {error}") from error


def cut_to_readable(
    chain: ExternalChain[Path], on_cut: Callable[[str], object]
) -> ExternalChain[Path]:
    """Cut a chain off before its first unreadable image.

    Calls `on_cut` with a message if trips were cut off. Raises ChainFolderError if no trip is left.
    """
    for number, trip in enumerate(chain.trips):
        try:
            for file in filter(None, trip):
                read_image(file)
        except ChainFolderError as error:
            if not number:
                raise
            on_cut(
                f"{error}. Only {number} of the {len(chain.trips)} trips of {chain.name} can be "
                "scored"
            )
            return replace(chain, trips=chain.trips[:number])
    return chain


@dataclass(frozen=True)
class PlacedChain:
    """A chain with its image, pair and repeat in the suite built from all chains."""

    chain: ExternalChain[Any]
    image: str
    pair: EditPair
    repeat: int

    @property
    def slug(self) -> str:
        return chain_slug(Case(self.image, self.pair.slug).slug, self.repeat)


@dataclass(frozen=True)
class ExternalRuns:
    """The chains of every model, by model and slug, as runs of one suite."""

    suite: Suite
    runs: Mapping[str, Mapping[str, PlacedChain]]

    @property
    def trips(self) -> int:
        return self.suite.trips * sum(map(len, self.runs.values()))


def is_chain(folder: Path) -> bool:
    """Return True if the folder itself contains the images of a chain."""
    return (folder / "manifest.json").is_file() or any(
        file.suffix.lower() in SUFFIXES for file in folder.iterdir() if file.is_file()
    )


def find_runs(
    folder: Path,
    *,
    in_turn: bool = False,
    name: str = "",
    change_pair: Callable[[EditPair], EditPair] = lambda pair: pair,
    on_cut: Callable[[str], object] = lambda message: None,
) -> ExternalRuns:
    """Return the chain in the folder, or all chains below it. Raises ChainFolderError.

    Each chain is cut off before its first unreadable image, and `on_cut` is called with a message.
    """
    if is_chain(folder):
        chain = cut_to_readable(find_chain(folder, in_turn=in_turn), on_cut)
        return build_runs({name or chain.name: [(chain.name, chain)]}, change_pair)
    chains = {
        name or folder.resolve().name: _chains(folder, in_turn),
        **{child.name: _chains(child, in_turn) for child in _folders(folder)},
    }
    chains = {
        model: [(slug, cut_to_readable(chain, on_cut)) for slug, chain in rows]
        for model, rows in chains.items()
    }
    chains = {model: rows for model, rows in chains.items() if rows}
    if not chains:
        raise ChainFolderError(
            f"{folder} contains no image ({', '.join(SUFFIXES)}), no manifest.json and no folder "
            "of a chain"
        )
    return build_runs(chains, change_pair)


class ExternalScores(MemoryScores):
    """The scores of one model's chains; `read` decodes an image file."""

    def __init__(
        self,
        suite: Suite,
        scorer: Scorer,
        placed: Mapping[str, PlacedChain],
        read: Callable[[Any], EncodedImage],
        on_trips: Callable[[int], object] = lambda count: None,
    ) -> None:
        super().__init__(suite, scorer, on_trips)
        self.placed, self.read = placed, read

    def chains(self) -> Iterator[PlayedTrips]:
        for slug, placed in self.placed.items():
            scored = self.scores.get(slug)
            yield PlayedTrips(
                placed,
                slug,
                placed.pair,
                None,
                COMPLETED,
                len(placed.chain.trips),
                len(scored.trips) if scored else 0,
            )

    def source(self, chain: PlayedTrips) -> EncodedImage:
        return self.read(chain.key.chain.source)

    def answer(self, chain: PlayedTrips, trip: int, place: int) -> EncodedImage | None:
        file = chain.key.chain.trips[trip - 1][place]
        return self.read(file) if file else None


def score_runs(
    external: ExternalRuns,
    scorer: Scorer,
    judge: Judge | None = None,
    *,
    read: Callable[[Any], EncodedImage] = lambda file: read_image(file),
    on_trips: Callable[[int], object] = lambda count: None,
) -> dict[str, RunScores]:
    """Score every model's chains; `read` decodes an image file."""
    scores: dict[str, RunScores] = {}
    for model, placed in external.runs.items():
        store = ExternalScores(external.suite, scorer, placed, read, on_trips)
        score(store, scorer)
        finish(store, judge)
        scores[model] = store.run_scores()
    return scores


def _folders(folder: Path) -> list[Path]:
    return sorted(child for child in folder.iterdir() if child.is_dir() and child.name[0] != ".")


def _chains(folder: Path, in_turn: bool) -> list[tuple[str, ExternalChain[Path]]]:
    """Return the chains in the subfolders, by name, without folders of reports."""
    return [
        (child.name, find_chain(child, in_turn=in_turn))
        for child in ([] if is_chain(folder) else _folders(folder))
        if is_chain(child) and not (child / "index.html").is_file()
    ]


def build_runs(
    chains: Mapping[str, Sequence[tuple[str, ExternalChain[Any]]]],
    change_pair: Callable[[EditPair], EditPair] = lambda pair: pair,
    read: Callable[[Any], EncodedImage] = lambda file: read_image(file),
) -> ExternalRuns:
    """Build one suite from the chains of every model.

    `chains` lists the folder name and the chain of each folder, by model. `change_pair` changes
    the description of an edit; `read` decodes an image file.
    """
    # Chains are comparable only if all are as long as the shortest.
    trips = min(len(chain.trips) for rows in chains.values() for _, chain in rows)
    images: dict[str, SuiteImage] = {}
    pairs: dict[EditPair, EditPair] = {}
    runs: dict[str, dict[str, PlacedChain]] = {}
    repeats: Counter[tuple[str, str]] = Counter()
    for model, rows in chains.items():
        seen: Counter[tuple[str, str]] = Counter()
        runs[model] = {}
        for folder, chain in rows:
            source = read(chain.source)
            key = pixel_sha256(source.decoded)
            if key not in images:
                images[key] = SuiteImage(
                    slug=f"source-{len(images) + 1}",
                    sha256=key,
                    width=source.width,
                    height=source.height,
                    kind="own",
                    origin=f"own:{folder}",
                    title=folder,
                    author="",
                    licence="",
                    attribution="",
                )
            image = images[key]
            described = change_pair(chain.pair)
            # Without a description of the edit, every folder counts as a different edit.
            if described == DEFAULT_PAIR:
                described = replace(DEFAULT_PAIR, forward=f"{DEFAULT_PAIR.forward} of {folder}")
            slug = f"own-{len(pairs) + 1}-{plain_slug(described.object or folder, 40)}"
            pair = pairs.setdefault(described, replace(described, slug=slug))
            case = (image.slug, pair.slug)
            chain = replace(chain, trips=chain.trips[:trips])
            placed = PlacedChain(chain, image.slug, pair, seen[case])
            seen[case] += 1
            runs[model][placed.slug] = placed
        repeats |= seen
    count = sum(repeats.values())
    suite = Suite(
        slug="own-chains",
        version=1,
        title=f"{'a chain' if count == 1 else f'{count} own chains'} of {trips} "
        f"trip{'s' if trips > 1 else ''}",
        trips=trips,
        size=max(max(image.width, image.height) for image in images.values()),
        images=tuple(images.values()),
        pairs=tuple(pairs.values()),
        cases=tuple(Case(image, pair, count) for (image, pair), count in repeats.items()),
    )
    return ExternalRuns(suite, runs)
