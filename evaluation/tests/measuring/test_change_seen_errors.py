"""The table of errors of "change seen": what must hold does, and it is current."""

from dataclasses import replace

import pytest

from evaluation.__main__ import main
from evaluation.content import catalog
from evaluation.measuring import change_seen_errors as errors
from evaluation.measuring.error_rates import ErrorRate, ErrorTable
from evaluation.testing.json_outputs import checked

STORED = ErrorTable.stored("change_seen")
SMOKE, LITE = catalog.suite("smoke"), catalog.suite("lite")


def rows(of, *, seen):
    return {row.what: row for row in STORED.rows if row.of == of and row.should_be_seen is seen}


def test_the_stored_table_has_a_row_for_everything_that_is_tried():
    assert list(rows("local", seen=True)) == list(errors.DRIFTS)
    assert list(rows("local", seen=False)) == list(errors.DRIFTS)
    assert list(rows("exact", seen=True)) == list(errors.DAMAGES)
    assert list(rows("exact", seen=False)) == list(errors.FALSE_FLIPS)
    # Together the two suites turn six pictures, and draw in twenty-eight.
    assert set(STORED.suites) == {"smoke", "lite"}
    assert all(row.judged >= (27 if row.of == "local" else 6) for row in STORED.rows)


@pytest.mark.parametrize("what", errors.DRIFTS)
def test_honest_drawings_are_seldom_missed(what):
    """The method asks for 25 of 27."""
    row = rows("local", seen=True)[what]
    assert row.seen / row.judged >= 25 / 27


def test_a_drawing_alone_is_always_seen():
    assert rows("local", seen=True)["nothing else"].wrong == ()


@pytest.mark.parametrize("what", errors.DRIFTS)
def test_no_edit_is_taken_for_one_in_at_most_one_case(what):
    assert len(rows("local", seen=False)[what].wrong) <= 1


@pytest.mark.parametrize("what", errors.DAMAGES)
def test_true_flips_are_believed(what):
    assert rows("exact", seen=True)[what].rate <= 0.05


@pytest.mark.parametrize("what", errors.FALSE_FLIPS)
def test_false_flips_are_not(what):
    assert rows("exact", seen=False)[what].rate == 0


@pytest.mark.parametrize("what", ["a fifth lighter", "a wobble of 4 px"])
def test_a_row_measured_now_says_what_the_stored_one_says(what):
    """Of one case of each: whoever changes a rule measures the table again."""
    drift = errors.DRIFTS[what]
    local = errors.shipped_cases([LITE], "local")[:2]
    for row, now in (
        (rows("local", seen=True)[what], errors.with_drawing(what, drift, local)),
        (rows("local", seen=False)[what], errors.without_edit(what, drift, local[:1])),
    ):
        assert set(now.wrong) <= set(row.wrong)


def test_a_rate_counts_what_is_wrong_on_either_side():
    cases = errors.shipped_cases([SMOKE], "exact")[:1]
    right = errors.with_flip("nothing", lambda _, truth: truth, cases, seen=True)
    wrong = errors.with_flip("nothing", lambda _, truth: truth, cases, seen=False)
    assert (right.judged, right.seen, right.rate) == (1, 1, 0)
    assert (wrong.judged, wrong.seen, wrong.rate) == (1, 1, 1)
    assert wrong.wrong == (cases[0].slug,)
    assert ErrorRate("local", "nothing was judged", True, 0, 0).rate == 0


def test_the_command_prints_the_table_in_words_and_as_json(monkeypatch, capsys):
    one = {"nothing else": errors.DRIFTS["nothing else"]}
    untouched = {"the picture untouched": errors.FALSE_FLIPS["the picture untouched"]}
    for name, rows_left in (("DRIFTS", one), ("DAMAGES", one), ("FALSE_FLIPS", untouched)):
        monkeypatch.setattr(errors, name, rows_left)
    few = replace(SMOKE, cases=SMOKE.cases[:1] + SMOKE.cases[-1:])
    monkeypatch.setattr("evaluation.cli.commands.change_seen_errors.find_suite", lambda _: few)
    assert main(["change-seen-errors", "--json"]) == 0
    told = checked("change-seen-errors", capsys.readouterr().out)
    assert told["suites"] == {"smoke": few.content_hash}
    assert [row["what"] for row in told["rows"]] == ["nothing else"] * 3 + ["the picture untouched"]
    assert main(["change-seen-errors", "--suite", "smoke"]) == 0
    assert "a drawing" in capsys.readouterr().out
