"""Banana100's question for one run: which metrics notice that images wear out?"""

import pytest

from evaluation.analysis.no_reference import (
    QualityChain,
    no_reference_numbers,
    reported_trips,
    share,
)

PINNED = {"brisque": {"version": "1"}, "musiq": {"version": "2", "file": "f" * 64}}


def chains():
    """BRISQUE (lower is better) notices only the third image, MUSIQ all of them."""
    kept = (0.8, 0.6, 0.4, 0.2, 0.1)
    return [
        QualityChain("a", {"brisque": (30, 25, 20, 15, 10, 0), "musiq": (60, 9, 8, 7, 6, 5)}, kept),
        QualityChain(
            "b", {"brisque": (30, 29, 28, 27, 26, 27), "musiq": (60, 9, 8, 7, 6, 5)}, kept
        ),
        QualityChain("c", {"brisque": (30, 40, 50, 60, 70, 60), "musiq": (60,)}, kept),
        QualityChain("d", {"brisque": (None, 40, 50, 60, 70, 60)}, kept),
        QualityChain("e", {"brisque": (30, 31)}, (0.9,)),
    ]


@pytest.mark.parametrize(
    ("trips", "asked"), [(3, [3]), (5, [5]), (8, [5, 8]), (20, [5, 10, 20]), (50, [5, 10, 20, 50])]
)
def test_the_papers_trips_are_reported_if_the_suite_has_them(trips, asked):
    assert reported_trips(trips) == asked


def test_restored_images_are_compared_with_the_source_and_the_first_restored_image():
    result = no_reference_numbers(chains(), 5, PINNED)
    last = result["brisque"]["trips"]["5"]
    # Neither the chain whose source has no value nor the one that broke is counted.
    assert last["source"] == {"restored": 3, "worse": 1, "better": 2, "gap": 0.6667}
    assert last["first"] == {"restored": 4, "worse": 2, "better": 2, "gap": -2.1667}
    assert (last["better_cases"], last["worse_cases"]) == (["a", "b"], ["c"])
    assert share(last["source"]) == pytest.approx(1 / 3)
    assert result["musiq"]["trips"]["5"]["source"]["worse"] == 2
    assert (result["musiq"]["imported"], result["brisque"]["imported"]) == (True, False)


def test_curves_have_the_gain_and_the_loss_of_each_trip():
    result = no_reference_numbers(chains(), 5, PINNED)["brisque"]
    assert result["value"][0] == 30
    assert result["gained"][0] == result["lost"][0] == 0
    assert result["lost"] == [0, 0.175, 0.4, 0.6, 0.8, 0.9]
    assert result["gained"][5] == 0.6667  # hundredths of the range from 0 to 150


def test_a_metric_that_was_not_run_is_absent():
    assert no_reference_numbers(chains(), 5, {}) == {}
    assert no_reference_numbers(chains(), 5, {"niqe": {"version": "1"}}) == {}
    assert share({"restored": 0, "worse": 0}) is None


def test_answers_of_a_judge_are_counted_by_retention():
    chains = [
        QualityChain("a", {"worn": (0, 0, 0, 1)}, (0.9, 0.6, 0.2)),
        QualityChain("b", {"worn": (1, 0, None, 0)}, (0.9, 0.6, 0.1)),
    ]
    result = no_reference_numbers(chains, 3, {"worn": {"version": "1"}})["worn"]
    assert result["value"][0] == 0.5  # half of the sources are called worn: false alarms
    assert [(row["asked"], row["worn"]) for row in result["by_kept"]] == [
        (2, 0),
        (1, 0),
        (0, 0),
        (2, 1),
    ]
    assert result["trips"]["3"]["source"]["worse"] == 1
