"""Uploads of visitors: chains stored for a day, and whole runs played elsewhere."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.urls import reverse
from django.utils import timezone

from leaderboard.models.entries import EditingModel, new_token
from leaderboard.models.images import StoredImage
from leaderboard.models.runs import Run, after

#: Uploaded chains are deleted after this time.
KEPT_FOR = timedelta(days=1)
#: The maximum size of an uploaded image. It is small, because uploads are anonymous and scoring
#: an image of this size takes 0.95 GB.
MAX_IMAGE_PIXELS = 1_600_000


class UploadedChainQuerySet(models.QuerySet["UploadedChain"]):
    def unexpired(self) -> UploadedChainQuerySet:
        return self.filter(created_at__gt=timezone.now() - KEPT_FOR)

    def expired(self) -> UploadedChainQuerySet:
        return self.exclude(pk__in=self.unexpired())


class UploadedChain(models.Model):
    """A source and its restored images, scored on request."""

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


class UploadedImage(models.Model):
    """One image of an uploaded chain: the source (number 0), edited or restored."""

    chain = models.ForeignKey(UploadedChain, models.CASCADE, related_name="images")
    stored = models.ForeignKey(StoredImage, models.PROTECT, related_name="uploads")
    number = models.PositiveSmallIntegerField()
    forward = models.BooleanField(default=False)

    class Meta:
        ordering = ("number", "-forward")
        constraints = [
            models.UniqueConstraint(fields=("chain", "number", "forward"), name="uploaded_image")
        ]

    def __str__(self) -> str:
        return f"{'Y' if self.forward else 'X'}{self.number}"


#: A worker's lease (its claim to check a contributed run) lapses after this time unless renewed.
CHECK_LEASE_SECONDS = 600.0
#: Refused and withdrawn runs are deleted after this time.
SHOWN_FOR = timedelta(days=30)


class ContributedRunQuerySet(models.QuerySet["ContributedRun"]):
    def waiting(self) -> ContributedRunQuerySet:
        """Return runs whose bundle waits for its check or is being checked."""
        return self.filter(state__in=(ContributedRun.State.WAITING, ContributedRun.State.CHECKING))

    def unattended(self) -> ContributedRunQuerySet:
        """Return waiting runs without a worker."""
        return self.waiting().filter(Q(lease_until=None) | Q(lease_until__lt=Now()))

    def expired(self) -> ContributedRunQuerySet:
        ended = (ContributedRun.State.REFUSED, ContributedRun.State.WITHDRAWN)
        return self.filter(state__in=ended, ended_at__lt=timezone.now() - SHOWN_FOR)


class ContributedRun(models.Model):
    """The bundle of a run played elsewhere; a worker checks it before it is shown."""

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting for a worker"
        CHECKING = "checking", "Being recomputed"
        SHOWN = "shown", "On the site"
        REFUSED = "refused", "Refused"
        WITHDRAWN = "withdrawn", "Withdrawn"

    token = models.CharField(max_length=43, unique=True, default=new_token, editable=False)
    state = models.CharField(max_length=10, choices=State, default=State.WAITING, db_index=True)
    name = models.CharField("model name", max_length=80)
    contributed_by = models.CharField("contributed by", max_length=120, help_text="Public.")
    email = models.EmailField("contact e-mail", blank=True, help_text="Never shown.")
    paper_url = models.URLField("paper", max_length=500, blank=True)
    code_url = models.URLField("code", max_length=500, blank=True)
    bytes = models.PositiveBigIntegerField(default=0)
    steps_done = models.PositiveIntegerField(default=0)
    steps_total = models.PositiveIntegerField(default=0)
    error = models.TextField(blank=True, help_text="Reasons for a refusal, one per line.")
    attempts = models.PositiveSmallIntegerField(default=0)
    finished: Any = models.JSONField(default=list, help_text="Chains checked so far.")
    checks: Any = models.JSONField(
        default=dict, help_text="Number of checks of these chains, by verdict."
    )
    lease_until = models.DateTimeField(null=True)
    remote_address = models.GenericIPAddressField(null=True)
    # Set if the same person contributed an earlier run of this model.
    editing_model = models.ForeignKey(
        EditingModel, models.SET_NULL, null=True, related_name="contributed_runs"
    )
    run = models.OneToOneField(Run, models.SET_NULL, null=True, related_name="contribution")
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    ended_at = models.DateTimeField(null=True)

    objects = ContributedRunQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("contributed_run", args=[self.token])

    @property
    def file_name(self) -> str:
        """The bundle's name in storage, where it stays until it is checked."""
        return f"contributed/{self.token}.zip"

    def claim(self) -> bool:
        """Claim the check for this worker and count the attempt; return True on success."""
        rows = ContributedRun.objects.unattended().filter(pk=self.pk)
        claimed = rows.update(
            state=self.State.CHECKING,
            attempts=F("attempts") + 1,
            lease_until=after(CHECK_LEASE_SECONDS),
            steps_done=0,
        )
        self.refresh_from_db()
        return bool(claimed)

    def save_progress(self, done: int, total: int) -> bool:
        """Save the progress of the check; return False if the run was withdrawn meanwhile."""
        rows = ContributedRun.objects.filter(pk=self.pk, state=self.State.CHECKING)
        return bool(
            rows.update(steps_done=done, steps_total=total, lease_until=after(CHECK_LEASE_SECONDS))
        )

    def put_back(self) -> None:
        """Release the check, which continues later with the remaining chains."""
        rows = ContributedRun.objects.filter(pk=self.pk, state=self.State.CHECKING)
        rows.update(
            state=self.State.WAITING,
            finished=self.finished,
            checks=self.checks,
            lease_until=None,
            attempts=F("attempts") - 1,  # this attempt did not fail
        )

    def end(self, state: str, **fields: Any) -> bool:
        """End the check with this state; return False if the run was withdrawn meanwhile."""
        rows = ContributedRun.objects.filter(pk=self.pk, state=self.State.CHECKING)
        return bool(rows.update(state=state, lease_until=None, ended_at=Now(), **fields))
