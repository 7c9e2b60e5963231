"""Count the votes: weights of voters, preferences, agreement of metrics."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

import numpy as np
from django.db import transaction
from django.utils import timezone
from numpy.typing import NDArray

from evaluation.analysis.levels import DEFAULT_LEVEL
from evaluation.analysis.standings import chain_of_numbers
from evaluation.analysis.survival import Floats
from evaluation.analysis.votes import (
    Agreement,
    Asked,
    Ballots,
    Belief,
    Checks,
    Share,
    among_people,
    believed,
    half_say_no,
    human_life,
    strengths,
    with_people,
    yes_by_retention,
)
from evaluation.metrics import in_order
from leaderboard.models import Chain, PeopleReport, PeopleStanding, Run, Suite, Vote, Voter
from leaderboard.models.votes import Kind, votable_runs
from leaderboard.people import ballots, questions
from leaderboard.people.vote_rows import (
    Return,
    Table,
    checks,
    counted,
    metric_says,
    returns,
    table,
    witness_says,
)
from leaderboard.standings.stored import core_case

#: Fewer choices are no agreement to speak of.
LEAST = 10
#: Of the questions on which people and the headline differ most, so many.
DIFFERENCES = 12
#: A difference needs so many people who chose, and so few of them with the metric.
LEAST_PEOPLE, AGREE_AT_MOST = 3, 1 / 3

Says = Callable[[str, Return, Return], float]


def agreement(
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


#: While votes come in, numbers are worked out so often.
OFTEN = timedelta(minutes=5)
#: Questions whose pictures are drawn before anybody waits for them, and for how many seconds; a
#: worker has other things to do, and comes back.
PREPARED, PREPARING = 1_200, 20.0
#: A voter below this is said to be believed little.
BELIEVED = 0.5


def is_due() -> bool:
    """Tell if there are votes or runs that the numbers do not include."""
    report = PeopleReport.objects.order_by("pk").first()
    if report is None:
        return votable_runs().exists()
    if report.pool_stamp != questions.stamp():
        return True
    late = report.computed_at < timezone.now() - OFTEN
    return late and report.votes != Vote.objects.answered().count()


def count() -> PeopleReport:
    """Write all numbers anew, and choose what to ask next."""
    began, answered = timezone.now(), Vote.objects.answered().count()
    Vote.objects.expired().delete()
    rows = counted()
    runs = {run.pk: run for run in votable_runs().filter(current=True).select_related("suite")}
    known = _public(returns({key for row in rows for key in (row.first, row.second) if key}))
    numbers = {run: place for place, run in enumerate(sorted(runs))}
    pairs = table(rows, Kind.PAIR, known, numbers)
    single = table(rows, Kind.USABLE, known, numbers)
    made = checks(rows)
    beliefs = believed(pairs.ballots, made, len(numbers))
    weights = {voter: belief.weight for voter, belief in beliefs.items()}
    with transaction.atomic():
        _store_voters(beliefs, made)
        _store_standings(runs, pairs, single, known, weights)
        report = _store_report(
            agreement(pairs, single, known, weights) | _totals(rows, beliefs),
            began,
            answered,
        )
    questions.refresh()
    _prepare()
    PeopleReport.objects.filter(pk=report.pk).update(pool_stamp=questions.stamp())
    return report


def _public(known: dict[int, Return]) -> dict[int, Return]:
    runs = set(votable_runs().values_list("pk", flat=True))
    return {pk: one for pk, one in known.items() if one.run in runs}


def _totals(rows: Sequence[Any], beliefs: Mapping[int, Belief]) -> dict[str, Any]:
    by_kind: dict[str, int] = defaultdict(int)
    for row in rows:
        by_kind[row.kind] += 1
    little = [belief for belief in beliefs.values() if belief.weight < BELIEVED]
    return {
        "votes": dict(by_kind),
        "voters": len({row.voter for row in rows}),
        "believed_little": len(little),
    }


def _store_voters(beliefs: Mapping[int, Belief], made: Mapping[int, Checks]) -> None:
    """Write what changed of voters: their weight, why, and how they did on checks."""
    changed = []
    for voter in Voter.objects.filter(pk__in=list(beliefs)):
        belief, own = beliefs[voter.pk], made.get(voter.pk, Checks())
        now = (round(belief.weight, 4), list(belief.reasons), *asdict(own).values())
        before = (voter.weight, voter.reasons, voter.gold, voter.gold_right)
        if now != (*before, voter.repeats, voter.repeats_same):
            voter.weight, voter.reasons = now[0], now[1]
            voter.gold, voter.gold_right = own.gold, own.gold_right
            voter.repeats, voter.repeats_same = own.repeats, own.repeats_same
            changed.append(voter)
    fields = ["weight", "reasons", "gold", "gold_right", "repeats", "repeats_same"]
    Voter.objects.bulk_update(changed, fields, batch_size=200)


def _store_standings(
    runs: Mapping[int, Run],
    pairs: Table,
    single: Table,
    known: Mapping[int, Return],
    weights: dict[int, float],
) -> None:
    """Write each run's numbers by people; of runs that are no longer public none stay."""
    found: dict[int, dict[str, Any]] = {}
    by_suite: dict[Suite, list[int]] = defaultdict(list)
    for pk in sorted(runs):
        by_suite[runs[pk].suite].append(pk)
    order = {run: place for place, run in enumerate(sorted(runs))}
    for suite, own in by_suite.items():
        for pk, values in _preferred(own, order, pairs, weights).items():
            found.setdefault(pk, {}).update(values)
        for pk, values in _lives(suite, own, single, known, weights).items():
            found.setdefault(pk, {}).update(values)
    PeopleStanding.objects.exclude(run__in=list(found)).delete()
    now = timezone.now()
    for pk, values in found.items():
        PeopleStanding.objects.update_or_create(run_id=pk, defaults=values | {"computed_at": now})
    # Kept pages are told apart by this.
    Suite.objects.filter(runs__in=list(found)).update(updated_at=now)


def _preferred(
    own: Sequence[int], order: Mapping[int, int], pairs: Table, weights: dict[int, float]
) -> dict[int, dict[str, Any]]:
    """Return preferences among the runs of a suite; none with too few votes."""
    place = np.full(len(order) + 1, -1)  # the last is that of runs that are not compared
    for number, run in enumerate(own):
        place[order[run]] = number
    here = _renumbered(pairs.ballots, place)
    seen = sorted({*here.first.tolist(), *here.second.tolist()} - {-1})
    if len(seen) < 2:
        return {}
    again = np.full(len(own) + 1, -1)
    again[seen] = np.arange(len(seen))
    here = _renumbered(here, again)
    found = strengths(here, weights, len(seen)) or []
    rows = {}
    for number, one in zip(seen, found, strict=True) if found else ():
        told: dict[str, Any] = {"votes": one.votes, "voters": one.voters}
        if one.enough:
            told |= {"share": one.share, "share_low": one.low, "share_high": one.high}
            told |= {"strength": one.strength, "strength_low": one.strength_low}
            told |= {"strength_high": one.strength_high}
        rows[own[number]] = NOTHING | told
    return rows


def _renumbered(votes: Ballots, numbers: NDArray[np.int64]) -> Ballots:
    """Return the votes with models under other numbers."""
    return replace(votes, first=numbers[votes.first], second=numbers[votes.second])


#: A run that lost its numbers keeps none of before.
NOTHING: dict[str, Any] = dict.fromkeys(
    ("share", "share_low", "share_high", "strength", "strength_low", "strength_high")
)
NO_LIFE: dict[str, Any] = dict.fromkeys(
    (
        *("usable_trips", "usable_trips_low", "usable_trips_high"),
        *("half_life", "half_life_low", "half_life_high"),
    )
) | {"has_interval": False}


def _lives(
    suite: Suite,
    own: Sequence[int],
    single: Table,
    known: Mapping[int, Return],
    weights: Mapping[int, float],
) -> dict[int, dict[str, Any]]:
    """Return usable trips by people's votes for each run of a suite."""
    asked: dict[int, list[tuple[int, int, float]]] = defaultdict(list)
    for row in single.rows:
        one = known[row.first]
        if one.run in own:
            asked[one.chain].append((one.number, row.voter, float(row.answer)))
    chains = Chain.objects.filter(pk__in=list(asked)).select_related("case__picture")
    by_run: dict[int, list[Asked]] = defaultdict(list)
    for chain in chains:
        metric = chain.headline
        if not metric:
            continue
        result = chain_of_numbers(
            metric,
            core_case(chain),
            chain.repeat,
            chain.outcome,
            chain.numbers(metric),
            suite.trips,
        )
        number, voter, yes = zip(*asked[chain.pk], strict=True)
        by_run[chain.run_id].append(Asked(result, np.array(number), np.array(voter), np.array(yes)))
    rows = {}
    for run, found in by_run.items():
        life = human_life(found, weights, suite.trips)
        if life is None:
            continue
        told: dict[str, Any] = {"usable_votes": life.votes, "usable_voters": life.voters}
        if life.enough:
            told |= {name: getattr(life, name) for name in NO_LIFE}
        rows[run] = NO_LIFE | told
    return rows


def _store_report(numbers: dict[str, Any], began: Any, answered: int) -> PeopleReport:
    report = PeopleReport.objects.order_by("pk").first() or PeopleReport()
    report.numbers, report.computed_at, report.votes = numbers, began, answered
    report.save()
    return report


def _prepare() -> None:
    """Draw the pictures of the next questions, those first whose turn comes first."""
    end = time.monotonic() + PREPARING
    for trip in questions.pictures_due(PREPARED):
        if time.monotonic() > end:
            break
        source = trip.chain.case.picture.stored
        for stored in (source, trip.restored):
            if source and stored:
                try:
                    ballots.prepare_image(stored, (source.width, source.height))
                except (OSError, ValueError):
                    continue  # gone or broken: said when somebody asks for it
