"""A judge's answers in the database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from evaluation.witnesses.judge.answers import InMemory, Kept
from leaderboard.models import JudgeAnswer, Run


class StoredAnswers(InMemory):
    """Those of one run, read once; each new one is written before the next is paid for."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run
        names = ("question", "version", "outcome", "text", "cost", "seconds", "about")
        for key, *values in run.judge_answers.values_list("key", *names):
            self._kept[key] = Kept(*values)

    def keep(self, key: str, kept: Kept) -> None:
        super().keep(key, kept)
        fields: Mapping[str, object] = asdict(kept)
        JudgeAnswer.objects.update_or_create(run=self.run, key=key, defaults=dict(fields))
