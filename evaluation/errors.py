"""Errors with messages for users, and the faults of an edit."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


class UserFacingError(Exception):
    """An error that users can act on; its message is shown without a traceback."""


def first_error(error: ValidationError) -> str:
    """Format the first problem that pydantic reports as "field: problem"."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    message = first["msg"].removeprefix("Value error, ").replace("Input should be", "should be")
    place = ".".join(str(part)[:60] for part in first["loc"])
    return f"{place}: {message}" if place else message


class Fault(StrEnum):
    """The reason why an edit gave no image. The value is stored; `label` is shown.

    If retries do not help, a fault with `breaks_chain` ends the chain; other faults pause the run.
    """

    label: str
    breaks_chain: bool

    def __new__(cls, value: str, label: str, breaks_chain: bool) -> Fault:
        member = str.__new__(cls, value)
        member._value_ = value
        member.label = label
        member.breaks_chain = breaks_chain
        return member

    # The endpoint as a whole fails.
    UNREACHABLE = "unreachable", "The endpoint cannot be reached", False
    TIMEOUT = "timeout", "The endpoint did not answer in time", False
    RATE_LIMITED = "rate_limited", "The endpoint limits the rate of calls", False
    SERVER_ERROR = "server_error", "The endpoint answers with server errors", False
    KEY_REJECTED = "key_rejected", "The endpoint rejected the key", False
    OUT_OF_CREDIT = "out_of_credit", "The endpoint's account is out of credit", False
    TLS = "tls", "The endpoint's TLS certificate is not valid", False
    BLOCKED = "blocked", "The endpoint's address is not public", False
    CONFIGURATION = "configuration", "The editor is not set up", False
    # Only this edit fails.
    BAD_ANSWER = "bad_answer", "The answer is not a usable image", True
    BAD_REQUEST = "bad_request", "The endpoint rejected the request", True


class EditorError(UserFacingError):
    """An edit that failed. `permanent` errors are not retried.

    `retry_after` is in seconds. If `billed`, the provider may charge for the edit nevertheless.
    """

    def __init__(
        self,
        message: str,
        *,
        fault: Fault,
        permanent: bool = False,
        retry_after: float | None = None,
        billed: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.fault = fault
        self.permanent = permanent
        self.retry_after = retry_after
        self.billed = billed
