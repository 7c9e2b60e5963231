"""Import results from elsewhere: run bundles, score files, published figures, tables."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from evaluation.bundle import document as bundles
from evaluation.bundle.checks import DIFFERENT, Check
from evaluation.metrics.no_reference import no_reference_in_order
from evaluation.metrics.score_file import ScoreFileError, read_score_file
from leaderboard import published_figures
from leaderboard.contributions.importing import import_bundle, import_scores
from leaderboard.models import Run

VERIFIED = {
    True: "verified: every number was recomputed and matches",
    False: "not verified: some recomputed numbers differ",
    None: "not verified: no number differs, but some could not be checked",
}


class Command(BaseCommand):
    help = "Import results from elsewhere. Safe to repeat: a failed import changes nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", metavar="action", required=True)
        bundle = actions.add_parser(
            "bundle",
            help="A run bundle. Its numbers are recomputed; a bundle with a wrong number is "
            "refused. The run is never ranked.",
        )
        bundle.add_argument("file", type=Path)
        bundle.add_argument(
            "--model", default="", metavar="SLUG", help="Default: the bundle's model."
        )
        bundle.add_argument(
            "--anyway",
            action="store_true",
            help="Import even if numbers differ. The pages report the differences.",
        )
        bundle.add_argument(
            "--unpublished", action="store_true", help="Do not publish the run yet."
        )
        scores = actions.add_parser(
            "scores",
            help="A CSV or JSON file of no-reference metrics (which need no source image) for a "
            "finished run. Columns: metric, value, version, and either sha256 or case, repeat "
            "and trip.",
        )
        scores.add_argument("file", type=Path)
        scores.add_argument("run", type=int, help="The number of the run.")
        figures = actions.add_parser(
            "figures",
            help="A CSV table of published figures. Columns: "
            f"{', '.join(published_figures.COLUMNS)}.",
        )
        figures.add_argument("file", type=Path)
        table = actions.add_parser(
            "edit-converge-bench",
            help="The results.csv of edit-converge-bench. It becomes a suite that is never ranked.",
        )
        table.add_argument("file", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        action, file = options["action"], options["file"]
        if action == "bundle":
            self._bundle(file, options["model"], options["unpublished"], options["anyway"])
        elif action == "scores":
            self._scores(file, options["run"])
        elif action == "figures":
            self._figures(file)
        else:
            self._edit_converge_bench(file)

    def _bundle(self, file: Path, model: str, unpublished: bool, anyway: bool) -> None:
        try:
            with bundles.read(file) as bundle:
                imported = import_bundle(
                    bundle,
                    model_slug=model,
                    publish=not unpublished,
                    anyway=anyway,
                    on_check=self._show_difference,
                )
        except (bundles.BundleError, OSError) as error:
            raise CommandError(f"{file}: {error}") from error
        for note in imported.notes:
            self.stdout.write(note)
        run, verdict = imported.run, VERIFIED[imported.run.verified]
        done = "imported as" if imported.new else "is already here as"
        self.stdout.write(f"{file.name} {done} run {run.pk} ({run}), {verdict}.")

    def _show_difference(self, check: Check) -> None:
        if check.verdict == DIFFERENT:
            self.stderr.write(str(check))

    def _scores(self, file: Path, number: int) -> None:
        run = Run.objects.filter(pk=number).first()
        if run is None:
            raise CommandError(f"there is no run {number}")
        try:
            scores = read_score_file(file)
            import_scores(run, scores)
        except ScoreFileError as error:
            raise CommandError(str(error)) from error
        names = ", ".join(no_reference_in_order(scores.metrics))
        self.stdout.write(f"{len(scores.rows)} values of {names} imported into run {run.pk}.")

    def _figures(self, file: Path) -> None:
        try:
            new, replaced = published_figures.import_figures(file)
        except (published_figures.FiguresError, OSError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{new} figures are new, {replaced} were replaced.")

    def _edit_converge_bench(self, file: Path) -> None:
        try:
            table = published_figures.read_table(file)
        except (published_figures.FiguresError, OSError) as error:
            raise CommandError(str(error)) from error
        for remark in table.remarks:
            self.stdout.write(remark)
        suite, new = published_figures.store_table(table)
        done = "imported" if new else "already here"
        chains = sum(len(played) for played in table.chains.values())
        self.stdout.write(
            f"{suite}: {done}, {len(table.models)} models, {suite.cases.count()} cases, "
            f"{chains} chains. {suite.get_absolute_url()}"
        )
