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

#: With fewer choices no agreement is reported.
LEAST = 10
#: Listed questions on which people and the headline differ most.
DIFFERENCES = 12
#: A difference needs at least so many voters, and at most this share of them with the metric.
LEAST_PEOPLE, AGREE_AT_MOST = 3, 1 / 3

Says = Callable[[str, Return, Return], float]


def agreement(
    pairs: Table, single: Table, known: Mapping[int, Return], weights: Mapping[int, float]
) -> dict[str, Any]:
    """Return the content of the page on agreement, ready for JSON."""
    pair_weights, single_weights = (_weights(table, weights) for table in (pairs, single))
    single_returns = [known[row.first] for row in single.rows]
    shown = [(known[row.first], known[row.second]) for row in pairs.rows if row.second]
    everything = [*single_returns, *(image for both in shown for image in both)]
    metrics = in_order({name for image in everything for name in image.kept})
    witnesses = sorted(
        {str(evidence.get("witness")) for image in everything for evidence in image.evidence}
        - {"None"}
    )
    lines = [
        _line(name, "metric", _agreement(name, metric_says, shown, pairs, pair_weights))
        | _level(name, single_returns, single, single_weights)
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
        "usable_differences": _usable_differences(single, single_returns, single_weights),
    }


def _weights(table: Table, weights: Mapping[int, float]) -> Floats:
    return np.array([weights.get(row.voter, 0.0) for row in table.rows])


def _agreement(
    name: str, says: Says, shown: Sequence[tuple[Return, Return]], pairs: Table, weights: Floats
) -> Agreement:
    verdicts = np.array([says(name, *both) for both in shown], dtype=float)
    return with_people(verdicts, pairs.ballots, weights)


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
    """Return the retention at which half of the people say no, with the curve."""
    retentions = np.array([image.kept.get(name, math.nan) for image in asked], dtype=float)
    threshold = half_say_no(retentions, single.ballots, weights)
    if threshold is None:
        return {"level": None, "curve": []}
    return {
        "level": asdict(threshold),
        "curve": yes_by_retention(retentions, single.ballots, weights),
    }


def _pair_differences(
    pairs: Table, shown: Sequence[tuple[Return, Return]], weights: Floats
) -> list[dict[str, Any]]:
    """Return pairs on which several people contradict the headline metric."""
    by_question: dict[int, list[int]] = defaultdict(list)
    for place, row in enumerate(pairs.rows):
        if row.answer and weights[place] > 0:
            by_question[row.question].append(place)
    differences = []
    for question, places in by_question.items():
        first, second = shown[places[0]]
        retention, other_retention = first.headline, second.headline
        if (
            retention is None
            or other_retention is None
            or retention == other_retention
            or len(places) < LEAST_PEOPLE
        ):
            continue
        answers = np.array([pairs.rows[place].answer for place in places])
        agree = float(
            np.average(np.sign(retention - other_retention) == answers, weights=weights[places])
        )
        if agree <= AGREE_AT_MOST:
            differences.append(
                {
                    "question": question,
                    "first": first.trip,
                    "second": second.trip,
                    "agree": agree,
                    "with_it": int((np.sign(retention - other_retention) == answers).sum()),
                    "people": len(places),
                    "gap": retention - other_retention,
                }
            )
    return sorted(
        differences, key=lambda retention: -abs(retention["gap"]) * (0.5 - retention["agree"])
    )[:DIFFERENCES]


def _usable_differences(
    single: Table, asked: Sequence[Return], weights: Floats
) -> list[dict[str, Any]]:
    """Return images on whose use people contradict the headline metric."""
    by_trip: dict[int, list[int]] = defaultdict(list)
    for place, row in enumerate(single.rows):
        if weights[place] > 0:
            by_trip[row.first].append(place)
    differences = []
    for trip, places in by_trip.items():
        retention = asked[places[0]].headline
        if retention is None or len(places) < LEAST_PEOPLE:
            continue
        yes = float(np.average([single.rows[p].answer for p in places], weights=weights[places]))
        agree = yes if retention > DEFAULT_LEVEL else 1 - yes
        if agree <= AGREE_AT_MOST:
            differences.append(
                {
                    "first": trip,
                    "use_it": sum(single.rows[p].answer for p in places),
                    "people": len(places),
                    "kept": retention,
                    "agree": agree,
                }
            )
    differences.sort(key=lambda row: -abs(row["kept"] - DEFAULT_LEVEL) * (0.5 - row["agree"]))
    return differences[:DIFFERENCES]


#: Interval between two counts while votes come in.
OFTEN = timedelta(minutes=5)
#: Questions whose images are drawn in advance, and the seconds spent on it; the worker has other
#: jobs, and draws the rest next time.
PREPARED, PREPARING = 1_200, 20.0
#: A voter with a weight below this is reported as believed little.
BELIEVED = 0.5


def is_due() -> bool:
    """Return True if the numbers lack votes or runs."""
    report = PeopleReport.objects.order_by("pk").first()
    if report is None:
        return votable_runs().exists()
    if report.pool_stamp != questions.stamp():
        return True
    late = report.computed_at < timezone.now() - OFTEN
    return late and report.votes != Vote.objects.answered().count()


def count() -> PeopleReport:
    """Compute all numbers anew and choose the next questions."""
    began, answered = timezone.now(), Vote.objects.answered().count()
    Vote.objects.expired().delete()
    rows = counted()
    runs = {run.pk: run for run in votable_runs().filter(current=True).select_related("suite")}
    images = _public(returns({key for row in rows for key in (row.first, row.second) if key}))
    numbers = {run: place for place, run in enumerate(sorted(runs))}
    pairs = table(rows, Kind.PAIR, images, numbers)
    single = table(rows, Kind.USABLE, images, numbers)
    made = checks(rows)
    beliefs = believed(pairs.ballots, made, len(numbers))
    weights = {voter: belief.weight for voter, belief in beliefs.items()}
    with transaction.atomic():
        _store_voters(beliefs, made)
        _store_standings(runs, pairs, single, images, weights)
        report = _store_report(
            agreement(pairs, single, images, weights) | _totals(rows, beliefs),
            began,
            answered,
        )
    questions.refresh()
    _prepare()
    PeopleReport.objects.filter(pk=report.pk).update(pool_stamp=questions.stamp())
    return report


def _public(known: dict[int, Return]) -> dict[int, Return]:
    runs = set(votable_runs().values_list("pk", flat=True))
    return {pk: image for pk, image in known.items() if image.run in runs}


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
    """Store changed weights of voters, the reasons and the results of checks."""
    changed = []
    for voter in Voter.objects.filter(pk__in=list(beliefs)):
        belief, voter_checks = beliefs[voter.pk], made.get(voter.pk, Checks())
        now = (round(belief.weight, 4), list(belief.reasons), *asdict(voter_checks).values())
        before = (voter.weight, voter.reasons, voter.gold, voter.gold_right)
        if now != (*before, voter.repeats, voter.repeats_same):
            voter.weight, voter.reasons = now[0], now[1]
            voter.gold, voter.gold_right = voter_checks.gold, voter_checks.gold_right
            voter.repeats, voter.repeats_same = voter_checks.repeats, voter_checks.repeats_same
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
    """Store each run's numbers by votes; remove those of runs not public any more."""
    standings: dict[int, dict[str, Any]] = {}
    by_suite: dict[Suite, list[int]] = defaultdict(list)
    for pk in sorted(runs):
        by_suite[runs[pk].suite].append(pk)
    order = {run: place for place, run in enumerate(sorted(runs))}
    for suite, suite_runs in by_suite.items():
        for pk, values in _preferred(suite_runs, order, pairs, weights).items():
            standings.setdefault(pk, {}).update(values)
        for pk, values in _lives(suite, suite_runs, single, known, weights).items():
            standings.setdefault(pk, {}).update(values)
    PeopleStanding.objects.exclude(run__in=list(standings)).delete()
    now = timezone.now()
    for pk, values in standings.items():
        PeopleStanding.objects.update_or_create(run_id=pk, defaults=values | {"computed_at": now})
    # The page cache compares this time.
    Suite.objects.filter(runs__in=list(standings)).update(updated_at=now)


def _preferred(
    own: Sequence[int], order: Mapping[int, int], pairs: Table, weights: dict[int, float]
) -> dict[int, dict[str, Any]]:
    """Return preferences among the runs of a suite; none with too few votes."""
    place = np.full(len(order) + 1, -1)  # the last place is for runs that are not compared
    for number, run in enumerate(own):
        place[order[run]] = number
    here = _renumbered(pairs.ballots, place)
    seen = sorted({*here.first.tolist(), *here.second.tolist()} - {-1})
    if len(seen) < 2:
        return {}
    again = np.full(len(own) + 1, -1)
    again[seen] = np.arange(len(seen))
    here = _renumbered(here, again)
    estimates = strengths(here, weights, len(seen)) or []
    rows = {}
    for number, estimate in zip(seen, estimates, strict=True) if estimates else ():
        values: dict[str, Any] = {"votes": estimate.votes, "voters": estimate.voters}
        if estimate.enough:
            values |= {
                "share": estimate.share,
                "share_low": estimate.low,
                "share_high": estimate.high,
            }
            values |= {"strength": estimate.strength, "strength_low": estimate.strength_low}
            values |= {"strength_high": estimate.strength_high}
        rows[own[number]] = NOTHING | values
    return rows


def _renumbered(votes: Ballots, numbers: NDArray[np.int64]) -> Ballots:
    """Return the votes with the models renumbered."""
    return replace(votes, first=numbers[votes.first], second=numbers[votes.second])


#: Clears the former numbers of a run that has too few votes now.
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
    by_chain: dict[int, list[tuple[int, int, float]]] = defaultdict(list)
    for row in single.rows:
        image = known[row.first]
        if image.run in own:
            by_chain[image.chain].append((image.number, row.voter, float(row.answer)))
    chains = Chain.objects.filter(pk__in=list(by_chain)).select_related("case__picture")
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
        number, voter, yes = zip(*by_chain[chain.pk], strict=True)
        by_run[chain.run_id].append(Asked(result, np.array(number), np.array(voter), np.array(yes)))
    rows = {}
    for run, answers in by_run.items():
        life = human_life(answers, weights, suite.trips)
        if life is None:
            continue
        values: dict[str, Any] = {"usable_votes": life.votes, "usable_voters": life.voters}
        if life.enough:
            values |= {name: getattr(life, name) for name in NO_LIFE}
        rows[run] = NO_LIFE | values
    return rows


def _store_report(numbers: dict[str, Any], began: Any, answered: int) -> PeopleReport:
    report = PeopleReport.objects.order_by("pk").first() or PeopleReport()
    report.numbers, report.computed_at, report.votes = numbers, began, answered
    report.save()
    return report


def _prepare() -> None:
    """Draw the images of the next questions, in the order of the questions."""
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
                    continue  # missing or broken: reported when it is requested
