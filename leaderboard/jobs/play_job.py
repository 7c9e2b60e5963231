"""Play what a run still lacks: many chains at once, each in a thread of its own."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from uuid import UUID

import structlog
from django.conf import settings
from django.db.models import Subquery
from django.db.models.functions import Now

from evaluation.analysis.stopping import may_stop, stopped
from evaluation.arms import CONVERSATION
from evaluation.content.shapes import BACKWARD
from evaluation.editors.base import Editor
from evaluation.errors import EditorError, Fault, UserFacingError
from evaluation.run_secret import chain_seeds
from leaderboard import job_queue
from leaderboard.jobs import control, forking, pacing, provenance
from leaderboard.jobs.job_errors import PausesRun, pausing, retry_database
from leaderboard.jobs.playing.call_slots import chains_per_call
from leaderboard.jobs.playing.chain_player import ChainPlayer
from leaderboard.jobs.playing.events import (
    Alarm,
    AnswerReceived,
    ChainBlocked,
    ChainEnded,
    ChainInPlay,
    Event,
    Inbox,
    ThreadStopped,
)
from leaderboard.jobs.score_job import ScoreJob
from leaderboard.jobs.shutdown import asked_to_stop
from leaderboard.jobs.writer import RunWriter
from leaderboard.models import Audit, Call, Chain, Pace, Run, StoredImage, Trip, TripStep
from leaderboard.models.runs import Outcome, RunState

log = structlog.get_logger(__name__)

TICK = 0.25
SWITCH_SECONDS = 0.001
LOOK_SECONDS = 1.0
#: Chains that end within this are replaced together; meanwhile spare ones make their calls.
CLAIM_SECONDS = 0.05
#: Chains begin a few at a time, so that their answers do not all come at once, ever after.
BEGIN_TOGETHER = 2
BEGIN_SECONDS = 0.002
#: Weights load slowly, so a run's turn on the gpu queue is so many times longer.
GPU_TURNS = 15
#: A block longer than this frees the worker: the run pauses and resumes by itself.
LONG_BLOCK = 60.0
#: An edit that failed so often is given up, even when nothing else proves the endpoint well.
MOST_ATTEMPTS = 25
#: New trips are handed to a score job at most so often.
SCORE_SECONDS = 2.0


def play(run_id: int) -> None:
    """Play what a run still lacks."""
    run = Run.objects.select_related("editing_model", "suite").filter(pk=run_id).first()
    if run is None or run.state not in (RunState.QUEUED, RunState.PLAYING):
        return
    inbox: Inbox = SimpleQueue()
    editor = _ready_editor(run, inbox)
    if editor is None:
        return
    began = run.state == RunState.QUEUED and run.move(RunState.PLAYING)
    if began or not run.started_at:  # whoever began it may have been killed before it was written
        provenance.record(run, editor)
    log.info("play", run=run.pk)
    queue_name, token = control.queue_of(run.editing_model), job_queue.own_token()
    processes, share = _share(run, queue_name)

    def with_token(own: UUID) -> None:
        job = PlayJob(run, editor, queue_name, own, inbox, share)
        if queue_name == job_queue.GPU:
            job.between_chains = ScoreJob(run, own).score_what_there_is
        with pausing(run, "Playing"):
            job.play()

    if processes > 1:
        forking.in_processes(processes, token, with_token)
    else:
        with_token(token)
    run.refresh_from_db()
    if run.state == RunState.PLAYING and not run.chains.unplayed().exists():
        run.move(RunState.SCORING)
    control.enqueue(run)


def _ready_editor(run: Run, inbox: Inbox) -> Editor | None:
    """The run's editor; None where it is not set up, and the run is paused for that."""
    try:
        editor = control.editor_of(run, lambda kind, detail: inbox.put(Alarm(kind, detail)))
        problem = "; ".join([*editor.missing(), *run.core_arm.unable(editor)])
    except (UserFacingError, TypeError, ValueError, ImportError) as error:
        problem = str(error)
    if problem:
        control.pause(run, "configuration", f"The editor is not set up: {problem}")
        return None
    return editor


@dataclass(frozen=True)
class Share:
    """What one process plays of a run: at most so many calls at once."""

    calls: int
    #: Of all that play the run: chains for each call (call_slots.chains_per_call).
    chains_per_call: float = 1.0

    def spares(self, calls: int) -> int:
        """How many chains more than calls are played, where it has so many calls."""
        return math.ceil(calls * self.chains_per_call) - calls


def _share(run: Run, queue_name: str) -> tuple[int, Share]:
    """How many processes play the run, and what each of them plays."""
    if queue_name != job_queue.EDITS:
        return 1, Share(1)
    model, chains = run.editing_model, run.chains.unplayed().count()
    most: int = settings.MAX_CALLS_IN_FLIGHT
    workers = (job_queue.workers(queue_name) or 1) if job_queue.in_worker() else 1
    per_call = chains_per_call(chains, min(model.max_in_flight, workers * most))
    limit = min(most, model.max_in_flight, chains)
    processes = forking.processes_for(limit) if job_queue.in_worker() else 1
    return processes, Share(-(-limit // processes) if processes > 1 else most, per_call)


class PlayJob:
    """One play job: claims chains, plays them in threads, and writes down what they report."""

    def __init__(
        self, run: Run, editor: Editor, queue_name: str, token: UUID, inbox: Inbox, share: Share
    ) -> None:
        self.run, self.editor, self.queue_name, self.token = run, editor, queue_name, token
        self.writer = RunWriter(run, token, inbox)
        self.share = share
        self.turn = settings.TURN_SECONDS * (GPU_TURNS if queue_name == job_queue.GPU else 1)
        self.trips, self.arm = run.suite.trips, run.core_arm
        self.pairs = dict(run.suite.core.pair_by_slug)
        places = {p.slug: p.annotations for p in run.suite.core.pictures}
        self.player = ChainPlayer(run, editor, self.writer.inbox, places, self.writer.slots)
        self.cancelled = False
        self.last_answer = 0.0
        self.began = time.monotonic()
        self._due = dict.fromkeys(("look", "claim", "score"), 0.0)
        self._due["renew"] = self.began + settings.LEASE_SECONDS / 3
        self._to_begin: deque[ChainInPlay] = deque()
        self._fresh_trips = False
        self._more = True  # whether there were chains at the last claim
        self.between_chains: Callable[[], object] = lambda: None

    # The main thread.

    def play(self) -> None:
        """Until nothing is left to claim, or the run stops, or others have waited long enough."""
        # Python gives a thread 5 ms before another may run; with many threads that wait for an
        # answer each of those waits would take as long.
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            while self._turn():
                pass
        finally:
            self.player.stop.set()
            self.editor.close()
            retry_database(lambda: Chain.objects.release(self.token))

    def _turn(self) -> bool:
        """One round of the loop; False when there is nothing more to do."""
        if self._is_due("look", LOOK_SECONDS):
            self._look()
        if self._is_due("renew", settings.LEASE_SECONDS / 3):
            retry_database(lambda: Chain.objects.renew(self.token))
        if not self.writer.works:
            self._due["claim"] = 0.0  # never leave without a last look
        claimed = self._claim()
        if not self.writer.works and not claimed:
            return False
        self._begin_some()
        events = self.writer.collect(TICK if not self._to_begin else BEGIN_SECONDS)
        self._write([self._judged(event) for event in events])
        if self.cancelled:
            return False
        if (
            self._fresh_trips
            and self.queue_name != job_queue.GPU
            and self._is_due("score", SCORE_SECONDS)
        ):
            job_queue.enqueue(self.run.pk, job_queue.SCORE, job_queue.GPU)
            self._fresh_trips = False
        return True

    def _write(self, events: list[Event | Alarm]) -> None:
        self.writer.write(events)
        for event in events:
            if isinstance(event, AnswerReceived):
                self.last_answer = time.monotonic()
                self._fresh_trips |= event.half.direction == BACKWARD
            if isinstance(event, (ChainEnded, ThreadStopped)) and self._more:
                soon = time.monotonic() + CLAIM_SECONDS
                self._due["claim"] = min(self._due["claim"], soon)
        if self.writer.over_budget and not self.writer.closing:
            self._pause("budget", self.writer.over_budget)

    def _look(self) -> None:
        """See what others did to the run, and how its endpoint is."""
        pace = Pace.objects.filter(editing_model=self.writer.pace.keeper)
        rows = Run.objects.filter(pk=self.run.pk).values_list(
            *("state", "budget_calls", "budget_usd"),
            Subquery(pace.values("blocked_until")),
            Subquery(pace.values("failures_in_a_row")),
            Now(),
        )
        row = retry_database(lambda: rows.first())
        if row is None or row[0] in (RunState.CANCELLED, RunState.FAILED):
            # Mid-edit, now: what is in flight is not waited for.
            self.cancelled = True
            self._close()
            self.editor.close()
            return
        _, self.run.budget_calls, self.run.budget_usd, blocked_until, failures, now = row
        self.writer.pace.update(blocked_until, failures or 0, now)
        if row[0] not in (RunState.QUEUED, RunState.PLAYING) or asked_to_stop():
            self._close()
        elif self.writer.pace.blocked > LONG_BLOCK and not self.writer.closing:
            fault = self.writer.pace.fault or Fault.RATE_LIMITED
            self._pause(fault.value, f"{fault.label}.", self.writer.pace.blocked)
        elif job_queue.should_leave(
            self.run.pk, self.queue_name, turn_is_over=time.monotonic() - self.began > self.turn
        ):
            self._close()

    def _claim(self) -> bool:
        """Take chains while there is room."""
        calls, spares = self._lacking
        if self.writer.closing or max(calls, spares) <= 0:
            return False
        if not self._is_due("claim", LOOK_SECONDS):
            return False
        if self.queue_name == job_queue.GPU:
            self.between_chains()
        if calls > 0 and self.writer.spares:
            self._add_calls(calls)
        found = self._take(self._lacking[0])
        found += self._take(self._lacking[1], spare=True)
        self._more = found > 0
        return self._more

    @property
    def _lacking(self) -> tuple[int, int]:
        """How many calls, and how many chains besides, could be added."""
        spares = len(self.writer.spares)
        calls = len(self.writer.works) - spares
        return self.share.calls - calls, self.share.spares(calls) - spares

    def _add_calls(self, calls: int) -> None:
        """Let spare chains call without turns, where the model's limit has room for it."""
        spares = self.writer.spares[:calls]
        self.writer.add_calls(
            retry_database(lambda: Chain.objects.add_calls(self.run, self.token, spares))
        )

    def _take(self, most: int, *, spare: bool = False) -> int:
        """Take up to `most` chains; how many there were."""
        if most <= 0:
            return 0
        # A chain that was taken back from us while its thread waits for an answer carries our
        # token again when we take it: two threads would play it, and neither be fenced off.
        ours = list(self.writer.works)
        chains = retry_database(
            lambda: Chain.objects.claim(self.run, self.token, most, ours, spare=spare)
        )
        works = self._works(chains)
        self.writer.take(works)
        for work in works:
            if outcome := self._stopped(work):
                self._write([ChainEnded(work, outcome)])
            else:
                self._to_begin.append(work)
        return len(chains)

    def _stopped(self, work: ChainInPlay) -> str:
        """How a claimed chain ends at once, since it needs no more trips; else empty."""
        played, known = work.chain.trips_played, work.chain.known_at
        if not work.stop_after or work.earlier or played >= self.trips:
            return ""
        return stopped(played, known, work.pictures, work.stop_after)

    def _begin_some(self) -> None:
        """Start the threads of claimed chains."""
        for _ in range(min(BEGIN_TOGETHER, len(self._to_begin))):
            work = self._to_begin.popleft()
            threading.Thread(target=self.player.play, args=(work,), daemon=True).start()

    def _works(self, chains: list[Chain]) -> list[ChainInPlay]:
        """The claimed chains with the picture each goes on from."""
        played = {chain.pk: chain.trips_played for chain in chains}
        last: dict[tuple[int, int], Trip] = {}
        audits: dict[int, dict[int, Audit]] = defaultdict(dict)
        for audit in Audit.objects.filter(chain__in=played, outcome=Audit.Outcome.PLANNED):
            audits[audit.chain_id][audit.number] = audit
        trips = Trip.objects.filter(chain__in=played).select_related("edited", "restored")
        first = min(played.values(), default=0) - self.run.stop_after
        for trip in trips.filter(number__gte=first).order_by("number"):
            last[trip.chain_id, trip.number] = trip
        shaped = {c.pk: played[c.pk] for c in chains if self.pairs[c.case.pair_slug].shape}
        between = TripStep.objects.under_way(shaped) if shaped else {}
        said = Trip.objects.answers(played) if self.arm.session == CONVERSATION else {}
        works = [
            self._work(
                chain,
                *(last.get((chain.pk, chain.trips_played + n)) for n in (0, 1)),
                between=between.get(chain.pk, []),
            )
            for chain in chains
        ]
        for work in works:
            work.audits = audits[work.chain.pk]
            work.answers = said.get(work.chain.pk, [])
            if may_stop(work.chain.case.pair_slug, self.run.suite.core):
                work.stop_after = self.run.stop_after
            work.pictures = [
                (trip.edited_id or "", trip.restored_id or "")
                for (chain, number), trip in last.items()
                if chain == work.chain.pk and number <= work.chain.trips_played
            ]
        return works

    def _work(
        self, chain: Chain, whole: Trip | None, half: Trip | None, *, between: list[StoredImage]
    ) -> ChainInPlay:
        """The chain after its last whole trip and what there is of the next."""
        pair = self.arm.worded(self.pairs[chain.case.pair_slug])
        seed = chain_seeds(self.run.secret, chain.case.slug, chain.repeat, self.arm.seeds)
        start = _there(whole.restored if whole else chain.case.picture.stored)
        begun = [_there(half.edited), *between] if half else []
        *earlier, picture = start, *begun
        number = chain.trips_played + 1
        return ChainInPlay(chain, pair, picture, number, seed, tuple(earlier), len(earlier))

    def _judged(self, event: Event | Alarm) -> Event | Alarm:
        """What a chain's trouble means: the end of the chain, or a pause of the run."""
        if not isinstance(event, ChainBlocked):
            return event
        error, work = event.error, event.work
        if self.writer.closing:
            return ThreadStopped(work)
        if isinstance(error, PausesRun):
            self._pause(error.reason, str(error), error.seconds)
        elif not isinstance(error, EditorError):
            log.error("play failed", run=self.run.pk, chain=work.chain.pk, exc_info=error)
            self._pause("internal", f"{type(error).__name__}: {error}")
        elif error.fault in (Fault.TIMEOUT, Fault.SERVER_ERROR) and (
            # Others were answered meanwhile: it is this picture, not the endpoint.
            self.last_answer > work.began or self._tries(work) >= MOST_ATTEMPTS
        ):
            return ChainEnded(work, Outcome.FAILED, error.message)
        else:
            delay = pacing.rest(self.writer.pace) if error.fault in pacing.HEALS else None
            self._pause(error.fault.value, f"{error.fault.label}: {error.message}", delay)
        return ThreadStopped(work)

    def _tries(self, work: ChainInPlay) -> int:
        same = {"chain": work.chain, "number": work.number, "direction": work.asks_for}
        return Call.objects.filter(**same).count()

    def _pause(self, reason: str, text: str, seconds: float | None = None) -> None:
        retry_database(lambda: control.pause(self.run, reason, text, seconds))
        self._close()

    def _close(self) -> None:
        self.writer.closing = True
        self.player.stop.set()

    def _is_due(self, what: str, seconds: float) -> bool:
        now = time.monotonic()
        if now < self._due[what]:
            return False
        self._due[what] = now + seconds
        return True


def _there(stored: StoredImage | None) -> StoredImage:
    """The picture to go on from; published results have none, and are never played."""
    if stored is None:
        raise RuntimeError("this chain has no picture to go on from")
    return stored
