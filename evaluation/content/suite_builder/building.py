"""Which pictures meet which pairs, balanced and reproducible, and what may not be frozen."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace

from evaluation.content import curation
from evaluation.content.suite_builder.drafts import Candidate, Draft, Stratum
from evaluation.content.suites import Case, EditPair, Suite, SuiteError

#: No category may weigh more, so that no single kind of edit decides the order.
LARGEST_SHARE = 0.25
#: Below these, intervals and ranks mean nothing (method, section 6).
FEWEST_PICTURES, FEWEST_PAIRS = 10, 12


def build(draft: Draft, candidates: Iterable[Candidate], pairs: Iterable[EditPair]) -> Suite:
    """The suite of a draft: the same draft and content give the same suite, in any order.

    Every stratum (kind x category) gets its share of cases; within it the pair used least
    and the picture with the fewest cases come first. What must be included is chosen before.
    """
    taken = [
        one
        for one in candidates
        if draft.takes_picture(one.picture)
        and min(one.picture.width, one.picture.height) >= draft.smallest_side
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
    """Why the suite may not be frozen; empty when it may.

    `narrow` says that it is meant to have few pictures, pairs or categories.
    """
    reasons = []
    counts = Counter(suite.pair_by_slug[case.pair].category for case in suite.cases)
    for category, count in sorted(counts.items()):
        if count > LARGEST_SHARE * len(suite.cases) and not narrow:
            reasons.append(
                f"{category} has {count} of {len(suite.cases)} cases; no category may have more "
                "than a quarter"
            )
    for what, found, fewest in (
        ("pictures", len(suite.pictures), FEWEST_PICTURES),
        ("pairs", len(suite.pairs), FEWEST_PAIRS),
    ):
        if found < fewest and not narrow:
            reasons.append(f"{found} {what} are too few to compare models: at least {fewest}")
    for case in suite.cases:
        picture, pair = suite.picture_by_slug[case.picture], suite.pair_by_slug[case.pair]
        reasons += [f"{case.slug}: {reason}" for reason in curation.fits(picture, pair)]
    return reasons


def balance(suite: Suite) -> dict[Stratum, int]:
    """How many cases each stratum has."""
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
    for one in candidates:
        for pair in pairs:
            case = Case(one.picture.slug, pair.slug)
            if case.slug in without or curation.fits(one.picture, pair, one.symmetric_under):
                continue
            possible.setdefault((one.picture.kind, pair.category), []).append(case)
    return possible


def _required(
    draft: Draft, possible: Mapping[Stratum, Sequence[Case]]
) -> dict[Stratum, list[Case]]:
    """Cases that hold every picture and pair that must be included, as few as that takes."""
    cases = [(stratum, case) for stratum, found in possible.items() for case in found]
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
        if any(getattr(case, what) == slug for found in chosen.values() for case in found):
            continue
        stratum, best = min(
            fitting,
            key=lambda one: (
                # What fulfils two wishes at once comes first, then what was used least.
                -sum((kind, getattr(one[1], kind)) in wanted for kind in ("picture", "pair")),
                pictures[one[1].picture],
                len(chosen.get(one[0], ())),
                _lot(draft.seed, one[1]),
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
    """The same number everywhere; what a small stratum cannot hold goes to the others.

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
    # The narrowest stratum first, while its pictures are still free.
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
    """The cases, `count` of them marked to be played twice, spread over pictures and pairs."""
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
