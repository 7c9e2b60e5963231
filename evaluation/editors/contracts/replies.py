"""Read an endpoint's reply: an image, a refusal, or a fault.

Only messages about errors quote a body: at most 500 characters, on one line, without the key. The
messages of runs are public, so they quote no body except the message of a JSON error.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from evaluation.editors import failures
from evaluation.editors.base import Refused
from evaluation.editors.contracts.base import Call
from evaluation.editors.failures import bad_answer, shorten
from evaluation.errors import EditorError, Fault
from evaluation.net.client import Reply
from evaluation.untrusted_json import bounded, parse_json

MAX_RETRY_AFTER = 24 * 3600.0

# Error codes are spelt in many ways: content_policy_violation, IMAGE_SAFETY,
# DataInspectionFailed, OutputImageSensitiveContentDetected, moderation_blocked, ...
_POLICY_CODE = re.compile(
    r"content.?policy|policy.?violation|moderat|safety|sensitive|nsfw|prohibited|"
    r"data.?inspection|content.?filter|risk.?detection",
    re.IGNORECASE,
)
_POLICY_TEXT = re.compile(
    r"content.polic|usage.polic|safety (system|filter|polic|guideline|check)|image_safety|nsfw|"
    r"violat\w* .{0,60}(polic|guideline)|(rejected|blocked|flagged) .{0,40}(safety|moderation)|"
    r"moderation (system|filter|blocked)|prohibited content|sensitive content",
    re.IGNORECASE,
)
_CREDIT = re.compile(
    r"insufficient.?(quota|credit|balance|fund)|current quota|out of credit|no credits|"
    r"credit balance|billing|payment.?required|quota.?exhausted|prepaid",
    re.IGNORECASE,
)
_KEY = re.compile(
    r"(invalid|incorrect|missing|expired|unknown|wrong|no).{0,20}(api[ _-]?key|access token)|"
    r"(api[ _-]?key|access token).{0,30}(invalid|incorrect|missing|expired|not valid|required)|"
    r"unauthori[sz]ed|not authenticated",
    re.IGNORECASE,
)


class ReplyError(EditorError):
    """An error that the endpoint reports; `text` quotes a body that is not JSON."""

    def __init__(self, summary: str, message: str, text: str = "", **about: Any) -> None:
        super().__init__(f"{summary}: {message}" if message else summary, **about)
        self.text = text


def check_status(call: Call, reply: Reply) -> None:
    """Raise Refused or EditorError unless the status is 2xx."""
    status = reply.status
    if 200 <= status < 300:
        return
    message, code = _message(call, reply)
    if status < 500 and status not in (401, 402, 429):
        _raise_if_refused(message, code)
    fault, permanent = _fault_of_status(status, f"{code} {message}")
    is_loading = status == 503 and retry_after(reply) is not None
    raise ReplyError(
        f"HTTP {status} {_status_phrase(status)}".rstrip(),
        message,
        _body_text(call, reply),
        fault=Fault.RATE_LIMITED if is_loading else fault,
        permanent=permanent,
        retry_after=retry_after(reply),
    )


def _fault_of_status(status: int, text: str) -> tuple[Fault, bool]:
    """Return the fault that a status means, and whether it is permanent."""
    if status == 402 or (status in (400, 403, 422, 429) and _CREDIT.search(text)):
        return Fault.OUT_OF_CREDIT, True
    if status in (401, 403, 407) or (status in (400, 422) and _KEY.search(text)):
        return Fault.KEY_REJECTED, True
    if status == 408:
        return Fault.TIMEOUT, False
    if status in (425, 429):
        return Fault.RATE_LIMITED, False
    if status in (404, 405, 410, 421, 426, 501, 505):
        return Fault.CONFIGURATION, True
    if status >= 500 or status < 200 or status in (409, 423):
        return Fault.SERVER_ERROR, False
    return Fault.BAD_REQUEST, True


def read_json(call: Call, reply: Reply) -> Mapping[str, Any]:
    """Return the JSON object of a 2xx reply. Raises Refused or EditorError otherwise."""
    payload = _json(reply)
    if not isinstance(payload, Mapping):
        raise _wrong_type(reply, "a JSON object with the image")
    raise_if_error(call, payload)
    return payload


def raise_if_error(call: Call, payload: Mapping[str, Any]) -> None:
    """Raise Refused or EditorError if a payload with status 2xx reports an error."""
    if not any(payload.get(name) for name in ("error", "errors")):
        return
    message, code = _parse_error(call, payload)
    _raise_if_refused(message, code)
    text = f"{code} {message}"
    if _CREDIT.search(text):
        fault, permanent = Fault.OUT_OF_CREDIT, True
    elif _KEY.search(text):
        fault, permanent = Fault.KEY_REJECTED, True
    else:
        fault, permanent = Fault.BAD_ANSWER, False
    raise ReplyError(
        "the endpoint answered with an error",
        message,
        fault=fault,
        permanent=permanent,
    )


def read_image(call: Call, reply: Reply) -> bytes:
    """Return the body of a reply, undecoded. Raises EditorError if it cannot be an image."""
    media_type = reply.media_type
    if not reply.body and not media_type.startswith("text/"):
        raise bad_answer("the answer is empty (0 bytes)")
    if media_type.startswith("image/"):
        call.stated_type = media_type
    if media_type.startswith("image/") or media_type in ("", "application/octet-stream"):
        return reply.body
    raise _wrong_type(reply, "an image")


def read_image_value(call: Call, value: Any) -> bytes:
    """Return the encoded image in a string: base64, a data: URI, or a URL to fetch."""
    if not isinstance(value, str) or not value:
        raise bad_answer("the answer has no image where the contract expects it")
    head = value[:16].lower()
    if head.startswith(("http://", "https://")):
        reply = call.fetch(value)
        if reply.status != HTTPStatus.OK:
            raise bad_answer(f"the address of the image answered HTTP {reply.status}")
        return read_image(call, reply)
    if head.startswith("data:"):
        kind, comma, value = value.partition(",")
        if not comma or not kind.lower().endswith(";base64"):
            raise bad_answer("the data: URI is not base64")
        call.stated_type = kind[5:].partition(";")[0].lower()[:100]
    try:
        return binascii.a2b_base64(value)
    except ValueError:
        raise bad_answer("the image is not valid base64") from None


def retry_after(reply: Reply) -> float | None:
    """Return the seconds to wait that the endpoint states, at most 24 h; None if absent."""
    seconds = failures.retry_after(reply.headers)
    if seconds is None and reply.status == HTTPStatus.SERVICE_UNAVAILABLE:
        seconds = _estimated_time(reply)
    return None if seconds is None else min(seconds, MAX_RETRY_AFTER)


def _estimated_time(reply: Reply) -> float | None:
    """Return the seconds that a model still takes to load, if a Hugging Face body states them."""
    payload = _json(reply, default=None)
    seconds = payload.get("estimated_time") if isinstance(payload, Mapping) else None
    return bounded(seconds, MAX_RETRY_AFTER)


def quote(call: Call, text: str) -> str:
    """Return at most 500 characters of untrusted text on one line, without the key."""
    key = call.settings.api_key
    text = text[:4000]  # cut first: a hostile message may be long
    # Endpoints echo keys, often truncated: prefixes and suffixes of at least 8 characters are cut.
    for length in range(len(key), min(7, max(0, len(key) - 1)), -1):
        text = text.replace(key[:length], "$API_KEY").replace(key[-length:], "$API_KEY")
    return shorten(text)


def _raise_if_refused(message: str, code: str) -> None:
    if _POLICY_CODE.search(code) or (
        not code.startswith("invalid") and _POLICY_TEXT.search(message)
    ):
        raise Refused(message or code)


def _message(call: Call, reply: Reply) -> tuple[str, str]:
    """Return the message and code of an error reply; empty if its body is not JSON."""
    payload = _json(reply, default=None)
    return _parse_error(call, payload) if isinstance(payload, Mapping) else ("", "")


def _body_text(call: Call, reply: Reply) -> str:
    """Return the text of a body that is plain text or a web page; "" for other types.

    Only the private test of an endpoint shows it.
    """
    if not reply.media_type.startswith("text/"):
        return ""
    text = reply.body[:4000].decode("utf-8", "replace")
    if reply.media_type == "text/html":
        text = re.sub(
            r"<(script|style)\b.*?</\1>|<[^>]*>", " ", text, flags=re.DOTALL | re.IGNORECASE
        )
    return quote(call, text)


def _parse_error(call: Call, payload: Mapping[str, Any]) -> tuple[str, str]:
    """Return the message and the codes of an error in one of the usual shapes.

    {"error": {message, type, code}}, {"error": "text"}, {"detail": "text"},
    {"detail": [{msg, type}]}, {"errors": [...]}, {"code", "message"}.
    """
    error: Any = payload
    for name in ("error", "errors", "detail"):
        if payload.get(name):
            error = payload[name]
            break
    if isinstance(error, list) and error:
        error = error[0]
    if not isinstance(error, Mapping):
        return (quote(call, error) if isinstance(error, str) else ""), ""
    message = next((error[n] for n in ("message", "msg", "detail") if _is_text(error.get(n))), "")
    codes = [str(error[n])[:100] for n in ("code", "type", "status") if _is_code(error.get(n))]
    return quote(call, message), quote(call, " ".join(codes))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_code(value: Any) -> bool:
    """Return True for a text or a number that is not too long to print."""
    return bool(value) and (
        isinstance(value, str) or (isinstance(value, int | float) and abs(value) < 1e6)
    )


_NO_DEFAULT = object()


def _json(reply: Reply, default: Any = _NO_DEFAULT) -> Any:
    try:
        return parse_json(reply.body)
    except ValueError:
        if default is not _NO_DEFAULT:
            return default
    if not reply.body:
        raise bad_answer("the answer is empty (0 bytes)")
    if reply.media_type.endswith("json"):
        raise bad_answer("the answer is not valid JSON")
    raise _wrong_type(reply, "a JSON object with the image")


def _wrong_type(reply: Reply, expected: str) -> EditorError:
    """Return the error for a body of an unexpected type, such as a log-in or error page."""
    if reply.media_type == "text/html":
        message = "expected an image, got a web page (text/html): check the path of the address"
        return EditorError(message, fault=Fault.SERVER_ERROR)
    got = reply.media_type if re.fullmatch(r"[\w.+-]+/[\w.+-]+", reply.media_type) else "no type"
    return EditorError(f"expected {expected}, got {got}", fault=Fault.SERVER_ERROR)


def _status_phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
