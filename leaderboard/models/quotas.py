"""What somebody may do so often a day: counted in the database, for all processes together.

Nothing that is done later gives a use back: not to withdraw, not to delete.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from django.db import models, transaction
from django.utils import timezone
from django.utils.crypto import salted_hmac

PERIOD = timedelta(days=1)


class UseQuerySet(models.QuerySet["Use"]):
    def expired(self) -> UseQuerySet:
        return self.filter(since__lt=timezone.now() - PERIOD)

    def take(self, kind: str, subjects: Mapping[str, str], limit: int) -> str | None:
        """Count one use by each of the subjects, where all have room left.

        Else the name of the one that has none, and nothing is counted. `subjects` are values
        by what people call them.
        """
        with transaction.atomic():
            rows = []
            # In one order, so that two who share some of them do not wait for each other.
            for name, value in sorted(subjects.items(), key=lambda item: _hidden(item[1])):
                row = self._locked(kind, _hidden(value))
                if row.since < timezone.now() - PERIOD:
                    row.since, row.count = timezone.now(), 0
                if row.count >= limit:
                    return name
                rows.append(row)
            for row in rows:
                row.count += 1
                row.save(update_fields=["since", "count"])
        return None

    def _locked(self, kind: str, subject: str) -> Use:
        Use.objects.bulk_create([Use(kind=kind, subject=subject)], ignore_conflicts=True)
        return self.select_for_update().get(kind=kind, subject=subject)


class Use(models.Model):
    """How often one subject did one kind of thing since then."""

    kind = models.CharField(max_length=32)
    subject = models.CharField(max_length=64, help_text="A keyed hash: nobody is named here.")
    since = models.DateTimeField(default=timezone.now, db_index=True)
    count = models.PositiveIntegerField(default=0)

    objects = UseQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=("kind", "subject"), name="use_subject")]

    def __str__(self) -> str:
        return f"{self.kind}: {self.count} since {self.since:%H:%M}"


def _hidden(value: str) -> str:
    return salted_hmac("leaderboard.quotas", value.casefold(), algorithm="sha256").hexdigest()
