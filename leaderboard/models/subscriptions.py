"""Who wants to hear of what, and what is on its way to them."""

from __future__ import annotations

import secrets
from datetime import timedelta

from django.db import models
from django.db.models import Q
from django.urls import reverse
from django.utils import timezone

from leaderboard.encryption import EncryptedTextField
from leaderboard.models.entries import EditingModel, Submission
from leaderboard.models.suites import Suite

#: What nobody confirmed is forgotten after this, and so is what has ended.
KEPT_FOR = timedelta(days=2)


def new_token() -> str:
    return secrets.token_urlsafe(24)


class SubscriptionQuerySet(models.QuerySet["Subscription"]):
    def active(self) -> SubscriptionQuerySet:
        return self.filter(confirmed_at__isnull=False, ended_at__isnull=True)

    def expired(self) -> SubscriptionQuerySet:
        """Never confirmed, or ended, and old enough to be forgotten."""
        before = timezone.now() - KEPT_FOR
        return self.filter(
            Q(confirmed_at__isnull=True, created_at__lt=before) | Q(ended_at__lt=before)
        )


class Subscription(models.Model):
    """Somebody's wish to be told of one model, one suite or one submission.

    A mail address counts once its owner has confirmed it, a webhook once it has answered.
    """

    class Way(models.TextChoices):
        EMAIL = "email", "E-mail"
        WEBHOOK = "webhook", "Webhook"

    token = models.CharField(max_length=43, unique=True, default=new_token, editable=False)
    way = models.CharField(max_length=8, choices=Way)
    address = EncryptedTextField()
    secret = EncryptedTextField(default=new_token, editable=False)
    editing_model = models.ForeignKey(EditingModel, models.CASCADE, null=True, related_name="+")
    suite = models.ForeignKey(Suite, models.CASCADE, null=True, related_name="+")
    submission = models.ForeignKey(Submission, models.CASCADE, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    confirmed_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    objects = SubscriptionQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="subscription_to_one_thing",
                condition=(
                    Q(editing_model__isnull=False, suite__isnull=True, submission__isnull=True)
                    | Q(editing_model__isnull=True, suite__isnull=False, submission__isnull=True)
                    | Q(editing_model__isnull=True, suite__isnull=True, submission__isnull=False)
                ),
            )
        ]

    def __str__(self) -> str:
        return f"{self.get_way_display()} about {self.subject}"

    def get_absolute_url(self) -> str:
        return reverse("subscription", args=[self.token])

    @property
    def subject(self) -> str:
        return str(self.editing_model or self.suite or self.submission)


class Delivery(models.Model):
    """One message to one subscriber; kept until it has arrived or was given up."""

    subscription = models.ForeignKey(Subscription, models.CASCADE, related_name="deliveries")
    key = models.CharField(max_length=60, help_text="What it tells: nobody hears of it twice.")
    title = models.CharField(max_length=300)
    text = models.TextField(blank=True)
    url = models.CharField(max_length=300)
    created_at = models.DateTimeField(auto_now_add=True)
    next_at = models.DateTimeField(default=timezone.now, db_index=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    sent_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=300, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=("subscription", "key"), name="delivery_once")
        ]

    def __str__(self) -> str:
        return f"{self.title} ({self.subscription_id})"
