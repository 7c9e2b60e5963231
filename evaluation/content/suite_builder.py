"""Draft suites by filters: which images meet which pairs, balanced and reproducible.

`python -m evaluation.content.suite_builder` builds the shipped suites again and writes them to
fixtures/suites/; `--check` only says whether they are up to date.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from PIL import Image

from evaluation.content import catalog, curation, sources
from evaluation.content.annotations import UNANNOTATED, Annotations
from evaluation.content.suites import Case, EditPair, SourcePicture, Suite, SuiteError
from evaluation.images import Picture

Stratum = tuple[str, str]  # kind of picture, category of pair
#: The largest share of a category, so that no single kind of edit decides the order.
LARGEST_SHARE = 0.25
#: With fewer, intervals and ranks have no meaning (method, section 6).
FEWEST_PICTURES, FEWEST_PAIRS = 10, 12


@dataclass(frozen=True)
class Candidate:
    """A prepared image, and the operators that have no visible effect on it."""

    picture: SourcePicture
    symmetric_under: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Draft:
    """A suite to be built. Empty filters let everything through."""

    slug: str
    title: str
    trips: int
    size: int
    cases: int = 0  # spread evenly over the strata; 0 if `shares` gives the numbers
    shares: Mapping[Stratum, int] = field(default_factory=dict)
    seed: int = 0
    version: int = 1
    repeats: int = 1
    repeated: int = 0  # this many cases, spread over the suite, are played twice
    description: str = ""
    importance: int = 0  # a board opens on the most important suite that has results
    stop_after: int = 0  # the default of runs, see evaluation.analysis.stopping; 0: never
    kinds: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()  # beginnings of origins, such as "skimage:"
    picture_slugs: tuple[str, ...] = ()
    without_pictures: tuple[str, ...] = ()
    without_subkinds: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()  # a picture must contain at least one of these labels
    smallest_side: int = 0  # of the prepared picture, in pixels
    categories: tuple[str, ...] = ()
    pair_slugs: tuple[str, ...] = ()
    without_pairs: tuple[str, ...] = ()
    without_cases: tuple[str, ...] = ()
    must_pictures: tuple[str, ...] = ()  # in at least one case each, independent of the draw
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
            # Restoration pairs are not round trips, and are taken only by their category.
            and (pair.change != "operator" or pair.category in self.categories)
            and (not self.pair_slugs or pair.slug in self.pair_slugs)
            and pair.slug not in self.without_pairs
        )


def candidate(source: catalog.SourceImage, size: int) -> Candidate:
    """Prepare a catalogued image at a working size. Raises OriginError, ImageError."""
    image = Picture.from_bytes(sources.original(source.origin, source.sha256)).image
    places = sources.prepare_annotations(source.annotations, image.size, size)
    return from_facts(source, facts(sources.prepare(image, size)), places)


@dataclass(frozen=True)
class Facts:
    """The facts of a prepared image that a suite needs; small enough to store."""

    sha256: str
    width: int
    height: int
    symmetric_under: frozenset[str]


def facts(image: Image.Image) -> Facts:
    """Return the hash and size of an image, and the operators with no visible effect."""
    return Facts(sources.pixel_sha256(image), image.width, image.height, curation.symmetries(image))


def from_facts(source: Any, measured: Facts, places: Annotations = UNANNOTATED) -> Candidate:
    """Return the candidate of an image from its facts, without its pixels.

    `source` is a row of the catalogue or of the database, `places` are its annotations on the
    prepared picture.
    """
    picture = SourcePicture(
        slug=source.slug,
        sha256=measured.sha256,
        width=measured.width,
        height=measured.height,
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
    return Candidate(picture, measured.symmetric_under)


# Building.


def build(draft: Draft, candidates: Iterable[Candidate], pairs: Iterable[EditPair]) -> Suite:
    """Build the suite of a draft; the order of its content does not matter.

    Every stratum (kind x category) gets its share of cases; within it the pair used least
    and the picture with the fewest cases come first. Required content is chosen before.
    """
    taken = [
        item
        for item in candidates
        if draft.takes_picture(item.picture)
        and min(item.picture.width, item.picture.height) >= draft.smallest_side
    ]
    usable_pairs = [pair for pair in pairs if draft.takes_pair(pair)]
    possible = _possible_cases(taken, usable_pairs, frozenset(draft.without_cases))
    required = _required(draft, possible)
    shares = dict(draft.shares) or _even_shares(draft.cases, possible, required)
    cases = _choose(possible, shares, draft.seed, required)
    if not cases:
        raise SuiteError("no picture fits any pair under these filters")
    cases = _repeated(cases, draft.repeated, draft.seed)
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


def refusals(suite: Suite, narrow: bool = False) -> list[str]:
    """Return the reasons against freezing the suite; empty if there are none.

    `narrow`: it may have few pictures, pairs or categories.
    """
    reasons = []
    counts = Counter(suite.pair_by_slug[case.pair].category for case in suite.cases)
    for category, count in sorted(counts.items()):
        if count > LARGEST_SHARE * len(suite.cases) and not narrow:
            reasons.append(
                f"{category} has {count} of {len(suite.cases)} cases; no category may have more "
                "than a quarter"
            )
    for what, actual, fewest in (
        ("pictures", len(suite.pictures), FEWEST_PICTURES),
        ("pairs", len(suite.pairs), FEWEST_PAIRS),
    ):
        if actual < fewest and not narrow:
            reasons.append(f"{actual} {what} are too few to compare models: at least {fewest}")
    for case in suite.cases:
        picture, pair = suite.picture_by_slug[case.picture], suite.pair_by_slug[case.pair]
        reasons += [f"{case.slug}: {reason}" for reason in curation.fits(picture, pair)]
    return reasons


def balance(suite: Suite) -> dict[Stratum, int]:
    """Count the cases of each stratum."""
    return dict(
        Counter(
            (suite.picture_by_slug[case.picture].kind, suite.pair_by_slug[case.pair].category)
            for case in suite.cases
        )
    )


def _possible_cases(
    candidates: Sequence[Candidate], pairs: Sequence[EditPair], without: Set[str]
) -> dict[Stratum, list[Case]]:
    possible: dict[Stratum, list[Case]] = {}
    for item in candidates:
        for pair in pairs:
            case = Case(item.picture.slug, pair.slug)
            if case.slug in without or curation.fits(item.picture, pair, item.symmetric_under):
                continue
            possible.setdefault((item.picture.kind, pair.category), []).append(case)
    return possible


def _required(
    draft: Draft, possible: Mapping[Stratum, Sequence[Case]]
) -> dict[Stratum, list[Case]]:
    """Choose few cases that contain every required picture and pair."""
    cases = [(stratum, case) for stratum, rows in possible.items() for case in rows]
    wanted = {*(("picture", slug) for slug in draft.must_pictures)}
    wanted |= {("pair", slug) for slug in draft.must_pairs}
    chosen: dict[Stratum, list[Case]] = {}
    pictures: Counter[str] = Counter()
    for what, slug in sorted(wanted):
        fitting = [(s, case) for s, case in cases if getattr(case, what) == slug]
        if not fitting:
            raise SuiteError(
                f"the {what} {slug} must be included, but fits none under these filters"
            )
        if any(getattr(case, what) == slug for rows in chosen.values() for case in rows):
            continue
        stratum, best = min(
            fitting,
            key=lambda item: (
                # A case that meets two requirements comes first, then the least used picture.
                -sum((kind, getattr(item[1], kind)) in wanted for kind in ("picture", "pair")),
                pictures[item[1].picture],
                len(chosen.get(item[0], ())),
                _lot(draft.seed, item[1]),
            ),
        )
        chosen.setdefault(stratum, []).append(best)
        pictures[best.picture] += 1
    return chosen


def _even_shares(
    total: int,
    possible: Mapping[Stratum, Sequence[Case]],
    required: Mapping[Stratum, Sequence[Case]],
) -> dict[Stratum, int]:
    """Share the cases evenly; cases beyond a small stratum go to the others.

    Kinds and categories take turns: the first four cases are not four faces.
    """
    shares = {stratum: len(required.get(stratum, ())) for stratum in sorted(possible)}
    kinds: Counter[str] = Counter()
    categories: Counter[str] = Counter()
    for (kind, category), count in shares.items():
        kinds[kind] += count
        categories[category] += count
    while sum(shares.values()) < total:
        roomy = [stratum for stratum in shares if shares[stratum] < len(possible[stratum])]
        if not roomy:
            break
        chosen = min(roomy, key=lambda s: (shares[s], kinds[s[0]], categories[s[1]]))
        shares[chosen] += 1
        kinds[chosen[0]] += 1
        categories[chosen[1]] += 1
    return shares


def _choose(
    possible: Mapping[Stratum, Sequence[Case]],
    shares: Mapping[Stratum, int],
    seed: int,
    required: Mapping[Stratum, Sequence[Case]],
) -> list[Case]:
    chosen = [case for stratum in sorted(required) for case in required[stratum]]
    of_picture = Counter(case.picture for case in chosen)
    of_pair = Counter(case.pair for case in chosen)
    # The smallest stratum first, while its pictures are still unused.
    for stratum in sorted(shares, key=lambda s: (len(possible.get(s, ())), s)):
        there = required.get(stratum, ())
        left = [case for case in possible.get(stratum, ()) if case not in there]
        more = shares[stratum] - len(there)
        if len(left) < more:
            raise SuiteError(
                f"{shares[stratum]} cases of {' x '.join(stratum)} are asked for, "
                f"but only {len(left) + len(there)} fit"
            )
        in_stratum = Counter(case.picture for case in there)
        for _ in range(more):
            best = min(
                left,
                key=lambda case: (
                    of_pair[case.pair],
                    in_stratum[case.picture],
                    of_picture[case.picture],
                    _lot(seed, case),
                ),
            )
            left.remove(best)
            chosen.append(best)
            in_stratum[best.picture] += 1
            of_picture[best.picture] += 1
            of_pair[best.pair] += 1
    return chosen


def _repeated(cases: Sequence[Case], count: int, seed: int) -> list[Case]:
    """Mark `count` cases to be played twice, spread over pictures and pairs."""
    again: set[str] = set()
    of_picture: Counter[str] = Counter()
    of_pair: Counter[str] = Counter()
    while len(again) < min(count, len(cases)):
        best = min(
            (case for case in cases if case.slug not in again),
            key=lambda case: (of_picture[case.picture], of_pair[case.pair], _lot(seed + 1, case)),
        )
        again.add(best.slug)
        of_picture[best.picture] += 1
        of_pair[best.pair] += 1
    return [replace(case, repeats=2) if case.slug in again else case for case in cases]


def _lot(seed: int, case: Case) -> str:
    # A hash, not random.Random: adding a picture must not reshuffle all others.
    return hashlib.sha256(f"{seed}:{case.slug}".encode()).hexdigest()


# The suites that ship.


def _shares(**categories: Mapping[str, int]) -> dict[Stratum, int]:
    """Return shares by stratum, given by category and kind."""
    return {(kind, cat): n for cat, shares in categories.items() for kind, n in shares.items()}


#: Cases in which the reference editors' drawing is too faint for "change seen".
TOO_FAINT = (
    "bearded-man-before-leaves--clothes-red",
    "camera--bicycle",
    "charpentier-family--umbrella",
    "green-car--umbrella",
    "hedgehog--caption-thank-you",
    "hiker--bird",
    "jam-jars--jar-label",
    "manuel-osorio--party-hat",
    "two-shuttles--umbrella",
    "van-der-neer-sunset--balloon",
    "woman-in-a-wheat-field--necklace",
    "woman-with-a-bob--necklace",
    "yi-gilbo--earrings",
)


#: Cases in which a drawing seen from the front lies beside a head that is turned.
TURNED_HEADS = (
    "calvin-coolidge--beard",
    "man-in-orange-light--headphones",
    "man-in-orange-light--mask",
    "maria-portinari--mask",
    "tommaso-portinari--beard",
    "ulysses-grant--mask",
)
#: Used only in the suite of large pictures.
FOR_THEIR_SIZE = ("dragonfly", "nuthatch", "stone-table-at-sunset")
#: The scenes of the study of Nano Banana 2 for restoration, and our picture for each.
RESTORED = {
    "Aerial view": "two-shuttles",
    "Animal fur": "raccoon",
    "Architecture": "white-tower",
    "Cartoon or comic": "little-dragon",
    "Large face": "woman-with-freckles",
    "Medium face": "astronaut",
    "Small face": "woman-crossing-the-street",
    "Crowd": "discovery-at-sunrise",
    "Text": "chalkboard",
    "Hands and feet": "woman-with-painted-cheeks",
    "Trees and leaves": "forest-stream",
    "Hand-drawn": "flower-book",
    "Fabric texture": "man-in-a-checked-shirt",
}


SHIPPED = (
    Draft(
        slug="smoke",
        version=2,
        importance=10,
        title="Smoke",
        description="A self-test, not a ranking: fourteen small pictures and fourteen edits that "
        "show in minutes whether an installation plays, scores and orders the yardsticks as it "
        "should. Compare models on Standard.",
        trips=8,
        size=256,
        picture_slugs=(
            "astronaut",
            "frowning-man",
            "woman-with-buns",
            "smiling-woman",
            "woman-with-a-bob",
            "coffee",
            "fruit",
            "toys",
            "desk",
            "mug",
            "books",
            "bottles",
            "china",
            "living-room",
            "beach",
            "desert",
            "park-bench",
            "bakery",
        ),
        pair_slugs=(
            "glasses",
            "crown",
            "necklace",
            "cap",
            "red-ball",
            "chair",
            "clock",
            "bird",
            "book",
            "apple",
            "negative",
            "swap-red-blue",
            "black-and-white",
            "flip-horizontal",
            "flip-vertical",
            "rotate-180",
            "caption-thank-you",
            "mug-evening",
            "caption-summer",
        ),
        shares=_shares(
            accessories={"face": 3},
            objects={"object": 1, "scene": 2},
            colour={"face": 1, "object": 1, "scene": 1},
            geometry={"face": 1, "object": 1, "scene": 1},
            text={"object": 1, "scene": 1},
        ),
    ),
    Draft(
        slug="lite",
        version=2,
        importance=20,
        stop_after=3,
        title="Lite",
        description="A first ranking for little money: forty cases of eight categories, a third "
        "of them played twice to see how much chance there is in a result.",
        trips=10,
        size=512,
        without_pictures=FOR_THEIR_SIZE,
        without_subkinds=("texture",),
        smallest_side=256,
        repeated=13,
        shares=_shares(
            accessories={"face": 5},
            appearance={"face": 5},
            objects={"face": 1, "object": 2, "scene": 2},
            colour={"face": 1, "object": 2, "scene": 2},
            light={"face": 1, "object": 1, "scene": 3},
            style={"face": 2, "object": 2, "scene": 1},
            text={"face": 1, "object": 3, "scene": 1},
            geometry={"face": 1, "object": 2, "scene": 2},
        ),
    ),
    Draft(
        slug="standard",
        importance=30,
        stop_after=3,
        title="Standard",
        description="The suite of the board: people, things and places, photographed, painted, "
        "rendered and generated, with eight categories of edits, each of the same weight.",
        trips=20,
        size=1024,
        without_pictures=FOR_THEIR_SIZE,
        without_subkinds=("texture",),
        smallest_side=384,
        without_cases=(*TOO_FAINT, *TURNED_HEADS),
        shares=_shares(
            accessories={"face": 38},
            appearance={"face": 38},
            objects={"face": 4, "object": 16, "scene": 18},
            colour={"face": 12, "object": 13, "scene": 13},
            light={"face": 8, "object": 10, "scene": 19},
            style={"face": 13, "object": 12, "scene": 12},
            text={"face": 8, "object": 16, "scene": 13},
            geometry={"face": 12, "object": 13, "scene": 12},
        ),
    ),
    Draft(
        slug="portraits",
        importance=15,
        stop_after=3,
        title="Portraits",
        description="People only, since that is what people edit, and where a small change "
        "makes another person.",
        trips=10,
        size=1024,
        needs=("person",),
        kinds=("face",),
        smallest_side=384,
        without_cases=(*TOO_FAINT, *TURNED_HEADS),
        shares=_shares(
            accessories={"face": 24},
            appearance={"face": 24},
            objects={"face": 8},
            colour={"face": 12},
            light={"face": 8},
            style={"face": 8},
            text={"face": 4},
            geometry={"face": 12},
        ),
    ),
    Draft(
        slug="replication",
        version=2,
        importance=5,
        title="Replication",
        description="“Produce an exact replica”, a hundred times over, on twelve textures and "
        "scenes. One pair alone: it shows wear, and ranks nobody. A model that returns its input "
        "is right here.",
        trips=50,
        size=1024,
        cases=12,
        categories=("replication",),
        narrow=True,
        picture_slugs=(
            "brick",
            "grass",
            "gravel",
            "tissue",
            "retina",
            "hubble-deep-field",
            "chelsea",
            "china",
            "flower",
            "kitchen-shelf",
            "cupcakes",
            "garden-path",
        ),
    ),
    Draft(
        slug="shapes",
        importance=3,
        title="Chain shapes",
        description="Trips of more than two edits: four quarter turns, two things that come and go "
        "in either order, three things one by one, a session of three turns. Few pictures and "
        "pairs: it shows how models fail there, and ranks nobody.",
        trips=4,
        size=256,
        narrow=True,
        shapes=True,
        picture_slugs=(
            "astronaut",
            "snowman",
            "camera",
            "globe",
            "robot",
            "concert-poster",
            "beach",
        ),
        shares=_shares(
            objects={"object": 6, "scene": 5},
            text={"object": 2, "scene": 2},
            geometry={"face": 2, "scene": 1},
        ),
    ),
    Draft(
        slug="restoration",
        importance=2,
        title="Restoration",
        description="Thirteen scenes, each degraded by us in seven ways; the model restores them. "
        "The scenes and degradations are those of the study of Nano Banana 2 for restoration, the "
        "pictures and the parameters ours: it states none. One pair for each degradation is too "
        "few for intervals: it ranks nobody.",
        trips=1,
        size=1024,
        cases=91,
        categories=("restoration",),
        narrow=True,
        picture_slugs=tuple(RESTORED.values()),
    ),
    Draft(
        slug="hires",
        importance=4,
        title="High resolution",
        description="The largest pictures that ship: five photographs of 3840 pixels (4K) and two "
        "of 2400 and 2560 (2K). It shows whether wear depends on size; seven pictures are too few "
        "to rank by.",
        trips=5,
        size=3136,
        smallest_side=1400,
        without_subkinds=("texture",),
        narrow=True,
        must_pictures=(*FOR_THEIR_SIZE, "dandelions", "man-with-glasses-outdoors"),
        shares=_shares(
            accessories={"face": 1},
            appearance={"face": 2},
            objects={"face": 1, "scene": 1},
            colour={"face": 1, "object": 1, "scene": 1},
            light={"face": 1, "object": 2},
            style={"face": 1, "object": 1, "scene": 1},
            text={"face": 1, "object": 1},
            geometry={"face": 1, "object": 2, "scene": 1},
            replication={"face": 1, "object": 1, "scene": 1},
        ),
    ),
)


def shipped(draft: Draft) -> Suite:
    """Build a shipped suite from the active content of the catalog."""
    sources = [
        s for s in catalog.source_images() if s.status == "active" and draft.takes_picture(s)
    ]
    active = [pair.pair for pair in catalog.edit_pairs() if pair.status == "active"]
    return build(draft, (candidate(source, draft.size) for source in sources), active)


def suite_path(suite: Suite) -> Path:
    return catalog.folder() / "suites" / f"{suite.key}.json"


def write(suite: Suite, overwrite: bool = False) -> Path:
    """Write the suite's file. Raises SuiteError if a frozen version would change."""
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
    """Build the suites named on the command line; return the exit code."""
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
        if reasons := refusals(suite, draft.narrow):
            parser.error(f"{suite.key} may not be frozen: {'; '.join(reasons[:5])}")
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
