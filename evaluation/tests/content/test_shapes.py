"""The grammar of chain shapes: the edits of a trip, and the images they should restore."""

import dataclasses
import json

import pytest

from evaluation.content import catalog
from evaluation.content.shapes import Step, trip_shapes
from evaluation.content.suites import Suite, SuiteError
from evaluation.run_secret import chain_seeds

SHIPPED = catalog.suite("shapes")
IN_TURN, NESTED, QUARTERS = (
    SHIPPED.pair_by_slug[slug]
    for slug in ("cup-and-clock-in-turn", "cup-and-clock", "four-quarter-turns")
)


def steps(letters):
    local = {"change": "local", "object": "cup"}
    return tuple(
        Step(name, f"do {name}", **(local if name.isupper() else {}))
        for name in dict.fromkeys(letters)
    )


def names(shape):
    return [[step.name for step in trip.steps] for trip in trip_shapes(shape, steps_of(shape))]


def steps_of(shape):
    return steps([letter for letter in shape if letter.isalpha()])


def back_to(shape):
    return [[step.back_to for step in trip.steps] for trip in trip_shapes(shape, steps_of(shape))]


def test_a_pair_without_a_shape_is_a_round_trip_with_the_seeds_it_always_had():
    pair = catalog.edit_pairs()[0]
    (trip,) = pair.cycle
    assert [step.name for step in trip.steps] == ["forward", "backward"]
    assert [step.prompt for step in trip.steps] == [pair.forward, pair.backward]
    assert (pair.edits(20), pair.move_as_pair(3, trip.moves[0])) == (40, pair)
    seed = chain_seeds("5" * 64, "a-case", 0)
    assert [seed(1, "forward"), seed(1, "backward")] == [1140075455, 1208490683]


def test_first_and_last_step_are_named_as_in_a_round_trip_and_every_step_has_its_own_seed():
    assert names("A B b a") == [["forward", "2-B", "3-b", "backward"]]
    assert names("F F F F") == [["forward", "2-F", "3-F", "backward"]]
    assert names("A a = B b =") == [["forward", "backward"]] * 2
    seed = chain_seeds("5" * 64, "a-case", 0)
    drawn = {seed(number, name) for number in (1, 2) for name in names("F F F F")[0]}
    assert len(drawn) == 8


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("A B b a", [[None, None, 1, 0]]),
        ("A a = B b", [[None, 0], [None, 0]]),
        ("F F F F", [[None, None, None, 0]]),
        ("A B C c b a", [[None, None, None, 2, 1, 0]]),
        # No earlier image shows B alone.
        ("A B a b", [[None, None, None, 0]]),
        ("A B a", [[None, None, 0]]),
    ],
)
def test_a_shape_determines_which_image_each_step_should_restore(shape, expected):
    assert back_to(shape) == expected


def test_each_edit_is_judged_with_the_step_that_undid_it():
    (trip,) = trip_shapes("A B b a", steps_of("A B b a"))
    assert [(m.letter, m.before, m.edited, m.restored) for m in trip.moves] == [
        ("A", 0, 1, 4),
        ("B", 1, 2, 3),
    ]
    # In a session a change is undone with its thing; a turn is not undone by one step.
    (session,) = trip_shapes("A B a", steps_of("A B a"))
    assert [m.restored for m in session.moves] == [3, 3]
    assert [m.restored for m in QUARTERS.cycle[0].moves] == [None] * 4


def test_a_shape_of_two_trips_alternates_and_counts_its_edits():
    assert [step.letter for step in IN_TURN.trip(1).steps] == ["A", "a"]
    assert [step.letter for step in IN_TURN.trip(4).steps] == ["B", "b"]
    assert (IN_TURN.edits(3), NESTED.edits(3)) == (6, 12)


def test_an_audit_of_turns_uses_the_inverse_of_the_last_turn():
    assert QUARTERS.last_edit_as_pair(1).operator == "rotate_270"
    assert NESTED.last_edit_as_pair(1).object == "cup"
    assert IN_TURN.last_edit_as_pair(2).backward == IN_TURN.backward


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("A", "1 steps; a trip needs 2 to 12"),
        ("A a = = B b", "0 steps"),
        ("a A", "a undoes A, but A is not before it"),
        ("A a a", "undoes A twice"),
        ("A 1 a", "neither a letter nor ="),
        ("A a = B b = C c = D d = E e", "5 trips; it must have 1 to 4"),
        ("F " * 13, "13 steps"),
        ("", "0 trips"),
    ],
)
def test_an_invalid_shape_is_refused_with_a_reason(shape, message):
    with pytest.raises(ValueError, match=message):
        trip_shapes(shape, steps_of(shape))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "AB", "prompt": "x"}, "'AB' is not one letter"),
        ({"name": "A", "prompt": " "}, "A: prompt is empty"),
        ({"name": "A", "prompt": "x" * 1001}, "longer than 1000 characters"),
        ({"name": "A", "prompt": "x", "change": "global"}, "not one of exact, local, none"),
        ({"name": "A", "prompt": "x", "change": "exact"}, "must have an operator"),
        ({"name": "A", "prompt": "x", "change": "local"}, "must name its object"),
        ({"name": "a", "prompt": "x", "change": "local", "object": "cup"}, "only undoes"),
    ],
)
def test_an_incomplete_step_is_refused_by_its_letter(fields, message):
    with pytest.raises(ValueError, match=message):
        Step(**fields)


def test_letters_and_prompts_must_match():
    with pytest.raises(ValueError, match="B, b has no prompt"):
        trip_shapes("A B b a", steps("Aa"))
    with pytest.raises(ValueError, match="B, b is not in the shape"):
        trip_shapes("A a", steps("AaBb"))
    with pytest.raises(ValueError, match="first and last prompt"):
        _ = dataclasses.replace(NESTED, forward="Something else.").cycle


def test_a_suite_file_contains_its_shapes_and_an_altered_file_is_refused():
    data = json.loads(json.dumps(SHIPPED.to_dict()))
    assert Suite.from_dict(data) == SHIPPED
    del data["content_hash"]
    pair = next(pair for pair in data["pairs"] if pair["shape"] == "A B b a")
    pair["shape"] = "A B b c"
    with pytest.raises(SuiteError, match="c undoes C, but C is not before it"):
        Suite.from_dict(data)


def test_the_shipped_suite_has_every_shape_and_both_orders_on_each_of_its_images():
    shapes = {pair.shape for pair in SHIPPED.pairs}
    assert shapes == {"F F F F", "A a = B b", "A B b a", "A B C c b a", "A B a"}
    played = {(case.image, case.pair) for case in SHIPPED.cases}
    for image, pair in played:
        if against := SHIPPED.pair_by_slug[pair].against:
            assert (image, against) in played
    assert SHIPPED.edits == sum(SHIPPED.edits_of(case) for case in SHIPPED.cases) == 264
