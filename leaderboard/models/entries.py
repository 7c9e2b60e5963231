"""Editing models, the pace of their calls, and submissions of new models."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, validate_slug
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.urls import reverse
from django.utils import timezone
from django.utils.text import slugify
from simple_history.models import HistoricalRecords

from evaluation.audits.plan import audit_count
from evaluation.content import suites as core
from evaluation.estimate import Estimate, estimate
from leaderboard.models.encryption import EncryptedTextField
from leaderboard.models.images import StoredImage
from leaderboard.models.suites import Suite
from leaderboard.text import skeleton


def validate_slugs(value: Any) -> None:
    """Raise ValidationError unless the value is a list of at most 50 slugs."""
    if not isinstance(value, list) or len(value) > 50:
        raise ValidationError('Enter a list of suite slugs, such as ["lite", "standard"].')
    for slug in value:
        validate_slug(slug if isinstance(slug, str) else "")


class EditingModel(models.Model):
    """A model on the board, with its editor and its options."""

    class Access(models.TextChoices):
        API = "api", "API"
        LOCAL = "local", "Local weights"
        ENDPOINT = "endpoint", "Submitted endpoint"
        REFERENCE = "reference", "Reference editor"
        ELSEWHERE = "elsewhere", "Played elsewhere"

    class Status(models.TextChoices):
        PUBLISHED = "published", "Published"
        HIDDEN = "hidden", "Hidden"

    slug = models.SlugField(max_length=80, unique=True)
    name = models.CharField(max_length=120)
    provider = models.CharField(max_length=80, blank=True)
    organisation = models.CharField(max_length=120, blank=True)
    editor = models.CharField(max_length=60, help_text="Name in the registry of editors.")
    options = models.JSONField(default=dict, blank=True)
    api_key = EncryptedTextField(blank=True, default="", editable=False)
    access = models.CharField(max_length=12, choices=Access, default=Access.API)
    open_weights = models.BooleanField(null=True)
    licence = models.CharField(max_length=120, blank=True)
    homepage = models.URLField(max_length=500, blank=True)
    paper_url = models.URLField(max_length=500, blank=True)
    code_url = models.URLField(max_length=500, blank=True)
    price_per_edit = models.DecimalField(
        max_digits=10, decimal_places=5, null=True, blank=True, help_text="USD."
    )
    price_date = models.DateField(null=True, blank=True)
    price_source = models.CharField(max_length=300, blank=True)
    max_in_flight = models.PositiveSmallIntegerField(
        default=4, validators=[MinValueValidator(1), MaxValueValidator(256)]
    )
    calls_per_minute = models.PositiveIntegerField(null=True, blank=True)
    is_reference = models.BooleanField(default=False)
    reference_suites = models.JSONField(
        null=True,
        blank=True,
        validators=[validate_slugs],
        help_text="For a reference editor: the suites on which it is started together with the "
        'other reference editors, such as ["lite", "standard"]. Empty: all suites; []: none '
        "(start it by name).",
    )
    canary = models.BooleanField(
        default=False,
        help_text="Play the small suite every week and report when answers have changed. "
        "Each run costs about as much as its estimate.",
    )
    verified = models.BooleanField(
        default=False, help_text="The model's owner confirmed this entry."
    )
    status = models.CharField(max_length=12, choices=Status, default=Status.PUBLISHED)
    notes = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    history = HistoricalRecords(excluded_fields=["api_key"])

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("model", args=[self.slug])

    def is_reference_on(self, suite: str) -> bool:
        """Return True if this is a reference editor for the suite with this slug."""
        return self.is_reference and (
            self.reference_suites is None or suite in self.reference_suites
        )

    def estimate(self, edits: int, chains: int, stop_after: int = 0) -> Estimate:
        """Estimate a run from the price and speed of this model's edits so far."""
        totals: dict[str, Any] = {"edits": 0}
        if self.pk:
            totals = self.runs.aggregate(
                edits=models.Sum("progress__edits_done"),
                seconds=models.Sum("progress__edit_seconds"),
                usd=models.Sum("progress__spent_usd"),
            )
        played = totals["edits"] or 0
        price = None if self.price_per_edit is None else float(self.price_per_edit)
        if price is None and played and totals["usd"]:
            price = float(totals["usd"] / played)
        return estimate(
            edits,
            price=price,
            seconds_per_edit=totals["seconds"] / played if played and totals["seconds"] else None,
            in_flight=self.max_in_flight,
            calls_per_minute=self.calls_per_minute,
            chains=chains,
            stop_after=stop_after,
        )

    def estimate_on(self, suite: Suite) -> Estimate:
        """Estimate a new run on a stored suite, with its early stopping."""
        _, chains, edits = suite.counts
        return self._estimate_run(edits, chains, suite.audits, suite.stop_after)

    def estimate_run(self, suite: core.Suite) -> Estimate:
        """Estimate a run of all trips on a suite that is not stored."""
        audits = audit_count(suite, settings.AUDITS)
        return self._estimate_run(suite.edits, suite.chains, audits, 0)

    def _estimate_run(self, edits: int, chains: int, audits: int, stop_after: int) -> Estimate:
        """Estimate with audits (extra calls) and early stops, which reference editors lack."""
        if self.is_reference:
            return self.estimate(edits, chains)
        return self.estimate(edits + audits, chains, stop_after)

    @property
    def weights_name(self) -> tuple[str, str]:
        """The maker and the name without host, shared by models with the same weights.

        Names state the host in brackets: "FLUX.2 pro (fal)".
        """
        return self.organisation, self.name.partition(" (")[0]

    @property
    def peers(self) -> list[int]:
        """The primary keys of all models with this model's endpoint; the first owns the `Pace`.

        An endpoint that was submitted twice thus has one pace and one limit of calls in flight.
        """
        if self.editor != "endpoint" or not self.pk:
            return [self.pk]
        rows = EditingModel.objects.filter(editor="endpoint").order_by("pk")
        endpoint = _endpoint_key(self.options)
        same = [
            pk
            for pk, options in rows.values_list("pk", "options")
            if _endpoint_key(options) == endpoint
        ]
        return same if self.pk in same else [self.pk]


def _endpoint_key(options: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return what identifies an endpoint: host, path and model, without the query."""
    url = urlsplit(str(options.get("url", "")))
    host = url.netloc.lower().removesuffix(":443")
    return host, url.path.rstrip("/"), str(options.get("model", ""))


class Pace(models.Model):
    """The pace of calls to one endpoint, shared by all workers."""

    editing_model = models.OneToOneField(EditingModel, models.CASCADE, related_name="pace")
    next_call_at = models.DateTimeField(null=True)
    blocked_until = models.DateTimeField(null=True)
    failures_in_a_row = models.PositiveIntegerField(default=0)
    last_error = models.CharField(max_length=500, blank=True)

    def __str__(self) -> str:
        return f"pace of {self.editing_model}"


def taken_name(name: str) -> str | None:
    """Return an existing model name that looks the same, or None."""
    wanted = skeleton(name)
    names = EditingModel.objects.values_list("name", flat=True)
    return next((other for other in names if skeleton(other) == wanted), None)


def free_slug(name: str) -> str:
    """Return an unused slug for a new model."""
    base = slugify(name)[:70] or "model"
    taken = set(EditingModel.objects.filter(slug__startswith=base).values_list("slug", flat=True))
    slugs = itertools.chain([base], (f"{base}-{number}" for number in itertools.count(2)))
    return next(slug for slug in slugs if slug not in taken)


def new_token() -> str:
    return secrets.token_urlsafe(24)


class SubmissionQuerySet(models.QuerySet["Submission"]):
    def waiting_for_test(self) -> SubmissionQuerySet:
        """Return submissions whose endpoint waits for its test, in the order of testing.

        Endpoints whose test never overran come first.
        """
        free = Q(probe_lease_until=None) | Q(probe_lease_until__lt=Now())
        rows = self.filter(free, state=Submission.State.PROBING)
        return rows.order_by("probe_overruns", "updated_at", "pk")

    def long_tests(self) -> SubmissionQuerySet:
        """Return submissions under test whose earlier test overran."""
        running = self.filter(state=Submission.State.PROBING, probe_lease_until__gte=Now())
        return running.filter(probe_overruns__gt=0)


class Submission(models.Model):
    """A model endpoint that is submitted for evaluation."""

    class State(models.TextChoices):
        PROBING = "probing", "Testing the endpoint"
        PROBE_FAILED = "probe_failed", "The test failed"
        REVIEW = "review", "Waiting for review"
        ASKED = "asked", "We have a question"
        APPROVED = "approved", "Approved"
        REJECTED = "rejected", "Rejected"
        WITHDRAWN = "withdrawn", "Withdrawn"

    token = models.CharField(max_length=43, unique=True, default=new_token, editable=False)
    idempotency_key = models.CharField(max_length=64, unique=True, null=True, editable=False)
    state = models.CharField(max_length=16, choices=State, default=State.PROBING, db_index=True)
    name = models.CharField("model name", max_length=80)
    organisation = models.CharField(max_length=120, blank=True)
    email = models.EmailField("contact e-mail")
    paper_url = models.URLField("paper", max_length=500, blank=True)
    code_url = models.URLField("code", max_length=500, blank=True)
    open_weights = models.BooleanField(default=False)
    licence = models.CharField(max_length=120, blank=True)
    endpoint_url = models.CharField(max_length=2000)
    contract = models.CharField(max_length=40)
    model_id = models.CharField("model id", max_length=200, blank=True)
    api_key = EncryptedTextField(blank=True, default="", editable=False)
    options = models.JSONField(default=dict, blank=True)
    price_per_edit = models.DecimalField(max_digits=10, decimal_places=5, null=True, blank=True)
    max_in_flight = models.PositiveSmallIntegerField(
        default=4, validators=[MinValueValidator(1), MaxValueValidator(64)]
    )
    suite = models.ForeignKey(Suite, models.PROTECT, related_name="submissions")
    probe = models.JSONField(default=dict, blank=True, editable=False)
    probed_at = models.DateTimeField(null=True, editable=False)
    # Counted when a test begins: a test that kills its process could not be counted later.
    probe_attempts = models.PositiveSmallIntegerField(default=0, editable=False)
    probe_lease_until = models.DateTimeField(null=True, editable=False)
    # Number of tests that timed out or made way for others. Each makes the next test shorter
    # and lets more submissions go first.
    probe_overruns = models.PositiveSmallIntegerField(default=0, editable=False)
    # The images of the test: the source, and the answers to both edits.
    probe_sent = models.ForeignKey(
        StoredImage, models.PROTECT, null=True, editable=False, related_name="+"
    )
    probe_edited = models.ForeignKey(
        StoredImage, models.PROTECT, null=True, editable=False, related_name="+"
    )
    probe_restored = models.ForeignKey(
        StoredImage, models.PROTECT, null=True, editable=False, related_name="+"
    )
    # The token of a link that shows the result before it is public, and allows nothing else.
    embargo_token = models.CharField(max_length=43, unique=True, null=True, editable=False)
    editing_model = models.OneToOneField(
        EditingModel, models.SET_NULL, null=True, blank=True, related_name="submission"
    )
    message = models.TextField(blank=True, help_text="Question or reason, shown to the submitter.")
    reply = models.TextField(blank=True, help_text="The submitter's answer.")
    remote_address = models.GenericIPAddressField(null=True, editable=False)
    api_token = models.ForeignKey(
        "leaderboard.ApiToken",
        models.SET_NULL,
        null=True,
        editable=False,
        related_name="submissions",
    )
    reviewed_by = models.ForeignKey(
        "auth.User", models.SET_NULL, null=True, editable=False, related_name="+"
    )
    reviewed_at = models.DateTimeField(null=True, editable=False)
    # The state in the last mail: a repeated test with the same result sends no mail.
    notified_state = models.CharField(max_length=16, choices=State, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = SubmissionQuerySet.as_manager()
    history = HistoricalRecords(
        excluded_fields=[
            *("api_key", "notified_state", "probe_attempts", "probe_lease_until"),
            "probe_overruns",
            *("probe_sent", "probe_edited", "probe_restored", "embargo_token"),
        ]
    )

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("submission", args=[self.token])

    @property
    def probe_images(self) -> list[tuple[str, StoredImage]]:
        """The images of the test so far, each with its caption."""
        captions = {
            "Image we sent": self.probe_sent,
            "After the edit": self.probe_edited,
            "After the inverse edit": self.probe_restored,
        }
        return [(caption, image) for caption, image in captions.items() if image]

    def move(self, to: str, *, seen: datetime | None = None, **fields: Any) -> bool:
        """Move this submission to a state if its stored state allows it.

        `seen`: move only if `updated_at` still has this value.
        """
        allowed_from = [state for state, allowed in SUBMISSION_MOVES.items() if to in allowed]
        rows = Submission.objects.filter(pk=self.pk, state__in=allowed_from)
        if seen:
            rows = rows.filter(updated_at=seen)
        moved = rows.update(state=to, updated_at=timezone.now(), **fields)
        self.refresh_from_db()
        return bool(moved)


_State = Submission.State
#: The allowed moves of a submission. Rejected and withdrawn are final.
SUBMISSION_MOVES: dict[str, frozenset[str]] = {
    _State.PROBING: frozenset({_State.PROBE_FAILED, _State.REVIEW, _State.WITHDRAWN}),
    _State.PROBE_FAILED: frozenset({_State.PROBING, _State.REJECTED, _State.WITHDRAWN}),
    _State.REVIEW: frozenset(
        {_State.PROBING, _State.ASKED, _State.APPROVED, _State.REJECTED, _State.WITHDRAWN}
    ),
    _State.ASKED: frozenset(
        {_State.PROBING, _State.REVIEW, _State.APPROVED, _State.REJECTED, _State.WITHDRAWN}
    ),
    _State.APPROVED: frozenset({_State.WITHDRAWN}),
    _State.REJECTED: frozenset(),
    _State.WITHDRAWN: frozenset(),
}


class SecurityEvent(models.Model):
    """A forbidden action that a submitted endpoint attempted."""

    kind = models.CharField(max_length=60)
    detail = models.CharField(max_length=500)
    submission = models.ForeignKey(Submission, models.SET_NULL, null=True, related_name="events")
    editing_model = models.ForeignKey(
        EditingModel, models.SET_NULL, null=True, related_name="events"
    )
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"

    @classmethod
    def record(cls, kind: str, detail: str, **about: Any) -> SecurityEvent:
        return cls.objects.create(kind=kind[:60], detail=detail[:500], **about)
