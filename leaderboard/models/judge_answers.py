"""What a judge answered: every word of it, and what it cost."""

from __future__ import annotations

from django.db import models

from leaderboard.models.runs import Run


class JudgeAnswer(models.Model):
    """One answer, by the hash of all that it depends on: who was asked what, of which pictures."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="judge_answers")
    key = models.CharField(max_length=64)
    question = models.CharField(max_length=20)
    version = models.CharField(
        max_length=200, help_text="The model, and the hash of the questions."
    )
    outcome = models.CharField(max_length=12, help_text="answered, refused or unreadable.")
    text = models.TextField(blank=True)
    cost = models.FloatField(null=True)
    seconds = models.FloatField(default=0)
    about = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("pk",)
        constraints = [models.UniqueConstraint(fields=("run", "key"), name="judge_answer_once")]

    def __str__(self) -> str:
        return f"{self.question}, {self.about}: {self.outcome}"
