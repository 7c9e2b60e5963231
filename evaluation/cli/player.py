"""Play what a run folder still lacks: several chains at once, every answer kept at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field

from evaluation.audits.plan import Audit, of_chain
from evaluation.audits.touch import Touch
from evaluation.cli.played_chain import PlayedChain
from evaluation.cli.run_folder import RunFolder
from evaluation.content.annotations import Annotations
from evaluation.editors.base import Answer, Beside, Editor, Refused
from evaluation.errors import EditorError
from evaluation.images import is_blank
from evaluation.retries import Attempt, Limits, Stopped, with_retries
from evaluation.round_trips import Edit, Half, following, round_trips
from evaluation.run_secret import chain_seeds, shuffled

TICK = 0.2


class Paused(Exception):
    """Playing cannot go on now; what is played is kept. The message is written for people."""


@dataclass
class Player:
    """Plays one run with one editor; `budget` and `price` (of one edit) are in USD.

    `max_edits` is how many edits may be asked for in all, tries of the same edit included.
    `share` are the chains to play, where others are another machine's; `until` says after
    which trip a chain is left as it is for now, `is_over` how one ends that needs no more.
    """

    folder: RunFolder
    editor: Editor
    parallel: int = 1
    limits: Limits = field(default_factory=Limits)
    budget: float | None = None
    price: float | None = None
    max_edits: int | None = None
    audits: Sequence[Audit] = ()
    share: Collection[str] | None = None
    until: Callable[[PlayedChain], int] | None = None
    is_over: Callable[[PlayedChain], str] = lambda chain: ""
    on_half: Callable[[PlayedChain], None] = lambda chain: None
    on_attempt: Callable[[str, Attempt], None] = lambda slug, attempt: None
    on_interrupt: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.stop = threading.Event()
        made = self.folder.calls()
        self.calls = len(made)
        self.spent = sum(self._cost(call["cost"]) for call in made)
        self._promises: set[str] = set()
        self._counting = threading.Lock()
        self._paused: Paused | None = None

    @property
    def waiting(self) -> list[PlayedChain]:
        """The chains that are still to be played here."""
        return [
            chain
            for slug, chain in self.folder.chains.items()
            if not chain.outcome and (self.share is None or slug in self.share)
        ]

    def play(self) -> None:
        """Until every chain has an outcome. Raises Paused, or KeyboardInterrupt when asked to stop.

        After an interruption the edits in flight are finished and kept, since
        they are paid for; a second one drops them.
        """
        self.stop.clear()
        todo = shuffled(self.folder.secret, (chain.slug for chain in self.waiting), str)
        pool = ThreadPoolExecutor(max_workers=max(1, self.parallel))
        futures = {pool.submit(self._play_chain, slug) for slug in todo}
        interrupted = False
        try:
            while futures:
                try:
                    futures = self._collect(futures)
                except KeyboardInterrupt:
                    if interrupted:
                        self.editor.close()
                        raise
                    interrupted = True
                    self.stop.set()
                    self.on_interrupt()
        finally:
            self.stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
        if self._paused:
            raise self._paused
        if interrupted:
            raise KeyboardInterrupt

    def _collect(self, futures: set[Future[None]]) -> set[Future[None]]:
        # A wait without a limit would not notice Ctrl-C.
        done, waiting = wait(futures, timeout=TICK, return_when=FIRST_COMPLETED)
        for future in done:
            try:
                future.result()
            except Stopped:
                pass
            except Paused as pause:
                self._paused = self._paused or pause
        return waiting

    def _play_chain(self, slug: str) -> None:
        if self.stop.is_set():
            return
        chain = self.folder.chains[slug]
        self.folder.begin(chain)
        halves = self._halves(chain)
        while not self.stop.is_set():
            try:
                self._audit(slug)
                with self._promised(slug):
                    half = next(halves, None)
            except Refused as refusal:
                self.folder.end(slug, "refused", refusal.reason)
                return
            except EditorError as error:
                if not error.fault.breaks_chain:
                    raise self._pause(f"{error.fault.label}: {error.message}") from error
                self.folder.end(slug, "failed", error.message)
                return
            if half is None:
                if len(self.folder.chains[slug].trips) >= self.folder.suite.trips:
                    self.folder.end(slug, "completed")
                return
            chain = self.folder.add(slug, half)
            self.on_half(chain)
            if is_blank(half.answer.picture.image):
                self.folder.end(slug, "blank", f"the {half.direction} answer is one colour")
                return
            if outcome := self.is_over(chain):
                self.folder.end(slug, outcome)
                return

    def _halves(self, chain: PlayedChain) -> Iterator[Half]:
        """The edits the chain still lacks, each paid for when it is asked for."""
        folder, pair, position = self.folder, self.folder.pair(chain), self.folder.position(chain)
        at = (position.number, position.step)
        edit = self._edit(chain.slug, lambda: (at[0], pair.trip(at[0]).steps[at[1]].name))
        for half in round_trips(
            edit,
            position,
            pair,
            trips=self.until(chain) if self.until else folder.suite.trips,
            seed=chain_seeds(folder.secret, chain.case, chain.repeat, folder.arm.seeds),
            annotations=self._annotations(chain),
            arm=folder.arm,
        ):
            yield half
            at = following(pair, half.number, half.step)

    def _audit(self, slug: str) -> None:
        """Where the next edit is the last one of an audited trip, the audit before it."""
        chain = self.folder.chains[slug]
        if not (made := chain.open_steps):
            return
        audit = of_chain(self.audits, chain.case, chain.repeat).get(made[-1].number)
        if audit is None or any(made.number == audit.number for made in chain.audits):
            return
        position, whole = self.folder.position(chain), self.folder.pair(chain)
        if not position.returns(whole):
            return
        secret, pair = self.folder.secret, whole.of_return(position.number)
        touch = Touch(audit, secret, pair, position.earlier[0], position.picture)
        edit, seed = self._edit(slug, lambda: (audit.number, "audit")), audit.seed(secret)
        ended: Answer | Refused | EditorError
        try:
            with self._promised(slug):
                beside = Beside(annotations=self._annotations(chain))
                ended = edit(touch.sent, pair.backward, seed=seed, beside=beside)
        except Refused as refusal:
            ended = refusal
        except EditorError as error:
            if not error.fault.breaks_chain:
                raise
            ended = error
        self.folder.add_audit(slug, audit, touch, seed, ended)

    def _annotations(self, chain: PlayedChain) -> Annotations:
        return self.folder.suite.picture_by_slug[chain.picture].annotations

    def _edit(self, slug: str, at: Callable[[], tuple[int, str]]) -> Edit:
        """The editor with retries; every call is written down and counted."""

        def told(attempt: Attempt) -> None:
            self.folder.log_call(slug, at(), attempt)
            with self._counting:
                self.calls += 1
                self.spent += self._cost(attempt.cost)
                self._promises.discard(slug)  # from promised to spent, at once
            self.on_attempt(slug, attempt)

        return with_retries(self.editor.send, self.limits, on_attempt=told, stop=self.stop)

    def _cost(self, known: float | None) -> float:
        """A call's own cost, or the price of an edit where that is not known."""
        return (self.price or 0.0) if known is None else known

    def _pause(self, message: str) -> Paused:
        self.stop.set()  # at once: a thread that is free would begin the next chain
        return Paused(message)

    @contextmanager
    def _promised(self, slug: str) -> Iterator[None]:
        """Sets an edit's price aside while it is in flight, so that threads cannot overspend."""
        price = self.price or 0.0
        with self._counting:
            committed = self.spent + price * len(self._promises)
            if self.budget is not None and committed + price > self.budget:
                raise self._pause(
                    f"${committed:,.2f} of the budget of ${self.budget:,.2f} is spent; "
                    "go on with a larger --budget"
                )
            if self.max_edits is not None and self.calls + len(self._promises) >= self.max_edits:
                raise self._pause(f"--max-edits {self.max_edits} is reached; go on with more")
            self._promises.add(slug)
        try:
            yield
        finally:
            with self._counting:
                self._promises.discard(slug)
