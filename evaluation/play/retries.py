"""Ask an editor again when that can help: back-off with jitter, Retry-After, limits.

The attempts of one edit, in the shell, in notebooks and in a job of the site. What an endpoint's
state means for all jobs at once is in the database (leaderboard.jobs.pacing).
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
    """When to give up, and how long to wait in between, in seconds."""

    attempts: int = 5
    seconds: float = 900.0
    first_wait: float = 1.0
    longest_wait: float = 60.0


@dataclass(frozen=True)
class Attempt:
    """One call and how it ended, for a ledger: with an answer, a refusal or an error."""

    number: int
    seconds: float
    ended: Answer | Refused | EditorError

    @property
    def outcome(self) -> str:
        """In a word, as the site's ledger has it."""
        if isinstance(self.ended, EditorError):
            return self.ended.fault.value
        return "refused" if isinstance(self.ended, Refused) else "answered"

    @property
    def cost(self) -> float | None:
        """In USD; 0 for a call that was not billed, None where the price is not known."""
        if isinstance(self.ended, EditorError):
            return None if self.ended.billed else 0.0
        return self.ended.cost


class Stopped(Exception):
    """No more calls: somebody set the `stop` event."""


def with_retries(call: Callable[[], Answer], limits: Limits, stop: threading.Event) -> Answer:
    """Make a call, and again after errors that are not permanent.

    Refusals, permanent errors and exceptions of other kinds pass through at once. Raises the
    last error when the limits are reached, Stopped when `stop` is set during a wait.
    """
    begun = False

    def once() -> Answer:
        nonlocal begun
        # The first call is promised to the caller: a pause that comes in between lets it be.
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
    """What the endpoint asks for, within the cap; else twice as long each time, with jitter."""

    def __init__(self, limits: Limits) -> None:
        self.longest = limits.longest_wait
        self.jittered = tenacity.wait_exponential_jitter(
            initial=limits.first_wait, max=limits.longest_wait, jitter=limits.first_wait
        )

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        error = retry_state.outcome.exception() if retry_state.outcome else None
        asked = error.retry_after if isinstance(error, EditorError) else None
        if asked is None:
            return self.jittered(retry_state)
        return min(max(asked, 0.0), self.longest)
