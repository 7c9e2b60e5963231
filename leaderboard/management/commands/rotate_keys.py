"""Encrypt every stored secret with the newest key of FIELD_KEYS."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from leaderboard.models.encryption import EncryptedTextField, Unreadable, rotate


class Command(BaseCommand):
    help = "Encrypt stored API keys with the first key of FIELD_KEYS; then remove the old keys."

    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        rotated = 0
        for model in apps.get_app_config("leaderboard").get_models():
            for field in model._meta.concrete_fields:
                if isinstance(field, EncryptedTextField):
                    rotated += self._rotate(model, field.name)
        self.stdout.write(f"{rotated} secret(s) are encrypted with the newest key.")

    def _rotate(self, model: Any, name: str) -> int:
        rotated = 0
        # Lock the rows: otherwise a key that a submitter sets meanwhile would be overwritten.
        for row in model._default_manager.select_for_update().only("pk", name).iterator():
            secret = getattr(row, name)
            if not secret:
                continue
            try:
                secret.token = rotate(secret.token)
            except Unreadable as error:
                raise CommandError(f"{model._meta.verbose_name} {row.pk}: {error}") from None
            model._default_manager.filter(pk=row.pk).update(**{name: secret})
            rotated += 1
        return rotated
