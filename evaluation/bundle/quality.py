"""Whether no-reference metrics say of a bundle's pictures what it states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from evaluation.bundle.checks import NOT_CHECKED, QUALITY, Check, compared
from evaluation.bundle.format import ChainLine
from evaluation.metrics.no_reference import WORN

IMPORTED = "it was made elsewhere, and came as a score file"
NOT_ASKED = "a judge is not asked again: its answers are kept where it was asked"


def quality_checks(
    chain: ChainLine,
    made: Mapping[str, Sequence[float | None]],
    pinned: Mapping[str, str],
    without: str,
) -> Iterator[Check]:
    """Yield a check for each metric.

    `pinned` are those that scoring ran, each with why it cannot run here, or nothing; `without`
    says why there are no pictures to look at.
    """
    returned = sum(trip.step is not None for trip in chain.trips)
    for name in sorted(chain.quality.keys() | made.keys()):
        line, what = f"chain {chain.name}", f"no-reference quality by {name}"
        values = made.get(name)
        if name not in pinned:
            yield Check(line, what, NOT_CHECKED, NOT_ASKED if name == WORN else IMPORTED)
        elif pinned[name] or values is None or len(values) <= returned:
            yield Check(line, what, NOT_CHECKED, pinned[name] or without)
        else:
            yield compared(line, what, chain.quality.get(name), list(values), QUALITY)
