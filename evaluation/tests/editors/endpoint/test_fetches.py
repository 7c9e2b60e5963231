"""Answers of an endpoint that must be fetched from an address, or polled."""

from __future__ import annotations

import time

import pytest

from evaluation.editors.contracts import cog
from evaluation.errors import Fault
from evaluation.testing.endpoints import EDITED, GOOD, IMAGE, KEY, PATHS, endpoint, failure
from evaluation.testing.hostile_server import HostileServer, as_json, response


@pytest.mark.parametrize("contract", ["openai-edits", "openai-generations", "cog"])
def test_a_url_in_the_answer_is_fetched_without_the_key(
    server: HostileServer, contract: str
) -> None:
    url = server.answers("/file.png", response(200, EDITED.data, "image/png"))
    server.answers(PATHS[contract], as_json({"data": [{"url": url}], "output": [url]}))
    answer = endpoint(server, contract=contract).edit(IMAGE, "x", seed=1)
    assert answer.image.data == EDITED.data
    assert answer.notes["fetched_from_url"]
    assert not {"authorization", "idempotency-key"} & set(server.received[1].headers)


@pytest.mark.parametrize(
    "target",
    ["http://169.254.169.254/x.png", "http://0xa9fea9fe/", "http://[fe80::1]/", "https://[::]/"],
)
def test_a_url_in_the_answer_passes_the_same_guard(
    server: HostileServer, events: list[tuple[str, str]], target: str
) -> None:
    error = failure(
        server,
        as_json({"data": [{"url": target}]}),
        on_security_event=lambda *event: events.append(event),
    )
    assert (error.fault, error.permanent) == (Fault.BLOCKED, True)
    assert [kind for kind, _ in events] == ["answer_url"]


def test_a_redirect_of_a_url_in_the_answer_is_not_followed(server: HostileServer) -> None:
    server.answers("/2", response(200, EDITED.data, "image/png"))
    url = server.answers("/1", response(302, Location="/2"))
    failure(server, as_json({"data": [{"url": url}]}))
    assert [received.path for received in server.received] == [PATHS["openai-edits"], "/1"]


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (response(404), "HTTP 404"),
        (response(200, b"<html>", "text/html"), "got a web page"),
        (response(200, b"", "image/png"), "0 bytes"),
        (response(200, b"x" * 90_000, "image/png"), "response too large"),
    ],
)
def test_a_url_in_the_answer_has_the_same_failures_as_the_answer(
    server: HostileServer, reply: bytes, words: str
) -> None:
    url = server.answers("/1", reply)
    error = failure(server, as_json({"data": [{"url": url}]}), max_bytes=80_000)
    assert words in error.message


# --- Cog ---------------------------------------------------------------------------------


@pytest.fixture
def _quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cog, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(cog, "LONGEST_WAIT", 0.05)


@pytest.mark.usefixtures("_quick_polls")
def test_a_prediction_is_polled_until_it_is_ready(server: HostileServer) -> None:
    server.answers(PATHS["cog"], as_json({"id": "p-1", "status": "starting"}, 202))
    server.answers(
        PATHS["cog"] + "/p-1", as_json({"id": "p-1", "status": "processing"}), GOOD["cog"]
    )
    answer = endpoint(server, contract="cog").edit(IMAGE, "x", seed=1)
    assert answer.image.data == EDITED.data
    assert server.received[-1].method == "GET"
    assert server.received[-1].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.usefixtures("_quick_polls")
def test_polling_another_host_does_not_send_the_key(server: HostileServer) -> None:
    with HostileServer() as elsewhere:
        url = elsewhere.answers("/p", GOOD["cog"])
        server.answers(PATHS["cog"], as_json({"status": "processing", "urls": {"get": url}}, 201))
        endpoint(server, contract="cog").edit(IMAGE, "x", seed=1)
        assert "authorization" not in elsewhere.received[0].headers


@pytest.mark.usefixtures("_quick_polls")
def test_a_prediction_that_never_ends_meets_the_deadline(server: HostileServer) -> None:
    server.answers(PATHS["cog"] + "/p1", as_json({"id": "p1", "status": "processing"}))
    start = time.monotonic()
    error = failure(
        server, as_json({"id": "p1", "status": "starting"}, 202), contract="cog", timeout=0.4
    )
    assert (error.fault, error.permanent) == (Fault.TIMEOUT, False)
    assert time.monotonic() - start < 2.5


@pytest.mark.usefixtures("_quick_polls")
def test_the_number_of_polls_is_limited(
    server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cog, "MAX_POLLS", 3)
    server.answers(PATHS["cog"] + "/p1", as_json({"id": "p1", "status": "processing"}))
    error = failure(server, as_json({"id": "p1", "status": "starting"}, 202), contract="cog")
    assert error.fault is Fault.TIMEOUT
    assert len(server.received) <= 4


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        (as_json({"detail": "Already running a prediction"}, 409), Fault.RATE_LIMITED),
        (as_json({"status": "failed", "error": "CUDA error"}), Fault.BAD_ANSWER),
        (as_json({"status": "failed"}), Fault.BAD_ANSWER),
        (as_json({"status": "canceled"}), Fault.BAD_ANSWER),
        (as_json({"status": "succeeded", "output": None}), Fault.BAD_ANSWER),
        (as_json({"status": "succeeded", "output": []}), Fault.BAD_ANSWER),
        (as_json({"status": "processing"}, 202), Fault.BAD_ANSWER),
        (as_json({"status": "processing", "id": "../../etc"}, 202), Fault.BAD_ANSWER),
        (as_json({"status": "processing", "urls": {"get": "http://[fe80::1]/"}}), Fault.BLOCKED),
    ],
)
@pytest.mark.usefixtures("_quick_polls")
def test_a_failed_prediction_has_the_right_fault(
    server: HostileServer, reply: bytes, fault: Fault
) -> None:
    assert failure(server, reply, contract="cog").fault is fault
