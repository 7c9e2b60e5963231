"""Choose the most informative questions; runs in a worker.

A vote is most informative on two restored images that lie close together (a clean image beside
a lost one needs no vote), on models and cases with few votes so far, and on questions with one
or two votes: only several votes on one question measure how far people agree with each other.
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
#: Cases of a suite that are considered each time: those with the fewest votes.
CASES = 60
#: Votes that are enough for one question.
ENOUGH = 5
#: Worth of two trips of one model against two models after one trip, and of a reference editor
#: against a model.
OWN_TRIPS, REFERENCE = 0.5, 0.5
#: Growth of people's certainty with the difference in headline retention.
STEEPNESS = 6.0
#: Retentions at which every person calls an image clean, or lost.
CLEAN, LOST, LOST_WHOLE, LOST_FACE = 0.9, 0.1, 0.5, 0.05


@dataclass(frozen=True)
class Candidate:
    """A restored image that may be shown to voters."""

    trip: int
    number: int
    run: int
    chain: int
    case: int
    picture: str
    kept: Mapping[str, float]
    reference: bool = False

    @property
    def headline(self) -> float:
        return headline(self.kept) or 0.0

    @property
    def clean(self) -> bool:
        return self.headline >= CLEAN

    @property
    def lost(self) -> bool:
        """Return True if the loss is obvious: worn all over, or another person."""
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
    """A possible question; `information` is that of a vote on it, 0 to about 1."""

    kind: str
    case: int
    first: int
    second: int | None
    information: float
    ease: float = 0.0
    gold: str = ""


def stamp() -> str:
    """Return a hash that changes with the public runs and their numbers."""
    runs = votable_runs().filter(current=True).order_by("pk")
    rows = list(runs.values_list("pk", "finished_at").annotate(written=Max("standings__pk")))
    return sha256(repr(rows).encode()).hexdigest()


def refresh() -> int:
    """Choose the open questions anew and return their number."""
    suites = Suite.objects.filter(runs__in=votable_runs().filter(current=True)).distinct()
    chosen: list[Asking] = []
    for suite in suites.defer("definition"):
        chosen += choose(suite)
    with transaction.atomic():
        _store(chosen)
    return len(chosen)


def choose(suite: Suite) -> list[Asking]:
    """Return the open questions of one suite."""
    votes = _votes_so_far(suite)
    candidates = list(_candidates(suite, votes))
    pairs = _best(_pairs(candidates, votes), POOL)
    singles = _best(_singles(candidates, votes), POOL)
    return [*pairs, *singles, *_gold(candidates)]


def _candidates(suite: Suite, known: Known) -> Iterator[Candidate]:
    """Yield restored images of the cases with the fewest votes, at the shown trips."""
    cases = sorted(suite.cases.values_list("pk", flat=True), key=lambda pk: (known.case[pk], pk))
    runs = votable_runs().filter(suite=suite, current=True)
    chains = Chain.objects.filter(run__in=runs, case__in=cases[:CASES], repeat=0).order_by("pk")
    numbers = ticks(suite.trips)
    trips: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
    rows = votable_trips().filter(chain__in=chains, number__in=numbers)
    for chain_pk, pk, number, picture in rows.values_list("chain", "pk", "number", "restored"):
        trips[chain_pk].append((pk, number, picture or ""))
    fields = ("run", "case", "results", "run__editing_model__is_reference")
    for chain in chains.select_related("run__editing_model").only(*fields).iterator():
        is_reference = chain.run.editing_model.is_reference
        for trip, number, picture in trips[chain.pk]:
            if retentions := chain.retentions_after(number):
                yield Candidate(
                    trip,
                    number,
                    chain.run_id,
                    chain.pk,
                    chain.case_id,
                    picture,
                    retentions,
                    is_reference,
                )


def _pairs(candidates: Sequence[Candidate], known: Known) -> Iterator[Asking]:
    spots: dict[tuple[int, int], list[Candidate]] = defaultdict(list)
    chains: dict[int, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        spots[candidate.case, candidate.number].append(candidate)
        chains[candidate.chain].append(candidate)
    for group in spots.values():
        # Each with its most informative partner, so that every model is compared.
        for candidate in group:
            others = (other for other in group if other.picture != candidate.picture)
            yield from _best((_pair(candidate, other, known) for other in others), 1)
    for group in chains.values():
        group.sort(key=lambda candidate: candidate.number)
        for candidate, other in itertools.pairwise(group):
            if candidate.picture != other.picture:
                yield _pair(candidate, other, known, OWN_TRIPS)


def _pair(one: Candidate, other: Candidate, known: Known, worth: float = 1.0) -> Asking:
    gap = one.headline - other.headline
    certain = STEEPNESS * gap
    strengths = known.strength.get(one.run), known.strength.get(other.run)
    if None not in strengths and one.run != other.run:
        certain = (certain + strengths[0] - strengths[1]) / 2  # type: ignore[operator]
    closeness = 1 / math.cosh(min(30.0, abs(certain)) / 2) ** 2  # 4 p (1 - p)
    if max(one.headline, other.headline) < LOST:
        worth *= 0.2  # if both are lost, neither is closer
    if one.reference or other.reference:
        worth *= REFERENCE
    runs = (min(one.run, other.run), max(one.run, other.run))
    first, second = sorted((one.trip, other.trip))
    answered = known.pair[first, second]
    seldom = min(known.compared[one.run], known.compared[other.run])
    votes = (1 + known.runs[runs]) * (1 + known.case[one.case]) * (1 + seldom)
    information = (0.1 + closeness) * worth / math.sqrt(votes)
    return Asking(
        Kind.PAIR, one.case, first, second, information * _again(answered), min(1.0, abs(gap))
    )


def _singles(candidates: Iterable[Candidate], known: Known) -> Iterator[Asking]:
    for candidate in candidates:
        away = STEEPNESS * (candidate.headline - DEFAULT_LEVEL)
        closeness = 1 / math.cosh(min(30.0, abs(away)) / 2) ** 2
        answered = known.single[candidate.trip]
        information = (0.1 + closeness) / math.sqrt(
            (1 + known.run[candidate.run]) * (1 + known.case[candidate.case])
        )
        ease = min(1.0, 2 * abs(candidate.headline - DEFAULT_LEVEL))
        yield Asking(
            Kind.USABLE, candidate.case, candidate.trip, None, information * _again(answered), ease
        )


def _again(answered: int) -> float:
    """Return the factor for votes so far: a second and third vote count most."""
    if answered >= ENOUGH:
        return 0.0
    return 1.5 if 0 < answered < 3 else 1.0


def _gold(candidates: Sequence[Candidate]) -> list[Asking]:
    """Return questions with an obvious answer: a clean image beside a lost one."""
    random = np.random.default_rng(len(candidates))
    by_case: dict[int, tuple[list[Candidate], list[Candidate]]] = defaultdict(lambda: ([], []))
    for candidate in candidates:
        if candidate.clean:
            by_case[candidate.case][0].append(candidate)
        elif candidate.lost:
            by_case[candidate.case][1].append(candidate)
    questions: list[Asking] = []
    for clean, lost in by_case.values():
        for group, gold in ((clean, Gold.YES), (lost, Gold.NO)):
            if group:
                candidate = group[int(random.integers(len(group)))]
                questions.append(
                    Asking(Kind.USABLE, candidate.case, candidate.trip, None, 1.0, 1.0, gold)
                )
        if clean and lost:
            better = clean[int(random.integers(len(clean)))]
            worse = lost[int(random.integers(len(lost)))]
            questions.append(
                Asking(Kind.PAIR, better.case, better.trip, worse.trip, 1.0, 1.0, Gold.FIRST)
            )
    by_gold: dict[str, list[Asking]] = defaultdict(list)
    for asking in questions:
        by_gold[asking.gold].append(asking)
    return [candidate for group in by_gold.values() for candidate in group[:GOLDS]]


def _best(found: Iterable[Asking], most: int) -> list[Asking]:
    """Return the most informative questions, each once."""
    by_trips = {
        (question.first, question.second): question
        for question in found
        if question.information > 0
    }
    return sorted(by_trips.values(), key=lambda question: -question.information)[:most]


def _votes_so_far(suite: Suite) -> Known:
    """Count the votes on a suite's restored images."""
    counts = Known()
    votes = Vote.objects.answered().filter(question__case__suite=suite, role=Vote.Role.ORDINARY)
    rows = votes.values_list(
        *("question__case", "question__first", "question__second"),
        *("question__first__chain__run", "question__second__chain__run"),
    ).annotate(Count("pk"))
    for case, first, second, run, other, count in rows:
        counts.case[case] += count
        if second is None:
            counts.single[first] += count
            counts.run[run] += count
        else:
            counts.pair[min(first, second), max(first, second)] += count
            counts.runs[min(run, other), max(run, other)] += count
            counts.compared.update({run: count, other: count})
    seen = PeopleStanding.objects.filter(run__suite=suite, strength__isnull=False)
    counts.strength = {
        run: strength or 0.0 for run, strength in seen.values_list("run", "strength")
    }
    return counts


def _store(chosen: Sequence[Asking]) -> None:
    """Make these the open questions and close all others."""
    there: dict[tuple[str, int, int | None], int] = {
        (kind, first, second): key
        for kind, first, second, key in Question.objects.values_list(
            "kind", "first", "second", "pk"
        )
    }
    new: list[Question] = []
    old: list[Question] = []
    # Gold comes last, so that a question that is both gold and ordinary stays gold.
    for question in {
        (question.kind, question.first, question.second): question for question in chosen
    }.values():
        pk = there.get((question.kind, question.first, question.second))
        row = Question(
            pk=pk,
            kind=question.kind,
            case_id=question.case,
            first_id=question.first,
            second_id=question.second,
            gold=question.gold,
            ease=question.ease,
            due=-question.information,
        )
        (old if pk else new).append(row)
    Question.objects.open().update(due=None)
    Question.objects.bulk_create(new, batch_size=500, ignore_conflicts=True)
    Question.objects.bulk_update(old, ["gold", "ease", "due"], batch_size=500)


def pictures_due(most: int) -> list[Trip]:
    """Return the trips of the questions due first, with their images and sources."""
    soon = list(Question.objects.open().order_by("due").values_list("first", "second")[:most])
    keys = list(dict.fromkeys(key for pair in soon for key in pair if key))
    trips = Trip.objects.filter(pk__in=keys).select_related("restored", "chain__case__picture")
    trips = trips.select_related("chain__case__picture__stored").defer("loss_map", "evidence")
    by_key = {trip.pk: trip for trip in trips}
    return [by_key[key] for key in keys if key in by_key]
