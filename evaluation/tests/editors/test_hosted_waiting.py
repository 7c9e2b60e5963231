"""Hosted editors that are polled or return addresses, and what is special to one provider."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image

from evaluation.editors import EditorError, Fault
from evaluation.images import EncodedImage
from evaluation.testing.fake_providers import (
    FAKES,
    PROMPT,
    SIZE,
    FakeProvider,
    Load,
    fails,
)

WAITS = {
    "queued": None,
    "new-word": None,
    "poll-fault": None,
    "poll-html": None,
    "poll-dead": fails(Fault.SERVER_ERROR),
    "poll-key-rejected": fails(Fault.KEY_REJECTED, permanent=True),
    "poll-forever": fails(Fault.TIMEOUT),
    "foreign-poll": fails(Fault.BLOCKED, permanent=True),
    "task-error": fails(Fault.BAD_ANSWER),
}
QUEUES = sorted(name for name, fake in FAKES.items() if fake.polls)
BY_URL = sorted(name for name, fake in FAKES.items() if fake.returns_url)


@pytest.mark.parametrize("case", WAITS)
@pytest.mark.parametrize("fake", QUEUES, indirect=True)
def test_polling_ends_with_an_image_or_the_right_fault(
    fake: FakeProvider, load: Load, image: EncodedImage, case: str
) -> None:
    editor = load(timeout=0.4 if case == "poll-forever" else 30.0)
    fake.next(case)
    if WAITS[case] is None:
        assert editor.edit(image, PROMPT).image.size == SIZE
    else:
        with pytest.raises(EditorError) as caught:
            editor.edit(image, PROMPT)
        error = caught.value
        if case == "task-error" and fake.name == "fal":
            assert error.fault is Fault.SERVER_ERROR  # its type says internal_server_error
        else:
            assert (error.fault, error.permanent, error.retry_after) == WAITS[case]
        assert error.billed, "the edit was accepted"
    assert fake.edits == 1, "a paid edit is not ordered again for a bad poll"


FETCHES = {
    "image-fault": None,
    "image-expired": Fault.BAD_ANSWER,
    "image-redirect": Fault.BAD_ANSWER,
    "image-html": Fault.BAD_ANSWER,
    "image-cut": Fault.SERVER_ERROR,
    "image-drip": Fault.TIMEOUT,
}


@pytest.mark.parametrize("case", FETCHES)
@pytest.mark.parametrize("fake", BY_URL, indirect=True)
def test_an_address_in_the_answer_is_fetched_with_retries_and_limits(
    fake: FakeProvider, load: Load, image: EncodedImage, case: str
) -> None:
    editor = load(timeout=0.5 if case == "image-drip" else 30.0)
    fake.next(case)
    if FETCHES[case] is None:
        assert editor.edit(image, PROMPT).image.size == SIZE
    else:
        with pytest.raises(EditorError) as caught:
            editor.edit(image, PROMPT)
        assert caught.value.fault is FETCHES[case]
        assert caught.value.billed
    assert fake.edits == 1
    assert not any(request.path == "/elsewhere" for request in fake.requests)


@pytest.mark.parametrize(
    "address",
    [
        "http://169.254.169.254/latest",
        "https://169.254.169.254/latest",
        "https://10.0.0.5/x.png",
        "https://0x7f000001/x.png",
        "https://[::ffff:127.0.0.1]/x.png",
        "https://db.internal/x.png",
        "http://127.0.0.1:1/x.png",
        "file:///etc/passwd",
        "ftp://example.org/x.png",
        "not an address",
        "http://[::1",
        17,
        None,
        "",
    ],
)
@pytest.mark.parametrize("fake", ["dashscope"], indirect=True)
def test_an_address_that_is_private_or_not_https_is_not_fetched(load: Load, address: Any) -> None:
    with pytest.raises(EditorError) as caught:
        load().fetch_again(address)  # type: ignore[attr-defined]
    assert caught.value.fault is Fault.BAD_ANSWER


@pytest.mark.parametrize(
    ("fake", "case"),
    [("fal", "data-uri"), ("replicate", "data-uri"), ("ark", "by-url")],
    indirect=["fake"],
)
def test_an_answer_may_be_a_data_uri_or_an_address(
    fake: FakeProvider, load: Load, image: EncodedImage, case: str
) -> None:
    fake.next(case)
    assert load().edit(image, PROMPT).image.size == SIZE


@pytest.mark.parametrize("fake", ["replicate"], indirect=True)
def test_replicate_is_not_polled_when_it_answers_at_once(
    fake: FakeProvider, load: Load, image: EncodedImage
) -> None:
    fake.next("at-once")
    load().edit(image, PROMPT)
    assert [request.method for request in fake.requests] == ["POST", "GET"]


@pytest.mark.parametrize("fake", ["replicate"], indirect=True)
def test_replicate_gets_large_images_as_uploads(fake: FakeProvider, load: Load) -> None:
    noise = np.random.default_rng(1).integers(0, 256, (320, 320, 3), dtype=np.uint8)
    large = EncodedImage.from_image(Image.fromarray(noise))
    assert load().edit(large, PROMPT).image.size == (320, 320)
    upload, create = fake.requests[:2]
    assert upload.path == "/v1/files"
    assert create.json["input"]["input_images"] == [fake.url + "/files/0.png"]


@pytest.mark.parametrize("fake", ["bfl"], indirect=True)
@pytest.mark.parametrize(
    ("url", "trusted"),
    [
        ("https://api.bfl.ai/v1/get_result?id=1", True),
        ("https://api.eu2.bfl.ai/v1/get_result?id=1", True),
        ("https://bfl.ai/", True),
        ("http://api.bfl.ai/v1", False),
        ("https://api.bfl.ai:8443/v1", False),
        ("https://bfl.ai.example.org/", False),
        ("https://notbfl.ai/", False),
        ("https://api.bfl.ai@example.org/", False),
        ("https://example.org\\@api.bfl.ai/", False),
        ("https://example.org/?x=https://api.bfl.ai", False),
        ("https://example.org#.bfl.ai", False),
        ("//api.bfl.ai/", False),
        ("", False),
    ],
)
def test_the_key_goes_only_to_bfl(load: Load, url: str, trusted: bool) -> None:
    assert load()._trusts(url) is trusted  # type: ignore[attr-defined]


@pytest.mark.parametrize("fake", ["gemini"], indirect=True)
def test_gemini_states_the_retry_delay_inside_the_error(
    fake: FakeProvider, load: Load, image: EncodedImage
) -> None:
    fake.next("limited-inside")
    with pytest.raises(EditorError) as caught:
        load().edit(image, PROMPT)
    assert (caught.value.fault, caught.value.retry_after) == (Fault.RATE_LIMITED, 20.5)


@pytest.mark.parametrize("fake", ["gemini"], indirect=True)
def test_geminis_thoughts_are_noted_and_its_drafts_ignored(load: Load, image: EncodedImage) -> None:
    answer = load().edit(image, PROMPT)
    assert answer.notes["reasoning"] == "First I look at the image."
    assert answer.notes["usage"]["candidates_token_count"] == 1290


@pytest.mark.parametrize("fake", ["openai-images"], indirect=True)
def test_openais_cost_is_counted_from_its_tokens(load: Load, image: EncodedImage) -> None:
    answer = load(price=0.065).edit(image, PROMPT)
    assert answer.cost == pytest.approx((100 * 5 + 1000 * 8 + 2000 * 30) / 1e6)
    assert load(price=0.065, token_prices=None).edit(image, PROMPT).cost == 0.065


@pytest.mark.parametrize("fake", ["gemini", "openai-images"], indirect=True)
def test_an_interrupt_of_the_worker_passes_through_the_sdk(
    fake: FakeProvider, load: Load, image: EncodedImage
) -> None:
    """RQ ends a job by raising from a signal, which must not be treated as a network error."""
    import signal

    class JobTimeout(Exception):
        pass

    def ring(*_: object) -> None:
        raise JobTimeout

    editor = load()
    editor.edit(image, PROMPT)
    fake.next("slow")
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(JobTimeout):
            editor.edit(image, PROMPT)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
