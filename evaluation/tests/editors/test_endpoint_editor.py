"""Submitted endpoints in every contract, well-behaved and not (faults.md 25-50)."""

from __future__ import annotations

import base64
import email.utils
import io
import json
import logging
import shutil
import struct
import subprocess
import time
import traceback
import zlib
from email.parser import BytesParser
from email.policy import HTTP
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from evaluation.editors import load_editor
from evaluation.editors.base import Refused
from evaluation.editors.contracts import CONTRACTS, as_curl, cog
from evaluation.editors.endpoint import Endpoint
from evaluation.errors import EditorError, Fault
from evaluation.http.addresses import AddressRefused
from evaluation.images import Picture, encode_jpeg
from evaluation.testing.hostile_server import HostileServer, Received, as_json, response

KEY = "sk-canary-0123456789abcdef"
PICTURE = Picture.from_image(Image.linear_gradient("L").resize((48, 32)).convert("RGB"))
EDITED = Picture.from_image(Image.new("RGB", (48, 32), (200, 30, 30)))
B64 = base64.b64encode(EDITED.data).decode()
PATHS = {
    "openai-edits": "/v1/images/edits",
    "openai-generations": "/v1/images/generations",
    "huggingface": "/v1",
    "cog": "/v1/predictions",
}
GOOD = {
    "openai-edits": as_json({"created": 1, "data": [{"b64_json": B64}]}),
    "openai-generations": as_json({"data": [{"b64_json": B64}]}),
    "huggingface": response(200, EDITED.data, "image/png"),
    "cog": as_json({"status": "succeeded", "output": f"data:image/png;base64,{B64}"}),
}


def endpoint(server: HostileServer, **options: Any) -> Endpoint:
    settings: dict[str, Any] = {
        "url": server.url("/v1"),
        "api_key": KEY,
        "allow_local": True,
        "timeout": 10.0,
        **options,
    }
    return Endpoint(**settings)


def failure(server: HostileServer, *replies: bytes, **options: Any) -> EditorError:
    """The error that these replies to an edit end in, after the checks every error must pass."""
    contract = options.setdefault("contract", "openai-edits")
    server.answers(PATHS[contract], *replies)
    with pytest.raises(EditorError) as caught:
        endpoint(server, **options).edit(PICTURE, "Add a hat.", seed=5)
    assert KEY not in str(caught.value)
    assert len(caught.value.message) < 700
    return caught.value


def form(received: Received) -> dict[str, Any]:
    """The fields of a multipart body; files are (name, type, bytes)."""
    head = f"Content-Type: {received.headers['content-type']}\r\n\r\n".encode()
    parts: dict[str, Any] = {}
    for part in BytesParser(policy=HTTP).parsebytes(head + received.body).iter_parts():
        name = str(part.get_param("name", header="content-disposition"))
        data = part.get_payload(decode=True)
        file = part.get_filename()
        parts[name] = (file, part.get_content_type(), data) if file else data.decode()
    return parts


# --- what is sent ------------------------------------------------------------------------


@pytest.mark.parametrize("contract", CONTRACTS)
def test_an_edit_comes_back_in_every_contract(server: HostileServer, contract: str) -> None:
    server.answers(PATHS[contract], GOOD[contract])
    editor = endpoint(server, contract=contract, price=0.04)
    answer = editor.edit(PICTURE, "Add a hat.", seed=5)
    assert answer.picture.data == EDITED.data
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
        PICTURE, '@file ümlaut "quoted"\r\nline', seed=5
    )
    assert form(server.received[0]) == {
        "image": ("image.png", "image/png", PICTURE.data),
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


def test_every_switch_takes_its_field_out(server: HostileServer) -> None:
    server.answers(PATHS["openai-edits"], GOOD["openai-edits"])
    endpoint(
        server,
        send_seed=False,
        send_response_format=False,
        size="omit",
        extra={"output_format": None},
        image_field="image[]",
    ).edit(PICTURE, "Add a hat.", seed=5)
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
def test_generations_put_the_picture_where_the_server_wants_it(
    server: HostileServer, field: str, expected: tuple[str, Any]
) -> None:
    server.answers(PATHS["openai-generations"], GOOD["openai-generations"])
    editor = endpoint(server, contract="openai-generations", image_field=field, size="1024x768")
    editor.edit(PICTURE, "Prompt ü", seed=5)
    body = server.received[0].json()
    name, value = expected
    text = json.dumps(value).replace("{}", base64.b64encode(PICTURE.data).decode())
    assert body.pop(name) == json.loads(text)
    assert body == {
        "prompt": "Prompt ü",
        "n": 1,
        "size": "1024x768",
        "output_format": "png",
        "response_format": "b64_json",
        "seed": 5,
    }


def test_huggingface_is_sent_as_its_own_client_sends_it(server: HostileServer) -> None:
    server.answers("/v1", GOOD["huggingface"])
    endpoint(server, contract="huggingface", extra={"guidance_scale": 3.5}).edit(
        PICTURE, "Add a hat.", seed=5
    )
    (received,) = server.received
    assert received.headers["accept"] == "image/png"
    assert received.json() == {
        "inputs": base64.b64encode(PICTURE.data).decode(),
        "parameters": {
            "prompt": "Add a hat.",
            "seed": 5,
            "target_size": {"width": 48, "height": 32},
            "guidance_scale": 3.5,
        },
    }


def test_huggingface_hub_sends_the_same(server: HostileServer) -> None:
    hub = pytest.importorskip("huggingface_hub")
    server.answers("/v1", GOOD["huggingface"])
    size = hub.ImageToImageTargetSize(width=48, height=32)
    hub.InferenceClient(model=server.url("/v1"), token=KEY).image_to_image(
        PICTURE.data, prompt="Add a hat.", target_size=size, seed=5, strength=0.5
    )
    endpoint(server, contract="huggingface", extra={"strength": 0.5}).edit(
        PICTURE, "Add a hat.", seed=5
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
        image=("image.png", PICTURE.data, "image/png"),
        prompt="Add a hat.",
        model="m",
        n=1,
        size="1024x1024",
        output_format="png",
    )
    endpoint(server, model="m", size="1024x1024", send_seed=False, send_response_format=False).edit(
        PICTURE, "Add a hat.", seed=5
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
    ).edit(PICTURE, "Add a hat.", seed=5)
    body = server.received[0].json()
    uri = "data:image/png;base64," + base64.b64encode(PICTURE.data).decode()
    assert body == {
        "version": "abc123",
        "input": {
            "instruction": "Add a hat.",
            "seed": 5,
            "go_fast": False,
            "input_images": [uri],
        },
    }


def test_a_jpeg_answer_goes_into_the_next_edit_as_png(server: HostileServer) -> None:
    server.answers("/v1", GOOD["huggingface"])
    jpeg = Picture.from_bytes(encode_jpeg(PICTURE.image, 80))
    endpoint(server, contract="huggingface").edit(jpeg, "Add a hat.", seed=5)
    sent = Picture.from_bytes(base64.b64decode(server.received[0].json()["inputs"]))
    assert sent.mime == "image/png"
    assert sent.image.tobytes() == jpeg.image.tobytes()


@pytest.mark.parametrize(
    ("url", "path"),
    [("/v1", "/v1/images/edits"), ("/v1/", "/v1/images/edits"), ("/v1/images/edits", None)],
)
def test_people_may_give_the_base_or_the_whole_address(
    server: HostileServer, url: str, path: str | None
) -> None:
    server.answers("/v1/images/edits", GOOD["openai-edits"])
    endpoint(server, url=server.url(url) + "?api-version=2").edit(PICTURE, "x", seed=1)
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
        each.edit(PICTURE, prompt, seed=seed)
    keys = [received.headers["idempotency-key"] for received in server.received]
    assert keys[0] == keys[1] == keys[2]
    assert len(set(keys)) == 4


# --- settings ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"contract": "soap"}, "no contract called 'soap'"),
        ({"size": "big"}, "size is"),
        ({"size": "0x0"}, "size is"),
        ({"extra": {"prompt": "mine"}}, "'prompt' is set by the benchmark"),
        ({"extra": {"image": "x"}}, "'image' is set by the benchmark"),
        ({"extra": {"n": 2}}, "'n' is set by the benchmark"),
        ({"extra": {'x"\r\nA: b': 1}}, "cannot be the name"),
        ({"extra": {"x": float("nan")}}, "plain JSON"),
        ({"extra": {"x": object()}}, "plain JSON"),
        ({"extra": {"x": "y" * 5000}}, "at most 4,096"),
        ({"extra": [1, 2]}, "a JSON object"),
        ({"image_field": 'a"b'}, "cannot be a field name"),
        ({"api_key": "two words"}, "the key holds"),
        ({"api_key": "line\r\nbreak"}, "the key holds"),
        ({"api_key": "schlüssel"}, "the key holds"),
        ({"timeout": 0}, "time-out"),
        ({"url": "https://user:pw@example.com/v1"}, "the key has its own field"),
    ],
)
def test_settings_that_cannot_work_are_refused_with_the_reason(
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


def test_the_key_is_in_no_description(server: HostileServer) -> None:
    url = server.url("/v1?token=t0ken")
    editor = load_editor("endpoint", url=url, api_key=KEY, allow_local=True)
    for text in (
        repr(editor),
        str(editor),
        json.dumps(editor.describe()),
        f"{vars(editor)['http']}",
    ):
        assert KEY not in text
    assert "t0ken" not in json.dumps(editor.describe())
    assert editor.describe()["contract"] == "openai-edits"
    assert editor.describe()["host"] == "127.0.0.1"


def test_the_key_is_in_no_log_and_no_traceback(
    server: HostileServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.answers(PATHS["openai-edits"], GOOD["openai-edits"])
    endpoint(server).edit(PICTURE, "Add a hat.", seed=5)
    echo = as_json({"error": f"unknown key {KEY}"}, 401, X_Echo=KEY)
    error = failure(server, echo)
    assert KEY not in "".join(traceback.format_exception(error))
    assert KEY not in caplog.text


# --- how replies are understood ----------------------------------------------------------


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize(
    ("status", "fault", "permanent"),
    [
        (400, Fault.BAD_REQUEST, True),
        (401, Fault.KEY_REJECTED, True),
        (402, Fault.OUT_OF_CREDIT, True),
        (403, Fault.KEY_REJECTED, True),
        (404, Fault.CONFIGURATION, True),
        (405, Fault.CONFIGURATION, True),
        (408, Fault.TIMEOUT, False),
        (413, Fault.BAD_REQUEST, True),
        (422, Fault.BAD_REQUEST, True),
        (429, Fault.RATE_LIMITED, False),
        (500, Fault.SERVER_ERROR, False),
        (502, Fault.SERVER_ERROR, False),
        (503, Fault.SERVER_ERROR, False),
        (504, Fault.SERVER_ERROR, False),
        (529, Fault.SERVER_ERROR, False),
    ],
)
def test_a_status_says_whose_fault_it_is_and_whether_to_ask_again(
    server: HostileServer, contract: str, status: int, fault: Fault, permanent: bool
) -> None:
    page = response(status, b"<h1>secret stack trace</h1>", "text/html")
    error = failure(server, page, contract=contract)
    assert (error.fault, error.permanent) == (fault, permanent)
    assert error.message.startswith(f"HTTP {status}")
    assert "secret" not in error.message


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("7", 7.0),
        (" 1.5 ", 1.5),
        ("0", 0.0),
        ("99999999999", 86_400.0),
        ("inf", None),
        ("-5", 0.0),
        ("nan", None),
        ("soon", None),
        ("Fri, 99 Foo 2026 99:99:99 GMT", None),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400.0),
        (None, None),
    ],
)
def test_retry_after_is_honoured_within_a_cap(
    server: HostileServer, header: str | None, expected: float | None
) -> None:
    headers = {} if header is None else {"Retry_After": header}
    error = failure(server, response(429, **headers))
    assert (error.fault, error.retry_after) == (Fault.RATE_LIMITED, expected)


def test_retry_after_may_be_a_date(server: HostileServer) -> None:
    date = email.utils.formatdate(time.time() + 90, usegmt=True)
    error = failure(server, response(503, Retry_After=date))
    assert error.fault is Fault.RATE_LIMITED
    assert error.retry_after == pytest.approx(89, abs=2)


def test_a_model_that_is_loading_says_for_how_long(server: HostileServer) -> None:
    loading = as_json({"error": "Model is loading", "estimated_time": 20.5}, 503)
    error = failure(server, loading, contract="huggingface")
    assert (error.fault, error.retry_after) == (Fault.RATE_LIMITED, 20.5)


@pytest.mark.parametrize(
    ("status", "payload"),
    [
        (400, {"error": {"code": "content_policy_violation", "message": "no"}}),
        (400, {"error": {"code": "moderation_blocked", "type": "image_generation_user_error"}}),
        (400, {"error": {"status": "IMAGE_SAFETY", "message": "no"}}),
        (400, {"code": "DataInspectionFailed", "message": "no"}),
        (400, {"error": {"code": "OutputImageSensitiveContentDetected", "message": "no"}}),
        (400, {"error": "Your request was rejected as a result of our safety system."}),
        (403, {"error": {"code": "content_policy_violation", "message": "no"}}),
        (422, {"detail": [{"type": "content_policy_violation", "msg": "no"}]}),
        (451, {"detail": "This prompt violates our content policy"}),
        (200, {"error": {"code": "content_policy_violation", "message": "no"}}),
        (200, {"data": [{"error": {"code": "InputImageRiskDetection", "message": "no"}}]}),
    ],
)
def test_a_refusal_is_a_result_and_not_an_error(
    server: HostileServer, status: int, payload: dict[str, Any]
) -> None:
    server.answers(PATHS["openai-edits"], as_json(payload, status))
    with pytest.raises(Refused) as caught:
        endpoint(server).edit(PICTURE, "Add a hat.", seed=5)
    assert caught.value.reason


def test_a_failed_cog_prediction_about_nsfw_is_a_refusal(server: HostileServer) -> None:
    server.answers(PATHS["cog"], as_json({"status": "failed", "error": "NSFW content detected"}))
    with pytest.raises(Refused):
        endpoint(server, contract="cog").edit(PICTURE, "Add a hat.", seed=5)


@pytest.mark.parametrize(
    ("status", "payload", "fault"),
    [
        (429, {"error": {"code": "insufficient_quota", "message": "x"}}, Fault.OUT_OF_CREDIT),
        (400, {"error": {"message": "Billing hard limit reached"}}, Fault.OUT_OF_CREDIT),
        (403, {"error": "Your credit balance is too low"}, Fault.OUT_OF_CREDIT),
        (200, {"error": "insufficient balance"}, Fault.OUT_OF_CREDIT),
        (400, {"error": {"message": "API key not valid. Pass one."}}, Fault.KEY_REJECTED),
        (422, {"detail": "invalid API key"}, Fault.KEY_REJECTED),
        (200, {"error": "Unauthorized"}, Fault.KEY_REJECTED),
        (429, {"error": {"message": "Quota exceeded for requests per minute"}}, Fault.RATE_LIMITED),
        (400, {"error": {"code": "invalid_value", "message": "moderation"}}, Fault.BAD_REQUEST),
        (200, {"error": {"message": "CUDA out of memory"}}, Fault.BAD_ANSWER),
        (200, {"error": True}, Fault.BAD_ANSWER),
        (200, {"errors": [{"message": "x"}]}, Fault.BAD_ANSWER),
        (200, {"data": [{"error": "x"}]}, Fault.BAD_ANSWER),
    ],
)
def test_an_error_in_json_is_understood_by_its_words(
    server: HostileServer, status: int, payload: dict[str, Any], fault: Fault
) -> None:
    assert failure(server, as_json(payload, status)).fault is fault


@pytest.mark.parametrize("status", [200, 400, 401, 429, 500])
def test_an_error_message_is_quoted_short_on_one_line_and_without_the_key(
    server: HostileServer, status: int
) -> None:
    said = f"bad\r\nkey {KEY} or {KEY[:12]}*** \x1b[31m\u202eevil " + "x" * 2000
    error = failure(server, as_json({"error": {"message": said}}, status))
    assert KEY[:8] not in error.message
    assert "$API_KEY" in error.message
    assert error.message.isprintable()
    assert len(error.message) < 600


def test_a_key_at_the_cut_of_a_long_message_does_not_show(server: HostileServer) -> None:
    for length in range(470, 505, 5):
        error = failure(server, as_json({"error": "x" * length + KEY}, 400))
        assert "sk-can" not in error.message


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_page_instead_of_a_picture_is_named(server: HostileServer, contract: str) -> None:
    page = response(200, b"<html>Log in, secret</html>", "text/html; charset=utf-8")
    error = failure(server, page, contract=contract)
    assert error.message == "expected image, got text/html"
    # The endpoint as a whole is unwell: that must pause a run, not spoil its chains.
    assert not error.fault.breaks_chain
    assert not error.permanent


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize(
    "reply",
    [
        response(200, b"", "image/png"),
        response(200, b"", "application/json"),
        response(204),
        response(200, b"{", "application/json"),
        response(200, b"[" * 100_000, "application/json"),
        response(200, b'{"data": 1e999999}', "application/json"),
        as_json([]),
        as_json({}),
        as_json({"data": []}),
        as_json({"data": [None]}),
        as_json({"data": [{}]}),
        as_json({"data": [{"b64_json": 5}], "status": "succeeded", "output": 5}),
        as_json({"data": [{"b64_json": "é"}], "status": "succeeded", "output": ["é"]}),
        as_json({"data": [{"b64_json": "AAAA"}], "output": "AAAA"}),
        as_json({"data": [{"url": "data:image/png,AAAA"}], "output": "data:image/png,AA"}),
        response(200, EDITED.data[:100], "image/png"),
    ],
)
def test_an_answer_without_a_usable_picture_is_tried_again(
    server: HostileServer, contract: str, reply: bytes
) -> None:
    error = failure(server, reply, contract=contract)
    assert error.fault in (Fault.BAD_ANSWER, Fault.SERVER_ERROR)
    assert not error.permanent


def bomb(width: int, height: int) -> bytes:
    """A small PNG file with a huge picture: one row of pixels is all it holds."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0" * (width * 3 + 1)))
        + chunk(b"IEND", b"")
    )


def animation() -> bytes:
    buffer = io.BytesIO()
    frames = [Image.new("RGB", (8, 8), color) for color in ("red", "blue")]
    frames[0].save(buffer, "WEBP", save_all=True, append_images=frames[1:], lossless=True)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (EDITED.data[:-40], "cannot be decoded"),
        (encode_jpeg(PICTURE.image.resize((300, 300)), 90)[:-2000], "cannot be decoded"),
        (bomb(30_000, 30_000), "900000000 pixels"),
        (bomb(9_750, 9_750), "limit is 40 megapixels"),
        (animation(), "animated"),
        (b"GIF89a" + b"\0" * 50, "not a PNG, JPEG or WebP"),
        (b"<svg/>", "not a PNG, JPEG or WebP"),
    ],
)
def test_a_picture_that_must_not_be_decoded_is_not(
    server: HostileServer, data: bytes, words: str
) -> None:
    error = failure(server, response(200, data, "image/png"), contract="huggingface")
    assert error.fault is Fault.BAD_ANSWER
    assert error.billed
    assert words in error.message


def test_an_answer_of_another_size_or_kind_is_taken_as_it_is(server: HostileServer) -> None:
    buffer = io.BytesIO()
    Image.new("CMYK", (60, 20)).save(buffer, "JPEG")
    server.answers("/v1", response(200, buffer.getvalue(), "application/octet-stream"))
    answer = endpoint(server, contract="huggingface").edit(PICTURE, "x", seed=1)
    assert (answer.picture.size, answer.picture.mime) == ((60, 20), "image/jpeg")
    assert answer.picture.notes


def test_an_answer_beyond_max_bytes_is_cut(server: HostileServer) -> None:
    error = failure(server, GOOD["openai-edits"], max_bytes=50)
    assert error.message.startswith("response too large")


# --- answers that point elsewhere --------------------------------------------------------


@pytest.mark.parametrize("contract", ["openai-edits", "openai-generations", "cog"])
def test_a_url_in_the_answer_is_fetched_without_the_key(
    server: HostileServer, contract: str
) -> None:
    url = server.answers("/file.png", response(200, EDITED.data, "image/png"))
    server.answers(PATHS[contract], as_json({"data": [{"url": url}], "output": [url]}))
    answer = endpoint(server, contract=contract).edit(PICTURE, "x", seed=1)
    assert answer.picture.data == EDITED.data
    assert answer.notes["fetched_from_url"]
    assert not {"authorization", "idempotency-key"} & set(server.received[1].headers)


@pytest.mark.parametrize(
    "target",
    ["http://169.254.169.254/x.png", "http://0xa9fea9fe/", "http://[fe80::1]/", "https://[::]/"],
)
def test_a_url_in_the_answer_goes_through_the_same_door(
    server: HostileServer, events: list[tuple[str, str]], target: str
) -> None:
    error = failure(
        server,
        as_json({"data": [{"url": target}]}),
        on_security_event=lambda *event: events.append(event),
    )
    assert (error.fault, error.permanent) == (Fault.BLOCKED, True)
    assert [kind for kind, _ in events] == ["answer_url"]


def test_a_url_in_the_answer_is_one_hop_only(server: HostileServer) -> None:
    server.answers("/2", response(200, EDITED.data, "image/png"))
    url = server.answers("/1", response(302, Location="/2"))
    failure(server, as_json({"data": [{"url": url}]}))
    assert [received.path for received in server.received] == [PATHS["openai-edits"], "/1"]


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (response(404), "HTTP 404"),
        (response(200, b"<html>", "text/html"), "got text/html"),
        (response(200, b"", "image/png"), "0 bytes"),
        (response(200, b"x" * 90_000, "image/png"), "response too large"),
    ],
)
def test_a_url_in_the_answer_may_fail_as_the_answer_may(
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
def test_a_prediction_is_asked_for_again_until_it_is_ready(server: HostileServer) -> None:
    server.answers(PATHS["cog"], as_json({"id": "p-1", "status": "starting"}, 202))
    server.answers(
        PATHS["cog"] + "/p-1", as_json({"id": "p-1", "status": "processing"}), GOOD["cog"]
    )
    answer = endpoint(server, contract="cog").edit(PICTURE, "x", seed=1)
    assert answer.picture.data == EDITED.data
    assert server.received[-1].method == "GET"
    assert server.received[-1].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.usefixtures("_quick_polls")
def test_polling_elsewhere_does_not_take_the_key_along(server: HostileServer) -> None:
    with HostileServer() as elsewhere:
        url = elsewhere.answers("/p", GOOD["cog"])
        server.answers(PATHS["cog"], as_json({"status": "processing", "urls": {"get": url}}, 201))
        endpoint(server, contract="cog").edit(PICTURE, "x", seed=1)
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
def test_a_prediction_that_fails_says_how(
    server: HostileServer, reply: bytes, fault: Fault
) -> None:
    assert failure(server, reply, contract="cog").fault is fault


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
    editor.edit(PICTURE, prompt, seed=5)
    (tmp_path / "picture.png").write_bytes(PICTURE.data)
    line = as_curl(editor, prompt=prompt, seed=5, size=PICTURE.size)
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
