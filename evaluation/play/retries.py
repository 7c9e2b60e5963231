"""Retry the calls of one edit: back-off with jitter, Retry-After, limits.

The site's jobs additionally share the pace of each endpoint (leaderboard.jobs.pacing).
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
    """Limits for the attempts at one edit; times are in seconds."""

    attempts: int = 5
    seconds: float = 900.0
    first_wait: float = 1.0
    longest_wait: float = 60.0


@dataclass(frozen=True)
class Attempt:
    """One call, as recorded in the list of all calls, with its answer, refusal or error."""

    number: int
    seconds: float
    result: Answer | Refused | EditorError

    @property
    def outcome(self) -> str:
        """The outcome in one word, as stored in the site's list of calls."""
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
    """Make a call; repeat it after temporary errors.

    Refusals, permanent errors and other exceptions are raised at once. Raises the last error when
    a limit is reached, and Stopped if `stop` is set during a wait.
    """
    called = False

    def once() -> Answer:
        nonlocal called
        # The first call is always made: `stop` prevents only repetitions.
        if called and stop.is_set():
            raise Stopped
        called = True
        return call()

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(_is_temporary),
        stop=tenacity.stop_after_attempt(limits.attempts)
        | tenacity.stop_before_delay(limits.seconds),
        wait=_Wait(limits),
        sleep=tenacity.sleep_using_event(stop),
        reraise=True,
    )(once)


def _is_temporary(error: BaseException) -> bool:
    return isinstance(error, EditorError) and not error.permanent


class _Wait(tenacity.wait.wait_base):
    """Wait for the endpoint's Retry-After, up to the longest wait, else by exponential back-off."""

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
