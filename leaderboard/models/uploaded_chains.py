"""Chains that visitors bring themselves, kept for a day."""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.urls import reverse
from django.utils import timezone

from leaderboard.models.entries import new_token
from leaderboard.models.pictures import StoredImage

KEPT = timedelta(days=1)
#: Small: whoever brings it need not have a key, an account or anything to lose, and to score
#: one of this size takes a worker 0.95 GB.
MAX_PICTURE_PIXELS = 1_600_000


class UploadedChainQuerySet(models.QuerySet["UploadedChain"]):
    def kept(self) -> UploadedChainQuerySet:
        return self.filter(created_at__gt=timezone.now() - KEPT)

    def expired(self) -> UploadedChainQuerySet:
        return self.exclude(pk__in=self.kept())


class UploadedChain(models.Model):
    """A source and its returns, scored on request."""

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting for a worker"
        SCORED = "scored", "Scored"
        FAILED = "failed", "Could not be scored"

    token = models.CharField(max_length=43, unique=True, default=new_token, editable=False)
    state = models.CharField(max_length=8, choices=State, default=State.WAITING)
    name = models.CharField(max_length=80, blank=True)
    error = models.CharField(max_length=500, blank=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    results = models.JSONField(default=dict)
    remote_address = models.GenericIPAddressField(null=True)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    objects = UploadedChainQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name or f"chain {self.pk}"

    def get_absolute_url(self) -> str:
        return reverse("uploaded_chain", args=[self.token])


class UploadedPicture(models.Model):
    """One picture of such a chain: the source (number 0), an edit or a return."""

    chain = models.ForeignKey(UploadedChain, models.CASCADE, related_name="pictures")
    stored = models.ForeignKey(StoredImage, models.PROTECT, related_name="uploads")
    number = models.PositiveSmallIntegerField()
    forward = models.BooleanField(default=False)

    class Meta:
        ordering = ("number", "-forward")
        constraints = [
            models.UniqueConstraint(fields=("chain", "number", "forward"), name="uploaded_picture")
        ]

    def __str__(self) -> str:
        return f"{'Y' if self.forward else 'X'}{self.number}"
