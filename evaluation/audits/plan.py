"""Plan of a run's audits: chains, trips and kinds, drawn by the run's secret.

An audit is one extra backward call on a touched forward answer (method §9). It comes before the
chain's own backward call, so that the touch is the only difference, and enters no chain.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evaluation.content.suites import Case, Suite
from evaluation.run_secret import drawn, generator, shuffled

Kind = Literal["mark", "fragility"]
LEAST = 12
SHARE = 0.1
#: The first audited trip, if the suite has as many: a first answer may honestly be a good copy.
FIRST_TRIP = 2


@dataclass(frozen=True)
class Audit:
    """One audit; `case` is a slug, repeats count from 0."""

    case: str
    repeat: int
    number: int
    kind: Kind

    def seed(self, secret: str) -> int:
        """Return the seed sent with it, of 31 bits."""
        name = drawn(secret, self.case, self.repeat, self.number, "audit")
        return int.from_bytes(name[:4]) >> 1

    def random(self, secret: str) -> np.random.Generator:
        """Return the generator that draws its touch."""
        return generator(secret, "touch", self.case, self.repeat, self.number)


def audit_count(cases: int, least: int = LEAST) -> int:
    """Return the number of audited cases of a suite: each costs one more edit."""
    return min(cases, max(least, math.ceil(SHARE * cases))) if least else 0


def plan(secret: str, suite: Suite, least: int = LEAST, stop_after: int = 0) -> list[Audit]:
    """Return the audits of a run: a tenth of its cases, at least `least`.

    Half of them are marks. A change of style also changes a mark, so those cases are never
    marked. Flips and turns are marked only if there are too few others, since any model undoes
    them without a stored source.
    """
    cases = {case.slug: case for case in suite.cases}
    changes = {slug: suite.pair_by_slug[case.pair].change for slug, case in cases.items()}
    count = audit_count(len(changes), least)
    chosen = shuffled(secret, changes, lambda slug: f"audit/{slug}")[:count]
    markable = sorted(
        (slug for slug in chosen if changes[slug] != "global"),
        key=lambda slug: changes[slug] == "exact",
    )
    marked = set(markable[: (count + 1) // 2])
    return [
        Audit(
            slug,
            *where_drawn(secret, cases[slug], suite, stop_after),
            "mark" if slug in marked else "fragility",
        )
        for slug in chosen
    ]


def where_drawn(secret: str, case: Case, suite: Suite, stop_after: int = 0) -> tuple[int, int]:
    """Return the audited repeat and trip of a case.

    If chains are stopped a number of trips after their end is known, every other audit falls on
    a trip that each of them plays; the others still fall on any trip, so that a model must be
    honest beyond the first few trips.
    """
    random = generator(secret, "audited", case.slug)
    first = min(FIRST_TRIP, suite.trips)
    repeat = int(random.integers(suite.repeats_of(case)))
    last = suite.trips
    if stop_after and random.integers(2):
        last = min(last, max(first, stop_after + 1))
    return repeat, int(random.integers(first, last + 1))


def of_chain(audits: Iterable[Audit], case: str, repeat: int) -> dict[int, Audit]:
    """Return the audits of one chain, by trip."""
    return {a.number: a for a in audits if (a.case, a.repeat) == (case, repeat)}
