"""Content of the pages on people's votes: agreement, and a session's results.

The headline is our main metric, which ranks models. A witness is an automatic check of an edit, such
as a detector.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from evaluation.analysis.thresholds import DEFAULT_THRESHOLD
from evaluation.metrics import HEADLINE, METRICS, in_order
from evaluation.metrics.parts import PARTS
from evaluation.witnesses import witness_label
from leaderboard import formatting
from leaderboard.models import PeopleReport, Question, StoredImage, Trip, Vote
from leaderboard.models.votes import Kind, votable_trips
from leaderboard.pages.charts import Chart, Table, layout
from leaderboard.people.vote_rows import (
    VotedImage,
    headline,
    is_right,
    metric_preference,
    voted_images,
)


@dataclass(frozen=True)
class AgreementLine:
    """A line of the report: how often a metric, witness or judge agrees with people."""

    name: str
    kind: str
    #: Agreement on all pairs.
    everywhere: Mapping[str, Any] | None
    #: Agreement on pairs with several voters.
    shared: Mapping[str, Any] | None
    threshold: Mapping[str, Any] | None = None
    curve: Sequence[Mapping[str, Any]] = ()

    @property
    def is_metric(self) -> bool:
        return self.kind == "metric"

    @property
    def is_headline(self) -> bool:
        return self.name == HEADLINE

    @property
    def label(self) -> str:
        if not self.is_metric:
            name, _, version = self.name.partition(" ")
            return f"{witness_label(name)} {version}".strip()
        return formatting.metric_label(self.name) if self.name in METRICS else self.name

    @property
    def share(self) -> str:
        return _with_interval(self.everywhere)

    @property
    def shared_share(self) -> str:
        return _with_interval(self.shared)

    @property
    def dot(self) -> Mapping[str, float] | None:
        """Agreement and its interval on a scale from chance (0) to always (100)."""
        return dot(self.everywhere)

    @property
    def threshold_text(self) -> str:
        """Retention at which half of the people would not use an image: "47 % (41–52)"."""
        return _with_interval(self.threshold, "threshold") if self.threshold else ""

    @property
    def includes_ours(self) -> bool | None:
        """True if our threshold lies in the interval of people's; None if theirs is unknown."""
        if not self.threshold:
            return None
        return bool(self.threshold["low"] <= DEFAULT_THRESHOLD <= self.threshold["high"])


def dot(share: Mapping[str, Any] | None) -> Mapping[str, float] | None:
    """Return a share and its interval on a scale from chance (0) to always (100)."""
    if not share:
        return None
    ends = {"share": share["share"], "low": share["low"], "high": share["high"]}
    return {
        name: round(max(0.0, min(100.0, 200 * (value - 0.5))), 1)
        for name, value in ends.items()
        if value is not None
    }


def _with_interval(share: Mapping[str, Any] | None, name: str = "share") -> str:
    if not share:
        return "–"
    around = formatting.interval(share["low"], share["high"], 100, 0)
    return f"{formatting.percent(share[name])}{f' ({around})' if around else ''}"


@dataclass(frozen=True)
class ShownImage:
    """A restored image with its model's name."""

    trip: Trip
    chosen: bool = False

    @property
    def name(self) -> str:
        return self.trip.chain.run.editing_model.name

    @property
    def after(self) -> str:
        return formatting.after_trips(self.trip.number)

    @property
    def url(self) -> str:
        return f"{self.trip.chain.get_absolute_url()}#trip-{self.trip.number}"

    @property
    def image(self) -> StoredImage | None:
        return self.trip.restored

    @property
    def kept(self) -> str:
        return formatting.share_kept(
            headline(self.trip.chain.retentions_after(self.trip.number)) or 0.0
        )


@dataclass(frozen=True)
class Disagreement:
    """A question on which people and the headline metric disagree."""

    source: StoredImage | None
    shown: Sequence[ShownImage]
    words: str


def agreement(report: PeopleReport) -> dict[str, Any]:
    """Return the template context of the agreement page."""
    numbers = report.numbers
    compared = [AgreementLine(**line) for line in numbers.get("lines", ())]
    first = next((line for line in compared if line.is_headline), None)
    ceiling = numbers.get("ceiling")
    agreeing = [line for line in compared if line.everywhere]
    agreeing.sort(key=lambda line: -line.everywhere["share"] if line.everywhere else 0)
    return {
        "report": report,
        "numbers": numbers,
        "finding": finding(first, ceiling),
        "lines": agreeing,
        "thresholds": [line for line in compared if line.threshold],
        "threshold_words": threshold_words(first),
        "ceiling": _with_interval(ceiling) if ceiling else "",
        "ceiling_dot": dot(ceiling),
        "half_points": half_points(numbers.get("half_points")),
        "chart": yes_chart(compared),
        "differences": disagreements(numbers),
        "our_threshold": DEFAULT_THRESHOLD,
    }


def finding(first: AgreementLine | None, ceiling: Mapping[str, Any] | None) -> str:
    """Return the page's finding in one sentence."""
    if first is None or not first.everywhere:
        return ""
    text = (
        "The headline metric agrees with people on "
        f"{formatting.percent(first.everywhere['share'])} of pairs"
    )
    if ceiling:
        text += f"; people agree with each other on {formatting.percent(ceiling['share'])}"
    return text


def threshold_words(first: AgreementLine | None) -> str:
    """Compare our threshold with the voters' threshold, by the headline metric."""
    if first is None or not first.threshold:
        return ""
    ours = formatting.percent(DEFAULT_THRESHOLD)
    if first.includes_ours:
        return (
            "Half of the people would no longer use an image that keeps "
            f"{first.threshold_text} by the headline metric. "
            f"Our threshold of {ours} lies within this interval: the votes do not contradict it."
        )
    side = "later" if first.threshold["threshold"] < DEFAULT_THRESHOLD else "earlier"
    return (
        "Half of the people would no longer use an image that keeps "
        f"{first.threshold_text} by the headline metric. "
        f"Our threshold of {ours} lies outside this interval: people give up an image {side} than "
        "our threshold does."
    )


def half_points(proposal: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the half points that votes propose, and their gain; None without a proposal.

    A part of the headline has a half point: the distance at which an image counts as clearly
    damaged by this part alone.
    """
    if not proposal:
        return None
    labels = {part.name: part.label for part in PARTS}
    rows = [
        row | {"label": labels.get(row["part"], row["part"])} for row in proposal["half_points"]
    ]
    low, high = proposal["gain_low"], proposal["gain_high"]
    gains = low is not None and low > 0
    text = (
        "On cases left out of the fit, the headline metric agrees with "
        f"{_with_interval(proposal['before'])} of votes today, and would agree with "
        f"{_with_interval(proposal['after'])} under the proposed half points."
    )
    if gains:
        text += (
            f" That is a gain of {formatting.percent(low)} to {formatting.percent(high)}: "
            "a reason to consider the proposal."
        )
    else:
        text += " The difference is not significant, so it is no reason to change the half points."
    return {"rows": rows, "words": text}


def yes_chart(lines: Sequence[AgreementLine]) -> Chart | None:
    """Return a chart of the share of people who would still use an image, by its retention."""
    shown = [line for line in lines if line.curve]
    shown.sort(key=lambda line: not line.is_headline)
    if not shown:
        return None
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": line.label,
            "x": [round(100 * point["kept"], 1) for point in line.curve],
            "y": [round(100 * point["yes"], 1) for point in line.curve],
            "line": {"color": f"var(--series-{index % 8 + 1})"},
            "visible": True if index == 0 else "legendonly",
            "hovertemplate": "%{x} % kept: %{y} % would use it",
        }
        for index, line in enumerate(shown[:8])
    ]
    return Chart(
        id="usable",
        title="The less of an image is kept, the fewer people would still use it",
        subtitle="Share of “yes, I could still use it” by the share of the image that is kept; "
        "each point covers the same number of votes.",
        figure={
            "data": traces,
            "layout": layout(
                xaxis={"title": {"text": "kept, in %"}},
                yaxis={"title": {"text": "would still use it, in %"}, "range": [-3, 103]},
            ),
        },
        table=Table(
            ("Metric", "Kept", "Would use it", "Votes"),
            [
                (
                    line.label,
                    formatting.percent(point["kept"]),
                    formatting.percent(point["yes"]),
                    f"{point['votes']:,}",
                )
                for line in shown
                for point in line.curve
            ],
        ),
        height="short",
    )


def disagreements(numbers: Mapping[str, Any]) -> list[Disagreement]:
    """Return the questions on public images on which people and the headline differ most."""
    pairs, single = numbers.get("differences", ()), numbers.get("usable_differences", ())
    keys = {row[side] for row in (*pairs, *single) for side in ("first", "second") if side in row}
    rows = votable_trips().filter(pk__in=keys).select_related("restored", "chain__case")
    rows = rows.select_related("chain__run__editing_model", "chain__case__image__stored")
    trips = {trip.pk: trip for trip in rows.defer("evidence")}
    result = []
    for row in pairs:
        both = [trips.get(row["first"]), trips.get(row["second"])]
        if None not in both:
            shown = [ShownImage(trip) for trip in both if trip]
            better = shown[0] if row["gap"] > 0 else shown[1]
            words = (
                f"By the headline metric, {better.name} keeps more {better.after}; "
                f"{row['with_it']} of {row['people']} people agree."
            )
            result.append(Disagreement(shown[0].trip.chain.case.image.stored, shown, words))
    for row in single:
        if trip := trips.get(row["first"]):
            verdict = "still usable" if row["kept"] > DEFAULT_THRESHOLD else "no longer usable"
            words = (
                f"By the headline metric, this image is {verdict}; {row['use_it']} of "
                f"{row['people']} people could still use it."
            )
            result.append(Disagreement(trip.chain.case.image.stored, [ShownImage(trip)], words))
    return result


@dataclass
class AnsweredQuestion:
    """A question of a session with the voter's answer."""

    question: Question
    answer: int
    role: str
    shown: list[ShownImage]
    metrics: list[dict[str, Any]]
    others: str
    #: The answer when the question was repeated.
    repeated_answer: int | None = None

    @property
    def source(self) -> StoredImage | None:
        return self.question.case.image.stored

    @property
    def answer_words(self) -> str:
        """The voter's answer in words."""
        if self.question.kind != Kind.PAIR:
            return "You could still use it." if self.answer else "You could no longer use it."
        if not self.answer:
            return "You could not say."
        return f"You chose {next((side.name for side in self.shown if side.chosen), '')}."

    @property
    def remark(self) -> str:
        """Explanation of a repeated question or one with a known answer (gold); else empty."""
        if self.role == Vote.Role.GOLD:
            right = is_right(self.question.gold, self.answer)
            verdict = "you were right" if right else "the other answer is right"
            return f"This question was a test with a known answer: {verdict}."
        if self.repeated_answer is None:
            return ""
        how = "the same way" if self.repeated_answer == self.answer else "differently"
        return f"You were asked twice, with the sides exchanged, and answered {how}."


def answered_questions(votes: QuerySet[Vote]) -> list[AnsweredQuestion]:
    """Return the questions of a finished session with answers and model names."""
    related = ("question__case__image__stored",)
    trips = [
        f"question__{side}__{what}"
        for side in ("first", "second")
        for what in ("restored", "chain__run__editing_model")
    ]
    ordered = list(votes.select_related(*related, *trips).order_by("place"))
    others = _other_answers(ordered)
    both_ids = [(vote.question.first_id, vote.question.second_id) for vote in ordered]
    images = voted_images(
        Trip.objects.filter(pk__in={key for ids in both_ids for key in ids if key})
    )
    by_question: dict[int, AnsweredQuestion] = {}
    for vote in ordered:
        question = vote.question
        if question.pk in by_question:
            by_question[question.pk].repeated_answer = vote.answer
            continue
        both = [(question.first, 1)] + ([(question.second, -1)] if question.second else [])
        sides = both if vote.first_left else both[::-1]
        shown = [ShownImage(trip, vote.answer == sign) for trip, sign in sides]
        by_question[question.pk] = AnsweredQuestion(
            question,
            vote.answer or 0,
            vote.role,
            shown,
            _metrics([images[side.trip.pk] for side in shown], vote),
            _agreement_words(others[question.pk], vote),
        )
    return list(by_question.values())


def _metrics(images: Sequence[VotedImage], vote: Vote) -> list[dict[str, Any]]:
    """Return a row per metric: each image's share kept, and if the metric agrees with the vote."""

    def agrees(metric: str, kept: Sequence[str]) -> str:
        if len(set(kept)) == 1:
            return "no difference"
        preference = metric_preference(metric, *images) if len(images) > 1 else 0.0
        if not vote.left or not preference or math.isnan(preference):
            return "–"
        return "yes" if preference == vote.left else "no"

    lines = []
    for metric in in_order({name for image in images for name in image.kept}):
        kept = [formatting.percent(max(0.0, image.kept.get(metric, 0.0))) for image in images]
        name = formatting.metric_label(metric)
        lines.append({"name": name, "kept": kept, "agrees": agrees(metric, kept)})
    return lines


def _other_answers(votes: Sequence[Vote]) -> Mapping[int, list[int]]:
    """Return the ordinary votes of other voters on these questions, by question."""
    answers: dict[int, list[int]] = defaultdict(list)
    keys = {vote.question_id for vote in votes}
    rows = Vote.objects.answered().filter(question__in=keys, role=Vote.Role.ORDINARY)
    for question, answer in rows.exclude(voter=votes[0].voter).values_list("question", "answer"):
        answers[question].append(answer or 0)
    return answers


def _agreement_words(answers: list[int], vote: Vote) -> str:
    if not answers:
        return "You are the first to answer this question."
    same = sum(answer == vote.answer for answer in answers)
    return f"{same} of {formatting.count(len(answers), 'other voter')} answered the same."
