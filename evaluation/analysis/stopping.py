"""Early stopping of chains whose end is known or that no longer change.

A run may stop its chains `stop_after` trips after their end is known; 0 plays all of them.
Usable trips and half-life by the headline are then equal to a full run's, at every threshold, since
each depends only on the first passage of its chains. Numbers that need later trips (AUC, the
curve's tail, metrics that have not fallen yet) are reported as unknown.

All workers stop at the same trip, however far scoring is behind: a chain is played at most
`stop_after` trips beyond the scored ones, and an end seen at trip n stops it after trip n +
stop_after.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evaluation.analysis.events import CONVERGED, KNOWN, ChainResult
from evaluation.analysis.thresholds import THRESHOLDS
from evaluation.content.suites import Suite

#: The threshold reached last: a chain that has fallen to it has fallen to all others.
LAST_THRESHOLD = min(THRESHOLDS)
#: The largest `stop_after`; more saves too little.
MOST = 20


def known_at(chain: ChainResult) -> int | None:
    """Return the trip by which the chain's end is known at every threshold, or None."""
    fallen = (n for n, q in enumerate(chain.retention, start=1) if q <= LAST_THRESHOLD)
    ends = [next(fallen, None), chain.gate[0] if chain.gate else None]
    return min((number for number in ends if number is not None), default=None)


def last_trip(known: int | None, scored: int, stop_after: int, trips: int) -> int:
    """Return the last trip to which a chain may be played now.

    `known` is the trip at which its end was seen, `scored` the number of its scored trips.
    """
    if not stop_after:
        return trips
    return min(trips, (known if known is not None else scored + 1) + stop_after)


def has_converged(images: Sequence[tuple[str, str]], stop_after: int) -> bool:
    """Return True if the last trips gave identical images often enough to stop.

    `images` are the hashes of each trip's two answers. The next edit would repeat the same
    image and prompt under another seed.
    """
    last = images[-stop_after - 1 :]
    return 0 < stop_after < len(last) and len(set(last)) == 1


def stopped(
    played: int, known: int | None, images: Sequence[tuple[str, str]], stop_after: int
) -> str:
    """Return the outcome of a chain that needs no more trips; else an empty string."""
    if has_converged(images, stop_after):
        return CONVERGED
    is_over = stop_after and known is not None and played >= known + stop_after
    return KNOWN if is_over else ""


def may_stop(pair: str, suite: Suite) -> bool:
    """Return True if chains of this pair may be stopped.

    Global edits are compared with the model's drift, the mean over all trips of identity pairs,
    so identity pairs are played to the end if the suite has global edits. Chain shapes are,
    because their images are compared with another shape's. So are restorations, whose first
    step is no call that could be saved.
    """
    changes, edit_pair = {suite_pair.change for suite_pair in suite.pairs}, suite.pair_by_slug[pair]
    return (
        not edit_pair.shape
        and not edit_pair.degradation
        and (edit_pair.change != "none" or "global" not in changes)
    )


def edits_saved(trips: int, played: Iterable[int]) -> int:
    """Return the number of edits saved in chains stopped after these trips."""
    return sum(2 * (trips - number) for number in played)
