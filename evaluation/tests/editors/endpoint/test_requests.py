"""The requests to an endpoint in every contract, and settings that are refused."""

from __future__ import annotations

import base64
import json
import logging
import shutil
import subprocess
import traceback
from email.parser import BytesParser
from email.policy import HTTP
from pathlib import Path
from typing import Any

import pytest

from evaluation.editors import load_editor
from evaluation.editors.base import EditContext, EditSettings
from evaluation.editors.contracts import CONTRACTS, as_curl
from evaluation.editors.endpoint import Endpoint
from evaluation.errors import EditorError, Fault
from evaluation.net.addresses import AddressRefused
from evaluation.testing.endpoints import EDITED, GOOD, IMAGE, KEY, PATHS, endpoint, failure
from evaluation.testing.hostile_server import HostileServer, Received, as_json


def form(received: Received) -> dict[str, Any]:
    """Return the fields of a multipart body; files are (name, type, bytes)."""
    head = f"Content-Type: {received.headers['content-type']}\r\n\r\n".encode()
    parts: dict[str, Any] = {}
    for part in BytesParser(policy=HTTP).parsebytes(head + received.body).iter_parts():
        name = str(part.get_param("name", header="content-disposition"))
        data = part.get_payload(decode=True)
        file = part.get_filename()
        parts[name] = (file, part.get_content_type(), data) if file else data.decode()
    return parts


@pytest.mark.parametrize("contract", CONTRACTS)
def test_an_edit_comes_back_in_every_contract(server: HostileServer, contract: str) -> None:
    server.answers(PATHS[contract], GOOD[contract])
    editor = endpoint(server, contract=contract, price=0.04)
    answer = editor.edit(IMAGE, "Add a hat.", seed=5)
    assert answer.image.data == EDITED.data
    assert answer.cost == 0.04
    assert 0 < answer.seconds < 10
    (received,) = server.received
    assert received.method == "POST"
    assert received.headers["authorization"] == f"Bearer {KEY}"
    assert len(received.headers["idempotency-key"]) == 32
    assert received.headers["user-agent"].startswith("ConvergeBench/")


def test_openai_edits_is_multipart_as_servers_expect_it(server: HostileServer) -> None:
    server.answers(PATHS["openai-edits"], GOOD["openai-edits"])
    endpoint(server, model="m1", extra={"quality": "high", "steps": 4, "hd": True}).edit(
        IMAGE, '@file ümlaut "quoted"\r\nline', seed=5
    )
    assert form(server.received[0]) == {
        "image": ("image.png", "image/png", IMAGE.data),
        "prompt": '@file ümlaut "quoted"\r\nline',
        "model": "m1",
        "n": "1",
        "size": "48x32",
        "output_format": "png",
        "response_format": "b64_json",
        "seed": "5",
        "quality": "high",
        "steps": "4",
        "hd": "true",
    }


def test_every_switch_removes_its_field(server: HostileServer) -> None:
    server.answers(PATHS["openai-edits"], GOOD["openai-edits"])
    endpoint(
        server,
        send_seed=False,
        send_response_format=False,
        size="omit",
        extra={"output_format": None},
        image_field="image[]",
    ).edit(IMAGE, "Add a hat.", seed=5)
    assert set(form(server.received[0])) == {"image[]", "prompt", "n"}


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("", ("image", "data:image/png;base64,{}")),
        ("image[]", ("image", ["data:image/png;base64,{}"])),
        ("file", ("file", "{}")),
        ("ref_images[]", ("ref_images", ["{}"])),
    ],
)
def test_generations_put_the_image_where_the_server_wants_it(
    server: HostileServer, field: str, expected: tuple[str, Any]
) -> None:
    server.answers(PATHS["openai-generations"], GOOD["openai-generations"])
    editor = endpoint(server, contract="openai-generations", image_field=field, size="1024x768")
    editor.edit(IMAGE, "Prompt ü", seed=5)
    body = server.received[0].json()
    name, value = expected
    text = json.dumps(value).replace("{}", base64.b64encode(IMAGE.data).decode())
    assert body.pop(name) == json.loads(text)
    assert body == {
        "prompt": "Prompt ü",
        "n": 1,
        "size": "1024x768",
        "output_format": "png",
        "response_format": "b64_json",
        "seed": 5,
    }


def test_huggingface_hub_sends_the_same(server: HostileServer) -> None:
    hub = pytest.importorskip("huggingface_hub")
    server.answers("/v1", GOOD["huggingface"])
    size = hub.ImageToImageTargetSize(width=48, height=32)
    hub.InferenceClient(model=server.url("/v1"), token=KEY).image_to_image(
        IMAGE.data, prompt="Add a hat.", target_size=size, seed=5, strength=0.5
    )
    endpoint(server, contract="huggingface", extra={"strength": 0.5}).edit(
        IMAGE, "Add a hat.", seed=5
    )
    theirs, ours = server.received
    assert ours.json() == theirs.json()
    for name in ("accept", "authorization", "content-type"):
        assert ours.headers[name] == theirs.headers[name]


def test_openais_client_sends_the_same(server: HostileServer) -> None:
    openai = pytest.importorskip("openai")
    server.answers(PATHS["openai-edits"], GOOD["openai-edits"])
    client = openai.OpenAI(base_url=server.url("/v1"), api_key=KEY, max_retries=0)
    client.images.edit(
        image=("image.png", IMAGE.data, "image/png"),
        prompt="Add a hat.",
        model="m",
        n=1,
        size="1024x1024",
        output_format="png",
    )
    endpoint(server, model="m", size="1024x1024", send_seed=False, send_response_format=False).edit(
        IMAGE, "Add a hat.", seed=5
    )
    theirs, ours = server.received
    assert form(ours) == form(theirs)
    assert ours.headers["authorization"] == theirs.headers["authorization"]


def test_cog_fields_can_be_renamed_and_left_out(server: HostileServer) -> None:
    server.answers(PATHS["cog"], GOOD["cog"])
    endpoint(
        server,
        contract="cog",
        model="abc123",
        image_field="input_images[]",
        prompt_field="instruction",
        extra={"width": None, "height": None, "go_fast": False},
    ).edit(IMAGE, "Add a hat.", seed=5)
    body = server.received[0].json()
    uri = "data:image/png;base64," + base64.b64encode(IMAGE.data).decode()
    assert body == {
        "version": "abc123",
        "input": {
            "instruction": "Add a hat.",
            "seed": 5,
            "go_fast": False,
            "input_images": [uri],
        },
    }


@pytest.mark.parametrize("url", ["/v1", "/v1/", "/v1/images/edits"])
def test_the_address_may_be_the_base_or_complete(server: HostileServer, url: str) -> None:
    server.answers("/v1/images/edits", GOOD["openai-edits"])
    endpoint(server, url=server.url(url) + "?api-version=2").edit(IMAGE, "x", seed=1)
    assert server.received[0].path == "/v1/images/edits?api-version=2"


def test_attempts_at_one_edit_share_an_idempotency_key_and_others_do_not(
    server: HostileServer,
) -> None:
    server.answers("/v1", GOOD["huggingface"])
    editor = endpoint(server, contract="huggingface", group="run 1")
    again = endpoint(server, contract="huggingface", group="run 1")
    other = endpoint(server, contract="huggingface", group="run 2")
    for each, prompt, seed in (
        (editor, "a", 1),
        (editor, "a", 1),
        (again, "a", 1),
        (editor, "a", 2),
        (editor, "b", 1),
        (other, "a", 1),
    ):
        each.edit(IMAGE, prompt, seed=seed)
    keys = [received.headers["idempotency-key"] for received in server.received]
    assert keys[0] == keys[1] == keys[2]
    assert len(set(keys)) == 4


# --- settings ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"contract": "soap"}, "no contract called 'soap'"),
        ({"size": "big"}, "size must be"),
        ({"size": "0x0"}, "size must be"),
        ({"extra": {"prompt": "mine"}}, "'prompt' is set by the benchmark"),
        ({"extra": {"image": "x"}}, "'image' is set by the benchmark"),
        ({"extra": {"n": 2}}, "'n' is set by the benchmark"),
        ({"extra": {'x"\r\nA: b': 1}}, "cannot be the name"),
        ({"extra": {"x": float("nan")}}, "plain JSON"),
        ({"extra": {"x": object()}}, "plain JSON"),
        ({"extra": {"x": "y" * 5000}}, "up to 4,000"),
        ({"extra": [1, 2]}, "a JSON object"),
        ({"image_field": 'a"b'}, "cannot be a field name"),
        ({"api_key": "two words"}, "the key contains"),
        ({"api_key": "line\r\nbreak"}, "the key contains"),
        ({"api_key": "schlüssel"}, "the key contains"),
        ({"timeout": 0}, "time-out"),
        ({"url": "https://user:pw@example.com/v1"}, "the key has its own field"),
    ],
)
def test_invalid_settings_are_refused_with_the_reason(
    server: HostileServer, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(EditorError) as caught:
        endpoint(server, **options)
    assert words in caught.value.message
    assert (caught.value.fault, caught.value.permanent) == (Fault.CONFIGURATION, True)
    if "api_key" in options:
        assert options["api_key"] not in str(caught.value)


def test_local_addresses_need_the_switch(events: list[tuple[str, str]]) -> None:
    with pytest.raises(AddressRefused):
        Endpoint(url="http://127.0.0.1:8000/v1")
    with pytest.raises(AddressRefused):
        Endpoint(url="https://127.0.0.1/v1", on_security_event=lambda *e: events.append(e))
    assert [kind for kind, _ in events] == ["address"]


def test_key_address_and_extra_parameters_are_in_no_description(server: HostileServer) -> None:
    extra = {"style": {"lora": "https://private.example/weights?sig=abc"}}
    url = server.url("/v1?token=t0ken")
    editor = load_editor("endpoint", url=url, api_key=KEY, allow_local=True, extra=extra)
    for text in (repr(editor), json.dumps(editor.describe()), f"{vars(editor)['http']}"):
        assert KEY not in text
    for secret in ("t0ken", "127.0.0.1", "private"):
        assert secret not in json.dumps(editor.describe())
    assert editor.describe()["contract"] == "openai-edits"
    assert editor.describe()["has_extra"]


def test_the_key_is_in_no_log_and_no_traceback(
    server: HostileServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.answers(PATHS["openai-edits"], GOOD["openai-edits"])
    endpoint(server).edit(IMAGE, "Add a hat.", seed=5)
    echo = as_json({"error": f"unknown key {KEY}"}, 401, X_Echo=KEY)
    error = failure(server, echo)
    assert KEY not in "".join(traceback.format_exception(error))
    assert KEY not in caplog.text


# --- the curl line -----------------------------------------------------------------------


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
@pytest.mark.parametrize("contract", CONTRACTS)
def test_the_curl_line_sends_exactly_the_request_of_an_edit(
    server: HostileServer, contract: str, tmp_path: Path
) -> None:
    server.answers(PATHS[contract], GOOD[contract])
    prompt = 'Don\'t "touch" $HOME, `id`; 100 % sure\\n — @x ü'
    options = {"contract": contract, "model": "m 1", "extra": {"note": "it's $5"}}
    editor = endpoint(server, **options)
    editor.edit(IMAGE, prompt, seed=5)
    (tmp_path / "image.png").write_bytes(IMAGE.data)
    line = as_curl(editor, prompt=prompt, seed=5, size=IMAGE.size)
    assert KEY not in line
    subprocess.run(
        ["sh", "-c", line],
        cwd=tmp_path,
        env={"API_KEY": KEY, "PATH": "/usr/bin:/bin"},
        check=True,
        capture_output=True,
    )
    ours, curls = server.received
    assert (ours.method, ours.path) == (curls.method, curls.path)
    for name in ("authorization", "accept", "prefer"):
        assert ours.headers.get(name) == curls.headers.get(name)
    if contract == "openai-edits":
        mine, theirs = form(ours), form(curls)
        assert mine.pop("image")[1:] == theirs.pop("image")[1:]
        assert mine == theirs
    else:
        assert ours.json() == curls.json()


def test_an_arms_temperature_and_size_reach_the_endpoint_and_a_conversation_does_not(
    server: HostileServer,
) -> None:
    server.answers(PATHS["openai-edits"], GOOD["openai-edits"])
    editor = endpoint(server, extra={"steps": 4})
    context = EditContext(settings=EditSettings(temperature=0.4, size="1K"))
    editor.send(IMAGE, "Add a hat.", 5, context)
    sent = form(server.received[0])
    assert (sent["temperature"], sent["steps"]) == ("0.4", "4")
    width, height = (int(side) for side in sent["size"].split("x"))
    assert width * height == pytest.approx(1024**2, rel=0.01)
    assert editor.extra == {"steps": 4}
    with pytest.raises(EditorError, match="has no conversations"):
        editor.send(IMAGE, "Add a hat.", 5, EditContext(settings=EditSettings(history=())))
    fixed = endpoint(server, size="512x512")
    with pytest.raises(EditorError, match="does not support the size 1K"):
        fixed.send(IMAGE, "Add a hat.", 5, context)
    assert len(server.received) == 1
