"""Traces of runs for OpenTelemetry: run, chains, calls; nothing unless OTEL_... asks for them.

The numbers of spans are made of what they stand for, so that the workers of many machines tell
one trace without having heard of each other, and a span is sent when what it stands for is over:
a worker that is killed takes along what it had not sent yet, and others tell the rest. There are
figures and names of public content in them: no prompt, message, key or address, and of a sealed
suite not even its name.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from functools import cache
from typing import Any

from evaluation.traces.sender import Sender

log = logging.getLogger(__name__)

#: Either is enough; both are read by the exporter itself, as are their OTEL_EXPORTER_OTLP_... kin.
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
#: Calls that ended so are results; others are marked as errors.
RESULTS = frozenset({"answered", "refused"})
SEALED = "sealed"


@dataclass(frozen=True)
class Trace:
    """The trace of one run, `key` among all runs; chains have keys of their own in it."""

    key: str
    model: str
    suite: str
    sealed: bool = False

    def __post_init__(self) -> None:
        _sender()  # by the thread that begins the run: several at once would make several

    @property
    def is_sent(self) -> bool:
        """Whether anybody wants to have it."""
        return _sender() is not None

    def run(self, began: float, ended: float, **told: Any) -> None:
        """The run is scored; times are seconds since 1970."""
        self._tell("run", (), None, began, ended, told)

    def chain(self, chain: str, began: float, ended: float, *, case: str, **told: Any) -> None:
        """A chain is over."""
        public = {} if self.sealed else {"case": case}
        self._tell("chain", (chain,), (), began, ended, {"chain": chain, **public, **told})

    def call(self, chain: str, began: float, seconds: float, *, outcome: str, **told: Any) -> None:
        """An editor was asked, and answered or not."""
        told = {"chain": chain, "outcome": outcome, "seconds": seconds, **told}
        ended = began + seconds
        self._tell("call", None, (chain,), began, ended, told, failed=outcome not in RESULTS)

    def scored(self, chain: str, began: float, ended: float, first: int, last: int) -> None:
        """Trips of a chain were scored, in this time together with those of others."""
        told = {"chain": chain, "first_trip": first, "last_trip": last}
        self._tell("score", None, (chain,), began, ended, told)

    def _tell(
        self,
        name: str,
        own: tuple[str, ...] | None,
        parent: tuple[str, ...] | None,
        began: float,
        ended: float,
        told: dict[str, Any],
        *,
        failed: bool = False,
    ) -> None:
        """Hand over one span; `own` and `parent` are what numbers are made of, or None."""
        sender = _sender()
        if sender is None:
            return
        suite = SEALED if self.sealed else self.suite
        values = {"model": self.model, "suite": suite, **told}
        sender.send(
            name,
            (self.key, *own) if own is not None else None,
            (self.key, *parent) if parent is not None else None,
            self.key,
            (began, max(began, ended)),
            {f"convergebench.{name}": v for name, v in values.items() if v is not None},
            failed=failed,
        )


def flush() -> None:
    """Send what waits: for processes that end without a word, as those of jobs do."""
    if sender := _sender():
        sender.flush()


@cache
def _sender() -> Sender | None:
    """Whoever sends spans; None where nobody asked for them, or nobody can."""
    if not any(os.environ.get(name) for name in ENDPOINTS):
        return None
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    try:
        return Sender()
    except ImportError as error:
        log.warning("no traces: %s; pip install 'convergebench[traces]'", error)
        return None
