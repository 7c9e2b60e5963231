"""Count people's votes, and choose the next questions."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from leaderboard.models import Question
from leaderboard.people import counting


class Command(BaseCommand):
    help = "Count all votes again and choose the next questions. Workers do this regularly."

    def handle(self, *args: Any, **options: Any) -> None:
        report = counting.count()
        self.stdout.write(
            f"{report.votes:,} votes counted; {Question.objects.open().count():,} questions to ask."
        )
