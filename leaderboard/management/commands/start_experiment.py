"""Start an experiment that is defined in a file or stored on this site."""

from __future__ import annotations

from argparse import ArgumentParser
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from evaluation.errors import UserFacingError
from evaluation.experiment_file import ExperimentFile
from leaderboard.experiments import plan as experiments
from leaderboard.models import Experiment


class Command(BaseCommand):
    help = "Start an experiment's runs. They are saved at once and played when a worker is free."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "experiment", help="A YAML file, or the slug of an experiment on this site."
        )
        parser.add_argument("--estimate", action="store_true", help="Only print the estimate.")
        parser.add_argument("--publish", action="store_true", help="Publish the experiment.")
        parser.add_argument(
            "--budget-usd", type=Decimal, help="Limit of the total cost of all runs."
        )

    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        try:
            experiment = _experiment(options["experiment"])
            planned = experiments.plan(experiment)
            for run in planned:
                cost = f"uses run {run.existing.pk}" if run.existing else str(run.estimate)
                self.stdout.write(f"{run.model}, {run.arm} ({run.core}): {cost}")
            self.stdout.write(f"In total: {experiments.total_estimate(planned)}.")
            if options["estimate"]:
                transaction.set_rollback(True)
                return
            if options["publish"]:
                experiment.published = True
                experiment.save(update_fields=["published", "updated_at"])
            runs = experiments.start(experiment, options["budget_usd"])
        except UserFacingError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"{experiment.slug}: {len(runs)} runs started.")


def _experiment(name: str) -> Experiment:
    if name.endswith((".yaml", ".yml")):
        return experiments.store(ExperimentFile.read(Path(name)))
    experiment = Experiment.objects.filter(slug=name).first()
    if experiment is None:
        raise CommandError(f"There is no experiment {name!r}; name its slug or a .yaml file.")
    return experiment
