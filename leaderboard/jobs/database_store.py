"""Store a run in the database while it is played: claims, ledger and answers.

A job claims a chain for itself under a lease, which lapses unless it is renewed. The ledger lists
all calls to the model. Audits are extra calls that test the model for cheating.

All threads of a job share one lock and one connection. They rarely wait for each other, because
every method is one short transaction and most time is spent in editors. Each write checks the
job's token, so that a job whose lease has lapsed can no longer write.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID

import structlog
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.models import Subquery
from django.db.models.functions import Now
from django.utils import timezone

from evaluation.analysis.stopping import last_trip, may_stop, stopped
from evaluation.audits.cold import Cold
from evaluation.audits.plan import Audit as PlannedAudit
from evaluation.audits.touch import Touch
from evaluation.content.shapes import BACKWARD, FORWARD
from evaluation.editors.base import Answer, Refused, Turn
from evaluation.errors import EditorError, Fault
from evaluation.images import EncodedImage
from evaluation.play.plan import Plan, Position
from evaluation.play.retries import Attempt, Stopped
from evaluation.play.round_trips import AnsweredStep, history
from evaluation.play.store import (
    WAIT,
    Cancelled,
    ChainTaken,
    ClaimedChain,
    Paused,
    RunStore,
)
from evaluation.run_secret import chain_seeds
from leaderboard import job_queue
from leaderboard.jobs import control, pacing
from leaderboard.jobs.resilience import retry_database, retry_storage, stop_requested
from leaderboard.models import (
    Audit,
    Call,
    Chain,
    Pace,
    Run,
    RunProgress,
    SecurityEvent,
    StoredImage,
    Trip,
    TripStep,
)
from leaderboard.models.runs import ChainState, RunState, after

log = structlog.get_logger(__name__)

#: The interval at which a job reads the state of its run.
POLL_SECONDS = 1.0
#: The delay before a call that is not allowed yet is tried again.
WAIT_SECONDS = 0.25
#: A turn on the gpu queue is this many times as long as on other queues: weights load slowly.
GPU_TURN_FACTOR = 15
#: If the endpoint is blocked for longer than this, the run pauses to free its worker. It resumes
#: by itself.
LONG_BLOCK_SECONDS = 60.0
#: The shortest interval between two score jobs for new trips.
SCORE_SECONDS = 2.0
#: If the budget allows at most this many more rounds of parallel calls, the ledger is recounted
#: before every call. Otherwise one recount a second suffices: within a second, the jobs of a run
#: begin fewer calls than these rounds have, unless edits take under 100 ms.
NEAR_ROUNDS = 10

P = ParamSpec("P")
T = TypeVar("T")


@dataclass
class OpenCall:
    """The call that a chain has in flight, and the money reserved for it."""

    pk: int
    reserved_usd: Decimal


def _locked(
    method: Callable[Concatenate[DatabaseStore, P], T],
) -> Callable[Concatenate[DatabaseStore, P], T]:
    """Run a method under the store's lock, on the job's connection, with retries."""

    @wraps(method)
    def locked(store: DatabaseStore, *args: P.args, **options: P.kwargs) -> T:
        with store.lock:
            connections[DEFAULT_DB_ALIAS] = store.connection
            if store.closed:
                raise Stopped
            return retry_database(lambda: method(store, *args, **options))

    return locked


class DatabaseStore(RunStore):
    """The database as the store of a run that one job plays."""

    paces_calls = True

    def __init__(self, run: Run, token: UUID, queue_name: str) -> None:
        self.run, self.token, self.queue_name = run, token, queue_name
        self.suite, self.arm = run.suite.core, run.core_arm
        self.pace = pacing.Pacer(run.editing_model)
        self.lock = threading.RLock()
        self.connection = connections[DEFAULT_DB_ALIAS]
        self.closed = self.stopping = False
        #: Called between two chains on the gpu queue, where one worker plays and scores.
        self.between_chains: Callable[[], object] = lambda: None
        self._claimed: dict[int, Chain] = {}
        self._calls: dict[int, OpenCall] = {}
        #: The monotonic time of each chain's last lease renewal.
        self._renewed: dict[int, float] = {}
        self._began = time.monotonic()
        self._due = {"poll": 0.0, "score": 0.0, "renew": self._began + settings.LEASE_SECONDS / 3}
        self._has_unscored_trips = False
        self._price: Decimal = run.editing_model.price_per_edit or Decimal(0)

    def start(self) -> None:
        self.connection.inc_thread_sharing()

    # Chains.

    @_locked
    def claimable(self) -> int:
        if self.stopping:
            return 0
        free = self.run.chains.free().ready().exclude(pk__in=list(self._claimed)).count()
        return min(free, Chain.objects.free_slots(self.run.editing_model))

    @_locked
    def claim(self) -> ClaimedChain | None:
        if self.stopping:
            return None
        if self.queue_name == job_queue.GPU:
            self.between_chains()
        # Skip chains that our threads still play. If such a chain's lease had lapsed, claiming it
        # again would let two threads play it with the same valid token.
        began = time.monotonic()
        chains = Chain.objects.claim(self.run, self.token, 1, list(self._claimed))
        if not chains:
            return None
        chain = chains[0]
        self._claimed[chain.pk], self._renewed[chain.pk] = chain, began
        audits = chain.audits.filter(outcome=Audit.Outcome.PLANNED)
        pair = self.arm.reworded(self.suite.pair_by_slug[chain.case.pair_slug])
        seeds = chain_seeds(self.run.secret, chain.case.slug, chain.repeat, self.arm.seeds)
        annotations = self.suite.image_by_slug[chain.case.image.slug].annotations
        return ClaimedChain(
            chain.pk,
            self.run.secret,
            Plan(pair, self.suite.trips, seeds, self.arm, annotations),
            {
                audit.number: PlannedAudit(
                    chain.case.slug,
                    chain.repeat,
                    audit.number,
                    audit.kind,  # type: ignore[arg-type]
                )
                for audit in audits
            },
        )

    def position(self, chain: ClaimedChain) -> Position:
        trip_images, trip, conversation = self._images(chain)
        *earlier, image = [retry_storage(image.read) for image in trip_images]
        turns: tuple[Turn, ...] = ()
        if chain.plan.is_conversation:
            source, *answers = [retry_storage(image.read) for image in conversation]
            turns = history(chain.plan, source, answers)
        return Position(image, trip, tuple(earlier), turns)

    @_locked
    def _images(self, claimed: ClaimedChain) -> tuple[list[StoredImage], int, list[StoredImage]]:
        """Return the current trip's images, the trip's number, and the conversation's images.

        The last list is empty unless the chain is a conversation.
        """
        chain = self._claimed[claimed.key]
        played = chain.trips_played
        under_way = chain.trips.filter(number__in=(played, played + 1))
        trips = {trip.number: trip for trip in under_way.select_related("edited", "restored")}
        source = chain.case.image.stored
        last, current = trips.get(played), trips.get(played + 1)
        images = [last.restored if last else source]
        if current:
            inner = TripStep.objects.under_way({chain.pk: played}).get(chain.pk, [])
            images += [current.edited, *inner]
        answers: list[StoredImage | None] = []
        if claimed.plan.is_conversation:
            answers = [source, *Trip.objects.answers([chain.pk]).get(chain.pk, [])]
        return list(map(_required, images)), played + 1, list(map(_required, answers))

    @_locked
    def stop_before(self, chain: ClaimedChain, trip: int) -> str:
        row, margin = self._claimed[chain.key], self.run.stop_after
        if not margin or not may_stop(row.case.pair_slug, self.suite):
            return ""
        row.refresh_from_db(fields=["known_at", "trips_scored", "trips_played"])
        trips = row.trips.filter(
            number__gte=row.trips_played - margin, number__lte=row.trips_played
        )
        hashes = [(e or "", r or "") for e, r in trips.values_list("edited_id", "restored_id")]
        if outcome := stopped(row.trips_played, row.known_at, hashes, margin):
            return outcome
        last = last_trip(row.known_at, row.trips_scored, margin, self.suite.trips)
        return WAIT if trip > last else ""

    @_locked
    def end_chain(self, chain: ClaimedChain, outcome: str, reason: str = "") -> None:
        self._claimed.pop(chain.key, None)
        self._held(chain).update(
            state=ChainState.PLAYED,
            outcome=outcome,
            outcome_text=reason[:500],
            token=None,
            lease_until=None,
        )

    @_locked
    def release(self, chain: ClaimedChain) -> None:
        self._claimed.pop(chain.key, None)
        Chain.objects.release(self.token, [chain.key])

    # Calls.

    def open_call(self, chain: ClaimedChain, trip: int, name: str) -> None:
        while True:
            delay = self._open_call(chain, trip, name)
            if delay is not None:
                time.sleep(delay)
                return
            time.sleep(WAIT_SECONDS)

    @_locked
    def _open_call(self, chain: ClaimedChain, trip: int, name: str) -> float | None:
        """Enter a call into the ledger; return its delay in seconds, or None to try again later."""
        if self.stopping:
            raise Stopped
        if self.pace.seconds_blocked > 0:
            return None
        with transaction.atomic():
            # A lease that was renewed a moment ago is still valid: no other job has the chain.
            if time.monotonic() - self._renewed[chain.key] > settings.LEASE_SECONDS / 3:
                self._fence(chain)
            price = self._affordable_price()
            delay = self.pace.reserve()
            if delay is None:
                return None
            call = Call.objects.create(
                run=self.run,
                chain_id=chain.key,
                number=trip,
                direction=name,
                attempt=chain.attempt + 1,
                outcome=Call.CALLING,
                cost=price or None,
                started_at=timezone.now(),
            )
        self._calls[chain.key] = OpenCall(call.pk, price)
        self.run.progress.calls += 1
        self.run.progress.spent_usd += price
        return delay

    def _affordable_price(self) -> Decimal:
        """Return the price of the next call.

        Raises Paused if it exceeds the budget.
        """
        if self._is_near_budget_end():
            # The recount locks the progress row until this call is in the ledger. Otherwise two
            # jobs could both make the last call of the budget.
            control.recount(self.run)
        progress, price = self.run.progress, self._next_price()
        if progress.budget_calls is not None and progress.calls >= progress.budget_calls:
            raise Paused(f"All {progress.budget_calls:,} calls of the budget are used.", "budget")
        if progress.budget_usd is not None and (
            progress.spent_usd + price > progress.budget_usd
            or progress.spent_usd >= progress.budget_usd
        ):
            raise Paused(
                f"USD {progress.spent_usd:.2f} of the budget of {progress.budget_usd:.2f} "
                "are spent; "
                f"the next call would cost {price:.4f}.",
                "budget",
            )
        return price

    def _next_price(self) -> Decimal:
        """Return the listed price, or the mean cost so far if that is higher."""
        progress = self.run.progress
        if progress.budget_usd is None or not progress.calls:
            return self._price
        return max(self._price, round(progress.spent_usd / progress.calls, 5))

    def _is_near_budget_end(self) -> bool:
        progress = self.run.progress
        calls = NEAR_ROUNDS * self.run.editing_model.max_in_flight
        usd = progress.spent_usd + calls * self._next_price()
        return (
            progress.budget_calls is not None and progress.calls + calls >= progress.budget_calls
        ) or (progress.budget_usd is not None and usd >= progress.budget_usd)

    @_locked
    def close_call(self, chain: ClaimedChain, trip: int, name: str, attempt: Attempt) -> None:
        error = attempt.result if isinstance(attempt.result, EditorError) else None
        with transaction.atomic():
            self.pace.note(error)
            self._fence(chain)
            self._close(chain, attempt, str(attempt.result))
            if error:
                progress = RunProgress.objects.filter(pk=self.run.pk)
                progress.update(last_error=error.message[:500])

    def _close(self, chain: ClaimedChain, attempt: Attempt, message: str = "") -> None:
        """Complete the call's row in the ledger."""
        call = self._calls[chain.key]
        cost = self.run.editing_model.price_per_edit if attempt.cost is None else attempt.cost
        cost = None if cost is None else round(Decimal(cost), 5)
        image = attempt.result.image if isinstance(attempt.result, Answer) else None
        Call.objects.filter(pk=call.pk).update(
            outcome=attempt.outcome,
            message=message[:500],
            seconds=attempt.seconds,
            bytes=len(image.data) if image else 0,
            cost=cost,
        )
        self.run.progress.spent_usd += (cost or Decimal(0)) - call.reserved_usd

    # Answers.

    def save_answer(
        self, chain: ClaimedChain, answered: AnsweredStep, attempt: Attempt | None, *, blank: bool
    ) -> None:
        stored = _write_image(answered.answer.image)
        self._save_answer(chain, answered, attempt, stored, blank)

    @_locked
    def _save_answer(
        self,
        chain: ClaimedChain,
        answered: AnsweredStep,
        attempt: Attempt | None,
        stored: StoredImage,
        blank: bool,
    ) -> None:
        step = answered.step
        ends_trip = step.name == BACKWARD and not blank
        with transaction.atomic():
            self.pace.note(None)
            self._fence(chain, **({"trips_played": step.trip} if ends_trip else {}))
            StoredImage.objects.upsert([stored])
            if attempt:
                self._close(chain, attempt)
            else:
                self._record_synthetic(chain, answered)
            _save_answer_row(chain.key, answered, stored)
        if ends_trip:
            self._claimed[chain.key].trips_played = step.trip
            self._has_unscored_trips = True

    def _record_synthetic(self, chain: ClaimedChain, answered: AnsweredStep) -> None:
        """Enter an answer that we computed without a call (synthetic) into the ledger."""
        step, answer = answered.step, answered.answer
        Call.objects.create(
            run=self.run,
            chain_id=chain.key,
            number=step.trip,
            direction=step.name,
            outcome=Call.SYNTHETIC,
            message=str(answer.notes.get("made by us", "")),
            seconds=answer.seconds,
            bytes=len(answer.image.data),
            cost=Decimal(0),
            started_at=timezone.now(),
        )

    def save_audit(
        self,
        chain: ClaimedChain,
        audit: PlannedAudit,
        request: Touch | Cold,
        result: Answer | Refused | EditorError,
        attempt: Attempt | None,
    ) -> None:
        images: dict[str, StoredImage] = {}
        if isinstance(result, Answer):
            images = {"sent": _write_image(request.sent), "answer": _write_image(result.image)}
        self._save_audit(chain, audit, request.words, result, attempt, images)

    @_locked
    def _save_audit(
        self,
        chain: ClaimedChain,
        audit: PlannedAudit,
        words: str,
        result: Answer | Refused | EditorError,
        attempt: Attempt | None,
        images: dict[str, StoredImage],
    ) -> None:
        row = Audit.objects.filter(chain=chain.key, number=audit.number)
        with transaction.atomic():
            self._fence(chain)
            if not isinstance(result, Answer):
                refused = isinstance(result, Refused)
                row.update(outcome=Audit.Outcome.REFUSED if refused else Audit.Outcome.FAILED)
                return
            # Sort the rows, so that two jobs that store the same images do not deadlock.
            StoredImage.objects.upsert(sorted(images.values(), key=lambda image: image.pk))
            if attempt:
                self._close(chain, attempt)
            row.update(
                outcome=Audit.Outcome.ANSWERED,
                words=words[:200],
                seed=audit.seed(self.run.secret),
                seconds=result.seconds,
                **images,
            )

    @_locked
    def attempts_made(self, chain: ClaimedChain, trip: int, name: str) -> int:
        return Call.objects.filter(chain=chain.key, number=trip, direction=name).count()

    # The job.

    @_locked
    def pause(self, pause: Paused) -> None:
        fault = next((fault for fault in Fault if fault.value == pause.reason), None)
        seconds = pause.seconds
        if fault in pacing.TEMPORARY_FAULTS:
            seconds = pacing.pause_seconds(self.pace)
        control.pause(self.run, pause.reason or "internal", str(pause), seconds)
        self.stopping = True

    @_locked
    def alarm(self, kind: str, detail: str) -> None:
        """Record a forbidden action of a submitted endpoint."""
        SecurityEvent.record(kind, detail, editing_model=self.run.editing_model)

    @_locked
    def tick(self) -> bool:
        if self._is_due("poll", POLL_SECONDS):
            self._poll()
        if self._is_due("renew", settings.LEASE_SECONDS / 3):
            Chain.objects.renew(self.token)
        if (
            self._has_unscored_trips
            and self.queue_name != job_queue.GPU
            and self._is_due("score", SCORE_SECONDS)
        ):
            job_queue.enqueue(self.run.pk, job_queue.SCORE, job_queue.GPU)
            self._has_unscored_trips = False
        return not self.stopping

    def _poll(self) -> None:
        """Recount the run's progress; stop if its state or its endpoint requires that."""
        pace = Pace.objects.filter(editing_model=self.pace.owner)
        row = (
            Run.objects.filter(pk=self.run.pk)
            .values_list(
                "state",
                Subquery(pace.values("blocked_until")),
                Subquery(pace.values("failures_in_a_row")),
                Now(),
            )
            .first()
        )
        if row is None or row[0] in (RunState.CANCELLED, RunState.FAILED):
            self.stopping = True
            raise Cancelled
        state, blocked_until, failures, now = row
        control.recount(self.run)
        self.pace.update(blocked_until, failures or 0, now)
        turn = settings.TURN_SECONDS * (GPU_TURN_FACTOR if self.queue_name == job_queue.GPU else 1)
        is_over = time.monotonic() - self._began > turn
        if state not in (RunState.QUEUED, RunState.PLAYING) or stop_requested():
            self.stopping = True
        elif self.pace.seconds_blocked > LONG_BLOCK_SECONDS and not self.stopping:
            fault = self.pace.fault or Fault.RATE_LIMITED
            control.pause(self.run, fault.value, f"{fault.label}.", self.pace.seconds_blocked)
            self.stopping = True
        elif job_queue.should_yield(self.run.pk, self.queue_name, turn_is_over=is_over):
            self.stopping = True

    def close(self) -> None:
        with self.lock, suppress(Stopped):
            self.closed = True
            connections[DEFAULT_DB_ALIAS] = self.connection
            retry_database(lambda: Chain.objects.release(self.token))
            retry_database(lambda: control.recount(self.run))
            self.connection.dec_thread_sharing()

    # Rows.

    def _held(self, chain: ClaimedChain) -> Any:
        return Chain.objects.held(self.token).filter(pk=chain.key)

    def _fence(self, chain: ClaimedChain, **fields: Any) -> None:
        """Renew the chain's lease and set these fields.

        Raises ChainTaken if this job no longer has the chain.
        """
        began = time.monotonic()
        if not self._held(chain).update(lease_until=after(settings.LEASE_SECONDS), **fields):
            self._claimed.pop(chain.key, None)
            self._calls.pop(chain.key, None)
            raise ChainTaken
        self._renewed[chain.key] = began

    def _is_due(self, task: str, seconds: float) -> bool:
        now = time.monotonic()
        if now < self._due[task]:
            return False
        self._due[task] = now + seconds
        return True


def _required(stored: StoredImage | None) -> StoredImage:
    """Return the image. Raises RuntimeError if the chain was imported without images."""
    if stored is None:
        raise RuntimeError("this chain has no stored image to continue from")
    return stored


def _write_image(image: EncodedImage) -> StoredImage:
    """Write an image to storage. Raises Paused while storage is unavailable."""
    return retry_storage(lambda: StoredImage.objects.write_bytes(image))


def _save_answer_row(chain: int, answered: AnsweredStep, stored: StoredImage) -> None:
    """Insert or complete the row of an answer."""
    step, answer = answered.step, answered.answer
    notes = dict(answer.notes)
    if answer.image.notes:
        notes["converted"] = list(answer.image.notes)
    if step.name == FORWARD:
        fields = Trip.answer_fields("edited", stored, step.seed, answer.seconds, notes)
        trip = Trip(chain_id=chain, number=step.trip, **fields)
        Trip.objects.bulk_create([trip], ignore_conflicts=True)
    elif step.name == BACKWARD:
        fields = Trip.answer_fields("restored", stored, step.seed, answer.seconds, notes)
        Trip.objects.filter(chain=chain, number=step.trip).update(**fields)
    else:
        inner = TripStep(
            chain_id=chain,
            number=step.trip,
            place=step.place + 1,
            name=step.name,
            image=stored,
            seed=step.seed,
            seconds=answer.seconds,
            notes=notes,
        )
        TripStep.objects.bulk_create([inner], ignore_conflicts=True)
