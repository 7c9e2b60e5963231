"""`convergebench report`: write one HTML page on one or several runs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from evaluation.cli.printing import CommandError, Output, echo, echo_json
from evaluation.cli.report import Report, ReportedRun
from evaluation.cli.report.model_cards import as_eval_results, as_markdown, as_model_index
from evaluation.cli.results import Rank, ranks, run_results
from evaluation.cli.scoring import add_metrics, new_scorer, update_scores
from evaluation.measuring.scoring import Scorer
from evaluation.play.run_folder import PlayedChain, RunFolder
from evaluation.play.run_scores import RunScores, read_scores

HELP = "write curves, half-lives and image strips as one HTML page"
DESCRIPTION = """\
Writes a page that needs no other file, and its charts as PNG: retention curves,
a half-life table with intervals, and strips of images. Several runs of the
same suite are compared. Runs that were not scored are scored first."""
EPILOG = """\
examples:
  convergebench report jpeg-75-smoke
  convergebench report jpeg-75-smoke noise-2-smoke --out comparison
  convergebench report jpeg-75-smoke --markdown
  convergebench report jpeg-75-smoke --model-index"""


class ReportOutput(Output):
    """Output of `report --json`."""

    schema_name = "report"
    page: str
    charts: list[str]
    ranks: list[Rank]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folders made by `run`")
    parser.add_argument(
        "--out",
        type=Path,
        help="folder of the report (default: RUN/report; for several runs: report)",
    )
    add_metrics(parser)
    parser.add_argument(
        "--markdown", action="store_true", help="print a table for a model card; write no page"
    )
    parser.add_argument(
        "--model-index",
        action="store_true",
        help="print the results as YAML for the metadata of a Hugging Face model card",
    )
    parser.add_argument(
        "--eval-results",
        metavar="DATASET",
        help="print one run as a .eval_results file of Hugging Face; DATASET is the suite's data "
        "set there",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the report's location and the ranks as JSON"
    )


def run(args: argparse.Namespace) -> int:
    folders = [RunFolder.open(path) for path in args.runs]
    scores = list(_scores(_check_same_suite(folders), args.metrics))
    if args.markdown or args.model_index or args.eval_results:
        echo(_as_text(args, folders, scores))
        return 0
    out = args.out or (folders[0].path / "report" if len(folders) == 1 else Path("report"))
    page = write_report(folders, scores, out)
    if args.json:
        charts = sorted(str(png) for png in out.glob("*.png"))
        names = [str(folder.path) for folder in folders]
        board = ranks(folders[0].suite, dict(zip(names, scores, strict=True)))
        echo_json(ReportOutput(page=str(page), charts=charts, ranks=board))
    else:
        echo(str(page))
    return 0


def _as_text(
    args: argparse.Namespace, folders: Sequence[RunFolder], scores: Sequence[RunScores]
) -> str:
    """Return the results as text for a model's page."""
    suite = folders[0].suite
    reports = [reported_run(*pair) for pair in zip(folders, scores, strict=True)]
    runs = {run.name: run.scores for run in Report(suite, reports).runs}
    if args.markdown:
        return as_markdown(suite, runs)
    if args.model_index:
        return as_model_index(suite, runs)
    if len(runs) > 1:
        raise CommandError("--eval-results takes one run: each model has its own file")
    ((name, run_scores),) = runs.items()
    if not run_results(suite, run_scores):
        raise CommandError(
            "no metric can be computed for this run: its source images are a single colour"
        )
    return as_eval_results(suite, name, run_scores, args.eval_results, folders[0].header.ended)


def _check_same_suite(folders: Sequence[RunFolder]) -> Sequence[RunFolder]:
    suite = folders[0].suite
    for folder in folders[1:]:
        if folder.suite.content_hash != suite.content_hash:
            raise CommandError(
                f"{folder.path} played {folder.suite.slug} ({folder.suite.content_hash[:12]}), "
                f"{folders[0].path} played {suite.slug} ({suite.content_hash[:12]}): "
                "only runs of the same suite can be compared"
            )
    return folders


def write_report(folders: Sequence[RunFolder], scores: Sequence[RunScores], out: Path) -> Path:
    """Write one page on these runs of one suite; return its path."""
    for folder, run_scores in zip(folders, scores, strict=True):
        if not any(chain.outcome for chain in run_scores.chains.values()):
            raise CommandError(f"{folder.path} has no finished chain yet: continue the run first")
    runs = [reported_run(*pair) for pair in zip(folders, scores, strict=True)]
    return Report(folders[0].suite, runs).write(out)


def _scores(folders: Sequence[RunFolder], metrics: str | None) -> Iterator[RunScores]:
    """Yield the scores of each run. Runs that have chains without scores are scored first."""
    scorer: Scorer | None = None
    for folder in folders:
        scores = read_scores(folder)
        if scores is None or metrics or not _covers(scores, folder):
            scorer = scorer or new_scorer(metrics)
            scores = update_scores(folder, scorer)
        yield scores


def _covers(scores: RunScores, folder: RunFolder) -> bool:
    return all(
        slug in scores.chains
        and scores.chains[slug].outcome == chain.outcome
        and scores.chains[slug].restored == tuple(steps[-1].sha256 for steps in chain.trips)
        for slug, chain in folder.chains.items()
    )


def reported_run(folder: RunFolder, scores: RunScores) -> ReportedRun:
    """Return the run of a folder as the report needs it."""

    def chain(slug: str) -> PlayedChain:
        return folder.chains[slug]

    return ReportedRun(
        folder.name,
        scores,
        folder.header.to_dict(),
        source=lambda slug: folder.source(chain(slug)),
        trip=lambda slug, number: tuple(
            folder.read(chain(slug), edit) for edit in chain(slug).trips[number - 1]
        ),
    )
