"""Plan of a run's audits: the run's secret selects chains, trips and kinds.

An audit is an extra request for a backward edit, outside the chain, that tests for cheating
(docs/method.md). Most audits send a touched (slightly altered) forward answer just before the chain
sends the untouched one, so that the touch is the only difference. Cold audits are sent before the
model has seen the source image.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evaluation.content.suites import Case, EditPair, Suite
from evaluation.editors.instructions import Instruction, parse
from evaluation.errors import EditorError
from evaluation.run_secret import derive_bytes, generator, shuffled

Kind = Literal["cold", "mark", "fragility"]
KIND_NAMES: dict[Kind, str] = {
    "cold": "cold audits",
    "mark": "audits with marks",
    "fragility": "audits with harmless changes",
}
#: Touched answers are sent for this number of cases or for this share, whichever is more.
LEAST = 12
SHARE = 0.1
#: The smallest number of cold audits, if the suite has enough suitable images.
LEAST_COLD = 8
#: The trip number of cold audits, which are made before the first trip.
BEFORE_TRIPS = 0
#: The first audited trip, if the suite has it. In trip 1, an honest answer may be a perfect copy.
FIRST_TRIP = 2


@dataclass(frozen=True)
class Audit:
    """One audit: the slug of its case, the repeat (from 0), the trip number, the kind."""

    case: str
    repeat: int
    number: int
    kind: Kind

    def seed(self, secret: str) -> int:
        """Return the seed of 31 bits that is sent with the audit."""
        name = derive_bytes(secret, self.case, self.repeat, self.number, "audit")
        return int.from_bytes(name[:4]) >> 1

    def random(self, secret: str) -> np.random.Generator:
        """Return the random generator for the audit's touch."""
        return generator(secret, "touch", self.case, self.repeat, self.number)


def object_of(pair: EditPair) -> Instruction | None:
    """Return the instruction that draws the pair's object or words; None if it has neither."""
    if pair.change != "local" or pair.shape:
        return None
    try:
        forward, backward = parse(pair.forward), parse(pair.backward)
    except EditorError:
        return None
    is_drawn = forward.rule.do in ("draw", "write", "rewrite") and not forward.undo
    return forward if is_drawn and backward == forward.inverse else None


def audit_count(suite: Suite, least: int = LEAST) -> int:
    """Return the number of audits of a run; each costs one additional edit."""
    return _touched(suite, least) + _cold(suite, least) if least else 0


def _touched(suite: Suite, least: int) -> int:
    cases = len(suite.cases)
    return min(cases, max(least, math.ceil(SHARE * cases)))


def _cold(suite: Suite, least: int) -> int:
    images = {case.image for case in _drawable(suite)}
    return min(len(images), max(LEAST_COLD, _touched(suite, least) // 2))


def _drawable(suite: Suite) -> list[Case]:
    """Return the cases whose object we can draw into the source, as cold audits need."""
    pairs = {pair.slug for pair in suite.pairs if object_of(pair)}
    return [case for case in suite.cases if case.pair in pairs]


def plan(secret: str, suite: Suite, least: int = LEAST, stop_after: int = 0) -> list[Audit]:
    """Return the audits of a run, cold audits first; an empty list if `least` is 0."""
    if not least:
        return []
    by_image = {
        case.image: case
        for case in shuffled(secret, _drawable(suite), lambda case: f"cold/{case.slug}")
    }
    cold = [Audit(case.slug, 0, BEFORE_TRIPS, "cold") for case in by_image.values()]
    return cold[: _cold(suite, least)] + _plan_touched(secret, suite, least, stop_after)


def _plan_touched(secret: str, suite: Suite, least: int, stop_after: int) -> list[Audit]:
    """Return the audits of touched answers: a tenth of the cases, at least `least`.

    Half of these audits paint a mark on the answer; the others alter it harmlessly ("fragility").
    Cases with a global edit are never marked, since a new style changes the mark too. Flips and
    turns are marked only if there are too few other cases, since a model needs no stored source to
    undo them.
    """
    cases = {case.slug: case for case in suite.cases}
    changes = {slug: suite.pair_by_slug[case.pair].change for slug, case in cases.items()}
    count = _touched(suite, least)
    chosen = shuffled(secret, changes, lambda slug: f"audit/{slug}")[:count]
    markable = sorted(
        (slug for slug in chosen if changes[slug] != "global"),
        key=lambda slug: changes[slug] == "exact",
    )
    marked = set(markable[: (count + 1) // 2])
    return [
        Audit(
            slug,
            *audited_trip(secret, cases[slug], suite, stop_after),
            "mark" if slug in marked else "fragility",
        )
        for slug in chosen
    ]


def audited_trip(secret: str, case: Case, suite: Suite, stop_after: int = 0) -> tuple[int, int]:
    """Return the repeat and the trip of a case whose forward answer is touched.

    If chains stop `stop_after` trips after their result is known, about half of the audits use a
    trip that every chain plays. The other audits use any trip, so that a model must be honest in
    late trips too.
    """
    random = generator(secret, "audited", case.slug)
    first = min(FIRST_TRIP, suite.trips)
    repeat = int(random.integers(suite.repeats_of(case)))
    last = suite.trips
    if stop_after and random.integers(2):
        last = min(last, max(first, stop_after + 1))
    return repeat, int(random.integers(first, last + 1))


def chain_audits(audits: Iterable[Audit], case: str, repeat: int) -> dict[int, Audit]:
    """Return the audits of one chain, by trip number."""
    return {a.number: a for a in audits if (a.case, a.repeat) == (case, repeat)}
