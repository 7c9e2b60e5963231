"""The board's past: where each model stood from when on."""

from __future__ import annotations

from django.db import models

from leaderboard.models.runs import Run


class BoardRecordQuerySet(models.QuerySet["BoardRecord"]):
    def public(self) -> BoardRecordQuerySet:
        """Records of runs that anybody may look at now."""
        return self.filter(run__in=Run.objects.public())


class BoardRecord(models.Model):
    """Where a run stood by the headline from `at` on; one is added whenever that changes.

    Kept for ever and never changed, so that the board of any day can be shown again.
    """

    class Kind(models.TextChoices):
        ADDED = "added", "New on the board"
        AGAIN = "again", "Played again"
        MOVED = "moved", "Another rank"
        NUMBERS = "numbers", "Other numbers"
        LEFT = "left", "No longer on the board"

    run = models.ForeignKey(Run, models.CASCADE, related_name="records")
    at = models.DateTimeField(db_index=True)
    kind = models.CharField(max_length=8, choices=Kind)
    rank = models.PositiveSmallIntegerField(null=True, help_text="None: listed, not ranked.")
    rank_before = models.PositiveSmallIntegerField(null=True)
    half_life = models.FloatField(null=True, help_text="None: longer than the suite's trips.")
    usable_trips = models.FloatField()

    objects = BoardRecordQuerySet.as_manager()

    class Meta:
        ordering = ("-at", "-pk")

    def __str__(self) -> str:
        return f"{self.run}: {self.get_kind_display().lower()}, {self.at:%Y-%m-%d}"
