"""Find a suite or a part of it: fewer trips, some cases, one machine's share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from evaluation.content import catalog
from evaluation.content.suites import Case, Suite, SuiteError


def find_suite(
    name: str,
    trips: int | None = None,
    cases: str | Iterable[str] | None = None,
    limit: int | None = None,
) -> Suite:
    """Return a shipped suite by its name, or the suite in a file; or a part of it.

    `trips` shortens it; `cases` are patterns (a text is split at commas) of the name of a case,
    its picture or its pair; `limit` takes the first of them. A part has another content hash.
    """
    is_file = name.endswith(".json") or "/" in name
    suite = Suite.read(Path(name)) if is_file else catalog.suite(name)
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
        """Parse a share such as "2/4". Raises ValueError."""
        match = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text)
        if not match or not 1 <= int(match[1]) <= int(match[2]):
            raise ValueError(f"{text!r} is not a share like 1/4")
        return cls(int(match[1]), int(match[2]))

    def share(self, chains: Iterable[str]) -> set[str]:
        """Return the chains that this machine plays."""
        return set(list(chains)[self.number - 1 :: self.of])
