"""Signs of cheating in a whole run: reasons for a person to look before it ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from evaluation.content.suites import EditPair
from evaluation.jobs.job_errors import stored_safely
from evaluation.measuring.cheating import Sign, repeated_answers, signs
from evaluation.measuring.trip_measures import half_errors
from leaderboard.models import Chain, Run, Trip
from leaderboard.models.runs import Outcome

#: What an honest model does now and then; more often is a pattern.
AT_LEAST_CHAINS = 2
AT_LEAST_SHARE = 0.05
EXAMPLES = 5
#: An answer equal to its input is scored as a change not seen, so it needs no flag.
SCORED_ANYWAY = frozenset({"returned its input"})


def find_flags(run: Run, pairs: Mapping[str, EditPair]) -> list[dict[str, Any]]:
    """The flags of a scored run, each with its evidence."""
    chains = list(run.chains.select_related("case").prefetch_related("trips"))
    found: dict[str, list[tuple[Chain, Sign]]] = defaultdict(list)
    for chain in chains:
        errors = [error for trip in chain.trips.all() for error in half_errors(trip.number, trip)]
        for sign in signs(errors, pairs[chain.case.pair_slug]):
            if sign.name not in SCORED_ANYWAY:
                found[sign.name].append((chain, sign))
    least = max(AT_LEAST_CHAINS, AT_LEAST_SHARE * len(chains))
    flags = []
    for name, signed in found.items():
        count = len({chain.pk for chain, _ in signed})
        if count >= least:
            flags.append(_flag(name, f"in {count} of {len(chains)} chains", signed))
    return flags + _alike(chains)


def _flag(name: str, text: str, signed: list[tuple[Chain, Sign]]) -> dict[str, Any]:
    return {
        "kind": name,
        "text": text,
        "evidence": [
            {
                "case": chain.case_id,
                "trip": sign.number,
                "direction": sign.direction,
                "detail": sign.detail,
            }
            for chain, sign in signed[:EXAMPLES]
        ],
    }


def _alike(chains: list[Chain]) -> list[dict[str, Any]]:
    """Whether different sources got the same answer: one chain of each is looked at."""
    by_picture = {
        chain.case.picture_id: chain
        for chain in reversed(chains)
        if chain.outcome == Outcome.COMPLETED
    }
    chosen = Trip.objects.filter(chain__in=by_picture.values(), number=1, edited__isnull=False)
    trips = chosen.select_related("edited", "chain__case")
    answers = {
        trip.chain.case.slug: [stored_safely(trip.edited.read)] for trip in trips if trip.edited
    }
    return [
        {"kind": "same answer", "text": f"to different pictures: {', '.join(group)}"}
        for group in repeated_answers(answers)
    ]
