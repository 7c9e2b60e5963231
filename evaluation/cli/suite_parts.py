"""A part of a suite: fewer trips, some of its cases; or one machine's share of its chains."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from evaluation.content.suites import Case, Suite, SuiteError


def part_of(
    suite: Suite,
    trips: int | None = None,
    cases: str | Iterable[str] | None = None,
    limit: int | None = None,
) -> Suite:
    """The suite with fewer trips and only the cases asked for. It is another suite by its hash.

    `cases` are patterns (a text has commas between) of a case's name, its picture's or its
    pair's; `limit` takes the first of them.
    """
    if trips is not None and trips > suite.trips:
        raise SuiteError(f"the suite {suite.slug} has {suite.trips} trips; --trips only shortens")
    if trips is not None and trips < 1:
        raise SuiteError("a suite has at least one trip")
    wanted = suite.cases
    if cases is not None:
        patterns = cases.split(",") if isinstance(cases, str) else list(cases)
        for pattern in patterns:
            if not any(_matches(case, pattern.strip()) for case in suite.cases):
                raise SuiteError(
                    f"no case of {suite.slug} is called {pattern.strip()!r}; they are like "
                    f"{suite.cases[0].slug}, and a pattern may name a picture or a pair too"
                )
        wanted = tuple(
            case for case in wanted if any(_matches(case, pattern.strip()) for pattern in patterns)
        )
    if limit is not None:
        wanted = wanted[:limit]
    if not wanted:
        raise SuiteError(f"no case of {suite.slug} is left to play")
    return replace(suite, trips=trips or suite.trips, cases=wanted)


def _matches(case: Case, pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in (case.slug, case.picture, case.pair))


@dataclass(frozen=True)
class Shard:
    """One machine's share: every `of`-th chain, from the `number`-th on."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """ "2/4"; ValueError for anything else."""
        found = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text)
        if not found or not 1 <= int(found[1]) <= int(found[2]):
            raise ValueError(f"{text!r} is not a share like 1/4")
        return cls(int(found[1]), int(found[2]))

    def share(self, chains: Iterable[str]) -> set[str]:
        """The chains that this machine plays."""
        return set(list(chains)[self.number - 1 :: self.of])
