"""Retry calls to an editor: back-off with jitter, Retry-After, limits.

This covers the attempts of one edit, in the shell, in notebooks and in a job of the site. The
state of an endpoint that all jobs share is in the database (leaderboard.jobs.pacing).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import tenacity

from evaluation.editors.base import Answer, Refused
from evaluation.errors import EditorError


@dataclass(frozen=True)
class Limits:
    """Limits of the attempts at one edit; times are in seconds."""

    attempts: int = 5
    seconds: float = 900.0
    first_wait: float = 1.0
    longest_wait: float = 60.0


@dataclass(frozen=True)
class Attempt:
    """One call for a ledger; it ended with an answer, a refusal or an error."""

    number: int
    seconds: float
    result: Answer | Refused | EditorError

    @property
    def outcome(self) -> str:
        """The outcome as one word of the site's ledger."""
        if isinstance(self.result, EditorError):
            return self.result.fault.value
        return "refused" if isinstance(self.result, Refused) else "answered"

    @property
    def cost(self) -> float | None:
        """The cost in USD; 0 for a call that was not billed, None if unknown."""
        if isinstance(self.result, EditorError):
            return None if self.result.billed else 0.0
        return self.result.cost


class Stopped(Exception):
    """No more calls may be made: the `stop` event is set."""


def with_retries(call: Callable[[], Answer], limits: Limits, stop: threading.Event) -> Answer:
    """Make a call; repeat it after errors that are not permanent.

    Refusals, permanent errors and exceptions of other kinds pass through at once. Raises the
    last error when the limits are reached, Stopped when `stop` is set during a wait.
    """
    begun = False

    def once() -> Answer:
        nonlocal begun
        # The caller relies on a first call: `stop` prevents only repetitions.
        if begun and stop.is_set():
            raise Stopped
        begun = True
        return call()

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(_can_help),
        stop=tenacity.stop_after_attempt(limits.attempts)
        | tenacity.stop_before_delay(limits.seconds),
        wait=_Wait(limits),
        sleep=tenacity.sleep_using_event(stop),
        reraise=True,
    )(once)


def _can_help(error: BaseException) -> bool:
    return isinstance(error, EditorError) and not error.permanent


class _Wait(tenacity.wait.wait_base):
    """The endpoint's Retry-After within the cap, else exponential back-off."""

    def __init__(self, limits: Limits) -> None:
        self.longest = limits.longest_wait
        self.jittered = tenacity.wait_exponential_jitter(
            initial=limits.first_wait, max=limits.longest_wait, jitter=limits.first_wait
        )

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        error = retry_state.outcome.exception() if retry_state.outcome else None
        retry_after = error.retry_after if isinstance(error, EditorError) else None
        if retry_after is None:
            return self.jittered(retry_state)
        return min(max(retry_after, 0.0), self.longest)
