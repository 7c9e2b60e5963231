"""Untrusted JSON takes about as much memory as it has bytes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.untrusted_json import bounded, parse_json

ATTACKS = """
from evaluation.untrusted_json import parse_json
def peak():
    return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1])
before = peak()
for body in (b"[" + b"{}," * 21_000_000 + b"{}]", b'["' + b"a" * 60_000_000 + '\U0001f600"]'.encode(),
             b"[" * 60_000_000, b"0," * 30_000_000):
    try:
        parse_json(body)
    except ValueError:
        pass
    else:
        raise SystemExit("it was read")
    del body
print((peak() - before) // 1024)
"""


def test_63_megabytes_of_empty_items_stay_63_megabytes() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ATTACKS], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 400  # the texts themselves, while they are made; it was 1,500


def test_a_large_image_in_json_is_read() -> None:
    body = json.dumps({"data": [{"b64_json": "A" * 20_000_000}]}).encode()
    assert len(parse_json(body)["data"][0]["b64_json"]) == 20_000_000


@given(st.recursive(st.none() | st.integers() | st.text(), st.lists))
def test_ordinary_json_is_parsed(value: object) -> None:
    assert parse_json(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    ("value", "found"),
    [
        *((10**400, 60.0), (5, 5.0), (0.5, 0.5), (float("inf"), 60.0)),
        *((float("nan"), None), (-1, None), ("5", None), (True, None), (None, None)),
    ],
)
def test_an_untrusted_number_is_bounded(value: object, found: float | None) -> None:
    assert bounded(value, 60) == found
