from __future__ import annotations

import base64
import email.utils
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.editors import EditorError, Fault, Refused
from evaluation.editors.failures import ErrorBody, failure, hide_key, retry_after, shorten
from evaluation.editors.payloads import from_base64

json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(["error", "code", "message", "detail", "type", "status", "x"]), inner
        )
    ),
    max_leaves=6,
)


@given(json, st.text())
def test_an_error_of_any_shape_is_read_as_text(body: object, raw: str) -> None:
    error = ErrorBody.read(body, raw)
    assert isinstance(error.code, str)
    assert isinstance(error.text, str)


@given(st.text() | st.floats().map(str) | st.integers().map(str))
def test_retry_after_is_a_time_or_nothing(value: str) -> None:
    wait = retry_after({"retry-after": value})
    assert wait is None or (math.isfinite(wait) and wait >= 0)


def test_retry_after_is_parsed_in_all_its_forms() -> None:
    assert retry_after({"retry-after": "7"}) == 7
    assert retry_after({"retry-after": "-7"}) == 0
    assert retry_after({"retry-after": "999999999"}) == 999999999
    assert retry_after({"retry-after-ms": "1500", "retry-after": "9"}) == 1.5
    soon = email.utils.formatdate(time.time() + 60, usegmt=True)
    assert retry_after({"retry-after": soon}) == pytest.approx(60, abs=2)
    assert retry_after({"retry-after": "Sun, 06 Nov 1994 08:49:37 GMT"}) == 0
    for odd in ("", "soon", "inf", "nan", "Sun, 99 Nov 1994"):
        assert retry_after({"retry-after": odd}) is None
    assert retry_after({}) is None


@given(st.integers(100, 599))
def test_every_status_has_its_fault(status: int) -> None:
    error = failure("X", status, "text")
    assert isinstance(error, EditorError)
    transient = (Fault.RATE_LIMITED, Fault.TIMEOUT, Fault.SERVER_ERROR)
    assert error.permanent == (error.fault not in transient)


@given(st.text())
def test_messages_are_short_and_printable(text: str) -> None:
    short = shorten(text)
    assert len(short) <= 500
    assert short.isprintable()


@pytest.mark.parametrize("kind", [Refused, EditorError])
def test_an_echoed_key_is_removed_with_the_cause_of_the_error(kind: type[Exception]) -> None:
    options = {} if kind is Refused else {"fault": Fault.KEY_REJECTED}
    error = kind("Incorrect key: sekrit.", **options)  # type: ignore[arg-type]
    error.__cause__ = ValueError("sekrit")
    hide_key("sekrit", error)  # type: ignore[arg-type]
    assert str(error) == "Incorrect key: ***."
    assert error.__cause__ is None


@given(st.binary(), st.sampled_from(["", "data:image/png;base64,"]))
def test_base64_comes_back_as_bytes_with_or_without_a_prefix(data: bytes, prefix: str) -> None:
    text = prefix + base64.b64encode(data).decode()
    if data:
        assert from_base64(text) == data


@pytest.mark.parametrize("text", [None, "", 17, b"AAAA", "A", "data:image/png;base64,A", "é"])
def test_invalid_base64_is_a_bad_answer(text: object) -> None:
    with pytest.raises(EditorError) as caught:
        from_base64(text)
    assert caught.value.fault is Fault.BAD_ANSWER
