"""Count votes: weigh voters, compare models, and compare metrics and witnesses with people.

Witnesses are automatic checks of an edit. A judge is a witness that asks a vision-language model.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any

import numpy as np
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from evaluation.analysis.edit_quality import RUBRIC
from evaluation.analysis.half_points import VotesWithTerms, refit
from evaluation.analysis.survival import Floats
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD
from evaluation.analysis.votes import (
    Ballots,
    Checks,
    JudgedChain,
    Share,
    VoterWeight,
    agreement_among_people,
    agreement_with_people,
    enough,
    strengths,
    unusable_threshold,
    usable_trips_by_votes,
    weigh_voters_with_order,
    yes_by_retention,
)
from evaluation.metrics import HEADLINE, in_order
from evaluation.metrics.parts import PARTS
from leaderboard.models import (
    Chain,
    PeopleReport,
    PeopleStanding,
    Question,
    Run,
    Standing,
    Suite,
    Trip,
    Vote,
    Voter,
)
from leaderboard.models.votes import Kind, votable_runs
from leaderboard.people import ballots, questions
from leaderboard.people.vote_rows import (
    CountedVote,
    VotedImage,
    checks,
    counted_votes,
    judge_name,
    metric_preference,
    voted_images,
    witness_preference,
)
from leaderboard.standings.stored import chain_result

#: An agreement is reported from this number of votes on.
MIN_VOTES = 10
#: Maximum length of a list of questions on which people contradict the headline metric.
DIFFERENCES = 12
#: A question is listed if at least MIN_PEOPLE people voted, and at most the share MAX_AGREEMENT of
#: these people agrees with the metric.
MIN_PEOPLE, MAX_AGREEMENT = 3, 1 / 3
#: Shortest interval between two counts while votes arrive.
COUNT_INTERVAL = timedelta(minutes=5)
#: Limits on rendering images of questions in advance: questions, and seconds. The worker has
#: other jobs, so the remaining images are rendered after the next count.
PREPARED_QUESTIONS, PREPARING_SECONDS = 1_200, 20.0
#: The lowest retention by a part of the headline metric. Smaller values are raised to it, because
#: unusable images hardly differ.
MIN_RETENTION = 0.02
#: Voters with a weight below this are reported as little trusted.
TRUSTED_WEIGHT = 0.5
VOTER_FIELDS = ("weight", "reasons", "gold", "gold_right", "repeats", "repeats_same")


def is_due() -> bool:
    """Return True if votes or runs have changed since the last count."""
    report = PeopleReport.objects.order_by("pk").first()
    if report is None:
        return votable_runs().exists()
    if report.pool_stamp != questions.stamp():
        return True
    late = report.computed_at < timezone.now() - COUNT_INTERVAL
    return late and report.votes != Vote.objects.answered().count()


def count() -> PeopleReport:
    """Count all votes again, store the results and choose the next questions."""
    began, answered = timezone.now(), Vote.objects.answered().count()
    Vote.objects.expired().delete()
    votes = counted_votes()
    runs = votable_runs().filter(current=True).select_related("suite").order_by("pk").in_bulk()
    models = {run: number for number, run in enumerate(runs)}
    voted = Question.objects.filter(votes__answer__isnull=False)
    shown = Q(pk__in=voted.values("first")) | Q(pk__in=voted.values("second"))
    images = voted_images(Trip.objects.filter(shown, chain__run__in=votable_runs()))
    pairs = table(votes, Kind.PAIR, images, models)
    single = table(votes, Kind.USABLE, images, models)
    check_results = checks(votes)
    weighed = weigh_voters_with_order(pairs.ballots, check_results, len(models))
    weights = {voter: result.weight for voter, result in weighed.items()}
    totals = {
        "votes": Counter(vote.kind for vote in votes),
        "voters": len({vote.voter for vote in votes}),
        "believed_little": len([weight for weight in weights.values() if weight < TRUSTED_WEIGHT]),
    }
    agreements = agreement(pairs, single, weights)
    with transaction.atomic():
        _store_voters(weighed, check_results)
        _store_standings(runs, models, pairs, single, weights, _judges(runs, agreements))
        report, _ = PeopleReport.objects.update_or_create(
            pk=1,
            defaults={
                "numbers": agreements | totals,
                "computed_at": began,
                "votes": answered,
            },
        )
    questions.refresh()
    _prepare()
    PeopleReport.objects.filter(pk=report.pk).update(pool_stamp=questions.stamp())
    return report


@dataclass(frozen=True)
class Table:
    """Votes of one kind with the images voted on, without the votes that only check the voter.

    `ballots` has the same votes as arrays.
    """

    kind: str
    votes: Sequence[CountedVote]
    images: Sequence[tuple[VotedImage, VotedImage | None]]
    ballots: Ballots

    def weights(self, weights: Mapping[int, float]) -> Floats:
        """Return the weight of each vote: the weight of its voter."""
        return np.array([weights.get(vote.voter, 0.0) for vote in self.votes])


def table(
    votes: Iterable[CountedVote],
    kind: str,
    by_trip: Mapping[int, VotedImage],
    models: Mapping[int, int],
) -> Table:
    """Return the ordinary votes on these images; `models` maps compared runs to indices."""
    ordinary, images, columns = [], [], []
    for vote in votes:
        first, second = by_trip.get(vote.first), by_trip.get(vote.second or 0)
        has_images = first and (second or vote.second is None)
        if first is None or not has_images or (vote.kind, vote.role) != (kind, Vote.Role.ORDINARY):
            continue
        model, other, left = models.get(first.run, -1), -1, 0
        if second:
            other = models.get(second.run, -1)
            left = vote.answer if vote.first_left else -vote.answer
            compared = second.number == first.number and second.run != first.run
            if not compared or min(model, other) < 0:
                model = other = -1
        ordinary.append(vote)
        images.append((first, second))
        columns.append((vote.voter, vote.case, vote.question, model, other, vote.answer, left))
    matrix = np.array(columns, dtype=float).reshape(-1, 7)
    voter, case, question, model_column, other_column = matrix[:, :5].astype(np.int64).T
    return Table(
        kind,
        ordinary,
        images,
        Ballots(voter, case, question, model_column, other_column, matrix[:, 5], matrix[:, 6]),
    )


def _store_voters(weighed: Mapping[int, VoterWeight], check_results: Mapping[int, Checks]) -> None:
    """Store the voters whose weight, reasons or check results have changed."""
    changed = []
    for voter in Voter.objects.filter(pk__in=list(weighed)):
        result = weighed[voter.pk]
        now = {"weight": round(result.weight, 4), "reasons": list(result.reasons)}
        now |= asdict(check_results.get(voter.pk, Checks()))
        if any(getattr(voter, name) != now[name] for name in VOTER_FIELDS):
            for name in VOTER_FIELDS:
                setattr(voter, name, now[name])
            changed.append(voter)
    Voter.objects.bulk_update(changed, VOTER_FIELDS, batch_size=200)


def _store_standings(
    runs: Mapping[int, Run],
    models: Mapping[int, int],
    pairs: Table,
    single: Table,
    weights: Mapping[int, float],
    judges: Mapping[int, dict[str, Any]],
) -> None:
    """Replace the stored vote results of all runs."""
    numbers: dict[int, dict[str, Any]] = defaultdict(dict, judges)
    by_suite: dict[Suite, list[int]] = defaultdict(list)
    for pk, run in runs.items():
        by_suite[run.suite].append(pk)
    for suite, of_suite in by_suite.items():
        for by_run in (
            _preferences(of_suite, models, pairs, weights),
            _lives(suite, of_suite, single, weights),
        ):
            for pk, values in by_run.items():
                numbers[pk] |= values
    now = timezone.now()
    PeopleStanding.objects.all().delete()
    PeopleStanding.objects.bulk_create(
        PeopleStanding(run_id=pk, computed_at=now, **values) for pk, values in numbers.items()
    )
    # Cached pages of a suite are valid until this time changes.
    Suite.objects.filter(runs__in=list(numbers)).update(updated_at=now)


def _judges(runs: Mapping[int, Run], agreements: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """Return for each run how often the judge of its edits agrees with people."""
    shares = {line["name"]: line["everywhere"] for line in agreements["lines"]}
    rated = Standing.objects.filter(run__in=runs, scope="all", counts__has_key=RUBRIC)
    judged = dict(rated.values_list("run", f"counts__{RUBRIC}__judge"))
    return {
        run: {f"judge_{name}": share[name] for name in ("share", "low", "high", "votes")}
        for run, judge in judged.items()
        if (share := shares.get(judge_name(judge)))
    }


def _preferences(
    runs: Sequence[int], models: Mapping[int, int], pairs: Table, weights: Mapping[int, float]
) -> dict[int, dict[str, Any]]:
    """Return people's preferences among a suite's runs; with too few votes, only the counts."""
    compared = {*pairs.ballots.first.tolist(), *pairs.ballots.second.tolist()}
    seen = [run for run in runs if models[run] in compared]
    # The last entry is read by -1, the index of runs that are not compared.
    index_of_run = np.full(len(models) + 1, -1)
    index_of_run[[models[run] for run in seen]] = np.arange(len(seen))
    first, second = index_of_run[pairs.ballots.first], index_of_run[pairs.ballots.second]
    estimates = strengths(replace(pairs.ballots, first=first, second=second), weights, len(seen))
    return {
        run: asdict(estimate)
        if enough(estimate.votes, estimate.voters)
        else {"votes": estimate.votes, "voters": estimate.voters}
        for run, estimate in zip(seen, estimates or (), strict=False)
    }


def _lives(
    suite: Suite, runs: Sequence[int], single: Table, weights: Mapping[int, float]
) -> dict[int, dict[str, Any]]:
    """Return for each of a suite's runs the usable trips according to people's votes."""
    by_chain: dict[int, list[tuple[int, int, float]]] = defaultdict(list)
    for vote, (image, _) in zip(single.votes, single.images, strict=True):
        if image.run in runs:
            by_chain[image.chain].append((image.number, vote.voter, float(vote.answer)))
    chains = Chain.objects.filter(pk__in=list(by_chain)).select_related("case__image")
    by_run: dict[int, list[JudgedChain]] = defaultdict(list)
    for chain in chains:
        if result := chain_result(chain, chain.headline, suite.trips):
            columns = (np.array(column) for column in zip(*by_chain[chain.pk], strict=True))
            by_run[chain.run_id].append(JudgedChain(result, *columns))
    lives = {}
    for run, answers in by_run.items():
        if life := usable_trips_by_votes(answers, weights, suite.trips):
            votes, voters = life.usable_votes, life.usable_voters
            few = {"usable_votes": votes, "usable_voters": voters}
            lives[run] = asdict(life) if enough(votes, voters) else few
    return lives


def _prepare() -> None:
    """Render the images of the next questions in advance, the most urgent first."""
    end = time.monotonic() + PREPARING_SECONDS
    for trip in questions.images_due(PREPARED_QUESTIONS):
        if time.monotonic() > end:
            break
        source = trip.chain.case.image.stored
        for stored in (source, trip.restored):
            if source and stored:
                try:
                    ballots.prepare_image(stored, (source.width, source.height))
                except (OSError, ValueError):
                    continue  # missing or broken: reported when a visitor requests the image


# Agreement.


def agreement(pairs: Table, single: Table, weights: Mapping[int, float]) -> dict[str, Any]:
    """Return the content of the agreement page as JSON values."""
    pair_weights, single_weights = pairs.weights(weights), single.weights(weights)
    shown = [(first, second) for first, second in pairs.images if second]
    alone = [image for image, _ in single.images]
    everything = [*alone, *(image for both in shown for image in both)]
    witnesses = sorted({witness for image in everything for witness in image.verdicts})

    names = in_order({name for image in everything for name in image.kept})
    lines = [
        _line(name, "metric", metric_preference, shown, pairs.ballots, pair_weights)
        | _threshold(name, alone, single.ballots, single_weights)
        for name in names
    ]
    lines += [
        _line(name, "witness", witness_preference, shown, pairs.ballots, pair_weights)
        for name in witnesses
    ]
    return {
        "lines": [line for line in lines if line["everywhere"] or line.get("threshold")],
        "ceiling": _share(agreement_among_people(pairs.ballots, pair_weights)),
        "half_points": _half_points(single, single_weights, pairs, pair_weights),
        "differences": _differences(pairs, pair_weights),
        "usable_differences": _differences(single, single_weights),
    }


def _line(
    name: str,
    kind: str,
    preference: Callable[[str, VotedImage, VotedImage], float],
    shown: Sequence[tuple[VotedImage, VotedImage]],
    ballots: Ballots,
    weights: Floats,
) -> dict[str, Any]:
    """Return the agreement of a metric or witness with people."""
    verdicts = np.array([preference(name, *both) for both in shown], dtype=float)
    everywhere, shared = agreement_with_people(verdicts, ballots, weights)
    return {"name": name, "kind": kind, "everywhere": _share(everywhere), "shared": _share(shared)}


def _share(share: Share | None) -> dict[str, Any] | None:
    return asdict(share) if share and share.votes >= MIN_VOTES else None


def _threshold(
    name: str, images: Sequence[VotedImage], ballots: Ballots, weights: Floats
) -> dict[str, Any]:
    """Return the retention at which half of the people call an image unusable.

    `curve` has the share of people who call an image usable, by retention.
    """
    retentions = np.array([image.kept.get(name, math.nan) for image in images], dtype=float)
    threshold = unusable_threshold(retentions, ballots, weights)
    if threshold is None:
        return {"threshold": None, "curve": []}
    return {"threshold": asdict(threshold), "curve": yes_by_retention(retentions, ballots, weights)}


def _half_points(
    single: Table, single_weights: Floats, pairs: Table, pair_weights: Floats
) -> dict[str, Any] | None:
    """Return half points fitted to the votes; None if the votes are too few.

    The half point of a part is the distance at which the part's retention is one half.
    """
    halves = {part.name: part.half for part in PARTS}
    result = refit(
        halves, _votes_with_terms(single, single_weights), _votes_with_terms(pairs, pair_weights)
    )
    return asdict(result) if result else None


def _votes_with_terms(table: Table, weights: Floats) -> VotesWithTerms:
    """Return the votes on images scored by the headline metric, with `_terms` of each image."""
    shown = [image for both in table.images for image in both if image]
    by_image = {image.trip: _terms(image) for image in shown if HEADLINE in image.kept}
    scored = np.array(
        [all(image is None or image.trip in by_image for image in both) for both in table.images],
        dtype=bool,
    )
    both = [images for images, is_scored in zip(table.images, scored, strict=True) if is_scored]
    first = np.array([by_image[image.trip] for image, _ in both]).reshape(-1, len(PARTS))
    second = np.array([by_image[other.trip] for _, other in both if other])
    is_single = table.kind == Kind.USABLE
    return VotesWithTerms(
        table.ballots.only(scored),
        weights[scored],
        first,
        None if is_single else second.reshape(-1, len(PARTS)),
    )


def _terms(image: VotedImage) -> list[float]:
    """Return (distance / half point)² of each part, computed from its retention."""
    kept = [max(image.kept.get(part.name, 1.0), MIN_RETENTION) for part in PARTS]
    return [1 / share - 1 for share in kept]


def _differences(table: Table, weights: Floats) -> list[dict[str, Any]]:
    """Return the questions on which several people contradict the headline metric most.

    Of a pair, the metric prefers the image that keeps more. A single image counts as usable
    above the default threshold.
    """
    by_question: dict[int, list[int]] = defaultdict(list)
    for index, vote in enumerate(table.votes):
        if weights[index] > 0 and (vote.answer or vote.second is None):
            by_question[vote.question].append(index)
    differences = []
    for question, indices in by_question.items():
        first, second = table.images[indices[0]]
        kept, other = first.headline, second.headline if second else DEFAULT_THRESHOLD
        if kept is None or other is None or len(indices) < MIN_PEOPLE or (second and kept == other):
            continue
        verdict = float(np.sign(kept - other)) if second else float(kept > other)
        answers = table.ballots.answer[indices]
        agree = float(np.average(answers == verdict, weights=weights[indices]))
        if agree <= MAX_AGREEMENT:
            difference = {
                "question": question,
                "first": first.trip,
                "agree": agree,
                "with_it": int((answers == verdict).sum()),
                "people": len(indices),
                "gap": kept - other,
            }
            alone = {"kept": kept, "use_it": int(answers.sum())}
            differences.append(difference | ({"second": second.trip} if second else alone))
    differences.sort(key=lambda row: -abs(row["gap"]) * (0.5 - row["agree"]))
    return differences[:DIFFERENCES]
