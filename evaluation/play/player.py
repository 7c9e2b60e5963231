"""Play a run in threads; each thread claims, plays and saves one chain at a time.

Audits, extra requests that test the editor for cheating, are sent between the edits.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from evaluation.audits.cold import Cold
from evaluation.audits.plan import BEFORE_TRIPS, Audit
from evaluation.audits.touch import Touch
from evaluation.content.suites import EditPair
from evaluation.editors.base import Answer, EditContext, Editor, Refused
from evaluation.errors import EditorError, Fault
from evaluation.images import EncodedImage, is_blank
from evaluation.play.plan import Position, Step
from evaluation.play.retries import Attempt, Limits, Stopped, with_retries
from evaluation.play.round_trips import round_trips
from evaluation.play.store import (
    WAIT,
    Cancelled,
    ChainTaken,
    ClaimedChain,
    ImageGone,
    Paused,
    RunStore,
)

TICK = 0.2
#: The interval at which threads are added, up to `parallel` of them.
CLAIM_SECONDS = 1.0
#: After this many failures an edit is given up, even if the endpoint answers no other edit.
MAX_ATTEMPTS = 25


@dataclass
class Player:
    """Play one run with one editor, `parallel` chains at a time."""

    editor: Editor
    store: RunStore
    parallel: int = 1
    limits: Limits = field(default_factory=Limits)
    on_interrupt: Callable[[], None] = lambda: None
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._playing = 0
        self._last_answer = 0.0
        self._paused: Paused | None = None

    def play(self) -> None:
        """Play until no chain is left to claim. Raises Paused or KeyboardInterrupt.

        The first interruption waits for the edits in flight and saves them, since they are paid
        for. A second interruption drops them.
        """
        self.stop.clear()
        self._paused = None
        self.store.start()
        interrupted = False
        next_claim = 0.0
        try:
            while True:
                try:
                    if not self.store.tick():
                        self.stop.set()
                    if not self.stop.is_set() and (
                        not self._playing or time.monotonic() >= next_claim
                    ):
                        next_claim = time.monotonic() + CLAIM_SECONDS
                        self._add_threads()
                    if not self._playing:
                        break
                    self._wait()
                except KeyboardInterrupt:
                    if interrupted:
                        self.editor.close()
                        raise
                    interrupted = True
                    self.stop.set()
                    self.on_interrupt()
        except Cancelled:
            self.editor.close()
        finally:
            self.stop.set()
            self.store.close()
        if self._paused:
            raise self._paused
        if interrupted:
            raise KeyboardInterrupt

    def _add_threads(self) -> None:
        for _ in range(min(self.parallel - self._playing, self.store.claimable())):
            self._playing += 1
            threading.Thread(target=self._work, daemon=True).start()

    def _wait(self) -> None:
        """Wait a moment for a thread to end. Raises the exception that ended it, if any."""
        try:
            error = self._ended.get(timeout=TICK)
        except queue.Empty:
            return
        self._playing -= 1
        if error is not None:
            raise error

    # The methods below run in the threads.

    def _work(self) -> None:
        error: BaseException | None = None
        try:
            while not self.stop.is_set() and (chain := self.store.claim()):
                self._play(chain)
        except Stopped:
            pass
        except BaseException as caught:  # the main thread raises it again
            error = caught
        self._ended.put(error)

    def _play(self, chain: ClaimedChain) -> None:
        """Play a chain until it ends, cannot continue, or playing stops."""
        try:
            outcome, reason = self._outcome(chain)
        except ChainTaken:
            return
        except Stopped:
            self.store.release(chain)
            return
        except Paused as pause:
            self._pause(pause)
            self.store.release(chain)
            return
        if outcome == WAIT:
            self.store.release(chain)
        else:
            self.store.end_chain(chain, outcome, reason)

    def _outcome(self, chain: ClaimedChain) -> tuple[str, str]:
        """Play the chain's steps; return its outcome and the reason, or WAIT."""
        try:
            return self._steps(chain), ""
        except Refused as refusal:
            return "refused", refusal.reason
        except ImageGone as gone:
            return "lost", str(gone)
        except _Blank as blank:
            return "blank", str(blank)
        except _EditFailed as failed:
            error = failed.error
            if error.fault.breaks_chain or self._fails_alone(chain, failed):
                return "failed", error.message
            if self.stop.is_set():
                raise Stopped from error
            message = f"{error.fault.label}: {error.message}"
            raise Paused(message, error.fault.value) from error

    def _steps(self, chain: ClaimedChain) -> str:
        store, plan = self.store, chain.plan
        position = store.position(chain)
        attempts: list[Attempt] = []
        edit = partial(self._edit, chain, attempts)
        if outcome := self._stops(chain, position):
            return outcome
        self._audit(chain, position)
        for answered in round_trips(plan, edit, position):
            answer = answered.answer
            blank = is_blank(answer.image.decoded)
            store.save_answer(chain, answered, attempts.pop() if attempts else None, blank=blank)
            self._last_answer = time.monotonic()
            if blank:
                raise _Blank(f"Trip {answered.step.trip}, {answered.step.name}: one colour only")
            chain.attempt = 0
            position = position.after(answered.step, answer.image)
            if outcome := self._stops(chain, position):
                return outcome
            self._audit(chain, position)
        return "completed"

    def _stops(self, chain: ClaimedChain, position: Position) -> str:
        """Return the outcome or WAIT if the next trip must not be played, else ""."""
        if position.earlier or position.trip > chain.plan.trips:
            return ""
        return self.store.stop_before(chain, position.trip)

    def _edit(
        self,
        chain: ClaimedChain,
        attempts: list[Attempt],
        image: EncodedImage,
        step: Step,
        context: EditContext,
    ) -> Answer:
        """Send an edit with retries; append the answered attempt to `attempts`."""
        began = time.monotonic()
        call = partial(self.editor.send, image, step.prompt, step.seed, context)
        attempt = partial(self._attempt, chain, attempts, step, call)
        try:
            return with_retries(attempt, self.limits, self.stop)
        except EditorError as error:
            raise _EditFailed(error, step, began) from error

    def _attempt(
        self,
        chain: ClaimedChain,
        attempts: list[Attempt],
        step: Step,
        call: Callable[[], Answer],
    ) -> Answer:
        """Make one call; repeat it after a rate limit if the store paces calls."""
        while True:
            if self.stop.is_set():
                raise Stopped
            self.store.open_call(chain, step.trip, step.name)
            chain.attempt += 1
            started = time.monotonic()
            try:
                answer = call()
            except (Refused, EditorError) as error:
                attempt = Attempt(chain.attempt, time.monotonic() - started, error)
                self.store.close_call(chain, step.trip, step.name, attempt)
                limited = isinstance(error, EditorError) and error.fault is Fault.RATE_LIMITED
                if not (limited and self.store.paces_calls):
                    raise
            else:
                attempts.append(Attempt(chain.attempt, time.monotonic() - started, answer))
                return answer

    def _audit(self, chain: ClaimedChain, position: Position) -> None:
        """Send the audit of this position: before all trips, or before a trip's last call."""
        plan = chain.plan
        if (
            position.trip == 1
            and not position.earlier
            and (audit := chain.audits.get(BEFORE_TRIPS))
        ):
            cold = Cold(audit, chain.secret, plan.pair, position.image, plan.annotations)
            self._send_audit(chain, audit, cold, plan.pair)
        audit = chain.audits.get(position.trip)
        if audit is None or position.trip > plan.trips or not position.earlier:
            return
        if plan.step(position.trip, position.place).restores:
            pair = plan.pair.last_edit_as_pair(position.trip)
            touch = Touch(audit, chain.secret, pair, position.earlier[0], position.image)
            self._send_audit(chain, audit, touch, pair)

    def _send_audit(
        self, chain: ClaimedChain, audit: Audit, request: Touch | Cold, pair: EditPair
    ) -> None:
        """Send the audit's image with the backward prompt, and save the answer."""
        plan = chain.plan
        step = replace(
            plan.step(max(1, audit.number), 0),
            trip=audit.number,
            name="audit",
            prompt=pair.backward,
            seed=audit.seed(chain.secret),
        )
        context = EditContext(annotations=plan.annotations)
        attempts: list[Attempt] = []
        result: Answer | Refused | EditorError
        try:
            result = self._edit(chain, attempts, request.sent, step, context)
        except Refused as refusal:
            result = refusal
        except _EditFailed as failed:
            if not (failed.error.fault.breaks_chain or self._fails_alone(chain, failed)):
                raise
            result = failed.error
        self.store.save_audit(chain, audit, request, result, attempts[-1] if attempts else None)
        chain.attempt = 0
        del chain.audits[audit.number]

    def _fails_alone(self, chain: ClaimedChain, failed: _EditFailed) -> bool:
        """Return True if the endpoint answers other edits, or this one failed too often."""
        if failed.error.fault not in (Fault.TIMEOUT, Fault.SERVER_ERROR):
            return False
        attempts = self.store.attempts_made(chain, failed.step.trip, failed.step.name)
        return self._last_answer > failed.began or attempts >= MAX_ATTEMPTS

    def _pause(self, pause: Paused) -> None:
        self.stop.set()  # first, or an idle thread would begin the next chain
        if self._paused is None:
            self._paused = pause
            self.store.pause(pause)


class _Blank(Exception):
    """An answer of one colour, which ends the chain."""


class _EditFailed(Exception):
    """An edit that was given up; `began` is the monotonic time of its first attempt."""

    def __init__(self, error: EditorError, step: Step, began: float) -> None:
        super().__init__(str(error))
        self.error, self.step, self.began = error, step, began
