"""How many calls a play job may have open at once, and how many chains take turns with them.

A call is open until its answer has come. What follows, to read the picture, keep it and ask for
the next call, is our own work; meanwhile a chain that waits has the slot, so that an endpoint
never waits for us.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

#: As many chains for each call at least, where there are enough: what is done between two calls
#: of a chain takes less than that share of most calls.
CHAINS_PER_CALL = 1.15
#: And at most: each holds its picture.
MOST_CHAINS_PER_CALL = 2
#: One in so many calls is granted before its slot is free: it is sent without another question.
AHEAD = 8


def chains_per_call(chains: int, calls: int) -> float:
    """How many chains should take turns with each call: all chains in waves of equal size.

    70 chains with 64 calls at once: all 70 at once, not 64 and then 6.
    """
    if chains <= calls:
        return 1.0
    fewest = math.ceil(chains / (MOST_CHAINS_PER_CALL * calls))
    waves = max(fewest, int(chains / (CHAINS_PER_CALL * calls)))
    return chains / (waves * calls)


class CallSlots:
    """The slots of one job. The main thread grants calls; threads hold a slot while one is open."""

    def __init__(self, on_free: Callable[[], None] = lambda: None) -> None:
        self.count = 1
        #: Whether somebody waits for `on_free`, which is called when a call has ended.
        self.waited_for = False
        self._on_free = on_free
        self._granted = 0  # by the main thread alone
        self._ended = 0
        self._open = 0
        self._changed = threading.Condition()
        self._mine = threading.local()

    def resize(self, count: int) -> None:
        """Have so many slots, but one at least; calls that are open beyond them are waited for."""
        count = max(1, count)  # whoever lost all its slots still learns that its chains are lost
        if count != self.count:
            with self._changed:
                self.count = count
                self._changed.notify_all()

    @property
    def to_grant(self) -> int:
        """How many more calls may be granted now."""
        return max(0, self.count + self.count // AHEAD - (self._granted - self._ended))

    def grant(self, calls: int) -> None:
        """So many calls were granted: each thread enters, and leaves."""
        self._granted += calls

    def enter(self) -> None:
        """Begin a granted call, as soon as there is a slot."""
        with self._changed:
            while self._open >= self.count:
                self._changed.wait()
            self._open += 1
        self._mine.open = True

    def leave(self) -> None:
        """End this thread's call; nothing where it has ended."""
        if not getattr(self._mine, "open", False):
            return
        self._mine.open = False
        with self._changed:
            self._open -= 1
            self._ended += 1
            self._changed.notify()
        if self.waited_for:
            self._on_free()
