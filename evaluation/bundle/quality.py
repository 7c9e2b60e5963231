"""Whether no-reference metrics say of a bundle's pictures what it states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from evaluation.bundle.checks import NOT_CHECKED, QUALITY, Check, compared
from evaluation.bundle.format import ChainLine
from evaluation.quality import WORN
from evaluation.quality.panel import QualityPanel

IMPORTED = "it was made elsewhere, and came as a score file"
NOT_ASKED = "a judge is not asked again: its answers are kept where it was asked"


def pinned_quality(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """The no-reference metrics that a run says it was judged by, as each was run."""
    scoring = provenance.get("scoring")
    told = scoring.get("quality") if isinstance(scoring, dict) else None
    found = told if isinstance(told, dict) else {}
    return {
        name: values
        for name, values in found.items()
        if isinstance(values, dict) and "missing" not in values
    }


def silent(panel: QualityPanel, pinned: Mapping[str, Any], named: Iterable[str]) -> dict[str, str]:
    """Why each of the metrics that chains name says nothing here; empty where all can."""
    here = panel.provenance()
    return {
        **{name: NOT_ASKED if name == WORN else IMPORTED for name in {*named} - pinned.keys()},
        **{
            name: panel.not_run.get(name, "it is another version here")
            for name, told in pinned.items()
            if here.get(name) != told
        },
    }


def quality_checks(
    chain: ChainLine,
    made: Mapping[str, Sequence[float | None]],
    reasons: Mapping[str, str],
    without: str,
) -> Iterator[Check]:
    """One check for each metric; `without` says why, where there are no pictures to look at."""
    returned = sum(trip.step is not None for trip in chain.trips)
    for name in sorted(chain.quality.keys() | made.keys()):
        line, what = f"chain {chain.name}", f"no-reference quality by {name}"
        found = made.get(name)
        if name in reasons or found is None or len(found) <= returned:
            why = without if found is None or len(found) <= returned else ""
            yield Check(line, what, NOT_CHECKED, reasons.get(name, why))
        else:
            yield compared(line, what, chain.quality.get(name), list(found), QUALITY)
