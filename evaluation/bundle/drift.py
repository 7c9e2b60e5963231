"""Were the global edits of a bundle judged by the model's own drift?"""

from __future__ import annotations

from collections.abc import Iterator

from evaluation.bundle.checks import CLASSICAL, Check, compared
from evaluation.bundle.format import Bundle, TripLine
from evaluation.measuring.trip_measures import identity_drift, judge_global


def drift_checks(bundle: Bundle) -> Iterator[Check]:
    """Global edits are seen where they move more than the model's own drift."""
    suite = bundle.suite
    measured = {slug: bundle.arm.measured(pair) for slug, pair in suite.pair_by_slug.items()}
    pairs = {case.slug: measured[case.pair] for case in suite.cases}

    def trips(change: str) -> Iterator[tuple[str, TripLine]]:
        for chain in bundle.document.chains:
            if chain.case in pairs and pairs[chain.case].change == change:
                for trip in chain.trips:
                    if trip.step is not None:
                        yield f"{chain.name}, trip {trip.number}", trip

    drift = identity_drift(trip.change_measure for _, trip in trips("none"))
    for line, trip in trips("global"):
        verdict = judge_global(trip.change_measure, drift)
        yield compared(line, "change seen", trip.change_seen, verdict.seen)
        stated = trip.change_measure.get("identity_drift")
        judged_by = None if verdict.seen is None else drift
        yield compared(line, "identity drift", stated, judged_by, CLASSICAL)
