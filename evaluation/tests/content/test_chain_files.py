"""Images of a chain are identified by their file names or their order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.content.chain_files import ChainFilesError, answer_name, assign_files, natural_key


def by_name(*names: str, in_turn: bool = False) -> tuple[str, list[tuple[str | None, str]]]:
    found = assign_files(names, lambda name: name, in_turn=in_turn)
    return found.source, list(found.trips)


def test_names_identify_images_in_any_order_and_case():
    assert by_name("I2_Backward.jpg", "i1_forward.webp", "I01_backward.png", "I0_SOURCE.png") == (
        "I0_SOURCE.png",
        [("i1_forward.webp", "I01_backward.png"), (None, "I2_Backward.jpg")],
    )


def test_names_of_written_answers_are_understood():
    names = [answer_name(1, d, "image/jpeg") for d in ("backward", "forward")]
    assert by_name("I0_source.png", *names) == ("I0_source.png", [(names[1], names[0])])


def test_images_with_other_names_are_left_out():
    names = ("I0_source.png", "I1_backward.png", "grid.png", "I1_backward (1).png")
    assert by_name(*names) == ("I0_source.png", [(None, "I1_backward.png")])


def test_an_edit_without_a_restored_image_is_left_out():
    assert by_name("I0_source", "I1_backward", "I2_forward") == (
        "I0_source",
        [(None, "I1_backward")],
    )


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "at least one restored image"),
        (["only.png"], "at least one restored image"),
        (["I1_forward.png", "I1_backward.png"], "I0_source is missing"),
        (["I0_source.png", "I1_forward.png"], "there is no restored image yet"),
        (["I0_source.png", "I3_backward.png", "I1_backward.png"], "I2_backward is missing"),
        (["I0_source.png", "I1_backward.png", "I01_backward.jpg"], "name the same image"),
        (["I0_source.png", "I0_source.png", "I1_backward.png"], "name the same image"),
        (["I0_source.png", "I0_backward.png"], "I0_backward.png: only the source"),
        (["I1_source.png", "I1_backward.png"], "I1_source.png: only the source"),
    ],
)
def test_files_without_a_chain_are_refused_with_a_reason(names, message):
    with pytest.raises(ChainFilesError, match=message):
        by_name(*names)


def test_other_names_are_sorted_with_2_before_10():
    assert by_name("10.png", "2.png", "1.png") == ("1.png", [(None, "2.png"), (None, "10.png")])
    assert by_name("a", "b", "c", in_turn=True) == ("a", [("b", "c")])
    with pytest.raises(ChainFilesError, match="their number must be even"):
        by_name("a", "b", in_turn=True)


@given(st.lists(st.text(max_size=20), max_size=8))
def test_any_names_can_be_sorted(names):
    assert sorted(map(natural_key, names)) == sorted(map(natural_key, reversed(names)))
