"""Choose the questions of which a vote tells most; done by a worker.

A vote tells most on two returns that lie close together (nobody needs to be asked whether a
clean picture is closer than a lost one), of models and cases of which little is known yet, and
on questions that one or two people answered already: only what several people saw says how far
people agree with each other.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np
from django.db import transaction
from django.db.models import Count, Max

from evaluation.analysis.levels import DEFAULT_LEVEL
from evaluation.content.suites import ticks
from leaderboard.models import Chain, PeopleStanding, Question, Suite, Trip, Vote
from leaderboard.models.votes import Kind, votable_runs, votable_trips
from leaderboard.people.vote_rows import headline

Gold = Question.Gold
#: Open questions of each suite and kind, and gold ones.
POOL, GOLDS = 600, 40
#: Cases of a suite that are looked at each time: those with the fewest votes.
CASES = 60
#: So many people are enough for one question.
ENOUGH = 5
#: What two trips of one model tell beside two models after one trip, and a yardstick beside a model.
OWN_TRIPS, YARDSTICK = 0.5, 0.5
#: How fast people's certainty grows with what the headline parts, and with what it keeps.
STEEPNESS = 6.0
#: Clean to everybody, lost to everybody.
CLEAN, LOST, LOST_WHOLE, LOST_FACE = 0.9, 0.1, 0.5, 0.05


@dataclass(frozen=True)
class Candidate:
    """A return that may be asked about."""

    trip: int
    number: int
    run: int
    chain: int
    case: int
    picture: str
    kept: Mapping[str, float]
    yardstick: bool = False

    @property
    def headline(self) -> float:
        return headline(self.kept) or 0.0

    @property
    def clean(self) -> bool:
        return self.headline >= CLEAN

    @property
    def lost(self) -> bool:
        """Lost so that everybody sees it: worn all over, or another person."""
        whole = self.kept.get("lpips", self.headline)
        face = self.kept.get("identity", 1.0)
        return self.headline <= LOST and (whole <= LOST_WHOLE or face <= LOST_FACE)


@dataclass
class Known:
    """Numbers of votes so far: by question, case, pair of runs and run."""

    pair: Counter[tuple[int, int]] = field(default_factory=Counter)
    single: Counter[int] = field(default_factory=Counter)
    case: Counter[int] = field(default_factory=Counter)
    runs: Counter[tuple[int, int]] = field(default_factory=Counter)
    compared: Counter[int] = field(default_factory=Counter)
    run: Counter[int] = field(default_factory=Counter)
    strength: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Asking:
    """A question with what a vote on it would tell, from 0 to about 1."""

    kind: str
    case: int
    first: int
    second: int | None
    told: float
    ease: float = 0.0
    gold: str = ""


def stamp() -> str:
    """Changes with what can be asked: the runs that are public, and their numbers."""
    runs = votable_runs().filter(current=True).order_by("pk")
    found = list(runs.values_list("pk", "finished_at").annotate(written=Max("standings__pk")))
    return sha256(repr(found).encode()).hexdigest()


def refresh() -> int:
    """Choose the open questions anew; how many there are."""
    suites = Suite.objects.filter(runs__in=votable_runs().filter(current=True)).distinct()
    chosen: list[Asking] = []
    for suite in suites.defer("definition"):
        chosen += choose(suite)
    with transaction.atomic():
        _store(chosen)
    return len(chosen)


def choose(suite: Suite) -> list[Asking]:
    """The open questions of one suite."""
    known = _known(suite)
    candidates = list(_candidates(suite, known))
    pairs = _best(_pairs(candidates, known), POOL)
    singles = _best(_singles(candidates, known), POOL)
    return [*pairs, *singles, *_gold(candidates)]


def _candidates(suite: Suite, known: Known) -> Iterator[Candidate]:
    """Returns of the least known cases after the trips that tables show."""
    cases = sorted(suite.cases.values_list("pk", flat=True), key=lambda pk: (known.case[pk], pk))
    runs = votable_runs().filter(suite=suite, current=True)
    chains = Chain.objects.filter(run__in=runs, case__in=cases[:CASES], repeat=0).order_by("pk")
    numbers = ticks(suite.trips)
    trips: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
    rows = votable_trips().filter(chain__in=chains, number__in=numbers)
    for own, pk, number, picture in rows.values_list("chain", "pk", "number", "restored"):
        trips[own].append((pk, number, picture or ""))
    fields = ("run", "case", "results", "run__editing_model__is_reference")
    for chain in chains.select_related("run__editing_model").only(*fields).iterator():
        known_loss = chain.run.editing_model.is_reference
        for trip, number, picture in trips[chain.pk]:
            if kept := chain.retentions_after(number):
                yield Candidate(
                    trip,
                    number,
                    chain.run_id,
                    chain.pk,
                    chain.case_id,
                    picture,
                    kept,
                    known_loss,
                )


def _pairs(candidates: Sequence[Candidate], known: Known) -> Iterator[Asking]:
    spots: dict[tuple[int, int], list[Candidate]] = defaultdict(list)
    chains: dict[int, list[Candidate]] = defaultdict(list)
    for one in candidates:
        spots[one.case, one.number].append(one)
        chains[one.chain].append(one)
    for found in spots.values():
        # Each with the one beside which it tells most: so every model is asked about.
        for one in found:
            others = (other for other in found if other.picture != one.picture)
            yield from _best((_pair(one, other, known) for other in others), 1)
    for found in chains.values():
        found.sort(key=lambda one: one.number)
        for one, other in itertools.pairwise(found):
            if one.picture != other.picture:
                yield _pair(one, other, known, OWN_TRIPS)


def _pair(one: Candidate, other: Candidate, known: Known, worth: float = 1.0) -> Asking:
    gap = one.headline - other.headline
    certain = STEEPNESS * gap
    strengths = known.strength.get(one.run), known.strength.get(other.run)
    if None not in strengths and one.run != other.run:
        certain = (certain + strengths[0] - strengths[1]) / 2  # type: ignore[operator]
    closeness = 1 / math.cosh(min(30.0, abs(certain)) / 2) ** 2  # 4 p (1 - p)
    if max(one.headline, other.headline) < LOST:
        worth *= 0.2  # of two that are lost, neither is closer
    if one.yardstick or other.yardstick:
        worth *= YARDSTICK
    runs = (min(one.run, other.run), max(one.run, other.run))
    first, second = sorted((one.trip, other.trip))
    answered = known.pair[first, second]
    seldom = min(known.compared[one.run], known.compared[other.run])
    asked = (1 + known.runs[runs]) * (1 + known.case[one.case]) * (1 + seldom)
    told = (0.1 + closeness) * worth / math.sqrt(asked)
    return Asking(Kind.PAIR, one.case, first, second, told * _again(answered), min(1.0, abs(gap)))


def _singles(candidates: Iterable[Candidate], known: Known) -> Iterator[Asking]:
    for one in candidates:
        away = STEEPNESS * (one.headline - DEFAULT_LEVEL)
        closeness = 1 / math.cosh(min(30.0, abs(away)) / 2) ** 2
        answered = known.single[one.trip]
        told = (0.1 + closeness) / math.sqrt((1 + known.run[one.run]) * (1 + known.case[one.case]))
        ease = min(1.0, 2 * abs(one.headline - DEFAULT_LEVEL))
        yield Asking(Kind.USABLE, one.case, one.trip, None, told * _again(answered), ease)


def _again(answered: int) -> float:
    """A second and a third opinion tell more than a first; a sixth tells nothing new."""
    if answered >= ENOUGH:
        return 0.0
    return 1.5 if 0 < answered < 3 else 1.0


def _gold(candidates: Sequence[Candidate]) -> list[Asking]:
    """Questions whose answer nobody doubts: a clean return beside one that is lost."""
    random = np.random.default_rng(len(candidates))
    by_case: dict[int, tuple[list[Candidate], list[Candidate]]] = defaultdict(lambda: ([], []))
    for one in candidates:
        if one.clean:
            by_case[one.case][0].append(one)
        elif one.lost:
            by_case[one.case][1].append(one)
    found: list[Asking] = []
    for clean, lost in by_case.values():
        for group, gold in ((clean, Gold.YES), (lost, Gold.NO)):
            if group:
                one = group[int(random.integers(len(group)))]
                found.append(Asking(Kind.USABLE, one.case, one.trip, None, 1.0, 1.0, gold))
        if clean and lost:
            better = clean[int(random.integers(len(clean)))]
            worse = lost[int(random.integers(len(lost)))]
            found.append(
                Asking(Kind.PAIR, better.case, better.trip, worse.trip, 1.0, 1.0, Gold.FIRST)
            )
    by_gold: dict[str, list[Asking]] = defaultdict(list)
    for asking in found:
        by_gold[asking.gold].append(asking)
    return [one for group in by_gold.values() for one in group[:GOLDS]]


def _best(found: Iterable[Asking], most: int) -> list[Asking]:
    """Those that tell most, each once."""
    told = {(one.first, one.second): one for one in found if one.told > 0}
    return sorted(told.values(), key=lambda one: -one.told)[:most]


def _known(suite: Suite) -> Known:
    """Votes on a suite's returns so far."""
    known = Known()
    votes = Vote.objects.answered().filter(question__case__suite=suite, role=Vote.Role.ORDINARY)
    rows = votes.values_list(
        *("question__case", "question__first", "question__second"),
        *("question__first__chain__run", "question__second__chain__run"),
    ).annotate(Count("pk"))
    for case, first, second, run, other, count in rows:
        known.case[case] += count
        if second is None:
            known.single[first] += count
            known.run[run] += count
        else:
            known.pair[min(first, second), max(first, second)] += count
            known.runs[min(run, other), max(run, other)] += count
            known.compared.update({run: count, other: count})
    seen = PeopleStanding.objects.filter(run__suite=suite, strength__isnull=False)
    known.strength = {run: strength or 0.0 for run, strength in seen.values_list("run", "strength")}
    return known


def _store(chosen: Sequence[Asking]) -> None:
    """Make these the open questions, and no others."""
    there: dict[tuple[str, int, int | None], int] = {
        (kind, first, second): pk
        for kind, first, second, pk in Question.objects.values_list("kind", "first", "second", "pk")
    }
    new: list[Question] = []
    old: list[Question] = []
    # Gold comes last, and stays gold where it would also be asked as any other.
    for one in {(one.kind, one.first, one.second): one for one in chosen}.values():
        found = there.get((one.kind, one.first, one.second))
        row = Question(
            pk=found,
            kind=one.kind,
            case_id=one.case,
            first_id=one.first,
            second_id=one.second,
            gold=one.gold,
            ease=one.ease,
            due=-one.told,
        )
        (old if found else new).append(row)
    Question.objects.open().update(due=None)
    Question.objects.bulk_create(new, batch_size=500, ignore_conflicts=True)
    Question.objects.bulk_update(old, ["gold", "ease", "due"], batch_size=500)


def pictures_due(most: int) -> list[Trip]:
    """The returns of the questions whose turn comes first, with their pictures and sources."""
    soon = list(Question.objects.open().order_by("due").values_list("first", "second")[:most])
    keys = list(dict.fromkeys(key for pair in soon for key in pair if key))
    found = Trip.objects.filter(pk__in=keys).select_related("restored", "chain__case__picture")
    found = found.select_related("chain__case__picture__stored").defer("loss_map", "evidence")
    by_key = {trip.pk: trip for trip in found}
    return [by_key[key] for key in keys if key in by_key]
