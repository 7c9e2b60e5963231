"""Who may submit by machine: API tokens, of which only a digest is kept."""

from __future__ import annotations

import secrets
from datetime import timedelta
from hashlib import sha256

from django.db import models
from django.db.models import Q
from django.utils import timezone

#: Says what a string is when it turns up where it should not be.
PREFIX = "cbt_"
#: Of the token itself, as much as tells two of a holder apart.
SHOWN = len(PREFIX) + 4
#: How exactly "last used" is known; a row is not written for every request.
USED_WITHIN = timedelta(minutes=1)


def digest(secret: str) -> str:
    """What is stored of a token. It is 256 random bits, so a plain hash cannot be turned back."""
    return sha256(secret.encode()).hexdigest()


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def valid(self) -> ApiTokenQuerySet:
        endless = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
        return self.filter(endless, revoked_at=None)

    def issue(self, holder: str, email: str, **fields: object) -> tuple[ApiToken, str]:
        """A new token and its secret, which nobody can read again."""
        token = ApiToken(holder=holder, email=email, **fields)
        secret = token.draw()
        token.save()
        return token, secret

    def holding(self, secret: str) -> ApiToken | None:
        """The valid token with this secret; its use is noted."""
        found = self.valid().filter(digest=digest(secret)).first()
        if found:
            now = timezone.now()
            if not found.last_used_at or now - found.last_used_at > USED_WITHIN:
                self.filter(pk=found.pk).update(last_used_at=now)
        return found


class ApiToken(models.Model):
    """The right of a person or an organisation to submit models by machine."""

    holder = models.CharField(max_length=120, help_text="The person or organisation it is for.")
    email = models.EmailField("contact e-mail")
    digest = models.CharField(max_length=64, unique=True, editable=False)
    start = models.CharField("starts with", max_length=SHOWN, editable=False)
    issued_by = models.ForeignKey(
        "auth.User", models.SET_NULL, null=True, editable=False, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True, help_text="Empty: does not expire.")
    revoked_at = models.DateTimeField(null=True, editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False)

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        verbose_name = "API token"
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"{self.holder} ({self.start}…)"

    def draw(self) -> str:
        """Give this row a new secret and return it; only its digest stays."""
        secret = PREFIX + secrets.token_urlsafe(32)
        self.digest, self.start = digest(secret), secret[:SHOWN]
        return secret

    def own_key(self, key: str) -> str:
        """An idempotency key that no other sender can meet, however it was chosen."""
        return sha256(f"{self.digest}:{key}".encode()).hexdigest()
