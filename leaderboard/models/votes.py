"""Blind votes: questions, anonymous voters, their votes and the results."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Any

from django.db import models
from django.db.models import Exists, F, OuterRef, Q
from django.utils import timezone

from leaderboard.models.chains import Trip
from leaderboard.models.images import MAX_WEB_PIXELS
from leaderboard.models.runs import Run, RunState
from leaderboard.models.suites import Case


class Kind(models.TextChoices):
    """The two kinds of questions."""

    PAIR = "pair", "Which is closer to the original?"
    USABLE = "usable", "Could you still use this image?"


def votable_runs() -> models.QuerySet[Run]:
    """Return runs whose images may be voted on: public, finished, and not published by others."""
    return Run.objects.public().filter(state=RunState.FINISHED, suite__published_elsewhere=False)


def votable_trips() -> models.QuerySet[Trip]:
    """Return trips whose images can be shown: scored, stored, small enough to redraw."""
    pixels = F("restored__width") * F("restored__height")
    return Trip.objects.annotate(pixels=pixels).filter(
        chain__run__in=votable_runs(),
        chain__case__image__stored__isnull=False,
        scored_at__isnull=False,
        restored__isnull=False,
        pixels__lte=MAX_WEB_PIXELS,
    )


class QuestionQuerySet(models.QuerySet["Question"]):
    def votable(self) -> QuestionQuerySet:
        """Return questions about public runs."""
        runs = votable_runs()
        first = Exists(runs.filter(pk=OuterRef("first__chain__run")))
        second = Exists(runs.filter(pk=OuterRef("second__chain__run")))
        return self.filter(first, Q(second=None) | second)

    def open(self) -> QuestionQuerySet:
        """Return questions that visitors may get now."""
        return self.filter(due__isnull=False)


class Question(models.Model):
    """A question for voters. Each vote shows its images in a random order.

    A gold question has a known answer, which tests the voter.
    """

    class Gold(models.TextChoices):
        NONE = "", "No"
        FIRST = "first", "The first is closer"
        YES = "yes", "Usable, by all"
        NO = "no", "Not usable, by all"

    kind = models.CharField(max_length=8, choices=Kind)
    case = models.ForeignKey(Case, models.CASCADE, related_name="questions")
    first = models.ForeignKey(Trip, models.CASCADE, related_name="asked_first")
    second = models.ForeignKey(Trip, models.CASCADE, null=True, related_name="asked_second")
    gold = models.CharField(max_length=8, choices=Gold, blank=True)
    ease = models.FloatField(
        default=0, help_text="How clear the answer is by the headline metric (overall), 0 to 1."
    )
    # The question with the smallest value is the most informative and is asked next; each use
    # raises the value.
    due = models.FloatField(
        null=True, help_text="Position in the queue of questions; empty: not in use now."
    )
    asked = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = QuestionQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=("first", "second"), name="question_pair"),
            models.UniqueConstraint(
                fields=("kind", "first"), condition=Q(second=None), name="question_single"
            ),
        ]
        indexes = [
            models.Index(
                fields=("kind", "gold", "due"), name="question_due", condition=Q(due__isnull=False)
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.pk}"


#: A ticket (a question given to one voter) expires after this time.
TICKET_LIFE = timedelta(hours=2)


def new_ticket() -> str:
    """Return a ticket of 128 random bits, which cannot be guessed."""
    return secrets.token_urlsafe(16)


class Voter(models.Model):
    """An anonymous voter, identified by a signed cookie only."""

    key = models.CharField(max_length=22, unique=True, default=new_ticket, editable=False)
    weight = models.FloatField(default=1, help_text="The weight of this voter's votes.")
    reasons = models.JSONField(default=list, help_text="Reasons for a lower weight.")
    gold = models.PositiveIntegerField(default=0)
    gold_right = models.PositiveIntegerField(default=0)
    repeats = models.PositiveIntegerField(default=0)
    repeats_same = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"voter {self.key[:6]}"


class VoteQuerySet(models.QuerySet["Vote"]):
    def answered(self) -> VoteQuerySet:
        return self.filter(answered_at__isnull=False)

    def open(self) -> VoteQuerySet:
        """Return tickets that can still be answered."""
        return self.filter(answered_at=None, asked_at__gt=timezone.now() - TICKET_LIFE)

    def expired(self) -> VoteQuerySet:
        """Return tickets that expired without an answer and may be deleted."""
        return self.filter(answered_at=None, asked_at__lt=timezone.now() - 2 * TICKET_LIFE)

    def public(self) -> VoteQuerySet:
        """Return answered votes on images that are public now."""
        return self.answered().filter(question__in=Question.objects.votable())

    def about(self, run: Run) -> VoteQuerySet:
        """Return votes on images of this run."""
        first = models.Q(question__first__chain__run=run)
        return self.filter(first | models.Q(question__second__chain__run=run))


class Vote(models.Model):
    """One question for one voter: a ticket that can be answered once.

    `answer`: for a pair, 1 is the first image, -1 the second, 0 "cannot say". For a single image,
    1 is usable and 0 not usable.
    """

    class Role(models.TextChoices):
        ORDINARY = "", "Ordinary"
        GOLD = "gold", "Known answer"
        REPEAT = "repeat", "Own pair again, sides exchanged"

    ticket = models.CharField(max_length=22, unique=True, default=new_ticket, editable=False)
    session = models.CharField(max_length=22, db_index=True, editable=False)
    place = models.PositiveSmallIntegerField()
    question = models.ForeignKey(Question, models.CASCADE, related_name="votes")
    kind = models.CharField(max_length=8, choices=Kind)
    voter = models.ForeignKey(Voter, models.CASCADE, related_name="votes")
    role = models.CharField(max_length=8, choices=Role, blank=True)
    first_left = models.BooleanField(default=True)
    answer = models.SmallIntegerField(null=True)
    seconds = models.FloatField(
        null=True, help_text="Seconds from display to answer, as the page reports them."
    )
    looked: Any = models.JSONField(default=dict, help_text="Zoom, flicker, width of the window.")
    asked_at = models.DateTimeField(default=timezone.now)
    answered_at = models.DateTimeField(null=True, db_index=True)

    objects = VoteQuerySet.as_manager()

    class Meta:
        ordering = ("-pk",)
        indexes = [models.Index(fields=("voter", "question"))]

    def __str__(self) -> str:
        return f"vote {self.pk}"

    @property
    def is_open(self) -> bool:
        return self.answered_at is None and self.asked_at > timezone.now() - TICKET_LIFE

    @property
    def left(self) -> int:
        """For a pair: 1 if the left image was chosen, -1 if the right, 0 if neither."""
        return (self.answer or 0) * (1 if self.first_left else -1)


class PeopleStanding(models.Model):
    """A run's results from people's votes, never mixed into its standings.

    `share` is the share of pairs that the run wins against other models of its suite. A human
    half-life of None is beyond the suite's trips if `usable_trips` is set, else unknown.
    `has_interval` is True if the half-life and the usable trips have bounds.
    """

    run = models.OneToOneField(Run, models.CASCADE, related_name="people")
    share = models.FloatField(null=True)
    share_low = models.FloatField(null=True)
    share_high = models.FloatField(null=True)
    strength = models.FloatField(null=True, help_text="Bradley-Terry, in logits.")
    strength_low = models.FloatField(null=True)
    strength_high = models.FloatField(null=True)
    votes = models.PositiveIntegerField(default=0)
    voters = models.PositiveIntegerField(default=0)
    usable_trips = models.FloatField(null=True)
    usable_trips_low = models.FloatField(null=True)
    usable_trips_high = models.FloatField(null=True)
    half_life = models.FloatField(null=True)
    half_life_low = models.FloatField(null=True)
    half_life_high = models.FloatField(null=True)
    has_interval = models.BooleanField(default=False)
    usable_votes = models.PositiveIntegerField(default=0)
    usable_voters = models.PositiveIntegerField(default=0)
    judge_share = models.FloatField(
        null=True, help_text="Share of pairs in which the run's judge chooses as people do."
    )
    judge_low = models.FloatField(null=True)
    judge_high = models.FloatField(null=True)
    judge_votes = models.PositiveIntegerField(default=0)
    computed_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.run} by people's votes"

    @property
    def supports_judge(self) -> bool:
        """Return True if the run's judge agrees with people more often than chance."""
        return self.judge_low is not None and self.judge_low > 0.5


class PeopleReport(models.Model):
    """Agreement of metrics, automatic checks and judges with people: one row for the site."""

    numbers = models.JSONField(default=dict)
    votes = models.PositiveIntegerField(
        default=0, help_text="Number of answered questions when computed."
    )
    pool_stamp = models.CharField(
        max_length=64, blank=True, help_text="Hash of the runs that questions were chosen from."
    )
    computed_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"agreement with people, {self.computed_at:%Y-%m-%d %H:%M}"
