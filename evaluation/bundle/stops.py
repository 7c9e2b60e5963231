"""Were chains that were not played to the end stopped by the rule that the run states?"""

from __future__ import annotations

from collections.abc import Iterator

from evaluation.analysis.events import CONVERGED, STOPPED
from evaluation.analysis.stopping import has_converged
from evaluation.bundle.checks import Check, compared
from evaluation.bundle.format import Bundle


def stop_checks(bundle: Bundle) -> Iterator[Check]:
    """Every chain that was stopped: one that is said to repeat itself must have done so.

    That the end of the others is known needs no check here: a standing that rests on an end
    that is not there is not made again.
    """
    stop_after = bundle.document.run.stop_after
    for chain in bundle.document.chains:
        if chain.outcome not in STOPPED:
            continue
        line = f"chain {chain.name}"
        yield compared(line, "the run stops chains", True, stop_after > 0)
        if chain.outcome == CONVERGED:
            pictures = [
                (trip.forward.sha256, trip.backward.sha256)
                for trip in chain.trips
                if trip.forward and trip.backward
            ]
            whole = len(pictures) == len(chain.trips)
            found = whole and has_converged(pictures, stop_after)
            yield compared(line, "nothing changed any more", True, found)
