"""People's votes in a bundle: what they are about must be there, and nothing of it altered.

That people said so cannot be made again; whoever imports a bundle counts none of its votes.
"""

from __future__ import annotations

from collections.abc import Iterator

from evaluation.bundle.checks import Check, compared
from evaluation.bundle.files import digest_check
from evaluation.bundle.format import Bundle

ANSWERS = {"pair": (-1, 0, 1), "usable": (0, 1)}


def vote_checks(bundle: Bundle) -> Iterator[Check]:
    """Every vote: that its return is in the bundle, and that its answer is one of its kind."""
    returned = {
        (chain.case, chain.repeat, trip.number)
        for chain in bundle.document.chains
        for trip in chain.trips
        if trip.backward
    }
    for number, (raw, vote) in enumerate(
        zip(bundle.raw.get("votes", ()), bundle.document.votes, strict=True), start=1
    ):
        line = f"vote {number}"
        yield digest_check(line, raw)
        there = (vote.case, vote.repeat, vote.trip) in returned
        yield compared(line, "its return is here", True, there)
        known = vote.answer in ANSWERS[vote.kind] and (vote.kind == "pair") == bool(vote.against)
        yield compared(line, "an answer of its kind", True, known)
