"""What the threads of a play job report, and how it is written down.

Only the job's main thread touches the database. It takes everything that has
arrived and writes it in one transaction: answers, chains that ended, the
ledger, the run's counters, and the calls that may now be made. A chain's next
call is granted in the transaction that keeps its last answer, so nothing is
paid for before what came before it is safe.
"""

from __future__ import annotations

import queue
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

import structlog
from django.db import transaction
from django.utils import timezone

from evaluation.content.shapes import BACKWARD, FORWARD
from evaluation.errors import EditorError
from leaderboard.jobs import pacing
from leaderboard.jobs.job_errors import retry_database
from leaderboard.jobs.playing.call_slots import CallSlots
from leaderboard.jobs.playing.events import (
    Alarm,
    AnswerReceived,
    AuditAnswered,
    AuditBroken,
    CallFailed,
    CallRequested,
    ChainEnded,
    ChainInPlay,
    Event,
    Inbox,
    OpenCall,
    SlotFree,
    ThreadStopped,
)
from leaderboard.models import (
    Audit,
    Call,
    Chain,
    Run,
    SecurityEvent,
    StoredImage,
    Trip,
    TripStep,
    bulk,
)
from leaderboard.models.runs import ChainState

log = structlog.get_logger(__name__)

#: With more chains than this in flight, answers are gathered for a moment: one transaction
#: for ten of them costs little more than one for each.
MANY = 8
GATHER_SECONDS = 0.003

T = TypeVar("T")


#: What is added to the run's counters, by name.
Sums: TypeAlias = "defaultdict[str, Any]"
#: After how many seconds each may call; None: it must stop.
Replies: TypeAlias = "dict[ChainInPlay, float | None]"
#: And the spare chains that inherit the calls of those that left.
Written: TypeAlias = "tuple[Replies, list[int]]"
Rows: TypeAlias = "list[dict[str, Any]]"


class RunWriter:
    """The one place where a play job writes."""

    def __init__(self, run: Run, token: UUID, inbox: Inbox | None = None) -> None:
        self.run = run
        self.token = token
        self.inbox: Inbox = inbox or queue.SimpleQueue()
        self.waiting: list[CallRequested] = []
        self.works: dict[int, ChainInPlay] = {}
        self.slots = CallSlots(on_free=lambda: self.inbox.put(SlotFree()))
        #: Nothing more is granted, and why the run must pause, when it must.
        self.closing = False
        self.over_budget = ""
        self.pace = pacing.Pacer(run.editing_model)

    @property
    def spares(self) -> list[int]:
        """The chains that take turns with others for their calls."""
        return [key for key, work in self.works.items() if work.chain.spare]

    def take(self, works: Iterable[ChainInPlay]) -> None:
        """Write for these from now on."""
        self.works |= {work.chain.pk: work for work in works}
        self._resize()

    def add_calls(self, chains: Iterable[int]) -> None:
        """Have these call without turns: the database says that they may."""
        for key in chains:
            self.works[key].chain.spare = False
        self._resize()

    def _resize(self) -> None:
        self.slots.resize(len(self.works) - len(self.spares))

    def collect(self, seconds: float) -> list[Event | Alarm]:
        """What has been reported, waiting up to `seconds` for the first."""
        found: list[Event | Alarm | SlotFree] = []
        try:
            found.append(self.inbox.get(timeout=seconds))
            if len(self.works) > MANY:
                time.sleep(GATHER_SECONDS)
            while True:
                found.append(self.inbox.get_nowait())
        except queue.Empty:
            return [event for event in found if not isinstance(event, SlotFree)]

    def write(self, events: Sequence[Event | Alarm]) -> None:
        """Write down what happened, then answer those who wait."""
        waiting = self.waiting + [event for event in events if isinstance(event, CallRequested)]
        asked = waiting if self.closing else waiting[: self.slots.to_grant]
        if not events and not self._may_answer(asked):
            self._let_wait(waiting)
            return
        replies, heirs = retry_database(lambda: self._write(events, asked))
        self._let_wait([event for event in waiting if event.work not in replies])
        self.slots.grant(sum(reply is not None for reply in replies.values()))
        for work, reply in replies.items():
            work.reply.put(reply)
        for event in events:
            if isinstance(event, (ChainEnded, ThreadStopped)):
                self.works.pop(event.work.chain.pk, None)
        self.add_calls(heirs)

    def _let_wait(self, asked: list[CallRequested]) -> None:
        self.waiting = asked
        self.slots.waited_for = bool(asked)

    def _may_answer(self, asked: Sequence[CallRequested]) -> bool:
        return bool(asked) and (self.closing or not self.pace.blocked)

    def _write(self, events: Sequence[Event | Alarm], asked: Sequence[CallRequested]) -> Written:
        works = {e.work for e in (*events, *asked) if isinstance(e, Event)}
        if bulk.can_write_at_once() and self._is_usual(events, asked):
            with suppress(bulk.NotHeld):
                return self._write_held(events, asked, works, self._still_ours(works))
        with transaction.atomic():
            return self._write_held(events, asked, self._held(works))

    def _is_usual(self, events: Sequence[Event | Alarm], asked: Sequence[CallRequested]) -> bool:
        """Whether nothing must be read, and one statement writes all there is.

        So it is for nearly all answers, and each question to the database is waited for by all
        whose answers come meanwhile.
        """
        return (
            all(isinstance(e, (CallRequested, AnswerReceived, AuditAnswered)) for e in events)
            and not (self.closing or self.pace.must_ask or self._has_budget)
            and not self._may_be_beyond(asked)
        )

    def _write_held(
        self,
        events: Sequence[Event | Alarm],
        asked: Sequence[CallRequested],
        held: set[ChainInPlay],
        only_if: bulk.Held | None = None,
    ) -> Written:
        """Write what concerns chains that are ours, `only_if` they are."""
        failed = _of(CallFailed, events)
        answered = [*_of(AnswerReceived, events), *_of(AuditAnswered, events)]
        errors = [event.error for event in failed if event.error]
        self.pace.note(errors, answered=len(failed) + len(answered) > len(errors))
        for alarm in _of(Alarm, events):
            model = self.run.editing_model
            SecurityEvent.record(alarm.kind, alarm.detail, editing_model=model)
        ours = [e for e in events if isinstance(e, Event) and e.work in held]
        sums = self._sums(ours)
        replies, opened = self._grant([e for e in asked if e.work in held], sums)
        replies |= {e.work: None for e in asked if e.work not in held}
        with bulk.together(only_if):
            self._write_chains(ours)
            bulk.insert(Call, opened)
            self._count(sums, errors, progress=bool(failed or answered))
        return replies, self._leave(ours)

    def _sums(self, events: Sequence[Event]) -> Sums:
        """What happened to chains that are ours, in numbers."""
        sums: Sums = defaultdict(int)
        for event in events:
            if not isinstance(event, (CallFailed, AnswerReceived, AuditAnswered)):
                continue
            if event.call is None:  # an operator of ours made it: no call, and free
                continue
            sums["spent_usd"] += (event.call.cost or Decimal(0)) - event.work.expected
            if isinstance(event, AnswerReceived):
                sums["edits_done"] += 1
                sums["edit_seconds"] += event.half.answer.seconds
            elif isinstance(event, AuditAnswered):
                sums["edits_done"] += 1
                sums["edit_seconds"] += event.audit.seconds or 0.0
        sums["chains_done"] = len(_of(ChainEnded, events))
        return sums

    def _write_chains(self, events: Sequence[Event]) -> None:
        """Write what happened to chains that are ours."""
        arrived, audited = _of(AnswerReceived, events), _of(AuditAnswered, events)
        self._note_ours([event for event in arrived if event.call is None])
        self._close_calls([*_of(CallFailed, events), *arrived, *audited])
        _keep_pictures(
            [event.stored for event in arrived]
            + [picture for event in audited for picture in (event.sent, event.stored)]
        )
        self._keep(arrived)
        self._keep_audits(audited, _of(AuditBroken, events))

    def _leave(self, events: Sequence[Event]) -> list[int]:
        """Give chains back that are over, or whose threads stopped; which spare ones call now."""
        ended, stopped = _of(ChainEnded, events), _of(ThreadStopped, events)
        if not ended and not stopped:
            return []
        leaving = {event.work.chain.pk: event.work.chain for event in (*ended, *stopped)}
        free = sum(not chain.spare for chain in leaving.values())
        heirs = [key for key in self.spares if key not in leaving][:free]
        # With their end, or others would take a slot whose call is still open.
        Chain.objects.held(self.token).filter(pk__in=heirs).update(spare=False)
        self._end(ended)
        if stopped:
            Chain.objects.release(self.token, [event.work.chain.pk for event in stopped])
        return heirs

    def _held(self, works: set[ChainInPlay]) -> set[ChainInPlay]:
        """Those whose chains are still ours; of the others nothing is written."""
        still = bulk.locked_keys(self._still_ours(works))
        return {work for work in works if work.chain.pk in still}

    def _still_ours(self, works: set[ChainInPlay]) -> bulk.Held:
        """What must be true of the chains, or others took them."""
        keys = sorted(work.chain.pk for work in works)
        return bulk.Held(Chain, keys, {"token": self.token, "state": ChainState.PLAYING.value})

    def _keep(self, arrived: Sequence[AnswerReceived]) -> None:
        forward, between, backward, returned = [], [], [], []
        for event in arrived:
            answer, chain, number = event.half.answer, event.work.chain, event.half.number
            notes = dict(answer.notes)
            if answer.picture.notes:
                notes["converted"] = list(answer.picture.notes)
            trip: dict[str, Any] = {"chain": chain.pk, "number": number}
            if event.half.direction == FORWARD:
                trip |= {"edited": event.stored.pk, "edited_seconds": answer.seconds}
                forward.append(trip | {"edited_seed": event.half.seed, "edited_notes": notes})
            elif event.half.direction != BACKWARD:
                own = {"place": event.half.step + 1, "name": event.half.direction}
                own |= {"picture": event.stored.pk, "seconds": answer.seconds, "notes": notes}
                between.append(trip | own | {"seed": event.half.seed})
            else:
                trip |= {"restored": event.stored.pk, "restored_seconds": answer.seconds}
                backward.append(trip | {"restored_seed": event.half.seed, "restored_notes": notes})
                if event.usable:
                    returned.append({"id": chain.pk, "trips_played": number})
        bulk.insert(Trip, forward, ignore=True)
        bulk.insert(TripStep, between, ignore=True)
        bulk.update(Trip, backward, by=("chain", "number"))
        bulk.update(Chain, returned, by=("id",))

    def _keep_audits(
        self, answered: Sequence[AuditAnswered], broken: Sequence[AuditBroken]
    ) -> None:
        rows: list[dict[str, Any]] = [
            {
                "outcome": Audit.Outcome.ANSWERED.value,
                "words": event.audit.words,
                "sent": event.sent.pk,
                "answer": event.stored.pk,
                "seed": event.audit.seed,
                "seconds": event.audit.seconds,
                "id": event.audit.pk,
            }
            for event in answered
        ]
        bulk.update(Audit, rows, by=("id",))
        ends = [{"outcome": event.audit.outcome, "id": event.audit.pk} for event in broken]
        bulk.update(Audit, ends, by=("id",))

    def _end(self, ended: Sequence[ChainEnded]) -> None:
        groups: dict[tuple[str, str], list[int]] = defaultdict(list)
        for event in ended:
            groups[event.outcome, event.text[:500]].append(event.work.chain.pk)
        for (outcome, text), keys in groups.items():
            Chain.objects.filter(pk__in=keys).update(
                state=ChainState.PLAYED,
                outcome=outcome,
                outcome_text=text,
                token=None,
                lease_until=None,
            )

    def _close_calls(self, closed: Sequence[CallFailed | AnswerReceived | AuditAnswered]) -> None:
        """Complete the ledger's rows.

        The call of a chain that was taken over is marked lost by then, and stays so: its
        answer is kept by nobody.
        """
        rows = [
            {
                "outcome": event.call.outcome,
                "message": event.call.message,
                "seconds": event.call.seconds,
                "bytes": event.call.bytes,
                "cost": event.call.cost,
                "chain": event.work.chain.pk,
                "started_at": event.call.started_at,
            }
            for event in closed
            if event.call is not None
        ]
        bulk.update(Call, rows, by=("chain", "started_at"))

    def _note_ours(self, made: Sequence[AnswerReceived]) -> None:
        """Put into the ledger what an operator of ours made: no call, and free."""
        rows: list[dict[str, Any]] = []
        for event in made:
            half, answer = event.half, event.half.answer
            row: dict[str, Any] = {"run": self.run.pk, "chain": event.work.chain.pk, "attempt": 1}
            row |= {"number": half.number, "direction": half.direction, "outcome": Call.OURS}
            row |= {"message": str(answer.notes.get("made by us", "")), "cost": Decimal(0)}
            row |= {"seconds": answer.seconds, "bytes": len(answer.picture.data)}
            rows.append(row | {"started_at": timezone.now()})
        bulk.insert(Call, rows)

    def _grant(self, asked: Sequence[CallRequested], sums: Sums) -> tuple[Replies, Rows]:
        """Who may call now, and after how many seconds; who must stop. And the ledger's rows."""
        if self.closing:
            return {event.work: None for event in asked}, []
        if not asked:
            return {}, []
        beyond = self._beyond(asked)
        asked = [event for event in asked if event.work not in beyond]
        granted, rows = self._granted(asked, sums)
        return dict.fromkeys(beyond) | granted, rows

    def _beyond(self, asked: Sequence[CallRequested]) -> set[ChainInPlay]:
        """Those that would begin a trip which is not to be played, or not before more is scored."""
        begin = {work.chain.pk: work for work in self._may_be_beyond(asked)}
        if not begin:
            return set()
        rows = Chain.objects.filter(pk__in=begin).values_list("pk", "known_at", "trips_scored")
        for key, known, scored in rows:
            begin[key].chain.known_at, begin[key].chain.trips_scored = known, scored
        return self._may_be_beyond(asked)

    def _may_be_beyond(self, asked: Sequence[CallRequested]) -> set[ChainInPlay]:
        """Those, by what was last read of their scores: what is scored since only allows more."""
        return {
            event.work
            for event in asked
            if event.work.stop_after
            and event.work.asks_for == "forward"
            and event.work.is_beyond(self.run.suite.trips)
        }

    def _granted(self, asked: Sequence[CallRequested], sums: Sums) -> tuple[Replies, Rows]:
        price = self.run.editing_model.price_per_edit or Decimal(0)
        room = len(asked)
        if self._has_budget:
            # Read and added to under one lock, so that no two jobs spend the same call.
            run = Run.objects.select_for_update().only(*_BUDGET_FIELDS).get(pk=self.run.pk)
            if run.calls:  # the list may say nothing, or less than calls really cost
                price = max(price, (run.spent_usd / run.calls).quantize(Decimal("0.00001")))
            room = self._room(run, price, sums)
        delays = self.pace.slots(max(0, min(len(asked), room)))
        granted = [event.work for event in asked[: len(delays)]]
        now, cost = timezone.now(), price or None
        rows: Rows = []
        for work in granted:
            work.expected, work.call = price, OpenCall(now, cost)
            rows.append(
                {
                    "run": self.run.pk,
                    "chain": work.chain.pk,
                    "number": work.number,
                    "direction": work.asks_for,
                    "attempt": work.attempt + 1,
                    "outcome": Call.CALLING,
                    "cost": cost,
                    "started_at": now,
                }
            )
        sums["calls"] += len(granted)
        sums["spent_usd"] += price * len(granted)
        return dict(zip(granted, delays, strict=True)), rows

    @property
    def _has_budget(self) -> bool:
        return self.run.budget_calls is not None or self.run.budget_usd is not None

    def _room(self, run: Run, price: Decimal, sums: Sums) -> int:
        """How many calls the budget still allows; calls in flight count as made."""
        room = 1_000_000
        if run.budget_calls is not None:
            room = run.budget_calls - run.calls
            if room <= 0:
                self.over_budget = f"All {run.budget_calls:,} calls of the budget are used."
        if run.budget_usd is not None:
            left = run.budget_usd - run.spent_usd - sums["spent_usd"]
            affordable = int(left / price) if price else (room if left > 0 else 0)
            if affordable <= 0:
                self.over_budget = (
                    f"USD {run.spent_usd:.2f} of the budget of {run.budget_usd:.2f} are spent; "
                    f"the next call would cost {price:.4f}."
                )
            room = min(room, affordable)
        return room

    def _count(self, sums: Sums, errors: Sequence[EditorError], *, progress: bool) -> None:
        new: dict[str, Any] = {}
        if errors:
            new["last_error"] = errors[-1].message[:500]
        if progress:
            new["progress_at"] = timezone.now()
        if new or any(sums.values()):
            bulk.add(Run, self.run.pk, {name: sums[name] for name in _SUMS}, **new)


def _keep_pictures(pictures: Sequence[StoredImage]) -> None:
    """Rows of pictures whose bytes are in storage."""
    names = ("sha256", "mime", "width", "height", "bytes")
    by_key = {picture.pk: picture for picture in pictures}
    # In one order, so that two jobs with the same pictures never wait for each other.
    stored = [by_key[key] for key in sorted(by_key)]
    rows = [{name: getattr(picture, name) for name in names} for picture in stored]
    bulk.insert(StoredImage, rows, touch="created_at")


def _of(kind: type[T], events: Sequence[object]) -> list[T]:
    return [event for event in events if isinstance(event, kind)]


_SUMS = ("calls", "spent_usd", "edits_done", "chains_done", "edit_seconds")
_BUDGET_FIELDS = ("calls", "spent_usd", "budget_calls", "budget_usd")
