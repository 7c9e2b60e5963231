"""Small runs that are really played and scored, for tests of pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from django.core.management import call_command
from django.test import override_settings

from leaderboard import jobs
from leaderboard.models import EditingModel, Run, Suite
from leaderboard.testing import factories

#: Metrics that need no weights and little time.
QUICK = ["psnr", "ssim"]
#: The witness (a program that checks edits) that needs no network.
QUICK_WITNESSES = ["geometry"]
Made = TypeVar("Made")


def play(
    editor: str = "noise",
    suite: Suite | None = None,
    *,
    name: str = "",
    published: bool = True,
    **fields: Any,
) -> Run:
    """Start, play and score a run of a reference editor; the settings name the metrics."""
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


def once(blocker: Any, make: Callable[[], Made]) -> Iterator[Made]:
    """Yield what `make` stores in the database for all tests of a module.

    For a fixture of module scope. Changes that a test makes are rolled back after the test.
    """
    with blocker.unblock(), override_settings(METRICS=QUICK, WITNESSES=QUICK_WITNESSES):
        made = make()
    yield made
    with blocker.unblock():
        call_command("flush", interactive=False, verbosity=0)
