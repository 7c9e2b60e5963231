"""The stored error rates of "change seen" are those that the method promises."""

import pytest

from evaluation.measuring.error_rates import ErrorRate, ErrorTable

STORED = ErrorTable.stored("change_seen")


def rows(of, *, seen):
    return [row for row in STORED.rows if row.of == of and row.should_be_seen is seen]


def test_the_stored_table_is_of_enough_images():
    # Together the two suites turn six images, and draw in twenty-eight.
    assert set(STORED.suites) == {"smoke", "lite"}
    assert all(row.judged >= (27 if row.of == "local" else 6) for row in STORED.rows)


@pytest.mark.parametrize("row", rows("local", seen=True), ids=lambda row: row.what)
def test_honest_drawings_are_seldom_missed(row):
    """The method asks for 25 of 27."""
    assert row.seen / row.judged >= 25 / 27
    assert row.what != "nothing else" or row.wrong == ()


@pytest.mark.parametrize("row", rows("local", seen=False), ids=lambda row: row.what)
def test_at_most_one_case_without_an_edit_counts_as_edited(row):
    assert len(row.wrong) <= 1


@pytest.mark.parametrize("row", rows("exact", seen=True), ids=lambda row: row.what)
def test_true_flips_are_believed(row):
    assert row.rate <= 0.05


@pytest.mark.parametrize("row", rows("exact", seen=False), ids=lambda row: row.what)
def test_false_flips_are_not(row):
    assert row.rate == 0


def test_a_rate_of_nothing_judged_is_zero():
    assert ErrorRate("local", "nothing was judged", True, 0, 0).rate == 0
