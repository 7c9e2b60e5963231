"""How answers of endpoints are classified, in every contract (faults.md 25-50)."""

from __future__ import annotations

from typing import Any

import pytest

from evaluation.editors.base import Refused
from evaluation.editors.contracts import CONTRACTS
from evaluation.errors import Fault
from evaluation.images import encode_jpeg
from evaluation.testing.endpoints import EDITED, GOOD, IMAGE, KEY, PATHS, endpoint, failure
from evaluation.testing.fake_providers.server import bomb
from evaluation.testing.hostile_server import HostileServer, as_json, response


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
def test_a_status_decides_the_fault_and_whether_to_retry(
    server: HostileServer, contract: str, status: int, fault: Fault, permanent: bool
) -> None:
    page = response(status, b"<h1>secret stack trace</h1>", "text/html")
    error = failure(server, page, contract=contract)
    assert (error.fault, error.permanent) == (fault, permanent)
    assert error.message.startswith(f"HTTP {status}")
    assert "secret" not in error.message


@pytest.mark.parametrize(("header", "expected"), [("7", 7.0), ("99999999999", 86_400.0)])
def test_retry_after_is_honoured_within_a_cap(
    server: HostileServer, header: str, expected: float
) -> None:
    error = failure(server, response(429, Retry_After=header))
    assert (error.fault, error.retry_after) == (Fault.RATE_LIMITED, expected)


def test_a_loading_model_states_how_long_to_wait(server: HostileServer) -> None:
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
        endpoint(server).edit(IMAGE, "Add a hat.", seed=5)
    assert caught.value.reason


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
def test_a_json_error_is_classified_by_its_text(
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


def test_a_key_cut_by_the_length_limit_does_not_show(server: HostileServer) -> None:
    for length in range(470, 505, 5):
        error = failure(server, as_json({"error": "x" * length + KEY}, 400))
        assert "sk-can" not in error.message


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_web_page_instead_of_an_image_is_reported(server: HostileServer, contract: str) -> None:
    page = response(200, b"<html>Log in, secret</html>", "text/html; charset=utf-8")
    error = failure(server, page, contract=contract)
    assert (
        error.message
        == "expected an image, got a web page (text/html): check the path of the address"
    )
    # The endpoint as a whole fails, which must pause the run, not break its chains.
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
def test_an_answer_without_a_usable_image_is_tried_again(
    server: HostileServer, contract: str, reply: bytes
) -> None:
    error = failure(server, reply, contract=contract)
    assert error.fault in (Fault.BAD_ANSWER, Fault.SERVER_ERROR)
    assert not error.permanent


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (EDITED.data[:-40], "cannot be decoded"),
        (bomb(30_000, 30_000), "900000000 pixels"),
        (bomb(9_750, 9_750), "limit is 17 megapixels"),
        (b"<svg/>", "not a PNG, JPEG or WebP"),
    ],
)
def test_a_forbidden_image_is_not_decoded(server: HostileServer, data: bytes, words: str) -> None:
    error = failure(server, response(200, data, "image/png"), contract="huggingface")
    assert error.fault is Fault.BAD_ANSWER
    assert error.billed
    assert words in error.message


def test_an_answer_beyond_max_bytes_is_cut(server: HostileServer) -> None:
    error = failure(server, GOOD["openai-edits"], max_bytes=50)
    assert error.message.startswith("response too large")


@pytest.mark.parametrize(
    ("stated", "noted"), [("image/png", True), ("image/jpg", False), ("image/jpeg", False)]
)
def test_a_wrong_stated_type_is_noted(server: HostileServer, stated: str, noted: bool) -> None:
    jpeg = encode_jpeg(IMAGE.decoded, 90)
    server.answers("/edit", response(200, jpeg, stated))
    editor = endpoint(server, contract="huggingface", url=server.url("/edit"))
    answer = editor.edit(IMAGE, "x", seed=1)
    assert answer.image.mime == "image/jpeg"
    assert ("wrong_type" in answer.notes) is noted
