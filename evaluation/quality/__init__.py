"""No-reference quality by name: what a picture is said to be worth on its own, without its source.

Such a metric never hears what was edited, so it is not a distance and ranks nobody. Whether it
notices that a picture wears out is the question (Banana100).
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Mapping
from typing import Any

from evaluation.quality.base import QualityError, QualityMetric
from evaluation.quality.published import ASKED, PUBLISHED, WORN, Described

__all__ = [
    "PUBLISHED",
    "QUALITY",
    "WORN",
    "Described",
    "QualityError",
    "QualityMetric",
    "described",
    "judged_by_asking",
    "load_quality",
    "quality_in_order",
]

#: Those that run here; others come as score files (evaluation.quality.score_file).
QUALITY: dict[str, str] = {
    "brisque": "evaluation.quality.brisque:Brisque",
    "niqe": "evaluation.quality.niqe:Niqe",
    "piqe": "evaluation.quality.piqe:Piqe",
}


def load_quality(name: str) -> QualityMetric:
    """The metric registered under `name`; its weights load when it is first used."""
    try:
        path = QUALITY[name]
    except KeyError:
        known = ", ".join(QUALITY)
        raise QualityError(f"there is no metric {name!r} of quality; known are {known}") from None
    found: QualityMetric = pkgutil.resolve_name(path)()
    return found


def described(name: str, higher_is_better: bool | None = None) -> Described | None:
    """How its values read; None for one that nobody published and whose direction is not given."""
    if name == WORN:
        return ASKED
    if name in PUBLISHED:
        return PUBLISHED[name]
    return None if higher_is_better is None else Described(name, higher_is_better)


def judged_by_asking(provenance: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What a record says of the model that was asked whether pictures are worn."""
    judge = provenance.get("judge")
    version = judge.get("version") if isinstance(judge, Mapping) else None
    return {WORN: {"version": str(version)}} if version else {}


def quality_in_order(names: Iterable[str]) -> list[str]:
    """Those that run here first, then those that were published, then the others by name."""
    given = set(names)
    order = [*QUALITY, *(name for name in PUBLISHED if name not in QUALITY)]
    return [name for name in order if name in given] + sorted(given - set(order))
