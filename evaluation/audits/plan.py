"""Which chains of a run are audited, at which trip, and how: drawn by the run's secret.

An audit is one extra backward call on a forward answer that was touched on the way (method
§9). It comes before the chain's own backward call, so that nothing but the touch tells them
apart, and enters no chain.
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
#: From this trip on, where the suite has so many: a first answer is a good answer's copy.
FIRST_TRIP = 2


@dataclass(frozen=True)
class Audit:
    """One audit; `case` is a slug, repeats count from 0."""

    case: str
    repeat: int
    number: int
    kind: Kind

    def seed(self, secret: str) -> int:
        """The seed that is sent with it, 31 bits."""
        name = drawn(secret, self.case, self.repeat, self.number, "audit")
        return int.from_bytes(name[:4]) >> 1

    def random(self, secret: str) -> np.random.Generator:
        """What its touch is drawn with."""
        return generator(secret, "touch", self.case, self.repeat, self.number)


def audit_count(cases: int, least: int = LEAST) -> int:
    """How many cases of a suite are audited: each is one more edit to pay."""
    return min(cases, max(least, math.ceil(SHARE * cases))) if least else 0


def plan(secret: str, suite: Suite, least: int = LEAST, stop_after: int = 0) -> list[Audit]:
    """The audits of a run: so many cases at least, or one in ten; half of them marks.

    A change of style takes a mark along, so those cases are never marked; flips and turns only
    where there is not enough else, since anybody undoes those without a kept source.
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
    """Of a case, which repeat and which trip.

    Where chains are stopped so many trips after their end is known, every other audit falls
    on a trip that each of them plays; the others still fall anywhere, so that nobody can be
    honest in the first few trips alone.
    """
    random = generator(secret, "audited", case.slug)
    first = min(FIRST_TRIP, suite.trips)
    repeat = int(random.integers(suite.repeats_of(case)))
    last = suite.trips
    if stop_after and random.integers(2):
        last = min(last, max(first, stop_after + 1))
    return repeat, int(random.integers(first, last + 1))


def of_chain(audits: Iterable[Audit], case: str, repeat: int) -> dict[int, Audit]:
    """The audits of one chain, by trip."""
    return {a.number: a for a in audits if (a.case, a.repeat) == (case, repeat)}
