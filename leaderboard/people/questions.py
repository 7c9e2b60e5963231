"""Choose the most informative questions for voters, in a worker.

A vote tells most about two restored images that kept similar shares of their source but look
different. A clean image against a ruined one needs no vote, and votes on images that look alike are
random. Models and cases with few votes come first. Questions with one or two votes also come
first: only several votes on the same question show how far people agree with each other.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np
from django.db import transaction
from django.db.models import Count, Max

from evaluation.analysis.thresholds import DEFAULT_THRESHOLD
from evaluation.content.suites import ticks
from leaderboard.models import Chain, PeopleStanding, Question, Suite, Trip, Vote
from leaderboard.models.votes import Kind, votable_runs, votable_trips
from leaderboard.people.vote_rows import VotedImage, voted_images

Gold = Question.Gold
#: Maximum number of open questions for each suite and kind, and of gold questions (those with a
#: known answer) for each answer.
MAX_OPEN, MAX_GOLDS = 600, 40
#: Questions of a suite are chosen from this number of cases, which have the fewest votes.
MAX_CASES = 60
#: Smallest difference in retention that people see, and the difference below which two images look
#: the same. Retention is the share kept, by the headline metric (Overall).
VISIBLE, SAME = 0.1, 0.01
#: Share of the chosen pairs whose images differ by less than VISIBLE.
HARD = 0.2
#: A question with this number of votes needs no more votes.
ENOUGH = 5
#: Weights of comparing two trips of one model, and of comparing with a reference editor;
#: comparing two models after the same trip has weight 1.
OWN_TRIPS, REFERENCE = 0.5, 0.5
#: Log-odds that people prefer one image to another, per unit of difference in headline retention.
STEEPNESS = 6.0
#: Everyone calls an image clean at a retention of CLEAN or more, and ruined at RUINED or less.
CLEAN, RUINED = 0.9, 0.1


@dataclass
class VoteCounts:
    """Numbers of votes so far, and the strength of each run by these votes.

    `pair` and `single` count by trip, `runs` by pair of runs, `compared` and `run` by run.
    `compared` counts votes on pairs, `run` votes on single images.
    """

    pair: Counter[tuple[int, int]] = field(default_factory=Counter)
    single: Counter[int] = field(default_factory=Counter)
    case: Counter[int] = field(default_factory=Counter)
    runs: Counter[tuple[int, int]] = field(default_factory=Counter)
    compared: Counter[int] = field(default_factory=Counter)
    run: Counter[int] = field(default_factory=Counter)
    strength: dict[int, float] = field(default_factory=dict)


def stamp() -> str:
    """Return a hash that changes with the public runs and their results."""
    runs = votable_runs().filter(current=True).order_by("pk")
    rows = list(runs.values_list("pk", "finished_at").annotate(written=Max("standings__pk")))
    return sha256(repr(rows).encode()).hexdigest()


def refresh() -> None:
    """Choose the open questions of all suites again."""
    suites = Suite.objects.filter(runs__in=votable_runs().filter(current=True)).distinct()
    chosen: list[Question] = []
    for suite in suites.defer("definition"):
        chosen += choose(suite)
    with transaction.atomic():
        _store(chosen)


def choose(suite: Suite) -> list[Question]:
    """Return the open questions of one suite."""
    votes = _votes_so_far(suite)
    candidates = _candidates(suite, votes)
    easy: list[Question] = []
    hard: list[Question] = []
    for question in _pairs(candidates, votes):
        (easy if question.ease >= VISIBLE else hard).append(question)
    pairs = [*_best(easy, round(MAX_OPEN * (1 - HARD))), *_best(hard, round(MAX_OPEN * HARD))]
    singles = _best(_singles(candidates, votes), MAX_OPEN)
    return [*pairs, *singles, *_gold(candidates)]


def _candidates(suite: Suite, counts: VoteCounts) -> list[VotedImage]:
    """Return restored images of the cases with the fewest votes, after the trips shown on pages."""
    cases = sorted(suite.cases.values_list("pk", flat=True), key=lambda pk: (counts.case[pk], pk))
    runs = votable_runs().filter(suite=suite, current=True)
    chains = Chain.objects.filter(run__in=runs, case__in=cases[:MAX_CASES], repeat=0)
    trips = votable_trips().filter(chain__in=chains, number__in=ticks(suite.trips))
    return [image for image in voted_images(trips).values() if image.kept]


def _kept(image: VotedImage) -> float:
    return image.headline or 0.0


def _question(
    first: VotedImage,
    second: VotedImage | None = None,
    *,
    information: float = 1.0,
    ease: float = 1.0,
    gold: str = Gold.NONE,
) -> Question:
    """Return an unsaved question; `information` is how much a vote on it would reveal."""
    return Question(
        kind=Kind.PAIR if second else Kind.USABLE,
        case_id=first.case,
        first_id=first.trip,
        second_id=second.trip if second else None,
        gold=gold,
        ease=ease,
        due=-information,
    )


def _pairs(candidates: Sequence[VotedImage], counts: VoteCounts) -> Iterator[Question]:
    by_trip: dict[tuple[int, int], list[VotedImage]] = defaultdict(list)
    chains: dict[int, list[VotedImage]] = defaultdict(list)
    for candidate in candidates:
        by_trip[candidate.case, candidate.number].append(candidate)
        chains[candidate.chain].append(candidate)
    for group in by_trip.values():
        # Pair each image with its most informative partners, so that every model is compared.
        for candidate in group:
            both = [_pair(candidate, other, counts) for other in group if _differ(candidate, other)]
            yield from _best((question for question in both if question.ease >= VISIBLE), 1)
            yield from _best((question for question in both if question.ease < VISIBLE), 1)
    for group in chains.values():
        group.sort(key=lambda candidate: candidate.number)
        for candidate, other in itertools.pairwise(group):
            if _differ(candidate, other):
                yield _pair(candidate, other, counts, OWN_TRIPS)


def _differ(image: VotedImage, other: VotedImage) -> bool:
    """Return True if the two images can look different."""
    return image.image != other.image and abs(_kept(image) - _kept(other)) >= SAME


def _pair(
    image: VotedImage, other: VotedImage, counts: VoteCounts, weight: float = 1.0
) -> Question:
    gap = _kept(image) - _kept(other)
    log_odds = STEEPNESS * gap
    strengths = counts.strength.get(image.run), counts.strength.get(other.run)
    if None not in strengths and image.run != other.run:
        log_odds = (log_odds + strengths[0] - strengths[1]) / 2  # type: ignore[operator]
    closeness = 1 / math.cosh(min(30.0, abs(log_odds)) / 2) ** 2  # 4 p (1 - p)
    if max(_kept(image), _kept(other)) < RUINED:
        weight *= 0.2  # between two ruined images, votes are almost random
    if image.is_reference or other.is_reference:
        weight *= REFERENCE
    runs = (min(image.run, other.run), max(image.run, other.run))
    first, second = sorted((image, other), key=lambda side: side.trip)
    answered = counts.pair[first.trip, second.trip]
    fewest = min(counts.compared[image.run], counts.compared[other.run])
    votes = (1 + counts.runs[runs]) * (1 + counts.case[image.case]) * (1 + fewest)
    information = (0.1 + closeness) * weight / math.sqrt(votes)
    information *= _repeat_factor(answered)
    return _question(first, second, information=information, ease=min(1.0, abs(gap)))


def _singles(candidates: Iterable[VotedImage], counts: VoteCounts) -> Iterator[Question]:
    for candidate in candidates:
        gap = _kept(candidate) - DEFAULT_THRESHOLD
        log_odds = STEEPNESS * gap
        closeness = 1 / math.cosh(min(30.0, abs(log_odds)) / 2) ** 2
        answered = counts.single[candidate.trip]
        information = (0.1 + closeness) / math.sqrt(
            (1 + counts.run[candidate.run]) * (1 + counts.case[candidate.case])
        )
        information *= _repeat_factor(answered)
        yield _question(candidate, information=information, ease=min(1.0, 2 * abs(gap)))


def _repeat_factor(answered: int) -> float:
    """Return the factor for one more vote: a second and a third vote reveal most."""
    if answered >= ENOUGH:
        return 0.0
    return 1.5 if 0 < answered < 3 else 1.0


def _gold(candidates: Sequence[VotedImage]) -> list[Question]:
    """Return gold questions, whose answer is obvious, such as a clean against a ruined image."""
    random = np.random.default_rng(len(candidates))
    by_case: dict[int, tuple[list[VotedImage], list[VotedImage]]] = defaultdict(lambda: ([], []))
    for candidate in candidates:
        if _kept(candidate) >= CLEAN:
            by_case[candidate.case][0].append(candidate)
        elif _kept(candidate) <= RUINED:
            by_case[candidate.case][1].append(candidate)
    by_gold: dict[str, list[Question]] = defaultdict(list)
    for clean, ruined in by_case.values():
        for group, gold in ((clean, Gold.YES), (ruined, Gold.NO)):
            if group:
                candidate = group[int(random.integers(len(group)))]
                by_gold[gold].append(_question(candidate, gold=gold))
        if clean and ruined:
            better = clean[int(random.integers(len(clean)))]
            worse = ruined[int(random.integers(len(ruined)))]
            by_gold[Gold.FIRST].append(_question(better, worse, gold=Gold.FIRST))
    return [question for group in by_gold.values() for question in group[:MAX_GOLDS]]


def _best(questions: Iterable[Question], number: int) -> list[Question]:
    """Return up to `number` questions, the most informative first, each once."""
    by_trips = {
        (question.first_id, question.second_id): question for question in questions if question.due
    }
    return sorted(by_trips.values(), key=lambda question: question.due or 0.0)[:number]


def _votes_so_far(suite: Suite) -> VoteCounts:
    """Count the votes on a suite's restored images."""
    counts = VoteCounts()
    votes = Vote.objects.answered().filter(question__case__suite=suite, role=Vote.Role.ORDINARY)
    rows = votes.values_list(
        "question__case",
        "question__first",
        "question__second",
        "question__first__chain__run",
        "question__second__chain__run",
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


def _store(chosen: Sequence[Question]) -> None:
    """Make these the open questions and close all others."""
    names = ("kind", "first_id", "second_id")
    existing = {tuple(key): pk for *key, pk in Question.objects.values_list(*names, "pk")}
    # Gold questions come last and so replace equal ordinary questions.
    by_key = {(row.kind, row.first_id, row.second_id): row for row in chosen}
    for key, question in by_key.items():
        question.pk = existing.get(key)
    Question.objects.open().update(due=None)
    new = [question for question in by_key.values() if question.pk is None]
    old = [question for question in by_key.values() if question.pk is not None]
    Question.objects.bulk_create(new, batch_size=500, ignore_conflicts=True)
    Question.objects.bulk_update(old, ["gold", "ease", "due"], batch_size=500)


def images_due(number: int) -> list[Trip]:
    """Return the trips of the `number` most urgent questions, with images and sources."""
    soon = list(Question.objects.open().order_by("due").values_list("first", "second")[:number])
    keys = list(dict.fromkeys(key for pair in soon for key in pair if key))
    trips = Trip.objects.filter(pk__in=keys).select_related("restored", "chain__case__image")
    trips = trips.select_related("chain__case__image__stored").defer("evidence")
    by_key = {trip.pk: trip for trip in trips}
    return [by_key[key] for key in keys if key in by_key]
