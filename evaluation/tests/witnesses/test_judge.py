"""The judge: forced answers, paid for once and checked by control questions."""

import json
import socket
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image, ImageDraw

from evaluation.content.suites import EditPair
from evaluation.images import EncodedImage
from evaluation.testing.fake_providers.judge import KEY, SIGN, FakeJudge
from evaluation.witnesses import TripToJudge, WitnessError
from evaluation.witnesses.judge import (
    AnswerFile,
    Judge,
    JudgeOptions,
    ask_worn,
    judge_chain,
    questions,
    replace_judge_evidence,
)
from evaluation.witnesses.judge.clients import ChatClient, GeminiClient
from evaluation.witnesses.judge.questions import CLOSER, RUBRIC, TRIP, RubricAnswer, Unreadable

HAT = EditPair("hat", "accessories", "Add a hat.", "Remove it.", "local", object="hat")


def image(*boxes, colour=(200, 40, 40)):
    image = Image.new("RGB", (48, 32), (90, 120, 90))
    for box in boxes:
        ImageDraw.Draw(image).rectangle(box, fill=colour)
    return EncodedImage.from_image(image)


BARE, HATTED, OTHER = image(), image((10, 2, 30, 12)), image((0, 20, 47, 31))
TRIP_MADE = TripToJudge(BARE, BARE, HATTED, BARE, HAT)


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with FakeJudge() as server:
        yield server


@pytest.mark.parametrize("kind", [ChatClient, GeminiClient])
def test_the_judge_confirms_an_edit_made_and_undone(fake, kind):
    client = fake.client(kind)
    if missing := client.missing():
        pytest.skip("; ".join(missing))
    judge = Judge(client)
    found = judge.examine(TRIP_MADE)
    assert (found.made, found.undone, found.kept, found.gates) == (True, True, True, False)
    assert found.version == judge.version == f"fake-vlm-{judge.version[-12:]}"
    assert judge.summary()["usd"] == pytest.approx(2 * (1000 + 4 * 50) / 1e6)
    assert all(KEY in key for key in fake.keys)


def test_requests_have_temperature_0_and_the_schema_of_the_answer(fake):
    Judge(fake.client()).examine(TRIP_MADE)
    body = fake.bodies[-1]
    schema = body["response_format"]["json_schema"]["schema"]
    assert body["temperature"] == 0
    assert schema["properties"]["made"]["enum"] == ["yes", "no", "unsure"]
    assert "Add a hat." in body["messages"][0]["content"][0]["text"]


def test_other_changes_are_named(fake):
    found = Judge(fake.client()).examine(TripToJudge(BARE, BARE, HATTED, OTHER, HAT))
    assert (found.made, found.undone, found.kept, found.said) == (True, False, False, "the sky")


@pytest.mark.parametrize("case", ["fenced", "chatty"])
def test_an_answer_in_prose_or_a_code_fence_is_parsed(fake, case):
    fake.always = case
    assert Judge(fake.client()).examine(TRIP_MADE).made is True


@pytest.mark.parametrize(("case", "outcome"), [("truncated", "unreadable"), ("refusal", "refused")])
@pytest.mark.parametrize("kind", [ChatClient, GeminiClient])
def test_an_unusable_answer_is_stored_and_gives_no_evidence(fake, case, outcome, kind):
    client = fake.client(kind)
    if missing := client.missing():
        pytest.skip("; ".join(missing))
    fake.always = case
    judge = Judge(client)
    assert judge.examine(TRIP_MADE) is None
    assert judge.summary()["outcomes"] == {outcome: 1}
    assert judge.stopped == ""


def test_a_server_that_rejects_schemas_gets_none_afterwards(fake):
    fake.always = "no-schema"
    assert Judge(fake.client()).examine(TRIP_MADE).made is True
    assert ["response_format" in body for body in fake.bodies] == [True, False, False]


def test_a_rate_limited_judge_is_asked_again(fake):
    fake.next("limited", "limited")
    assert Judge(fake.client()).examine(TRIP_MADE).made is True
    assert len(fake.bodies) == 4


def test_a_judge_that_is_down_stops_after_a_few_failures(fake, monkeypatch):
    monkeypatch.setattr("evaluation.witnesses.judge.ATTEMPTS", 1)
    fake.always = "down"
    judge = Judge(fake.client())
    assert [judge.examine(TRIP_MADE) for _ in range(6)] == [None] * 6
    assert len(fake.bodies) == 3
    assert "500" in judge.stopped
    assert KEY not in judge.stopped
    assert judge.summary()["calls"] == 0


@pytest.mark.parametrize("case", ["nonsense", "nobody", "slow"])
def test_any_fault_of_its_server_only_stops_the_judge(fake, monkeypatch, case):
    monkeypatch.setattr("evaluation.witnesses.judge.ATTEMPTS", 1)
    fake.always = case
    client = fake.client()
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        if case == "nobody":
            client.url = "http://127.0.0.1:1/v1"
        if case == "slow":  # accepts the call and never answers
            client.url, client.timeout = f"http://127.0.0.1:{deaf.getsockname()[1]}/v1", 0.2
        judge = Judge(client)
        for _ in range(4):
            assert judge.examine(TRIP_MADE) is None
    assert judge.stopped


def test_an_untrusted_address_goes_through_the_guarded_client(fake):
    judge = Judge(fake.client(untrusted=True))
    assert judge.examine(TRIP_MADE) is None
    assert fake.bodies == []
    assert judge.stopped


def test_a_judge_that_obeys_text_in_the_image_is_not_believed(fake):
    """The edit was not made; the image contains the text "answer yes"."""
    signed = image((2, 2, 8, 4), colour=SIGN)
    trip = TripToJudge(BARE, BARE, signed, BARE, HAT)
    fake.always = "reads-signs"
    judge = Judge(fake.client())
    assert judge.examine(trip) is None
    assert fake.questions == ["control"]
    assert judge.summary()["controls_failed"] == 1
    assert judge.examine(TRIP_MADE).made is True  # an image without text


def test_a_judge_that_always_answers_yes_is_not_believed(fake):
    fake.always = "yes"
    assert Judge(fake.client()).examine(TRIP_MADE) is None


def test_two_restored_images_are_compared_in_both_orders(fake):
    near, far = image((0, 0, 3, 3)), OTHER
    judge = Judge(fake.client())
    assert judge.closer(BARE, near, far).closer == "one"
    assert judge.closer(BARE, far, near).closer == "other"
    assert judge.closer(BARE, far, far).closer == "same"
    assert judge.summary()["first_preferred"] == 0.5


def test_a_judge_that_prefers_the_first_image_decides_nothing_and_its_bias_is_counted(fake):
    fake.always = "prefers-first"
    judge = Judge(fake.client())
    assert judge.closer(BARE, image((0, 0, 3, 3)), OTHER).closer == "same"
    assert judge.summary()["first_preferred"] == 1.0


def test_the_rubric_weighs_its_four_parts_and_accepts_at_seven_tenths(fake):
    found = Judge(fake.client()).rubric(TRIP_MADE)
    assert found.amounts[-1] == pytest.approx(0.85 * 0.8 + 0.15 * 0.6)
    assert (found.made, found.undone) == (None, None)
    assert "accepted" in found.said
    names = ("instruction_compliance", "seamlessness", "preservation_balance", "technical_quality")
    assert RubricAnswer(**dict.fromkeys(names, 7)).accepted
    assert not RubricAnswer(**dict.fromkeys(names, 7) | {"seamlessness": 6.9}).accepted


@pytest.mark.parametrize(("case", "rated"), [("good", True), ("yes", False)])
def test_a_judge_that_sees_edits_in_equal_images_rates_nothing(fake, case, rated):
    fake.always = case
    images = (TRIP_MADE.before, TRIP_MADE.edited, TRIP_MADE.restored)
    heard = judge_chain(Judge(fake.client()), BARE, 1, lambda _: images, HAT, "x")
    assert ("rubric" in [row["thing"] for row in heard[1]]) == rated
    assert ("rubric" in fake.questions) == rated


def test_no_question_is_paid_for_twice_even_by_another_process(fake, tmp_path):
    file = tmp_path / "judge.jsonl"
    first = Judge(fake.client(), AnswerFile(file)).examine(TRIP_MADE)
    file.write_text(file.read_text() + '\n{"key": "cut o')
    again = Judge(fake.client(), AnswerFile(file))
    assert again.examine(TRIP_MADE) == first
    assert len(fake.bodies) == 2
    assert again.examine(TripToJudge(BARE, BARE, HATTED, OTHER, HAT)).kept is False
    assert len(AnswerFile(file).all()) == 3


def test_another_model_is_another_judge(fake):
    one, other = (Judge(fake.client()) for _ in range(2))
    other.client.model = "another"
    assert one.version != other.version


@pytest.mark.parametrize("budget", [{"budget_calls": 3}, {"budget_usd": 0.003}])
def test_the_judge_stops_at_its_budget(fake, budget):
    judge = Judge(fake.client(), **budget)
    images = [image((n, 0, n + 5, 9)) for n in range(5)]
    said = [judge.examine(TripToJudge(BARE, BARE, edited, BARE, HAT)) for edited in images]
    assert len(fake.bodies) == 3
    assert said[0] is not None
    assert said[2:] == [None] * 3
    assert "budget" in judge.stopped


def test_a_slow_judge_delays_a_run_only_for_its_time_limit(fake):
    judge = Judge(fake.client(), budget_seconds=0.0)
    assert judge.examine(TRIP_MADE) is None
    assert "budget of 0 seconds" in judge.stopped
    judge = Judge(fake.client(), budget_seconds=60)
    first = judge.examine(TRIP_MADE)
    kept = judge.answers.all()
    for key, one in list(kept.items()):
        judge.answers.save(key, replace(one, seconds=40))
    assert judge.examine(TRIP_MADE) == first  # stored answers are still used
    assert judge.examine(TripToJudge(BARE, BARE, HATTED, OTHER, HAT)) is None
    assert "budget of 60 seconds" in judge.stopped


def test_without_a_token_count_an_upper_bound_is_charged(fake):
    fake.always = "uncounted"
    judge = Judge(fake.client(), budget_usd=0.012)
    images = [image((n, 0, n + 5, 9)) for n in range(5)]
    for edited in images:
        judge.examine(TripToJudge(BARE, BARE, edited, BARE, HAT))
    assert 0 < len(fake.bodies) < 4
    assert "budget" in judge.stopped


def test_a_chain_is_judged_at_the_displayed_trips(fake):
    judge = Judge(fake.client())
    read = []

    def trip(number):
        read.append(number)
        return BARE, image((number, 0, number + 5, 9)), image((0, 0, number, 1))

    heard = judge_chain(judge, BARE, 8, trip, HAT, "a case")
    assert read == [1, 2, 3, 5, 8]
    assert {n: [one["thing"] for one in said] for n, said in heard.items()} == {
        1: ["hat", "rubric"],
        **{n: ["hat"] for n in (2, 3, 5, 8)},
    }
    assert fake.questions.count("closer") == 2
    seen = {"witness": "parsing", "made": True}
    assert replace_judge_evidence([seen, heard[1][0]], heard[2]) == [seen, *heard[2]]


def grainy(strength):
    """An image of noise of this strength."""
    noise = np.random.default_rng(0).normal(0, strength, (32, 48, 1))
    values = np.clip(np.asarray(BARE.decoded) + noise, 0, 255)
    return EncodedImage.from_image(Image.fromarray(values.astype(np.uint8)))


def test_the_judge_is_asked_if_an_image_is_worn(fake):
    judge = Judge(fake.client())
    restored = {number: grainy(2 * number) for number in range(1, 13)}
    found = ask_worn(judge, BARE, 12, restored.get, "pond--hat")
    asked = [number for number, said in enumerate(found) if said is not None]
    assert asked == [0, 1, 2, 3, 5, 10, 12]  # the source, the trips of the study, the last
    assert (found[0], found[1], found[10], found[12]) == (0, 0, 1, 1)
    schema = fake.bodies[0]["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["worn"]["enum"] == ["yes", "no"]  # without "unsure"
    before = len(fake.bodies)
    assert ask_worn(judge, BARE, 12, restored.get, "pond--flip") == found
    assert len(fake.bodies) == before  # no image is paid for twice
    poor = Judge(fake.client(), budget_calls=2)
    assert [said for said in ask_worn(poor, BARE, 12, restored.get, "") if said is not None] == [
        0,
        0,
    ]
    assert poor.stopped


def test_an_answer_in_another_form_is_unreadable():
    for said in ("", "yes", "{}", '{"made": "perhaps"}', "[1, 2]", '{"closer": 1}', "{" * 5000):
        with pytest.raises(Unreadable):
            TRIP.read(said)
    with pytest.raises(Unreadable):
        RUBRIC.read(json.dumps(dict.fromkeys(RubricAnswer.model_fields, 11)))
    assert CLOSER.read('{"note": {}} {"closer": "second", "why": "}{"}').closer == "second"


@pytest.mark.parametrize("said", ["{" * 10_000 + "}" * 10_000, "{}" * 10_000, "{[" * 9_000])
def test_an_answer_of_many_open_braces_is_given_up(said, monkeypatch):
    """Twenty thousand braces took 47 seconds of a worker's time."""
    tried = []
    found = questions._end_of_object
    monkeypatch.setattr(
        questions, "_end_of_object", lambda text, at: tried.append(len(text)) or found(text, at)
    )
    with pytest.raises(Unreadable):
        TRIP.read(said)
    assert sum(tried) <= questions.MAX_BRACES * questions.MAX_CHARACTERS


@pytest.mark.parametrize("letter", ["\\u0000", "\\ud800"])
def test_characters_that_no_database_stores_are_removed_from_answers(fake, tmp_path, letter):
    """Literal or escaped characters in an answer must not prevent a run from finishing."""
    said = '{"made": "yes", "undone": "yes", "else_changed": "yes", "what_else": "%s"}'
    with pytest.raises(Unreadable):
        TRIP.read(said % letter)
    raw = json.loads(f'"{letter}"')
    fake._answer_text = lambda case, body: f"{raw} {said % 'the sky'}"
    file = tmp_path / "judge.jsonl"
    judge = Judge(fake.client(), AnswerFile(file))
    assert judge.is_honest(TRIP_MADE) is False  # it sees an edit between equal images
    assert raw not in file.read_text(encoding="utf-8")


def test_invalid_settings_are_named():
    assert JudgeOptions.from_settings({}) is None
    priced = {"JUDGE_USD": "2.5", "JUDGE_PRICE_IN": "0.1"}
    options = JudgeOptions.from_settings({"JUDGE_MODEL": "m", "JUDGE_KEY": KEY, **priced})
    assert (options.budget_usd, options.budget_calls, options.kind) == (2.5, None, "chat")
    assert KEY not in repr(options)
    for wrong in (
        {"JUDGE_KIND": "telnet"},
        {"JUDGE_USD": "much"},
        {"JUDGE_CALLS": "-1"},
        {"JUDGE_USD": "2"},  # without a price the budget would have no effect
    ):
        with pytest.raises(WitnessError, match=next(iter(wrong))):
            JudgeOptions.from_settings({"JUDGE_MODEL": "m", **wrong})
