"""Access: API tokens, daily quotas, and the images a visitor may see."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import timedelta
from hashlib import sha256
from typing import Any

from django.db import models, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone
from django.utils.crypto import salted_hmac

from leaderboard.models.chains import Audit, Trip, TripStep
from leaderboard.models.images import StoredImage
from leaderboard.models.runs import Run, RunState
from leaderboard.models.suites import Curation, SourceImage, SuiteImage
from leaderboard.models.uploads import UploadedChain, UploadedImage

#: Prefix by which a leaked token can be recognised.
PREFIX = "cbt_"
#: Number of leading characters shown, to distinguish the tokens of one holder.
SHOWN = len(PREFIX) + 4
#: `last_used_at` is written at most this often, so that not every request writes the row.
LAST_USED_INTERVAL = timedelta(minutes=1)


def digest(secret: str) -> str:
    """Return the hash to store; a token of 256 random bits needs no salt."""
    return sha256(secret.encode()).hexdigest()


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def valid(self) -> ApiTokenQuerySet:
        unexpired = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
        return self.filter(unexpired, revoked_at=None)

    def issue(self, holder: str, email: str, **fields: object) -> tuple[ApiToken, str]:
        """Create a token; return it and its secret, which cannot be read again."""
        token = ApiToken(holder=holder, email=email, **fields)
        secret = token.draw()
        token.save()
        return token, secret

    def with_secret(self, secret: str) -> ApiToken | None:
        """Return the valid token with this secret, and store the time of its use."""
        token = self.valid().filter(digest=digest(secret)).first()
        if token:
            now = timezone.now()
            if not token.last_used_at or now - token.last_used_at > LAST_USED_INTERVAL:
                self.filter(pk=token.pk).update(last_used_at=now)
        return token


class ApiToken(models.Model):
    """A token by which a person or an organisation submits models over the API."""

    holder = models.CharField(
        max_length=120, help_text="The person or organisation that uses the token."
    )
    email = models.EmailField("contact e-mail")
    digest = models.CharField(max_length=64, unique=True, editable=False)
    start = models.CharField("starts with", max_length=SHOWN, editable=False)
    issued_by = models.ForeignKey(
        "auth.User", models.SET_NULL, null=True, editable=False, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True, help_text="Empty: never expires.")
    revoked_at = models.DateTimeField(null=True, editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False)

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        verbose_name = "API token"
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"{self.holder} ({self.start}…)"

    def draw(self) -> str:
        """Give this token a new secret and return it; only its digest is stored."""
        secret = PREFIX + secrets.token_urlsafe(32)
        self.digest, self.start = digest(secret), secret[:SHOWN]
        return secret

    def scoped_key(self, key: str) -> str:
        """Return a hash of an idempotency key, different for each token."""
        return sha256(f"{self.digest}:{key}".encode()).hexdigest()


PERIOD = timedelta(days=1)


class UseQuerySet(models.QuerySet["Use"]):
    def expired(self) -> UseQuerySet:
        return self.filter(since__lt=timezone.now() - PERIOD)

    def take(self, kind: str, subjects: Mapping[str, str], limit: int) -> str | None:
        """Count one use by each subject if all are below the limit, and return None.

        Otherwise count nothing and return the name of a subject at its limit. A subject is what
        a quota is for, such as an address; `subjects` maps its name in messages to its value.
        """
        with transaction.atomic():
            rows = []
            # Sorted, so that two requests that share subjects do not deadlock.
            for name, value in sorted(subjects.items(), key=lambda item: _subject_hash(item[1])):
                row = self.locked(kind, _subject_hash(value))
                if row.since < timezone.now() - PERIOD:
                    row.since, row.count = timezone.now(), 0
                if row.count >= limit:
                    return name
                rows.append(row)
            for row in rows:
                row.count += 1
                row.save(update_fields=["since", "count"])
        return None

    def give_back(self, kind: str, subjects: Mapping[str, str]) -> None:
        """Subtract one use by each subject."""
        used = self.filter(
            kind=kind, subject__in=map(_subject_hash, subjects.values()), count__gt=0
        )
        used.update(count=F("count") - 1)

    def locked(self, kind: str, subject: str) -> Use:
        """Return this row, locked until the transaction ends."""
        Use.objects.bulk_create([Use(kind=kind, subject=subject)], ignore_conflicts=True)
        return self.select_for_update().get(kind=kind, subject=subject)


class Use(models.Model):
    """A quota counter: the uses of one kind by one subject since a time."""

    kind = models.CharField(max_length=32)
    subject = models.CharField(max_length=64, help_text="A keyed hash; it names no person.")
    since = models.DateTimeField(default=timezone.now, db_index=True)
    count = models.PositiveIntegerField(default=0)

    objects = UseQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=("kind", "subject"), name="use_subject")]

    def __str__(self) -> str:
        return f"{self.kind}: {self.count} since {self.since:%H:%M}"


def _subject_hash(value: str) -> str:
    return salted_hmac("leaderboard.quotas", value.casefold(), algorithm="sha256").hexdigest()


def visible_images(user: Any) -> QuerySet[StoredImage]:
    """Return the images that this visitor may see.

    These are images of suites, of runs visible to the visitor, and of chains uploaded in the last
    day. An uploaded chain stays private nonetheless: an image's address contains its hash, which
    only the chain's own page shows. Checking one image takes a few index lookups.
    """
    if user.is_staff:
        return StoredImage.objects.all()
    this = OuterRef("pk")
    runs = Run.objects.visible_to(user)
    trips = Trip.objects.filter(chain__run__in=runs)
    # Audits (extra calls that test for cheating) are secret until the run has finished.
    audits = Audit.objects.filter(chain__run__in=runs.filter(state=RunState.FINISHED))
    return StoredImage.objects.filter(
        Q(Exists(SuiteImage.objects.filter(stored=this, suite__sealed=False)))
        | Q(Exists(SourceImage.objects.filter(stored=this).exclude(status=Curation.DRAFT)))
        | Q(Exists(trips.filter(edited=this)))
        | Q(Exists(trips.filter(restored=this)))
        | Q(Exists(TripStep.objects.filter(chain__run__in=runs, image=this)))
        | Q(Exists(audits.filter(sent=this)))
        | Q(Exists(audits.filter(answer=this)))
        | Q(
            Exists(
                UploadedImage.objects.filter(
                    stored=this, chain__in=UploadedChain.objects.unexpired()
                )
            )
        )
    )
