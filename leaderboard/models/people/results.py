"""What came of the votes: written by a worker, read by pages."""

from __future__ import annotations

from django.db import models

from leaderboard.models.runs import Run


class PeopleStanding(models.Model):
    """One run as people see it, beside its standings and never mixed into them.

    `share` is the share of pairs that it wins against the other models of its suite. A human
    half-life of None is beyond the suite's trips where `usable_trips` is there, else unknown;
    `has_interval` tells whether bounds are.
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
    computed_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.run} as people see it"


class PeopleReport(models.Model):
    """How far metrics, witnesses and judges agree with people: one row for the whole site."""

    numbers = models.JSONField(default=dict)
    votes = models.PositiveIntegerField(default=0, help_text="How many were answered by then.")
    pool_stamp = models.CharField(max_length=64, blank=True, help_text="Of what can be asked.")
    computed_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"agreement with people, {self.computed_at:%Y-%m-%d %H:%M}"
