"""When a chain needs no more trips: its end is known, or nothing changes any more.

A run may be told to stop its chains `stop_after` trips after they are known; 0 plays all of
them. Usable trips and half-life by the headline are then what a full run gives, at every
level, since each is the first passage of its chains and nothing after a first passage moves
it. What needs later trips (AUC, the curve's tail, other metrics that have not fallen yet)
is not known, and says so.

So that everybody stops at the same trip, however far scoring is behind: a chain is played at
most `stop_after` trips beyond what is scored, and an end seen at trip n stops it after trip
n + stop_after.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evaluation.analysis.events import CONVERGED, KNOWN, ChainResult
from evaluation.analysis.levels import LEVELS
from evaluation.content.suites import Suite

#: The level that is reached last: whoever has fallen to it has fallen to all others.
LAST_LEVEL = min(LEVELS)
#: More than this saves nothing worth the rule.
MOST = 20


def known_at(chain: ChainResult) -> int | None:
    """The trip by which the chain's end is known at every level; None as long as it is not."""
    fallen = (n for n, kept in enumerate(chain.retention, start=1) if kept <= LAST_LEVEL)
    ends = [next(fallen, None), chain.gate[0] if chain.gate else None]
    return min((number for number in ends if number is not None), default=None)


def last_trip(known: int | None, scored: int, stop_after: int, trips: int) -> int:
    """The trip after which a chain must not be played on for now, or at all.

    `known` is where its end was seen, `scored` how many of its trips were looked at.
    """
    if not stop_after:
        return trips
    return min(trips, (known if known is not None else scored + 1) + stop_after)


def has_converged(pictures: Sequence[tuple[str, str]], stop_after: int) -> bool:
    """Whether the last trips gave the very same pictures, so often that more would too.

    `pictures` are the hashes of each trip's two answers. The next edit would be asked for the
    same picture by the same prompt as the last ones were, under other seeds.
    """
    last = pictures[-stop_after - 1 :]
    return 0 < stop_after < len(last) and len(set(last)) == 1


def stopped(
    played: int, known: int | None, pictures: Sequence[tuple[str, str]], stop_after: int
) -> str:
    """The outcome of a chain that needs no more trips after those it has; else empty."""
    if has_converged(pictures, stop_after):
        return CONVERGED
    is_over = stop_after and known is not None and played >= known + stop_after
    return KNOWN if is_over else ""


def may_stop(pair: str, suite: Suite) -> bool:
    """Whether chains of this pair may be stopped.

    Global edits are held against the model's own drift, which is the mean over all trips
    that ask for no change: those are played to the end where there are global edits. A chain
    shape is too: its pictures are laid beside those of another. And so is a restoration, of which
    the first step is no call that could be kept back.
    """
    changes, own = {one.change for one in suite.pairs}, suite.pair_by_slug[pair]
    return (
        not own.shape and not own.degradation and (own.change != "none" or "global" not in changes)
    )


def edits_saved(trips: int, played: Iterable[int]) -> int:
    """Edits that were not asked for in chains that were stopped after so many trips."""
    return sum(2 * (trips - number) for number in played)
