"""Every trick of the zoo is unranked or useless; no honest editor is unranked.

The tables on the methodology page are checked here, row by row; `python -m
evaluation.testing.zoo.tables` writes them again.
"""

import json

import pytest

from evaluation.testing.tricks import HONEST, POOR, TRICKS
from evaluation.testing.zoo.tables import TABLES, WITNESS_NAMES, Zoo


@pytest.fixture(scope="module")
def tables():
    return json.loads(TABLES.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def zoo():
    zoo = Zoo()
    deaf = {name: why for name, why in zoo.scorer.panel.not_run.items() if name in WITNESS_NAMES}
    if lacking := zoo.scorer.not_run | deaf:
        pytest.skip(str(lacking))
    return zoo


#: It restores nothing, but its pattern hides the blur of the poor editor from `sharpness`.
LOOKS_SHARPER = "the source in the frequencies"


def test_the_tables_have_every_trick_and_every_honest_editor(tables):
    assert [row["name"] for row in tables["tricks"]] == list(TRICKS)
    assert [row["name"] for row in tables["honest"]] == list(HONEST)


def test_no_honest_editor_is_unranked(tables):
    assert [row["name"] for row in tables["honest"] if not row["ranked"]] == []


def test_every_trick_does_no_better_than_its_model_or_is_unranked_with_a_reason(tables):
    honest = {row["name"]: row["usable_trips"] for row in tables["honest"]}
    assert honest[POOR] < tables["trips"] / 2
    won = {
        row["name"]
        for row in tables["tricks"]
        if row["ranked"] and row["usable_trips"] > honest[row["disguises"]] + 0.05
    }
    assert won == {LOOKS_SHARPER}
    pattern = next(row for row in tables["tricks"] if row["name"] == LOOKS_SHARPER)
    assert pattern["usable_trips"] < honest[POOR] + 0.35
    assert all(row["reasons"] for row in tables["tricks"] if not row["ranked"])


def same(row, found):
    assert found["ranked"] == row["ranked"], (row, found)
    assert found["edits_made"] == pytest.approx(row["edits_made"], abs=0.1)
    assert found["usable_trips"] == pytest.approx(row["usable_trips"], abs=0.15)
    assert found["marks_kept"] == pytest.approx(row["marks_kept"], abs=0.1)
    assert found["loss_under_audit"] == pytest.approx(row["loss_under_audit"], abs=0.1)


#: Played here: a trick that evidence stops, and an honest editor. The command of the tables
#: plays them all.
PLAYED_TRICKS = ("toggles a patch",)
PLAYED_HONEST = ("JPEG 75",)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAYED_TRICKS)
def test_a_trick_is_stopped_as_the_table_says(name, zoo, tables):
    same(next(row for row in tables["tricks"] if row["name"] == name), zoo.trick(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAYED_HONEST)
def test_an_honest_editor_gets_what_the_table_says(name, zoo, tables):
    same(next(row for row in tables["honest"] if row["name"] == name), zoo.honest(name))
