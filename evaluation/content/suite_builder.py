"""Suites drafted by filters: which pictures meet which pairs, balanced and reproducible.

`python -m evaluation.content.suite_builder` builds the suites that ship again and writes
them to fixtures/suites/; `--check` only says whether they are up to date.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from evaluation.content import catalog, curation, sources
from evaluation.content.suites import Case, EditPair, SourcePicture, Suite, SuiteError
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
    description: str = ""
    kinds: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()  # beginnings of origins, such as "skimage:"
    picture_slugs: tuple[str, ...] = ()
    without_subkinds: tuple[str, ...] = ()
    smallest_side: int = 0  # of the prepared picture, in pixels
    categories: tuple[str, ...] = ()
    pair_slugs: tuple[str, ...] = ()

    def takes_picture(self, picture: SourcePicture | catalog.SourceImage) -> bool:
        return (
            (not self.kinds or picture.kind in self.kinds)
            and (not self.made or picture.made in self.made)
            and (not self.origins or picture.origin.startswith(self.origins))
            and (not self.picture_slugs or picture.slug in self.picture_slugs)
            and picture.subkind not in self.without_subkinds
        )

    def takes_pair(self, pair: EditPair) -> bool:
        return (not self.categories or pair.category in self.categories) and (
            not self.pair_slugs or pair.slug in self.pair_slugs
        )


def build(draft: Draft, candidates: Iterable[Candidate], pairs: Iterable[EditPair]) -> Suite:
    """The suite of a draft: the same draft and content give the same suite, in any order.

    Every stratum (kind x category) gets its share of cases; within it the picture
    with the fewest cases and the pair used least come first.
    """
    taken = [
        one
        for one in candidates
        if draft.takes_picture(one.picture)
        and min(one.picture.width, one.picture.height) >= draft.smallest_side
    ]
    usable_pairs = [pair for pair in pairs if draft.takes_pair(pair)]
    possible = _possible_cases(taken, usable_pairs)
    shares = dict(draft.shares) or _even_shares(draft.cases, possible)
    cases = _choose(possible, shares, draft.seed)
    if not cases:
        raise SuiteError("no picture fits any pair under these filters")
    used_pictures = {case.picture for case in cases}
    used_pairs = {case.pair for case in cases}
    return Suite(
        slug=draft.slug,
        version=draft.version,
        title=draft.title,
        description=draft.description,
        trips=draft.trips,
        size=draft.size,
        repeats=draft.repeats,
        pictures=tuple(
            sorted(
                (c.picture for c in taken if c.picture.slug in used_pictures),
                key=lambda picture: picture.slug,
            )
        ),
        pairs=tuple(
            sorted((p for p in usable_pairs if p.slug in used_pairs), key=lambda pair: pair.slug)
        ),
        cases=tuple(sorted(cases, key=lambda case: (case.picture, case.pair))),
    )


def candidate(source: catalog.SourceImage, size: int) -> Candidate:
    """A catalogued picture at a working size; OriginError or ImageError when it cannot be had."""
    data = sources.original(source.origin, source.sha256)
    return prepared(source, sources.prepare(Picture.from_bytes(data).image, size))


def prepared(source: Any, image: Image.Image) -> Candidate:
    """The candidate of a prepared image; `source` is a row of the catalogue or of the database."""
    return from_facts(source, facts(image))


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


def from_facts(source: Any, known: Facts) -> Candidate:
    """The candidate of an image whose facts are known, without its pixels."""
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
    )
    return Candidate(picture, known.symmetric_under)


def balance(suite: Suite) -> dict[Stratum, int]:
    """How many cases each stratum has."""
    return dict(
        Counter(
            (suite.picture_by_slug[case.picture].kind, suite.pair_by_slug[case.pair].category)
            for case in suite.cases
        )
    )


def _possible_cases(
    candidates: Sequence[Candidate], pairs: Sequence[EditPair]
) -> dict[Stratum, list[Case]]:
    possible: dict[Stratum, list[Case]] = {}
    for one in candidates:
        for pair in pairs:
            if not curation.fits(one.picture, pair, one.symmetric_under):
                stratum = (one.picture.kind, pair.category)
                possible.setdefault(stratum, []).append(Case(one.picture.slug, pair.slug))
    return possible


def _even_shares(total: int, possible: Mapping[Stratum, Sequence[Case]]) -> dict[Stratum, int]:
    """The same number everywhere; what a small stratum cannot hold goes to the others."""
    shares = dict.fromkeys(sorted(possible), 0)
    while sum(shares.values()) < total:
        roomy = [stratum for stratum in shares if shares[stratum] < len(possible[stratum])]
        if not roomy:
            break
        shares[min(roomy, key=lambda stratum: shares[stratum])] += 1
    return shares


def _choose(
    possible: Mapping[Stratum, Sequence[Case]], shares: Mapping[Stratum, int], seed: int
) -> list[Case]:
    chosen: list[Case] = []
    of_picture: Counter[str] = Counter()
    of_pair: Counter[str] = Counter()
    # The narrowest stratum first, while its pictures are still free.
    for stratum in sorted(shares, key=lambda s: (len(possible.get(s, ())), s)):
        left = list(possible.get(stratum, ()))
        if len(left) < shares[stratum]:
            raise SuiteError(
                f"{shares[stratum]} cases of {' x '.join(stratum)} are asked for, "
                f"but only {len(left)} fit"
            )
        in_stratum: Counter[str] = Counter()
        for _ in range(shares[stratum]):
            best = min(
                left,
                key=lambda case: (
                    in_stratum[case.picture],
                    of_picture[case.picture],
                    of_pair[case.pair],
                    _lot(seed, case),
                ),
            )
            left.remove(best)
            chosen.append(best)
            in_stratum[best.picture] += 1
            of_picture[best.picture] += 1
            of_pair[best.pair] += 1
    return chosen


def _lot(seed: int, case: Case) -> str:
    # A hash, not random.Random: adding a picture must not reshuffle all others.
    return hashlib.sha256(f"{seed}:{case.slug}".encode()).hexdigest()


SHIPPED = (
    Draft(
        slug="smoke",
        title="Smoke",
        description="Six pictures that come with scikit-image: seconds per reference editor.",
        trips=5,
        size=256,
        picture_slugs=("astronaut", "chelsea", "coffee", "coins", "rocket", "camera"),
        pair_slugs=(
            *("glasses", "sunglasses", "hat", "crown"),
            *("red-ball", "book", "cat-left", "balloon", "butterfly", "umbrella"),
            *("bicycle", "chair-left", "potted-plant", "apple"),
            *("flip-horizontal", "flip-vertical", "rotate-180"),
            *("rotate-clockwise", "rotate-counterclockwise"),
        ),
        shares={
            ("face", "accessories"): 4,
            ("face", "geometric"): 2,
            ("object", "scene-objects"): 4,
            ("object", "geometric"): 2,
            ("scene", "scene-objects"): 4,
            ("scene", "geometric"): 2,
        },
    ),
    Draft(
        slug="lite",
        title="Lite",
        description="Twelve pictures that need no download, half of them rendered: a first ranking "
        "for the price of 480 edits.",
        trips=10,
        size=512,
        picture_slugs=(
            *("astronaut", "grace-hopper", "bust", "snowman"),
            *("coffee", "flower", "fruit", "toys"),
            *("china", "rocket", "living-room", "street-corner"),
        ),
        shares={
            ("face", "accessories"): 5,
            ("face", "geometric"): 3,
            ("object", "scene-objects"): 5,
            ("object", "geometric"): 3,
            ("scene", "scene-objects"): 5,
            ("scene", "geometric"): 3,
        },
    ),
    Draft(
        slug="v1",
        title="ConvergeBench v1",
        description="Faces, objects and scenes, photographed, painted and rendered, at about one "
        "megapixel: the suite of the board. Part of the pictures comes from npm.",
        trips=20,
        size=1024,
        without_subkinds=("texture",),
        smallest_side=384,
        shares={
            ("face", "accessories"): 60,
            ("face", "geometric"): 30,
            ("object", "scene-objects"): 65,
            ("object", "geometric"): 40,
            ("scene", "scene-objects"): 65,
            ("scene", "geometric"): 40,
        },
    ),
    Draft(
        slug="replication",
        title="Replication",
        description="“Produce an exact replica”, a hundred times over, on twelve textures. "
        "A model that returns its input is right here.",
        trips=50,
        size=1024,
        cases=12,
        categories=("replication",),
        picture_slugs=(
            *("brick", "grass", "gravel", "tissue", "retina", "hubble-deep-field"),
            *("chelsea", "china", "flower", "kitchen-shelf", "cupcakes", "garden-path"),
        ),
    ),
)


def shipped(draft: Draft) -> Suite:
    """A shipped suite, built from the active content of the catalog."""
    sources = [
        s for s in catalog.source_images() if s.status == "active" and draft.takes_picture(s)
    ]
    active = [pair.pair for pair in catalog.edit_pairs() if pair.status == "active"]
    return build(draft, (candidate(source, draft.size) for source in sources), active)


def suite_path(suite: Suite) -> Path:
    return catalog.folder() / "suites" / f"{suite.key}.json"


def write(suite: Suite, overwrite: bool = False) -> Path:
    """Write the suite's file; a frozen version that would change is refused."""
    path = suite_path(suite)
    if path.is_file() and not overwrite and Suite.read(path).content_hash != suite.content_hash:
        raise SuiteError(
            f"{path.name} is frozen and would change; give the draft a new version, or say "
            "--overwrite while nobody has played it"
        )
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(suite.to_dict(), indent=1, ensure_ascii=False) + "\n", "utf-8")
    return path


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m evaluation.content.suite_builder", description=__doc__
    )
    parser.add_argument("suites", nargs="*", help="slugs; all that ship when left out")
    parser.add_argument("--check", action="store_true", help="write nothing, compare only")
    parser.add_argument("--overwrite", action="store_true", help="even where a version differs")
    options = parser.parse_args(arguments)
    stale = 0
    for draft in SHIPPED:
        if options.suites and draft.slug not in options.suites:
            continue
        suite = shipped(draft)
        path = suite_path(suite)
        same = path.is_file() and Suite.read(path).content_hash == suite.content_hash
        if not same and not options.check:
            try:
                write(suite, options.overwrite)
            except SuiteError as error:
                parser.error(str(error))
        stale += not same
        state = "unchanged" if same else "differs" if options.check else "written"
        sys.stdout.write(
            f"{suite.slug} v{suite.version}: {state}, {len(suite.pictures)} pictures, "
            f"{len(suite.cases)} cases, {suite.edits} edits, {suite.content_hash[:12]}\n"
        )
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
