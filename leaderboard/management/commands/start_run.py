"""Start runs: one model, or all reference editors, on a suite."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Collection
from decimal import Decimal
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from evaluation.analysis.stopping import MAX_STOP_AFTER
from evaluation.arms import DEFAULT, FLOOR, ArmError
from evaluation.content.suites import find_suite
from evaluation.editors import Editor, EditorError, load_editor
from leaderboard import jobs
from leaderboard.models import EditingModel, Run, Suite
from leaderboard.models.runs import ENDED_STATES, RunState


class Command(BaseCommand):
    help = "Start a run. It is saved at once and played when a worker is free."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("models", nargs="*", metavar="model", help="Slugs of editing models.")
        parser.add_argument(
            "--references",
            action="store_true",
            help="All reference editors of the suite (programs with known behaviour).",
        )
        parser.add_argument(
            "--suite", required=True, help="The suite: smoke, or smoke-v2 for one version."
        )
        parser.add_argument(
            "--budget-calls", type=int, help="Pause the run before it makes more calls than this."
        )
        parser.add_argument(
            "--budget-usd", type=Decimal, help="Pause the run before it spends more than this."
        )
        parser.add_argument(
            "--stop-after",
            type=int,
            choices=range(MAX_STOP_AFTER + 1),
            metavar="K",
            help="Stop chains this many trips after their result is known; 0 plays all trips. "
            "Default: the suite's setting; reference editors play all trips.",
        )
        parser.add_argument(
            "--floor",
            action="store_true",
            help="Only pass images through the model's autoencoder, without edits. Never ranked.",
        )
        parser.add_argument(
            "--missing",
            action="store_true",
            help="Skip models that have a run on the suite, unless it failed or was cancelled.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        suite = _suite(options["suite"])
        arm = FLOOR if options["floor"] else DEFAULT
        try:
            arm.resolved(suite.core.pairs)
        except ArmError as error:
            raise CommandError(str(error)) from error
        chosen = EditingModel.objects.filter(slug__in=options["models"])
        if unknown := set(options["models"]) - set(chosen.values_list("slug", flat=True)):
            raise CommandError(f"No editing model called {', '.join(sorted(unknown))}.")
        if options["references"]:
            references = EditingModel.objects.filter(is_reference=True)
            keys = [model.pk for model in references if model.is_reference_on(suite.slug)]
            chosen |= EditingModel.objects.filter(pk__in=keys)
        elif not options["models"]:
            raise CommandError("Name one or more models, or --references.")
        if options["missing"]:
            failed = set(ENDED_STATES) - {RunState.FINISHED}
            runs = Run.objects.filter(suite=suite, arm_digest=arm.digest).exclude(state__in=failed)
            chosen = chosen.exclude(pk__in=runs.values("editing_model"))
        changes = {pair.change for pair in suite.core.pairs}
        for model in chosen.order_by("pk"):
            unable = arm.unable(_editor(model)) if options["floor"] else []
            if unable and not options["references"]:
                raise CommandError(f"{model} has no floor: {'; '.join(unable)}")
            if unable:
                continue
            # A named model is started anyway, since its run reports missing requirements.
            if options["references"] and (missing := _missing(model, changes)):
                self.stderr.write(f"{model} is not played: {'; '.join(missing)}")
                continue
            try:
                run = jobs.start(
                    model,
                    suite,
                    stop_after=options["stop_after"],
                    budget_calls=options["budget_calls"],
                    budget_usd=options["budget_usd"],
                    arm=arm,
                )
            except jobs.NotAllowed as error:
                raise CommandError(str(error)) from None
            if options["verbosity"]:
                estimate = model.estimate(
                    run.progress.edits_total, run.progress.chains_total, run.stop_after
                )
                self.stdout.write(f"Run {run.pk}: {run}, {estimate}.")


def _editor(model: EditingModel) -> Editor:
    try:
        return load_editor(model.editor, **model.options)
    except (EditorError, TypeError) as error:
        raise CommandError(f"{model} cannot be loaded: {error}") from error


def _missing(model: EditingModel, changes: Collection[str]) -> list[str]:
    """Return what the model's editor lacks on this machine or in the suite."""
    try:
        editor = load_editor(model.editor, **model.options)
    except (EditorError, TypeError):
        return []  # the run reports the error
    if editor.made_for and editor.made_for not in changes:
        return ["the suite has no edits of the kind that the editor makes"]
    return editor.missing()


def _suite(name: str) -> Suite:
    """Return the newest frozen suite of this name, or the version in the name."""
    frozen = list(Suite.objects.startable().defer("definition"))
    suite = find_suite(name, frozen)
    if suite is None:
        slugs = ", ".join(sorted({suite.slug for suite in frozen})) or "none"
        raise CommandError(f"There is no frozen suite {name!r}; choose one of {slugs}.")
    return suite
