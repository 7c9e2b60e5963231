"""Plays a chain in a thread of its own; what happens is reported to the job's main thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from evaluation.analysis.stopping import has_converged
from evaluation.audits.touch import Touch
from evaluation.content.annotations import UNANNOTATED, Annotations
from evaluation.content.shapes import BACKWARD, FORWARD
from evaluation.editors.base import Answer, Beside, Editor, Refused
from evaluation.errors import EditorError, Fault
from evaluation.images import Picture, clean_wire, is_blank
from evaluation.retries import Limits, Stopped, with_retries
from evaluation.round_trips import Edit, Position, round_trips
from leaderboard.jobs.job_errors import PictureGone, stored_safely
from leaderboard.jobs.playing.call_slots import CallSlots
from leaderboard.jobs.playing.events import (
    AnswerReceived,
    AuditAnswered,
    AuditBroken,
    CallFailed,
    CallRequested,
    ChainBlocked,
    ChainEnded,
    ChainInPlay,
    Event,
    Inbox,
    OpenCall,
    ThreadStopped,
)
from leaderboard.models import Audit, Call, Run, StoredImage
from leaderboard.models.runs import Outcome

#: The worker's own clock for giving up is the count of attempts, however long they wait.
LIMITS = Limits(attempts=5, seconds=86_400)


@dataclass
class ChainPlayer:
    """Plays chains of one run with one editor; `places` are the annotations by picture."""

    run: Run
    editor: Editor
    inbox: Inbox
    places: Mapping[str, Annotations]
    slots: CallSlots
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        # Read by the main thread: no other asks the database.
        self.trips, self.arm = self.run.suite.trips, self.run.core_arm
        self.price = self.run.editing_model.price_per_edit
        self.editor.on_answer = self.slots.leave

    def play(self, work: ChainInPlay) -> None:
        """Until the chain is over, or cannot go on, or the job stops."""
        put = partial(self._tell, work)
        edit = with_retries(partial(self._attempt, work), LIMITS, stop=self.stop)
        try:
            position = Position(
                stored_safely(work.picture.read),
                work.number,
                tuple(stored_safely(stored.read) for stored in work.earlier),
                work.history(self.arm),
            )
            self._audit(work, edit, position)
            edited = work.picture.pk
            halves = round_trips(
                edit,
                position,
                work.pair,
                trips=self.trips,
                seed=work.seed,
                annotations=self._beside(work).annotations,
                arm=self.arm,
            )
            for half in halves:
                picture = half.answer.picture
                call = None if half.ours else work.open_call
                stored = stored_safely(partial(StoredImage.objects.write_bytes, picture))
                blank = is_blank(picture.image)
                # Told with the next request, so that one transaction keeps it and grants that.
                work.untold.append(AnswerReceived(work, call, half, stored, usable=not blank))
                if blank:
                    where = f"Trip {half.number}, {half.direction}"
                    put(ChainEnded(work, Outcome.BLANK, f"{where}: a picture of one colour."))
                    return
                work.step_on()
                position = position.after(picture, work.pair)
                self._audit(work, edit, position)
                if half.direction == FORWARD:
                    edited = stored.pk
                elif half.direction == BACKWARD:
                    work.pictures.append((edited, stored.pk))
                    if half.number < self.trips and has_converged(work.pictures, work.stop_after):
                        put(ChainEnded(work, Outcome.CONVERGED))
                        return
            put(ChainEnded(work, Outcome.COMPLETED))
        except Stopped:
            put(ThreadStopped(work))
        except PictureGone as error:
            put(ChainEnded(work, Outcome.LOST, str(error)))
        except Refused as refusal:
            put(ChainEnded(work, Outcome.REFUSED, refusal.reason))
        except EditorError as error:
            ended = error.fault.breaks_chain
            put(
                ChainEnded(work, Outcome.FAILED, error.message)
                if ended
                else ChainBlocked(work, error)
            )
        except Exception as error:  # the main thread decides what it means
            put(ChainBlocked(work, error))

    def _beside(self, work: ChainInPlay) -> Beside:
        """What a yardstick may know of the chain's source."""
        return Beside(annotations=self.places.get(work.chain.case.picture.slug, UNANNOTATED))

    def _audit(self, work: ChainInPlay, edit: Edit, at: Position) -> None:
        """Before the last call of an audited trip, the same call on a touched picture."""
        if not (audit := work.audits.get(work.number)) or not at.returns(work.pair):
            return
        audit.chain = work.chain  # with its case: no thread but the main one asks the database
        planned = audit.planned
        pair = work.pair.of_return(work.number)
        touch = Touch(planned, self.run.secret, pair, at.earlier[0], at.picture)
        audit.seed, audit.words = planned.seed(self.run.secret), touch.words
        work.auditing = True
        try:
            answer = edit(touch.sent, pair.backward, seed=audit.seed, beside=self._beside(work))
        except (Refused, EditorError) as error:
            if isinstance(error, EditorError) and not error.fault.breaks_chain:
                raise
            refused = isinstance(error, Refused)
            audit.outcome = Audit.Outcome.REFUSED if refused else Audit.Outcome.FAILED
            self._tell(work, AuditBroken(work, audit))
        else:
            audit.seconds = answer.seconds
            sent, stored = (
                stored_safely(partial(StoredImage.objects.write_bytes, picture))
                for picture in (touch.sent, answer.picture)
            )
            self._tell(work, AuditAnswered(work, work.open_call, audit, sent, stored))
        work.auditing, work.attempt = False, 0
        del work.audits[audit.number]

    def _attempt(
        self,
        work: ChainInPlay,
        picture: Picture,
        prompt: str,
        seed: int | None = None,
        beside: Beside | None = None,
    ) -> Answer:
        """One edit, tried once; a rate limit is no try, the next call is granted after it."""
        while True:
            self._tell(work, CallRequested(work))
            sent = clean_wire(picture)  # made while the call is being granted
            call = self._granted(work)
            self.slots.enter()
            started = time.monotonic()
            try:
                answer = self.editor.send(sent, prompt, seed, beside)
            except Refused as refusal:
                call.close(Call.REFUSED, refusal.reason, started, refusal.cost)
                self._tell(work, CallFailed(work, call))
                raise
            except EditorError as error:
                billed = self.price if error.billed else 0
                call.close(error.fault.value, error.message, started, billed)
                self._tell(work, CallFailed(work, call, error))
                if error.fault is not Fault.RATE_LIMITED:
                    raise
            else:
                paid = self.price if answer.cost is None else answer.cost
                call.close(Call.ANSWERED, "", started, paid)
                call.bytes = len(answer.picture.data)
                return answer
            finally:
                self.slots.leave()

    def _tell(self, work: ChainInPlay, event: Event) -> None:
        """Report to the job's main thread what was kept back, and this."""
        for each in (*work.untold, event):
            self.inbox.put(each)
        work.untold.clear()

    def _granted(self, work: ChainInPlay) -> OpenCall:
        """The call that was asked for and may now be made; waits for it."""
        delay = work.reply.get()
        if delay is None:
            raise Stopped
        if delay:
            time.sleep(delay)
        if not work.attempt:
            work.began = time.monotonic()
        work.attempt += 1
        return work.open_call
