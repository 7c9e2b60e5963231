"""Issue an API token from the shell, for sites that do not use the admin."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.core.validators import validate_email

from leaderboard.models import ApiToken


class Command(BaseCommand):
    help = "Issue an API token for submissions. It is printed once and not stored."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("holder", help="The person or organisation that uses the token.")
        parser.add_argument("email", help="The contact e-mail address for the submissions.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            validate_email(options["email"])
        except ValidationError:
            raise CommandError(f"{options['email']} is not an e-mail address") from None
        token, secret = ApiToken.objects.issue(options["holder"][:120], options["email"])
        self.stderr.write(f"A token for {token.holder}; it is not shown again:")
        self.stdout.write(secret)
