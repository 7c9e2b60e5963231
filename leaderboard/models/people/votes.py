"""Voters without a name, and what each was asked and said."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Any

from django.db import models
from django.utils import timezone

from leaderboard.models.people.questions import Kind, Question
from leaderboard.models.runs import Run

#: A question that was not answered for so long is never answered.
TICKET_LIFE = timedelta(hours=2)


def new_ticket() -> str:
    """128 random bits: nobody guesses one."""
    return secrets.token_urlsafe(16)


class Voter(models.Model):
    """Somebody with our signed cookie. No name, no address."""

    key = models.CharField(max_length=22, unique=True, default=new_ticket, editable=False)
    weight = models.FloatField(default=1, help_text="How far the votes count, by the stated rule.")
    reasons = models.JSONField(default=list, help_text="What took the weight down.")
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
        """Tickets that can still be answered."""
        return self.filter(answered_at=None, asked_at__gt=timezone.now() - TICKET_LIFE)

    def expired(self) -> VoteQuerySet:
        """Questions that nobody answered: no votes, so they may go."""
        return self.filter(answered_at=None, asked_at__lt=timezone.now() - 2 * TICKET_LIFE)

    def public(self) -> VoteQuerySet:
        """Answered votes on returns that anybody may look at now."""
        return self.answered().filter(question__in=Question.objects.votable())

    def about(self, run: Run) -> VoteQuerySet:
        first = models.Q(question__first__chain__run=run)
        return self.filter(first | models.Q(question__second__chain__run=run))


class Vote(models.Model):
    """One question put to one voter: a ticket until it is answered, once.

    `answer`: of a pair 1 for the first, -1 for the second, 0 for "cannot say"; of a single
    return 1 for usable and 0 for not.
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
    seconds = models.FloatField(null=True, help_text="From shown to answered, as the page says.")
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
        """Of a pair: 1 where the left one was chosen, -1 for the right one, 0 for neither."""
        return (self.answer or 0) * (1 if self.first_left else -1)
