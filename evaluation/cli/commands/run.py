"""`convergebench run`: play, score and report, or only play."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, Field

from evaluation.arms import DEFAULT, FLOOR
from evaluation.cli.commands.report import write_report
from evaluation.cli.editors import ChosenEditor, add_choice, chosen_editors
from evaluation.cli.hooks import HOOKS, Hooks
from evaluation.cli.playing import (
    PlayedFolder,
    PlayedRun,
    Shard,
    add_limits,
    confirm_cost,
    find_suite,
    open_run,
    play_options,
    play_run,
    raise_pause,
)
from evaluation.cli.printing import CommandError, Output, at_least_one, echo, echo_json, note, table
from evaluation.cli.results import Rank, Results, ranks, ranks_table, results_table, run_results
from evaluation.cli.scoring import (
    ANSWERS,
    add_judge,
    add_metrics,
    new_scorer,
    requested_judge,
    update_scores,
)
from evaluation.content.suites import Suite
from evaluation.measuring.scoring import Scorer
from evaluation.play.finish import review
from evaluation.play.folder_scores import FolderScores
from evaluation.play.run_folder import RunFolder
from evaluation.play.run_scores import RunScores
from evaluation.run_secret import new_secret

HELP = "play an editor on a suite, score it and write a report"
DESCRIPTION = """\
Plays every case of a suite into a run folder, one chain of round trips per case,
scores the restored images and writes a report. Every answer is stored before the next
request. After Ctrl-C, a crash or a network failure, the same command continues the run
and repeats no finished edit. Several models are compared in one report.

With --audits the run is audited as on a site: some inverse edits are requested again
on an altered copy of the editor's own answer. The copy has a mark painted on it, or is
saved again, cropped or brightened a little. An honest editor keeps the mark and loses
no more of the image than before. In other requests, the editor must remove an object
that we drew into a source image. The verdict "review" means that a site would leave the run
unranked until a person has reviewed it. The reasons are printed; the exit code is 1.
Hints are printed too, but do not affect the rank."""
EPILOG = """\
examples:
  convergebench run --editor jpeg --suite smoke
  convergebench run --models jpeg,noise-8,oracle --suite smoke --out runs
  convergebench run --editor jpeg --option quality=30 --suite smoke --out jpeg-30
  convergebench run --editor gemini-3-pro-image --suite smoke --budget 5 --parallel 4
  convergebench run --endpoint http://localhost:8000/v1 --allow-local --suite smoke --audits
  convergebench run --editor my.module:MyEditor --suite smoke --cases 'books--*'
  convergebench run --play-only --editor jpeg --suite smoke      then `score` and `report`
  convergebench run --play-only --editor jpeg --suite smoke --shard 1/2 --secret HEX
                                                                 and 2/2 elsewhere"""


class AuditShares(BaseModel):
    """The results of all audits of one kind, each a share."""

    median: float | None
    each: list[float]


class Audit(BaseModel):
    """The verdict of a site on an audited run."""

    verdict: str = Field(description='"clean" or "review".')
    reasons: list[str]
    change_seen: float | None
    edits_made: float | None
    undone: float | None
    marks_kept: AuditShares
    loss_under_audit: AuditShares
    cold_gap: AuditShares
    hints: list[str]


class RunResults(PlayedRun):
    """A played run, with its results unless it paused or was only played."""

    results: Results = Field(default={}, description="By metric, the headline metric first.")
    audit: Audit | None = None


class RunOutput(Output):
    """Output of `run --json`."""

    schema_name = "run"
    runs: list[RunResults]
    ranks: list[Rank] = []
    page: str | None = Field(
        default=None, description="The report; None if a run paused or was only played."
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_choice(parser)
    parser.add_argument(
        "--suite", required=True, help="a name from `convergebench list suites`, or a file"
    )
    parser.add_argument("--play-only", action="store_true", help="play only: no scores, no report")
    parser.add_argument(
        "--audits",
        action="store_true",
        help="also play audits (extra requests that test for cheating), and print their findings",
    )
    parser.add_argument(
        "--floor",
        action="store_true",
        help="make no edits: only encode and decode with the model's autoencoder, whose loss no "
        "prompt can avoid (default folder: EDITOR-SUITE-floor)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="RUN",
        help="the run folder (default: EDITOR-SUITE); for several models, the folder of their runs",
    )
    part = parser.add_argument_group("a part of the suite")
    part.add_argument(
        "--trips", type=at_least_one, metavar="N", help="play fewer trips than the suite"
    )
    part.add_argument(
        "--cases",
        metavar="PATTERN",
        help="only cases whose name, image or pair matches, for example 'books--*' or clock",
    )
    part.add_argument("--limit", type=at_least_one, metavar="N", help="only the first N cases")
    part.add_argument(
        "--shard",
        type=Shard.parse,
        metavar="I/N",
        help="play only the I-th of N shares of the chains; give all shares the same --secret, "
        "then join them with `convergebench merge`",
    )
    parser.add_argument(
        "--secret",
        metavar="HEX",
        help="the secret that determines seeds and order (default: a new secret)",
    )
    add_limits(parser)
    parser.add_argument(
        "--log",
        metavar="NAMES",
        help=f"report progress to these loggers, separated by commas ({', '.join(HOOKS)})",
    )
    add_metrics(parser)
    add_judge(parser)
    parser.add_argument("--json", action="store_true", help="print results and ranks as JSON")


def run(args: argparse.Namespace) -> int:
    # Make the scorer first: problems with the metrics are reported before anything is paid.
    scorer = None if args.play_only else new_scorer(args.metrics)
    runs = _play_all(args)
    if scorer is None or any(played.pause for played in runs):
        for played in runs:
            played.hooks.end(None)
        _print_played(args, runs)
        raise_pause(runs)
        return 0
    folders = [played.folder for played in runs]
    scores = [
        update_scores(folder, scorer, judge=requested_judge(args, folder.path / ANSWERS))
        for folder in folders
    ]
    page = write_report(folders, scores, _report_folder(args, runs))
    suite = folders[0].suite
    results = [run_results(suite, run_scores) for run_scores in scores]
    for played, by_metric in zip(runs, results, strict=True):
        played.hooks.end(by_metric)
    board = ranks(suite, {str(f.path): s for f, s in zip(folders, scores, strict=True)})
    audits = [
        audit_report(folder, run_scores, scorer) if args.audits else None
        for folder, run_scores in zip(folders, scores, strict=True)
    ]
    clean = all(audit is None or audit.verdict == "clean" for audit in audits)
    if args.json:
        summaries = [
            RunResults(**dict(played.summary), results=by_metric, audit=audit)
            for played, by_metric, audit in zip(runs, results, audits, strict=True)
        ]
        echo_json(RunOutput(runs=summaries, ranks=board, page=str(page)))
        return 0 if clean else 1
    echo(results_table(results[0]) if len(runs) == 1 else ranks_table(board))
    for audit in filter(None, audits):
        _print_audit(audit)
    echo(f"\n{page}")
    return 0 if clean else 1


def _play_all(args: argparse.Namespace) -> list[PlayedFolder]:
    """Play every named editor; if one pauses, the next is still played."""
    suite = find_suite(args.suite, args.trips, args.cases, args.limit)
    options = replace(
        play_options(args),
        secret=args.secret,
        shard=args.shard,
        audits=args.audits,
        arm=(FLOOR if args.floor else DEFAULT).resolved(suite.pairs),
    )
    Hooks.load(args.log)  # report a missing hook before anything is paid
    chosen = chosen_editors(args)
    for editor in chosen:
        if unable := options.arm.unable(editor.editor):
            raise CommandError(f"{editor.name} cannot play with --floor: {'; '.join(unable)}")
        options.price_of(editor)
    # Open all folders first: a wrong folder is reported before anything is paid.
    folders = [open_run(_out(args, editor, suite), suite, editor, options) for editor in chosen]
    runs = []
    for folder, editor in zip(folders, chosen, strict=True):
        hooks = Hooks.load(args.log)
        if args.yes or editor.is_free or editor.is_own:
            runs.append(play_run(folder, editor, options, hooks=hooks))
        else:
            runs.append(play_run(folder, editor, options, hooks=hooks, ask=confirm_cost))
    return runs


def _out(args: argparse.Namespace, chosen: ChosenEditor, suite: Suite) -> Path:
    """Return the folder of a run. Raises CommandError if a new share has no secret."""
    name = f"{chosen.slug}-{suite.slug}" + ("-floor" if args.floor else "")
    if args.shard:
        name += f"-{args.shard.number}-of-{args.shard.of}"
    out = (args.out or Path()) / name if args.models else args.out or Path(name)
    if args.shard and not args.secret and not (out / "run.json").is_file():
        raise CommandError(
            "all shares of a run need the same secret: use one on every machine, for example "
            f"--secret {new_secret()}"
        )
    return Path(out)


def _report_folder(args: argparse.Namespace, runs: Sequence[PlayedFolder]) -> Path:
    return (runs[0].folder.path if len(runs) == 1 else args.out or Path()) / "report"


def _print_played(args: argparse.Namespace, runs: Sequence[PlayedFolder]) -> None:
    """Print the edits and the cost of runs that this command does not score."""
    summaries = [played.summary for played in runs]
    if args.json:
        echo_json(RunOutput(runs=[RunResults(**dict(summary)) for summary in summaries]))
        return
    if args.models:
        rows = [[s.run, str(s.edits), _counts(s), f"${s.spent:,.2f}"] for s in summaries]
        echo(table(["run", "edits", "chains", "spent"], rows))
        echo(f"next: convergebench report {' '.join(s.run for s in summaries)}")
    elif not runs[0].pause:
        (summary,) = summaries
        echo(f"{summary.run}: {summary.edits} edits, {_counts(summary)}")
        if summary.saved_edits:
            echo(f"{summary.saved_edits} edits were not needed: their chains were stopped early")
        echo(f"next: convergebench score {summary.run}")


def _counts(played: PlayedRun) -> str:
    outcomes = sorted(played.outcomes.items())
    return ", ".join(f"{count} {outcome or 'to play'}" for outcome, count in outcomes)


def audit_report(folder: RunFolder, scores: RunScores, scorer: Scorer) -> Audit:
    """Return the findings on this run, as an admin of a site sees them."""
    store = FolderScores(folder, scorer)
    reviewed = review(store, scorer)
    audited, findings = reviewed.audited, store.findings()
    summary = next(iter(run_results(folder.suite, scores).values())).summary
    marks = [finding.kept for finding in findings if finding.kept is not None]
    losses, gaps = (
        [finding.loss for finding in findings if finding.kind == kind]
        for kind in ("fragility", "cold")
    )
    return Audit(
        verdict=audited.verdict,
        reasons=list(audited.reasons),
        change_seen=summary.change_seen,
        edits_made=summary.edits_made,
        undone=summary.edits_undone,
        marks_kept=AuditShares(median=audited.marks_kept, each=marks),
        loss_under_audit=AuditShares(median=audited.loss_under_audit, each=losses),
        cold_gap=AuditShares(median=audited.cold_gap, each=gaps),
        hints=[*audited.hints, *(f"{hint.kind}, {hint.text}" for hint in reviewed.hints)],
    )


def _print_audit(audit: Audit) -> None:
    if audit.verdict == "clean":
        echo("\nclean: no finding would keep this run out of the ranks")
    else:
        echo("\nreview: the run would be unranked until a person has reviewed it")
    for reason in audit.reasons:
        echo(f"  {reason}")
    echo(f"edits with a visible change: {_share(audit.change_seen)}")
    echo(f"edits that show what was asked for: {_share(audit.edits_made)}")
    echo(f"edits that were undone: {_share(audit.undone)}")
    for words, shares in (
        ("painted marks that were kept", audit.marks_kept),
        ("additional loss after a harmless alteration", audit.loss_under_audit),
        ("additional loss in an edit of an unseen image", audit.cold_gap),
    ):
        echo(f"{words}: {_share(shares.median)} (median of {len(shares.each)})")
    for hint in audit.hints:
        note(f"hint: {hint}")


def _share(value: float | None) -> str:
    return "not judged" if value is None else f"{value:.0%}"
