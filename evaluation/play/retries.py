"""Ask an editor again when that can help: back-off with jitter, Retry-After, limits.

The attempts of one edit, in the shell, in notebooks and in a job of the site. What an endpoint's
state means for all jobs at once is in the database (leaderboard.jobs.pacing).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import tenacity

from evaluation.editors.base import Answer, Beside, Refused
from evaluation.errors import EditorError
from evaluation.images import Picture


class Edit(Protocol):
    """An editor's `send`, or anything wrapped around it (a ledger, a clock)."""

    def __call__(
        self, picture: Picture, prompt: str, seed: int | None = None, beside: Beside | None = None
    ) -> Answer: ...


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


def with_retries(
    edit: Edit,
    limits: Limits | None = None,
    *,
    on_attempt: Callable[[Attempt], None] | None = None,
    stop: threading.Event | None = None,
) -> Edit:
    """The same edit, asked again after errors that are not permanent.

    The last error is raised when the limits are reached. Refusals, permanent
    errors and exceptions of other kinds pass through at once. Setting `stop`
    ends a wait and raises Stopped.
    """
    limits, stop = limits or Limits(), stop or threading.Event()
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(_can_help),
        stop=tenacity.stop_after_attempt(limits.attempts)
        | tenacity.stop_before_delay(limits.seconds),
        wait=_Wait(limits),
        sleep=tenacity.sleep_using_event(stop),
        reraise=True,
    )

    def edit_with_retries(
        picture: Picture, prompt: str, seed: int | None = None, beside: Beside | None = None
    ) -> Answer:
        number = 0

        def once() -> Answer:
            nonlocal number
            # The first call was promised to whoever asks: a pause that comes in between lets it be.
            if number and stop.is_set():
                raise Stopped
            number += 1
            started = time.monotonic()
            ended: Answer | Refused | EditorError
            try:
                ended = edit(picture, prompt, seed=seed, beside=beside)
            except (Refused, EditorError) as error:
                ended = error
            if on_attempt:
                on_attempt(Attempt(number, time.monotonic() - started, ended))
            if isinstance(ended, Exception):
                raise ended
            return ended

        # A copy per edit: threads may share this function.
        return retrying.copy()(once)

    return edit_with_retries


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
