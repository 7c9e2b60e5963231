"""Build suites from drafts: select images and pairs, balanced and reproducibly."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import yaml
from PIL import Image

from evaluation.content import catalog, curation, sources
from evaluation.content.annotations import UNANNOTATED, Annotations
from evaluation.content.datasheet import concentrations
from evaluation.content.suites import Case, EditPair, Suite, SuiteError, SuiteImage

Stratum = tuple[str, str]  # kind of image, category of pair
#: The largest share of a category, so that no single category decides the ranking.
LARGEST_SHARE = 0.25
#: With fewer images or pairs there are no intervals (docs/method.md, "Intervals").
MIN_IMAGES, MIN_PAIRS = 10, 12
#: Fields that a suite's image copies from its source image.
COPIED_FIELDS = (
    "slug",
    "kind",
    "origin",
    "title",
    "author",
    "licence",
    "attribution",
    "subkind",
    "source_url",
    "made",
    "contains",
)


@dataclass(frozen=True)
class Candidate:
    """A prepared image and the exact operators that have no visible effect on it."""

    image: SuiteImage
    symmetric_under: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Draft:
    """The description of a suite to be built. An empty filter accepts everything."""

    slug: str
    title: str
    trips: int
    size: int
    cases: int = 0  # spread evenly over the strata; 0 if `shares` gives the numbers
    shares: Mapping[Stratum, int] = field(default_factory=dict)
    seed: int = 0
    version: int = 1
    repeats: int = 1
    repeated: int = 0  # the number of cases to play twice, spread over the suite
    description: str = ""
    importance: int = 0  # the board opens with the most important suite that has results
    stop_after: int = 0  # the default for runs, see evaluation.analysis.stopping; 0: never
    kinds: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()  # prefixes of origins, such as "skimage:"
    image_slugs: tuple[str, ...] = ()
    without_images: tuple[str, ...] = ()
    without_subkinds: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()  # an image must have at least one of these labels
    smallest_side: int = 0  # of the prepared image, in pixels
    categories: tuple[str, ...] = ()
    pair_slugs: tuple[str, ...] = ()
    without_pairs: tuple[str, ...] = ()
    without_cases: tuple[str, ...] = ()
    must_images: tuple[str, ...] = ()  # required: each is in at least one case
    must_pairs: tuple[str, ...] = ()
    shapes: bool = False  # only pairs with a chain shape, else only pairs without one
    narrow: bool = False  # intentionally too small or one-sided to compare models

    def accepts_image(self, image: SuiteImage | catalog.SourceImage) -> bool:
        return (
            (not self.kinds or image.kind in self.kinds)
            and (not self.made or image.made in self.made)
            and (not self.origins or image.origin.startswith(self.origins))
            and (not self.image_slugs or image.slug in self.image_slugs)
            and image.slug not in self.without_images
            and image.subkind not in self.without_subkinds
            and (not self.needs or not set(self.needs).isdisjoint(image.contains))
        )

    def accepts_pair(self, pair: EditPair) -> bool:
        return (
            bool(pair.shape) == self.shapes
            and (not self.categories or pair.category in self.categories)
            # Restoration pairs are not round trips: a draft must name their category.
            and (pair.change != "operator" or pair.category in self.categories)
            and (not self.pair_slugs or pair.slug in self.pair_slugs)
            and pair.slug not in self.without_pairs
        )


@dataclass(frozen=True)
class Facts:
    """The properties of a prepared image that a suite needs; small enough to store."""

    sha256: str
    width: int
    height: int
    symmetric_under: frozenset[str]


def facts(image: Image.Image) -> Facts:
    """Return an image's hash and size, and the operators with no visible effect on it."""
    return Facts(sources.pixel_sha256(image), image.width, image.height, curation.symmetries(image))


def from_facts(source: Any, measured: Facts, places: Annotations = UNANNOTATED) -> Candidate:
    """Return a candidate from a source image and its facts, without reading pixels.

    `source` is a source image of the catalogue or the database. `places` are its annotations,
    in fractions of the prepared image.
    """
    copied = {name: getattr(source, name) for name in COPIED_FIELDS}
    image = SuiteImage(
        **copied | {"contains": tuple(source.contains)},
        sha256=measured.sha256,
        width=measured.width,
        height=measured.height,
        annotations=places,
    )
    return Candidate(image, measured.symmetric_under)


# Building.


def build(draft: Draft, candidates: Iterable[Candidate], pairs: Iterable[EditPair]) -> Suite:
    """Build the suite of a draft, independent of the order of candidates and pairs.

    Required images and pairs are chosen first. Then every stratum (kind x category) gets its share
    of cases, which use the least used pairs and images.
    """
    accepted = [
        item
        for item in candidates
        if draft.accepts_image(item.image)
        and min(item.image.width, item.image.height) >= draft.smallest_side
    ]
    usable_pairs = [pair for pair in pairs if draft.accepts_pair(pair)]
    possible = _possible_cases(accepted, usable_pairs, frozenset(draft.without_cases))
    required = _required(draft, possible)
    shares = dict(draft.shares) or _even_shares(draft.cases, possible, required)
    cases = _choose(possible, shares, draft.seed, required)
    if not cases:
        raise SuiteError("no image fits any pair under these filters")
    cases = _repeated(cases, draft.repeated, draft.seed)
    used_images = {case.image for case in cases}
    used_pairs = {case.pair for case in cases}
    return Suite(
        slug=draft.slug,
        version=draft.version,
        title=draft.title,
        description=draft.description,
        trips=draft.trips,
        size=draft.size,
        repeats=draft.repeats,
        images=tuple(
            sorted(
                (c.image for c in accepted if c.image.slug in used_images),
                key=lambda image: image.slug,
            )
        ),
        pairs=tuple(
            sorted((p for p in usable_pairs if p.slug in used_pairs), key=lambda pair: pair.slug)
        ),
        cases=tuple(sorted(cases, key=lambda case: (case.image, case.pair))),
    )


def refusals(suite: Suite, narrow: bool = False) -> list[str]:
    """Return the reasons against freezing the suite, if any.

    A `narrow` suite may have few images, pairs or categories.
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
        ("images", len(suite.images), MIN_IMAGES),
        ("pairs", len(suite.pairs), MIN_PAIRS),
    ):
        if actual < fewest and not narrow:
            reasons.append(
                f"{actual} {what} are too few to compare models: at least {fewest} are needed"
            )
    for case in suite.cases:
        image, pair = suite.image_by_slug[case.image], suite.pair_by_slug[case.pair]
        reasons += [f"{case.slug}: {reason}" for reason in curation.misfits(image, pair)]
    return reasons


def warnings(suite: Suite) -> list[str]:
    """Return warnings for the curator; unlike refusals, they do not prevent freezing."""
    return concentrations(suite.images)


def balance(suite: Suite) -> dict[Stratum, int]:
    """Count the cases of each stratum."""
    return dict(
        Counter(
            (suite.image_by_slug[case.image].kind, suite.pair_by_slug[case.pair].category)
            for case in suite.cases
        )
    )


def _possible_cases(
    candidates: Sequence[Candidate], pairs: Sequence[EditPair], without: Set[str]
) -> dict[Stratum, list[Case]]:
    possible: dict[Stratum, list[Case]] = {}
    for item in candidates:
        for pair in pairs:
            case = Case(item.image.slug, pair.slug)
            if case.slug in without or curation.misfits(item.image, pair, item.symmetric_under):
                continue
            possible.setdefault((item.image.kind, pair.category), []).append(case)
    return possible


def _required(
    draft: Draft, possible: Mapping[Stratum, Sequence[Case]]
) -> dict[Stratum, list[Case]]:
    """Choose a few cases that together contain every required image and pair."""
    cases = [(stratum, case) for stratum, rows in possible.items() for case in rows]
    wanted = {*(("image", slug) for slug in draft.must_images)}
    wanted |= {("pair", slug) for slug in draft.must_pairs}
    chosen: dict[Stratum, list[Case]] = {}
    images: Counter[str] = Counter()
    for what, slug in sorted(wanted):
        fitting = [(s, case) for s, case in cases if getattr(case, what) == slug]
        if not fitting:
            raise SuiteError(f"the required {what} {slug} fits nothing under these filters")
        if any(getattr(case, what) == slug for rows in chosen.values() for case in rows):
            continue
        stratum, best = min(
            fitting,
            key=lambda item: (
                # Prefer cases that meet two requirements, then the least used image.
                -sum((kind, getattr(item[1], kind)) in wanted for kind in ("image", "pair")),
                images[item[1].image],
                len(chosen.get(item[0], ())),
                _draw(draft.seed, item[1]),
            ),
        )
        chosen.setdefault(stratum, []).append(best)
        images[best.image] += 1
    return chosen


def _even_shares(
    total: int,
    possible: Mapping[Stratum, Sequence[Case]],
    required: Mapping[Stratum, Sequence[Case]],
) -> dict[Stratum, int]:
    """Divide the cases evenly between strata; full strata pass their share to the others.

    Kinds and categories take turns, so that the first four cases are not four faces.
    """
    shares = {stratum: len(required.get(stratum, ())) for stratum in sorted(possible)}
    kinds: Counter[str] = Counter()
    categories: Counter[str] = Counter()
    for (kind, category), count in shares.items():
        kinds[kind] += count
        categories[category] += count
    while sum(shares.values()) < total:
        not_full = [stratum for stratum in shares if shares[stratum] < len(possible[stratum])]
        if not not_full:
            break
        chosen = min(not_full, key=lambda s: (shares[s], kinds[s[0]], categories[s[1]]))
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
    of_image = Counter(case.image for case in chosen)
    of_pair = Counter(case.pair for case in chosen)
    # The smallest stratum first, while its images are still unused.
    for stratum in sorted(shares, key=lambda s: (len(possible.get(s, ())), s)):
        already = required.get(stratum, ())
        left = [case for case in possible.get(stratum, ()) if case not in already]
        more = shares[stratum] - len(already)
        if len(left) < more:
            raise SuiteError(
                f"the draft requests {shares[stratum]} cases of {' x '.join(stratum)}, "
                f"but only {len(left) + len(already)} fit"
            )
        in_stratum = Counter(case.image for case in already)
        for _ in range(more):
            best = min(
                left,
                key=lambda case: (
                    of_pair[case.pair],
                    in_stratum[case.image],
                    of_image[case.image],
                    _draw(seed, case),
                ),
            )
            left.remove(best)
            chosen.append(best)
            in_stratum[best.image] += 1
            of_image[best.image] += 1
            of_pair[best.pair] += 1
    return chosen


def _repeated(cases: Sequence[Case], count: int, seed: int) -> list[Case]:
    """Mark `count` cases, spread over images and pairs, to be played twice."""
    again: set[str] = set()
    of_image: Counter[str] = Counter()
    of_pair: Counter[str] = Counter()
    while len(again) < min(count, len(cases)):
        best = min(
            (case for case in cases if case.slug not in again),
            key=lambda case: (of_image[case.image], of_pair[case.pair], _draw(seed + 1, case)),
        )
        again.add(best.slug)
        of_image[best.image] += 1
        of_pair[best.pair] += 1
    return [replace(case, repeats=2) if case.slug in again else case for case in cases]


def _draw(seed: int, case: Case) -> str:
    # A hash, not random.Random: adding an image must not reshuffle all others.
    return hashlib.sha256(f"{seed}:{case.slug}".encode()).hexdigest()


@cache
def shipped_drafts() -> list[Draft]:
    """Return the drafts of the suites that ship, from suite_drafts.yaml."""
    text = (catalog.folder() / "suite_drafts.yaml").read_text(encoding="utf-8")
    return [_draft(row) for row in yaml.safe_load(text)]


def _draft(row: Mapping[str, Any]) -> Draft:
    values = {name: tuple(v) if isinstance(v, list) else v for name, v in row.items()}
    shares = {
        (kind, category): count
        for category, by_kind in row.get("shares", {}).items()
        for kind, count in by_kind.items()
    }
    return Draft(**values | {"shares": shares})
