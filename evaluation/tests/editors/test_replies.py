"""Every reply of an endpoint gives image bytes, a refusal or an EditorError."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evaluation.editors.base import Refused
from evaluation.editors.contracts import CONTRACTS, Call, Settings, cog, find_contract
from evaluation.errors import EditorError
from evaluation.net.addresses import Rules
from evaluation.net.client import HttpClient, Reply

pytestmark = pytest.mark.fuzz
KEY = "sk-canary-0123456789abcdef"
WORDS = st.sampled_from(
    [
        *("error", "errors", "detail", "message", "msg", "code", "type", "data", "b64_json", "url"),
        *("status", "output", "urls", "get", "id", "succeeded", "failed", "processing", KEY),
        *("content_policy_violation", "insufficient_quota", "invalid api key", "estimated_time"),
        *("data:image/png;base64,AAAA", "data:", "https://10.0.0.1/", "http://[", "é", "\ud800"),
    ]
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), WORDS, st.text(max_size=20)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=5)),
    max_leaves=12,
)
BODIES = st.one_of(st.binary(max_size=60), JSON.map(lambda value: json.dumps(value).encode()))
HEADERS = st.dictionaries(
    st.sampled_from(["content-type", "retry-after", "retry-after-ms"]),
    st.one_of(
        st.sampled_from(["image/png", "application/json", "text/html", "x\x00y", "-1", "1e400"]),
        st.text(max_size=20),
    ),
)


def no_resolver(*_: Any) -> Any:
    raise OSError("no network here")


@pytest.fixture(scope="module")
def call() -> Call:
    client = HttpClient(Rules(resolver=no_resolver))
    return Call(client, Settings(url="https://example.com/v1", api_key=KEY, timeout=1))


@pytest.mark.parametrize("contract", CONTRACTS)
@settings(deadline=None)
@given(
    status=st.sampled_from([200, 201, 202, 204, 400, 401, 403, 409, 422, 429, 451, 500, 503, 599]),
    headers=HEADERS,
    body=BODIES,
)
@example(503, {"content-type": "application/json"}, b'{"estimated_time": 1%s}' % (b"0" * 400))
@example(400, {"content-type": "application/json"}, b'{"error": {"code": 1%s}}' % (b"0" * 400))
def test_no_reply_crashes_the_reader(
    call: Call, contract: str, status: int, headers: dict[str, str], body: bytes
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cog, "FIRST_WAIT", 0.0)
        patch.setattr(cog, "LONGEST_WAIT", 0.0)
        try:
            data = find_contract(contract).image(call, Reply(status, headers, body))
        except (EditorError, Refused) as error:
            text = str(error)
            assert KEY not in text
            assert len(text) < 700
            assert text.isprintable()
            wait = getattr(error, "retry_after", None)
            assert wait is None or 0 <= wait <= 86_400
        else:
            assert isinstance(data, bytes)
            assert 200 <= status < 300
