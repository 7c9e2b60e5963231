"""After a session: what the pictures were, what metrics say of them, and what others chose."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import QuerySet

from evaluation.metrics import in_order
from leaderboard import formatting
from leaderboard.models import Question, StoredImage, Trip, Vote
from leaderboard.models.votes import Kind
from leaderboard.people.returns import metric_says, returns


@dataclass(frozen=True)
class Shown:
    """One return with its name, as its own page shows it."""

    trip: Trip
    chosen: bool

    @property
    def name(self) -> str:
        return self.trip.chain.run.editing_model.name

    @property
    def after(self) -> str:
        return formatting.after_trips(self.trip.number)

    @property
    def picture(self) -> StoredImage | None:
        return self.trip.restored

    @property
    def url(self) -> str:
        return f"{self.trip.chain.get_absolute_url()}#trip-{self.trip.number}"

    @property
    def kept(self) -> dict[str, float]:
        return self.trip.chain.retentions_after(self.trip.number)


@dataclass
class Row:
    """One question with its answer."""

    question: Question
    answer: int
    role: str
    shown: list[Shown]
    metrics: list[dict[str, Any]]
    others: str
    again: int | None = field(default=None)

    @property
    def source(self) -> StoredImage | None:
        return self.question.case.picture.stored

    @property
    def said(self) -> str:
        """What the voter said, in words."""
        if self.question.kind != Kind.PAIR:
            return "You could still use it." if self.answer else "You could no longer use it."
        if not self.answer:
            return "You could not say."
        return f"You chose {next((one.name for one in self.shown if one.chosen), '')}."

    @property
    def remark(self) -> str:
        """Of checks, what they were."""
        if self.role == Vote.Role.GOLD:
            right = _is_right(self.question, self.answer)
            return (
                f"We knew the answer to this one: {'you did, too' if right else 'it is the other'}."
            )
        if self.again is None:
            return ""
        same = "the same" if self.again == self.answer else "something else"
        return f"You were asked twice, with the sides exchanged, and said {same}."


def rows(votes: QuerySet[Vote]) -> list[Row]:
    """The questions of a finished session in their order."""
    related = ("question__case__picture__stored",)
    trips = [
        f"question__{side}__{what}"
        for side in ("first", "second")
        for what in ("restored", "chain__run__editing_model")
    ]
    own = list(votes.select_related(*related, *trips).order_by("place"))
    others = _others(own)
    known = returns(
        pk for vote in own for pk in (vote.question.first_id, vote.question.second_id) if pk
    )
    found: dict[int, Row] = {}
    for vote in own:
        question = vote.question
        if question.pk in found:
            found[question.pk].again = vote.answer
            continue
        both = [(question.first, 1)] + ([(question.second, -1)] if question.second else [])
        sides = both if vote.first_left else both[::-1]
        shown = [Shown(trip, vote.answer == sign) for trip, sign in sides]
        told = [known[one.trip.pk] for one in shown if one.trip.pk in known]
        metrics = in_order({name for one in told for name in one.kept})
        lines = [
            {
                "name": formatting.metric_label(metric),
                "kept": [formatting.percent(max(0.0, one.kept.get(metric, 0.0))) for one in told],
                "agrees": _agrees(metric, told, vote) if len(told) > 1 else None,
            }
            for metric in metrics
        ]
        found[question.pk] = Row(
            question, vote.answer or 0, vote.role, shown, lines, _words(others[question.pk], vote)
        )
    return list(found.values())


def _agrees(metric: str, told: list[Any], vote: Vote) -> bool | None:
    says = metric_says(metric, told[0], told[1])
    chosen = vote.left
    return None if not chosen or says != says or says == 0 else says == chosen


def _others(own: Iterable[Vote]) -> Mapping[int, list[int]]:
    """By question, what others said; ordinary votes of visitors alone."""
    own = list(own)
    found: dict[int, list[int]] = defaultdict(list)
    keys = {vote.question_id for vote in own}
    rows = Vote.objects.answered().filter(question__in=keys, role=Vote.Role.ORDINARY)
    for question, answer in rows.exclude(voter=own[0].voter).values_list("question", "answer"):
        found[question].append(answer or 0)
    return found


def _words(answers: list[int], vote: Vote) -> str:
    if not answers:
        return "You are the first to be asked this."
    same = sum(answer == vote.answer for answer in answers)
    return f"{same} of {formatting.count(len(answers), 'other voter')} said the same."


def _is_right(question: Question, answer: int) -> bool:
    if question.gold == Question.Gold.FIRST:
        return answer == 1
    return answer == (1 if question.gold == Question.Gold.YES else 0)
