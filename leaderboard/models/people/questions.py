"""What people can be asked: two returns of one case, or one of them."""

from __future__ import annotations

from django.db import models
from django.db.models import Exists, F, OuterRef, Q

from leaderboard.models.chains import Trip
from leaderboard.models.pictures import MAX_WEB_PIXELS
from leaderboard.models.runs import Run, RunState
from leaderboard.models.suites import Case


class Kind(models.TextChoices):
    """How people are asked."""

    PAIR = "pair", "Which is closer to the original?"
    USABLE = "usable", "Could you still use this picture?"


def votable_runs() -> models.QuerySet[Run]:
    """Runs whose returns anybody may be shown: public, finished, never of a sealed suite."""
    return Run.objects.public().filter(state=RunState.FINISHED, suite__published_elsewhere=False)


def votable_trips() -> models.QuerySet[Trip]:
    """Returns that can be shown: scored, kept, and small enough for a web process to redraw."""
    sides = F("restored__width") * F("restored__height")
    return Trip.objects.annotate(pixels=sides).filter(
        chain__run__in=votable_runs(),
        chain__case__picture__stored__isnull=False,
        scored_at__isnull=False,
        restored__isnull=False,
        pixels__lte=MAX_WEB_PIXELS,
    )


class QuestionQuerySet(models.QuerySet["Question"]):
    def votable(self) -> QuestionQuerySet:
        """Questions about what is public now."""
        runs = votable_runs()
        first = Exists(runs.filter(pk=OuterRef("first__chain__run")))
        second = Exists(runs.filter(pk=OuterRef("second__chain__run")))
        return self.filter(first, Q(second=None) | second)

    def open(self) -> QuestionQuerySet:
        """Questions that visitors are asked now."""
        return self.filter(due__isnull=False)


class Question(models.Model):
    """One thing to ask. Which side a return stands on is the vote's, drawn by lot each time."""

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
        default=0, help_text="How far the two lie apart by the headline, 0 to 1."
    )
    # Smallest first: the most informative, and each time it is asked it moves back.
    due = models.FloatField(null=True, help_text="Its turn; empty: not asked of visitors now.")
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
