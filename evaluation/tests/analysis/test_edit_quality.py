"""A judge's ratings of first edits: means over cases and categories, with intervals."""

from __future__ import annotations

import numpy as np
import pytest

from evaluation.analysis.covariance import Design
from evaluation.analysis.edit_quality import Rating, edit_quality, rating
from evaluation.analysis.events import Case
from evaluation.testing.chains import chain


def case(image: int, pair: int, category: str = "objects") -> Case:
    return Case(f"i{image:02}", f"p{pair:02}", category, "scene", "photograph")


def rubric(score: float, version: str = "j-1"):
    amounts = (score, score, score, score, score)
    return {"witness": "judge", "version": version, "thing": "rubric", "amounts": amounts}


def test_only_rubric_evidence_is_a_rating():
    hat = {"witness": "judge", "version": "j-1", "thing": "a hat", "amounts": ()}
    assert rating(chain(0.9), [hat, rubric(0.7)]) == Rating(chain(0.9).case, "j-1", 0.7)
    assert rating(chain(0.9), [hat]) is None
    assert rating(chain(0.9), []) is None


def test_a_refused_edit_counts_zero_and_an_unjudged_one_is_left_out():
    refused = rating(chain(outcome="refused"), [])
    assert refused == Rating(chain().case, "", 0.0)
    assert rating(chain(outcome="lost"), []) is None
    rated = [Rating(case(1, 1), "j", 0.8), Rating(case(2, 2), "", 0.0)]
    assert edit_quality(rated).score == pytest.approx(0.4)
    assert edit_quality(rated[1:]) is None  # refusals alone need no judge


def test_categories_weigh_equally_and_repeats_are_one_case():
    rows = [Rating(case(n, 1, "objects"), "j", 0.9) for n in range(3)]
    rows += [Rating(case(9, 2, "accessories"), "j", score) for score in (0.1, 0.3)]
    result = edit_quality(rows)
    assert result.score == pytest.approx((0.9 + 0.2) / 2)
    assert (result.cases, result.low, result.high) == (4, None, None)


def test_two_judges_are_never_averaged():
    rows = [Rating(case(n, n), "old", 0.1) for n in range(2)]
    rows += [Rating(case(n, n), "new", 0.9) for n in range(2, 5)]
    result = edit_quality(rows)
    assert (result.judge, result.cases) == ("new", 3)
    assert result.score == pytest.approx(0.9)


def test_the_interval_covers_other_images_and_edits():
    """Intervals cover in at least 93 of 100 simulated suites with image and pair effects."""
    random = np.random.default_rng(3)
    places = [(n, m) for n in range(14) for m in range(14) if (n + m) % 4 == 0]
    covered = 0
    for _ in range(300):
        images, pairs = random.normal(0, 0.08, 14), random.normal(0, 0.08, 14)
        noise = random.normal(0, 0.05, len(places))
        rows = [
            Rating(case(n, m), "j", 0.6 + images[n] + pairs[m] + noise[place])
            for place, (n, m) in enumerate(places)
        ]
        result = edit_quality(rows)
        covered += result.low <= 0.6 <= result.high
    assert Design([row.case for row in rows]).enough
    assert covered >= 0.93 * 300
