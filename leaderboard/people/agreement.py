"""Who agrees with people: every metric, witness and judge, pair by pair, and where they differ."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from evaluation.analysis.levels import DEFAULT_LEVEL
from evaluation.analysis.people.agreement import Agreement, among_people, with_people
from evaluation.analysis.people.ballots import Share
from evaluation.analysis.people.usable import half_say_no, yes_by_retention
from evaluation.analysis.survival import Floats
from evaluation.metrics import in_order
from leaderboard.people.ballot_rows import Table
from leaderboard.people.returns import Return, metric_says, witness_says

#: Fewer choices are no agreement to speak of.
LEAST = 10
#: Of the questions on which people and the headline differ most, so many.
DIFFERENCES = 12
#: A difference needs so many people who chose, and so few of them with the metric.
LEAST_PEOPLE, AGREE_AT_MOST = 3, 1 / 3

Says = Callable[[str, Return, Return], float]


def report(
    pairs: Table, single: Table, known: Mapping[int, Return], weights: Mapping[int, float]
) -> dict[str, Any]:
    """All that the page on agreement shows, ready for JSON."""
    pair_weights, single_weights = (_weights(table, weights) for table in (pairs, single))
    asked = [known[row.first] for row in single.rows]
    shown = [(known[row.first], known[row.second]) for row in pairs.rows if row.second]
    everything = [*asked, *(one for both in shown for one in both)]
    metrics = in_order({name for one in everything for name in one.kept})
    witnesses = sorted(
        {str(told.get("witness")) for one in everything for told in one.evidence} - {"None"}
    )
    lines = [
        _line(name, "metric", _agreement(name, metric_says, shown, pairs, pair_weights))
        | _level(name, asked, single, single_weights)
        for name in metrics
    ]
    lines += [
        _line(name, "witness", _agreement(name, witness_says, shown, pairs, pair_weights))
        for name in witnesses
    ]
    return {
        "lines": [line for line in lines if line["everywhere"] or line.get("level")],
        "ceiling": _share(among_people(pairs.ballots, pair_weights)),
        "differences": _pair_differences(pairs, shown, pair_weights),
        "usable_differences": _usable_differences(single, asked, single_weights),
    }


def _weights(table: Table, weights: Mapping[int, float]) -> Floats:
    return np.array([weights.get(row.voter, 0.0) for row in table.rows])


def _agreement(
    name: str, says: Says, shown: Sequence[tuple[Return, Return]], pairs: Table, weights: Floats
) -> Agreement:
    told = np.array([says(name, *both) for both in shown], dtype=float)
    return with_people(told, pairs.ballots, weights)


def _line(name: str, kind: str, found: Agreement) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "everywhere": _share(found.everywhere),
        "shared": _share(found.shared),
    }


def _share(found: Share | None) -> dict[str, Any] | None:
    return asdict(found) if found and found.votes >= LEAST else None


def _level(name: str, asked: Sequence[Return], single: Table, weights: Floats) -> dict[str, Any]:
    """At which retention by this metric half of the people say no, with the curve."""
    kept = np.array([one.kept.get(name, math.nan) for one in asked], dtype=float)
    found = half_say_no(kept, single.ballots, weights)
    if found is None:
        return {"level": None, "curve": []}
    return {
        "level": asdict(found),
        "curve": yes_by_retention(kept, single.ballots, weights),
    }


def _pair_differences(
    pairs: Table, shown: Sequence[tuple[Return, Return]], weights: Floats
) -> list[dict[str, Any]]:
    """Pairs on which several people chose one and the headline keeps more of the other."""
    by_question: dict[int, list[int]] = defaultdict(list)
    for place, row in enumerate(pairs.rows):
        if row.answer and weights[place] > 0:
            by_question[row.question].append(place)
    found = []
    for question, places in by_question.items():
        first, second = shown[places[0]]
        one, other = first.headline, second.headline
        if one is None or other is None or one == other or len(places) < LEAST_PEOPLE:
            continue
        answers = np.array([pairs.rows[place].answer for place in places])
        agree = float(np.average(np.sign(one - other) == answers, weights=weights[places]))
        if agree <= AGREE_AT_MOST:
            found.append(
                {
                    "question": question,
                    "first": first.trip,
                    "second": second.trip,
                    "agree": agree,
                    "with_it": int((np.sign(one - other) == answers).sum()),
                    "people": len(places),
                    "gap": one - other,
                }
            )
    return sorted(found, key=lambda one: -abs(one["gap"]) * (0.5 - one["agree"]))[:DIFFERENCES]


def _usable_differences(
    single: Table, asked: Sequence[Return], weights: Floats
) -> list[dict[str, Any]]:
    """Returns that people still use though the headline calls them lost, and the reverse."""
    by_trip: dict[int, list[int]] = defaultdict(list)
    for place, row in enumerate(single.rows):
        if weights[place] > 0:
            by_trip[row.first].append(place)
    found = []
    for trip, places in by_trip.items():
        kept = asked[places[0]].headline
        if kept is None or len(places) < LEAST_PEOPLE:
            continue
        yes = float(np.average([single.rows[p].answer for p in places], weights=weights[places]))
        agree = yes if kept > DEFAULT_LEVEL else 1 - yes
        if agree <= AGREE_AT_MOST:
            found.append(
                {
                    "first": trip,
                    "use_it": sum(single.rows[p].answer for p in places),
                    "people": len(places),
                    "kept": kept,
                    "agree": agree,
                }
            )
    found.sort(key=lambda one: -abs(one["kept"] - DEFAULT_LEVEL) * (0.5 - one["agree"]))
    return found[:DIFFERENCES]
