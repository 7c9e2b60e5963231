"""Runs that were really played and scored, small enough for tests of the pages."""

from __future__ import annotations

from typing import Any

from evaluation import jobs
from leaderboard.models import EditingModel, Run, Suite
from leaderboard.tests import factories

#: Metrics that need no weights and take no time.
QUICK = ["psnr", "ssim", "worst_window"]


def play(
    editor: str = "noise",
    suite: Suite | None = None,
    *,
    name: str = "",
    published: bool = True,
    **fields: Any,
) -> Run:
    """A run of a reference editor from start to standings; the settings name the metrics."""
    name = name or editor.capitalize()
    slug = fields.pop("slug", editor)
    model = EditingModel.objects.filter(slug=slug).first() or EditingModel.objects.create(
        slug=slug, name=name, editor=editor, **fields
    )
    run = jobs.start(model, suite or factories.tiny_suite())
    Run.objects.filter(pk=run.pk).update(published=published)
    jobs.play(run.pk)
    jobs.score(run.pk)
    run.refresh_from_db()
    return run
