"""Early stopping of chains whose result is known or that no longer change.

A chain's result is its end by the headline metric (evaluation.analysis.events). A run may stop a
chain `stop_after` trips after its result is known; with 0, all trips are played. Usable trips and
half-life by the headline equal those of a full run at every threshold, because they depend only on
the ends of chains. Results that need later trips (AUC, the end of the curve, other metrics that
have not yet fallen) are reported as unknown.

A chain that ends at trip n is stopped after trip n + stop_after, however late scoring is: a chain
is never played more than `stop_after` + 1 trips beyond its scored trips.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evaluation.analysis.events import CONVERGED, KNOWN, ChainResult
from evaluation.analysis.thresholds import THRESHOLDS
from evaluation.content.suites import Suite

#: The lowest threshold: a chain that has fallen to it has fallen to all other thresholds.
LAST_THRESHOLD = min(THRESHOLDS)
#: The largest `stop_after`; larger values save too little.
MAX_STOP_AFTER = 20


def known_at(chain: ChainResult) -> int | None:
    """Return the trip at which the chain's result is known for every threshold, or None."""
    fallen = (n for n, q in enumerate(chain.retention, start=1) if q <= LAST_THRESHOLD)
    ends = [next(fallen, None), chain.gate[0] if chain.gate else None]
    return min((number for number in ends if number is not None), default=None)


def last_trip(known_trip: int | None, scored: int, stop_after: int, trips: int) -> int:
    """Return the last trip to which a chain may be played now.

    `known_trip` is the trip at which the chain's result was known, `scored` the number of its
    scored trips.
    """
    if not stop_after:
        return trips
    return min(trips, (known_trip if known_trip is not None else scored + 1) + stop_after)


def has_converged(images: Sequence[tuple[str, str]], stop_after: int) -> bool:
    """Return True if the last `stop_after` + 1 trips gave identical images.

    `images` are the hashes of each trip's edited and restored image. Another trip would send the
    same images and prompts again, only with other seeds.
    """
    last = images[-stop_after - 1 :]
    return 0 < stop_after < len(last) and len(set(last)) == 1


def stopped(
    played: int, known_trip: int | None, images: Sequence[tuple[str, str]], stop_after: int
) -> str:
    """Return the outcome of a chain that needs no more trips; "" if it must go on."""
    if has_converged(images, stop_after):
        return CONVERGED
    is_over = stop_after and known_trip is not None and played >= known_trip + stop_after
    return KNOWN if is_over else ""


def may_stop(pair: str, suite: Suite) -> bool:
    """Return True if chains of this pair may be stopped early.

    These pairs must be played to the last trip:

    - Identity pairs, which ask for no change, if the suite has global edits (of the whole image).
      Global edits are compared with the mean drift over all trips of identity pairs.
    - Pairs with several edits per trip: their images are compared with those of another pair.
    - Pairs with a degradation: we make their first step without the model, so stopping saves
      little.
    """
    changes, edit_pair = {suite_pair.change for suite_pair in suite.pairs}, suite.pair_by_slug[pair]
    return (
        not edit_pair.shape
        and not edit_pair.degradation
        and (edit_pair.change != "none" or "global" not in changes)
    )


def edits_saved(trips: int, played: Iterable[int]) -> int:
    """Return the number of edits saved, given the last trips of stopped chains."""
    return sum(2 * (trips - number) for number in played)
