"""Every hosted editor in every case, with a local server that imitates its provider."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from evaluation.editors import Answer, EditorError, Fault, Refused
from evaluation.images import EncodedImage
from evaluation.testing.fake_providers import (
    KEY,
    PROMPT,
    SIZE,
    FakeProvider,
    Load,
    fails,
)
from evaluation.testing.waiting import wait_until

# The expected fault of each case, for every provider. The fakes list their refusals.
OUTCOMES = {
    "limited": fails(Fault.RATE_LIMITED),
    "limited-wait": fails(Fault.RATE_LIMITED, retry_after=7),
    "server-error": fails(Fault.SERVER_ERROR),
    "overloaded": fails(Fault.SERVER_ERROR, retry_after=3),
    "bad-gateway": fails(Fault.SERVER_ERROR),
    "key-rejected": fails(Fault.KEY_REJECTED, permanent=True),
    "no-credit": fails(Fault.OUT_OF_CREDIT, permanent=True),
    "gone": fails(Fault.CONFIGURATION, permanent=True),
    "bad-request": fails(Fault.BAD_REQUEST, permanent=True),
    "redirect": fails(Fault.CONFIGURATION, permanent=True),
    "html": fails(Fault.SERVER_ERROR),
    "empty": fails(Fault.SERVER_ERROR),
    "nonsense": fails(Fault.SERVER_ERROR),
    "cut": fails(Fault.SERVER_ERROR),
    "reset": fails(Fault.SERVER_ERROR),
    "truncated": fails(Fault.BAD_ANSWER),
    "wrong-type": fails(Fault.BAD_ANSWER),
    "no-image": fails(Fault.BAD_ANSWER),
    "html-image": fails(Fault.BAD_ANSWER),
    "bomb": fails(Fault.BAD_ANSWER),
}


@pytest.mark.parametrize("case", OUTCOMES)
def test_each_failure_has_its_fault_and_is_not_retried(
    fake: FakeProvider, load: Load, image: EncodedImage, case: str
) -> None:
    fake.next(case)
    with pytest.raises(EditorError) as caught:
        load().edit(image, PROMPT, seed=7)
    error = caught.value
    assert (error.fault, error.permanent, error.retry_after) == OUTCOMES[case]
    assert fake.edits == 1, "whether to ask again is the harness's decision"
    assert len(error.message) < 700
    assert KEY not in f"{error} {error.message} {error.__cause__}"


def test_every_shape_of_a_refusal_is_a_refusal(
    fake: FakeProvider, load: Load, image: EncodedImage
) -> None:
    editor = load()
    for shape in fake.refusals:
        fake.next(shape)
        with pytest.raises(Refused) as caught:
            editor.edit(image, PROMPT, seed=7)
        assert caught.value.reason, shape
    assert fake.edits == len(fake.refusals)


def test_an_error_inside_a_200_is_a_failure_with_its_message(
    fake: FakeProvider, load: Load, image: EncodedImage
) -> None:
    fake.next("error-inside")
    with pytest.raises(EditorError, match="This is error-inside") as caught:
        load().edit(image, PROMPT)
    assert caught.value.fault in (Fault.SERVER_ERROR, Fault.BAD_ANSWER)
    assert not caught.value.permanent


def test_an_edit_returns_its_time_cost_and_notes(
    fake: FakeProvider, load: Load, image: EncodedImage
) -> None:
    answer = load(price=0.04, price_date="2026-11-15").edit(image, PROMPT, seed=7)
    assert answer.image.size == SIZE
    assert answer.image.mime == answer.notes["mime"] == "image/png"
    assert answer.image.sha256 != image.sha256
    assert 0 < answer.seconds < 5
    assert answer.cost is not None
    assert answer.notes["request_id"]


def test_an_answer_of_another_size_or_type_is_accepted_unchanged(
    fake: FakeProvider, load: Load, image: EncodedImage
) -> None:
    editor = load()
    fake.next("other-size", "jpeg")
    assert editor.edit(image, PROMPT).image.size == (SIZE[0] * 2, SIZE[1])
    jpeg = editor.edit(image, PROMPT).image
    assert jpeg.mime == "image/jpeg"
    editor.edit(jpeg, PROMPT)  # the fake accepts nothing but PNG


@pytest.mark.parametrize("case", ["slow", "drip"])
def test_a_slow_answer_ends_at_the_deadline(
    fake: FakeProvider, load: Load, image: EncodedImage, case: str
) -> None:
    editor = load()
    editor.edit(image, PROMPT)  # SDKs take their time on first use
    editor.timeout = 0.3  # type: ignore[attr-defined]
    fake.next(case)
    started = time.monotonic()
    with pytest.raises(EditorError) as caught:
        editor.edit(image, PROMPT)
    assert time.monotonic() - started < 1.5
    assert (caught.value.fault, caught.value.permanent) == (Fault.TIMEOUT, False)
    assert caught.value.billed, "the image may have been made"


def test_an_endless_answer_is_cut(fake: FakeProvider, load: Load, image: EncodedImage) -> None:
    editor = load()
    editor.http.max_bytes = 3000  # type: ignore[attr-defined]
    fake.next("drip")
    fake.misbehave = lambda case: None  # type: ignore[method-assign]
    big = EncodedImage.from_image(image.decoded.resize((96, 96)))
    with pytest.raises(EditorError, match="too large") as caught:
        editor.edit(big, PROMPT)
    assert caught.value.fault is Fault.BAD_ANSWER


def test_close_ends_calls_in_flight_and_later_ones(
    fake: FakeProvider, load: Load, image: EncodedImage
) -> None:
    editor = load(timeout=30.0)
    editor.edit(image, PROMPT)
    fake.next("slow")
    ended: list[Exception] = []

    def call() -> None:
        try:
            editor.edit(image, PROMPT)
        except Exception as error:
            ended.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    wait_until(lambda: fake.edits == 2)
    editor.close()
    thread.join(timeout=2)
    assert not thread.is_alive()
    with pytest.raises(EditorError) as later:
        editor.edit(image, PROMPT)
    assert [type(error) for error in ended] == [EditorError]
    assert later.value.permanent
    assert fake.edits == 2


def test_threads_share_one_editor(fake: FakeProvider, load: Load, image: EncodedImage) -> None:
    editor = load()

    def edit(number: int) -> Answer:
        return editor.edit(image, f"{PROMPT} {number}", seed=number)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(edit, range(24)))
    assert fake.edits == 24
    assert {answer.image.size for answer in answers} == {SIZE}


def test_a_closed_port_is_unreachable_and_not_billed(
    fake: FakeProvider, load: Load, image: EncodedImage
) -> None:
    editor = load()
    fake.__exit__()
    with pytest.raises(EditorError) as caught:
        editor.edit(image, PROMPT)
    assert (caught.value.fault, caught.value.permanent) == (Fault.UNREACHABLE, False)
    assert not caught.value.billed


def test_the_key_is_in_no_url_and_not_sent_to_fetch_an_image(
    fake: FakeProvider, load: Load, image: EncodedImage
) -> None:
    load().edit(image, PROMPT, seed=7)
    for request in fake.requests:
        assert KEY not in request.path + request.query
        headers = str(dict(request.headers))
        assert (KEY in headers) == (request.path not in fake.files)


@pytest.mark.parametrize(
    ("key", "fault", "sent"),
    [
        ("  ", Fault.CONFIGURATION, 0),
        ("key\r\nX-Evil: 1", Fault.CONFIGURATION, 0),
        ("another-key", Fault.KEY_REJECTED, 1),
    ],
)
def test_a_missing_malformed_or_wrong_key_is_reported(
    fake: FakeProvider,
    load: Load,
    image: EncodedImage,
    monkeypatch: pytest.MonkeyPatch,
    key: str,
    fault: Fault,
    sent: int,
) -> None:
    editor = load()
    assert editor.missing() == []
    monkeypatch.setenv(fake.key_variable, key)
    with pytest.raises(EditorError) as caught:
        editor.edit(image, PROMPT)
    assert (caught.value.fault, caught.value.permanent) == (fault, True)
    assert len(fake.requests) == sent
    if not sent:
        assert any(fake.key_variable in reason for reason in editor.missing())


def test_the_key_is_not_sent_unencrypted(load: Load, image: EncodedImage) -> None:
    editor = load(base_url="http://api.example.org/v1")
    assert any("https" in reason for reason in editor.missing())
    with pytest.raises(EditorError) as caught:
        editor.edit(image, PROMPT)
    assert caught.value.fault is Fault.CONFIGURATION


def test_the_description_has_all_settings_but_not_the_key(fake: FakeProvider, load: Load) -> None:
    editor = load(price=0.04, price_date="2026-11-15")
    described = editor.describe()
    assert described["model"] == fake.row["model"]
    assert described["price_date"] == "2026-11-15"
    assert KEY not in f"{described} {editor!r}"


def test_an_image_too_small_for_the_model_is_sent_enlarged(
    fake: FakeProvider, load: Load, image: EncodedImage
) -> None:
    answer = load(min_input_side=96).edit(image, PROMPT)
    assert answer.notes["sent_at"] == "128x96"
    assert answer.image.size == (128, 96), "the fake keeps the size it is sent"
    assert "sent_at" not in load(min_input_side=48).edit(image, PROMPT).notes
