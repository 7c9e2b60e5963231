"""Audits: extra backward calls on answers that were touched on the way (method §9)."""

from __future__ import annotations

from typing import Any

from django.db import models

from evaluation.audits.plan import Audit as PlannedAudit
from leaderboard.models.chains import Chain
from leaderboard.models.pictures import StoredImage


class Audit(models.Model):
    """One audit of a run: planned when it starts, called while its chain is played."""

    class Kind(models.TextChoices):
        MARK = "mark", "Mark"
        FRAGILITY = "fragility", "Fragility"

    class Outcome(models.TextChoices):
        PLANNED = "", "Planned"
        ANSWERED = "answered", "Answered"
        REFUSED = "refused", "Refused"
        FAILED = "failed", "No usable answer"

    chain = models.ForeignKey(Chain, models.CASCADE, related_name="audits")
    number = models.PositiveSmallIntegerField(help_text="The trip whose forward answer is touched.")
    kind = models.CharField(max_length=10, choices=Kind)
    outcome = models.CharField(max_length=10, choices=Outcome, blank=True)
    words = models.CharField(max_length=200, blank=True, help_text="What was done to the picture.")
    sent = models.ForeignKey(StoredImage, models.PROTECT, null=True, related_name="+")
    answer = models.ForeignKey(StoredImage, models.PROTECT, null=True, related_name="+")
    seed = models.PositiveIntegerField(null=True)
    seconds = models.FloatField(null=True)
    finding = models.JSONField(default=dict, help_text="What came back of the mark; what was lost.")

    class Meta:
        ordering = ("chain__case__position", "number")
        constraints = [models.UniqueConstraint(fields=("chain", "number"), name="audit_number")]

    def __str__(self) -> str:
        return f"{self.kind} audit of trip {self.number} of {self.chain_id}"

    @property
    def planned(self) -> PlannedAudit:
        """The audit as the core knows it; needs the chain's case."""
        kind: Any = self.kind
        return PlannedAudit(self.chain.case.slug, self.chain.repeat, self.number, kind)
