"""Failures of hosted models: the mapping from HTTP statuses to faults."""

from __future__ import annotations

import email.utils
import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evaluation.editors.base import Refused
from evaluation.errors import EditorError, Fault

MESSAGE_LENGTH = 500


@dataclass(frozen=True)
class ErrorBody:
    """The code and message of an error answer, parsed from any of the usual shapes."""

    code: str
    message: str

    @property
    def text(self) -> str:
        return ": ".join(part for part in (self.code, self.message) if part)

    @classmethod
    def read(cls, body: Any, raw: str = "") -> ErrorBody:
        if isinstance(body, dict):
            inner = body.get("error", body)
            if isinstance(inner, dict):
                code = next(
                    (inner[key] for key in ("code", "type", "status") if _is_word(inner.get(key))),
                    "",
                )
                message = inner.get("message") or inner.get("detail") or inner.get("title") or ""
                if not isinstance(message, str):
                    message = json.dumps(message)
                return cls(code, message or ("" if code else raw))
            return cls("", str(inner))
        return cls("", raw)


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def failure(
    name: str, status: int, text: str, wait: float | None = None, *, billed: bool = False
) -> EditorError:
    """Return the EditorError of an HTTP status."""
    fault, permanent = Fault.BAD_REQUEST, True
    if status in (401, 403, 407):
        fault = Fault.KEY_REJECTED
    elif status == 402:
        fault = Fault.OUT_OF_CREDIT
    elif status in (404, 405, 410) or 300 <= status < 400:
        fault = Fault.CONFIGURATION  # the model was shut down, or its address has moved
    elif status == 429:
        fault, permanent = Fault.RATE_LIMITED, False
    elif status in (408, 504):
        fault, permanent = Fault.TIMEOUT, False
    elif status >= 500 or status in (409, 423, 425):
        fault, permanent = Fault.SERVER_ERROR, False
    message = f"{name} answered {status}: {shorten(text)}".rstrip(": ")
    return EditorError(message, fault=fault, permanent=permanent, retry_after=wait, billed=billed)


def misconfigured(message: str) -> EditorError:
    return EditorError(message, fault=Fault.CONFIGURATION, permanent=True)


def server_error(message: str) -> EditorError:
    """Return the error for an answer that shows that the service itself is failing."""
    return EditorError(message, fault=Fault.SERVER_ERROR, billed=True)


def bad_answer(message: str, *, permanent: bool = False) -> EditorError:
    """Return the error for a paid image that cannot be used."""
    return EditorError(message, fault=Fault.BAD_ANSWER, permanent=permanent, billed=True)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in `retry-after-ms` or `Retry-After`; None if absent."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if not value:
            continue
        try:
            seconds = float(value) * unit
        except ValueError:
            try:
                then = email.utils.parsedate_to_datetime(value)
                seconds = then.timestamp() - time.time()
            except (ValueError, OverflowError, TypeError):
                continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None


def shorten(text: str) -> str:
    """Return the text on one printable line, cut to MESSAGE_LENGTH."""
    text = re.sub(r"\s+", " ", text).strip()
    text = "".join(c for c in text if c.isprintable())
    return text if len(text) <= MESSAGE_LENGTH else text[: MESSAGE_LENGTH - 1] + "…"


def hide_key(key: str, error: EditorError | Refused) -> None:
    """Remove the key from an error whose message echoes it."""
    if key not in str(error):
        return
    text = str(error).replace(key, "***")
    error.args = (text,)
    if isinstance(error, EditorError):
        error.message = text
    else:
        error.reason = text
    error.__cause__ = None
    error.__suppress_context__ = True
