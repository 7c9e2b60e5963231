from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pytest

from evaluation.__main__ import main
from evaluation.images import EncodedImage
from evaluation.testing.hostile_server import HostileServer, Received, as_json
from examples import example_server

KEY = "sk-canary-0123456789abcdef"


def command(*words: str) -> int:
    return main(["check-endpoint", *words])


@pytest.fixture
def server() -> Iterator[HostileServer]:
    """A Cog server that edits like the example if the key is right."""
    with HostileServer() as server:

        def predict(connection: object, received: Received) -> None:
            if received.headers.get("authorization") != f"Bearer {KEY}":
                reply = as_json({"detail": "that key is unknown here"}, 401)
            else:
                data = received.json()["input"]["image"].partition(",")[2]
                image = EncodedImage.from_bytes(base64.b64decode(data))
                edited = EncodedImage.from_image(example_server.edit(image.decoded, ""))
                encoded = base64.b64encode(edited.data).decode()
                reply = as_json({"status": "succeeded", "output": f"data:;base64,{encoded}"})
            connection.sendall(reply)  # type: ignore[attr-defined]

        server.does("/predictions", predict)
        yield server


def test_a_working_endpoint_ends_with_0(
    server: HostileServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    words = (server.url(), "--contract", "cog", "--key-env", "MY_KEY", "--allow-local")
    assert command(*words) == 0
    text = capsys.readouterr().out
    assert "✓ Image is restored: 100.0 % of the image was restored" in text
    assert "The endpoint works." in text
    assert KEY not in text
    assert command(*words, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is True
    assert report["seconds"] > 0


def test_a_failing_endpoint_ends_with_1_its_message_and_advice(
    server: HostileServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(server.url(), "--contract", "cog", "--allow-local") == 1
    text = capsys.readouterr().out
    assert "✗ Endpoint edits an image: HTTP 401 Unauthorized: that key is unknown" in text
    assert "Give a valid key." in text


def test_a_local_address_needs_the_switch(
    server: HostileServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(server.url()) == 1
    assert "the address must begin with https://" in capsys.readouterr().out
    assert server.connections == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--option", "surprise=1"), "the endpoint has no option 'surprise'"),
        (("--key-env", "NO_SUCH_VARIABLE"), "NO_SUCH_VARIABLE is not set"),
        (("--curl", "--option", "extra=[]"), "the option extra of the endpoint"),
    ],
)
def test_options_that_do_not_fit_are_named(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("https://example.com", *words) == 1
    assert message in capsys.readouterr().err


def test_the_request_can_be_shown_without_sending_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    words = ("--key-env", "MY_KEY", "--curl", "--option", "send_seed=false")
    assert command("https://example.com/v1", *words) == 0
    text = capsys.readouterr().out
    assert text.startswith("curl https://example.com/v1/images/edits")
    assert "$API_KEY" in text
    assert "seed" not in text
    assert KEY not in text
