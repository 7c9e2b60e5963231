"""Large files from hosts that we name ourselves, with progress and a limit."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

#: (where from, bytes so far, bytes in all where known)
Progress = Callable[[str, int, int | None], None]


# What reading a file of something else raises. Not Exception: that would also swallow
# the time-out of a job.
UNREADABLE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
)


class Unusable(Exception):
    """A source that did not give the weights; the message says why."""


def download(url: str, target: Path, *, stage: str, limit: int, progress: Progress) -> None:
    """Writes the file at `url` to `target`; Unusable says why it did not come whole."""
    import httpx2

    done, total = 0, None
    try:
        with (
            httpx2.stream("GET", url, timeout=30, follow_redirects=True) as response,
            target.open("wb") as stream,
        ):
            response.raise_for_status()
            total = int(response.headers.get("content-length") or 0) or None
            for chunk in response.iter_raw(2**20):
                done += stream.write(chunk)
                if done > limit:
                    raise Unusable(f"{url} is larger than {limit:,} bytes")
                progress(stage, done, total)
    except (httpx2.HTTPError, ValueError) as error:
        raise Unusable(f"{url} cannot be reached: {error}") from error
    if total is not None and done != total:
        raise Unusable(f"{url} ended after {done:,} of {total:,} bytes")
