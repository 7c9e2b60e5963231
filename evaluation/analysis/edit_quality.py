"""Edit quality: a judge's rating of the first edit of each case.

The judge is a vision-language model (evaluation.witnesses.judge). The rating shows how good an edit
looks; usable trips show how often it can be repeated. Edit quality does not depend on a metric.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.analysis.covariance import CONFIDENCE, Design, t_quantile
from evaluation.analysis.events import BROKEN, Case, ChainResult

#: Rows of evidence with this `thing` are a judge's rating of an edit.
RUBRIC = "rubric"
#: The highest rating.
BEST = 1.0


@dataclass(frozen=True)
class EditQuality:
    """The mean rating of first edits by one judge, 0 to 1; bounds are None with too few cases."""

    score: float
    low: float | None
    high: float | None
    cases: int
    judge: str


@dataclass(frozen=True)
class Rating:
    """The rating of one chain's first edit; `judge` is empty if the model gave no image."""

    case: Case
    judge: str
    score: float


def rating(chain: ChainResult, evidence: Iterable[Mapping[str, Any]]) -> Rating | None:
    """Return the rating of a chain's first edit from its evidence; None if it was not rated.

    A refused or failed edit counts as 0. Otherwise refusing difficult edits would raise the mean.
    """
    for row in evidence:
        if row["thing"] == RUBRIC and row.get("amounts"):
            return Rating(chain.case, str(row.get("version", "")), float(row["amounts"][-1]))
    refused = chain.outcome in BROKEN and not chain.change_seen
    return Rating(chain.case, "", 0.0) if refused else None


def edit_quality(ratings: Sequence[Rating]) -> EditQuality | None:
    """Return the mean of the ratings over cases, then categories; None without a rating.

    Only ratings by the judge with the most ratings are used.
    """
    judges = Counter(row.judge for row in ratings if row.judge)
    if not judges:
        return None
    judge = max(judges, key=lambda name: (judges[name], name))
    by_case: dict[Case, list[float]] = defaultdict(list)
    for row in ratings:
        if row.judge in ("", judge):
            by_case[row.case].append(row.score)
    cases = sorted(by_case)
    design = Design(cases)
    scores = np.array([[float(np.mean(by_case[case]))] for case in cases])
    (score,) = design.mean(scores).tolist()
    low = high = None
    if design.enough:
        (error,) = design.standard_errors(scores, BEST).tolist()
        half_width = t_quantile((1 + CONFIDENCE) / 2, design.freedom) * error
        if math.isfinite(half_width):
            low, high = max(0.0, score - half_width), min(BEST, score + half_width)
    return EditQuality(score, low, high, len(cases), judge)
