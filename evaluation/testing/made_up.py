"""Generated input for parsers of untrusted data, and a growing corpus of such input.

`make fuzz` stores the shortest input found for every outcome of a parser. Later it also mutates the
stored inputs. Every test run parses the whole corpus.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

GROWS = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
#: Limits of the corpus: bytes per input, and inputs per parser.
LONGEST = 8_000
MOST = 120
Reader = Callable[[bytes], object]

# Numbers too large for a float.
HUGE = st.sampled_from([10**400, -(10**400)])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | HUGE | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
#: Values to put into a document.
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        *(None, True, -1, 0, 10**9, 10**400, 1e308, float("nan"), float("-inf"), "", "x" * 300),
        *("\0", "\ud800", "../../x", "0" * 64, [], {}, [[]], {"a": 1}, [1, 2], "=1+1"),
    ]
)


class Corpus:
    """Parsers by name, each with stored inputs."""

    def __init__(
        self, folder: Path, readers: Mapping[str, Reader], refusals: Sequence[type[Exception]]
    ) -> None:
        self.folder, self.readers, self.refusals = folder, readers, tuple(refusals)
        #: The corpus when the tests begin. Inputs that the tests add are mutated in the next run.
        self.seeds = {name: self.known(name) for name in readers}

    def known(self, name: str) -> list[bytes]:
        """Return the stored inputs of a parser."""
        return [file.read_bytes() for file in sorted((self.folder / name).glob("*"))]

    def ending(self, name: str, data: bytes) -> str:
        """Return the outcome of a parser: success, or the words of its refusal.

        Raises exceptions that the parser should not raise.
        """
        try:
            return f"{self.readers[name](data)}"
        except self.refusals as refusal:
            # Only the words of the message: numbers, names and paths differ between inputs.
            message = re.sub(r"\S*/\S*|'[^']*'|\"[^\"]*\"", " ", str(refusal).lower())
            words = re.findall(r"[a-z]{3,}", message)
            return " ".join([type(refusal).__name__, *words[:4]])

    def read(self, name: str, data: bytes) -> None:
        """Parse the input; store it if its outcome is new or it is shorter than before."""
        outcome = self.ending(name, data)
        if GROWS and len(data) <= LONGEST:
            file = (
                self.folder
                / name
                / hashlib.sha256(outcome.encode(errors="replace")).hexdigest()[:12]
            )
            file.parent.mkdir(parents=True, exist_ok=True)
            known = file.exists()
            if known and len(data) >= file.stat().st_size:
                return
            if known or len(list(file.parent.iterdir())) < MOST:
                file.write_bytes(data)

    def damaged(self, name: str, wholes: Sequence[bytes]) -> st.SearchStrategy[bytes]:
        """Mutate a file of `wholes` or the corpus: cut, double, overwrite or insert pieces."""
        return _damaged([*wholes, *self.seeds[name]])


@st.composite
def _damaged(draw: st.DrawFn, wholes: Sequence[bytes]) -> bytes:
    data = bytearray(draw(st.sampled_from(wholes)))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        length = draw(st.integers(0, 40))
        way = draw(st.sampled_from(("cut", "double", "overwrite", "insert", "truncate")))
        if way == "cut":
            del data[at : at + length]
        elif way == "double":
            data[at:at] = data[at : at + length]
        elif way == "truncate":
            del data[max(at, 1) :]
        else:
            put = draw(st.binary(max_size=12) | st.sampled_from([b"\xff" * 4, b"\0" * 8]))
            data[at : at + (len(put) if way == "overwrite" else 0)] = put
    return bytes(data)


def nodes(value: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key) of a document, at any depth."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found = [(value, key) for key, _ in items]
    inner = (v for v in (value.values() if isinstance(value, dict) else value))
    return found + [n for v in inner if isinstance(v, dict | list) for n in nodes(v)]


@st.composite
def altered(draw: st.DrawFn, document: Any) -> bytes:
    """Return the document as JSON, with one to three values replaced or deleted."""
    changed = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        if not (places := nodes(changed)):
            break
        holder, key = places[draw(st.integers(0, len(places) - 1))]
        if draw(st.booleans()):
            holder[key] = copy.deepcopy(draw(ODD))
        else:
            del holder[key]
    return json.dumps(changed).encode()
