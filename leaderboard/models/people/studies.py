"""Closed studies: a list of questions, a link for each rater, so many votes each."""

from __future__ import annotations

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from leaderboard.models.people.questions import Kind, Question


class Study(models.Model):
    """What raters are asked whom somebody has chosen; visitors never meet it."""

    title = models.CharField(max_length=120)
    kind = models.CharField(max_length=8, choices=Kind, default=Kind.PAIR)
    instructions = models.TextField(
        blank=True, max_length=2000, help_text="What raters read before they begin; plain text."
    )
    votes_each = models.PositiveIntegerField(
        default=40,
        validators=[MinValueValidator(1), MaxValueValidator(2000)],
        help_text="How many questions each rater is asked.",
    )
    questions = models.ManyToManyField(Question, related_name="studies", editable=False)
    open = models.BooleanField(default=True, help_text="Closed: links say that it is over.")
    published = models.BooleanField(
        default=False, help_text="Its votes count in the public numbers and are in all exports."
    )
    created_by = models.ForeignKey(
        "auth.User", models.SET_NULL, null=True, editable=False, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-created_at",)
        verbose_name_plural = "studies"

    def __str__(self) -> str:
        return self.title
