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
    Played,
    PlayedRun,
    Shard,
    add_limits,
    ask_first,
    find_suite,
    limits_of,
    open_run,
    play_run,
    raise_pause,
)
from evaluation.cli.printing import CommandError, Output, at_least_one, note, say, say_json, table
from evaluation.cli.results import Rank, Results, ranks, ranks_table, results_table, run_results
from evaluation.cli.scoring import (
    ANSWERS,
    add_judge,
    add_metrics,
    asked_judge,
    new_scorer,
    scored,
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
request: stop it with Ctrl-C, kill it, lose the network; the same command continues
where it was and repeats no finished edit. Several models are compared in one report.

With --audits it is played as a site does: now and then the editor is sent its own
answer with a mark painted on it, or saved again, trimmed or brightened a little, and
asked for the same way back. An honest editor returns the mark and loses nothing more.
"review" means that the run would stay out of the ranks until a person has looked, and
the exit code is 1; the reasons say why. Hints touch no rank."""
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
    """The measures of all audits of one kind."""

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
    """A run that was played, and scored unless it paused or was only played."""

    results: Results = Field(default={}, description="By metric, the headline first.")
    audit: Audit | None = None


class RunOutput(Output):
    """`run`."""

    schema_name = "run"
    runs: list[RunResults]
    ranks: list[Rank] = []
    page: str | None = Field(default=None, description="The report; None: paused, or only played.")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_choice(parser)
    parser.add_argument(
        "--suite", required=True, help="a name of `convergebench list suites`, or a file"
    )
    parser.add_argument("--play-only", action="store_true", help="play only: no scores, no report")
    parser.add_argument(
        "--audits", action="store_true", help="play audits too, and print their findings"
    )
    parser.add_argument(
        "--floor",
        action="store_true",
        help="no edits: the model's autoencoder alone, encoded and decoded, which no prompt can "
        "beat (EDITOR-SUITE-floor)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="RUN",
        help="the run folder (EDITOR-SUITE); of several models the folder of their runs",
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
        help="play only the I-th of N shares of the chains; give all the same --secret, "
        "then `convergebench merge` them",
    )
    parser.add_argument(
        "--secret",
        metavar="HEX",
        help="draw seeds and order as the run whose secret this is (a new one)",
    )
    add_limits(parser)
    parser.add_argument(
        "--log",
        metavar="NAMES",
        help=f"report progress to these, separated by commas ({', '.join(HOOKS)})",
    )
    add_metrics(parser)
    add_judge(parser)
    parser.add_argument("--json", action="store_true", help="print results and ranks as JSON")


def run(args: argparse.Namespace) -> int:
    # Problems with the metrics are reported before anything is paid.
    scorer = None if args.play_only else new_scorer(args.metrics)
    runs = _play_all(args)
    if scorer is None or any(played.pause for played in runs):
        for played in runs:
            played.hooks.end(None)
        _say_played(args, runs)
        raise_pause(runs)
        return 0
    folders = [played.folder for played in runs]
    scores = [
        scored(folder, scorer, judge=asked_judge(args, folder.path / ANSWERS)) for folder in folders
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
        say_json(RunOutput(runs=summaries, ranks=board, page=str(page)))
        return 0 if clean else 1
    say(results_table(results[0]) if len(runs) == 1 else ranks_table(board))
    for audit in filter(None, audits):
        _say_audit(audit)
    say(f"\n{page}")
    return 0 if clean else 1


def _play_all(args: argparse.Namespace) -> list[Played]:
    """Play every named editor; a pause of one does not stop the next."""
    suite = find_suite(args.suite, args.trips, args.cases, args.limit)
    options = replace(
        limits_of(args),
        secret=args.secret,
        shard=args.shard,
        audits=args.audits,
        arm=(FLOOR if args.floor else DEFAULT).settled(suite.pairs),
    )
    Hooks.of(args.log)  # report a missing hook before anything is paid
    chosen = chosen_editors(args)
    for editor in chosen:
        if unable := options.arm.unable(editor.editor):
            raise CommandError(f"{editor.name} has no floor: {'; '.join(unable)}")
        options.price_of(editor)
    # All folders first: a wrong folder is reported before anything is paid.
    folders = [open_run(_out(args, editor, suite), suite, editor, options) for editor in chosen]
    runs = []
    for folder, editor in zip(folders, chosen, strict=True):
        hooks = Hooks.of(args.log)
        if args.yes or editor.is_free or editor.is_own:
            runs.append(play_run(folder, editor, options, hooks=hooks))
        else:
            runs.append(play_run(folder, editor, options, hooks=hooks, ask=ask_first))
    return runs


def _out(args: argparse.Namespace, chosen: ChosenEditor, suite: Suite) -> Path:
    """Return the folder of a run. Raises CommandError if a new share has no secret."""
    name = f"{chosen.slug}-{suite.slug}" + ("-floor" if args.floor else "")
    if args.shard:
        name += f"-{args.shard.number}-of-{args.shard.of}"
    out = (args.out or Path()) / name if args.models else args.out or Path(name)
    if args.shard and not args.secret and not (out / "run.json").is_file():
        raise CommandError(
            "the shares of one run draw from one secret: give every machine the same, "
            f"such as --secret {new_secret()}"
        )
    return Path(out)


def _report_folder(args: argparse.Namespace, runs: Sequence[Played]) -> Path:
    return (runs[0].folder.path if len(runs) == 1 else args.out or Path()) / "report"


def _say_played(args: argparse.Namespace, runs: Sequence[Played]) -> None:
    """Print the edits and the cost of runs that are not scored here."""
    summaries = [played.summary for played in runs]
    if args.json:
        say_json(RunOutput(runs=[RunResults(**dict(summary)) for summary in summaries]))
        return
    if args.models:
        rows = [[s.run, str(s.edits), _counts(s), f"${s.spent:,.2f}"] for s in summaries]
        say(table(["run", "edits", "chains", "spent"], rows))
        say(f"next: convergebench report {' '.join(s.run for s in summaries)}")
    elif not runs[0].pause:
        (summary,) = summaries
        say(f"{summary.run}: {summary.edits} edits, {_counts(summary)}")
        if summary.saved_edits:
            say(f"{summary.saved_edits} edits were saved: their chains had already ended")
        say(f"next: convergebench score {summary.run}")


def _counts(played: PlayedRun) -> str:
    outcomes = sorted(played.outcomes.items())
    return ", ".join(f"{count} {outcome or 'to play'}" for outcome, count in outcomes)


def audit_report(folder: RunFolder, scores: RunScores, scorer: Scorer) -> Audit:
    """Return the findings on this run as an admin of a site sees them."""
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


def _say_audit(audit: Audit) -> None:
    if audit.verdict == "clean":
        say("\nclean: no finding would keep this run out of the ranks")
    else:
        say("\nreview: the run would be unranked until a person has reviewed it")
    for reason in audit.reasons:
        say(f"  {reason}")
    say(f"edits with a visible change: {_share(audit.change_seen)}")
    say(f"edits that show what was asked for: {_share(audit.edits_made)}")
    say(f"edits that were undone: {_share(audit.undone)}")
    for words, shares in (
        ("marks kept", audit.marks_kept),
        ("loss under audit", audit.loss_under_audit),
        ("cold gap", audit.cold_gap),
    ):
        say(f"{words}: {_share(shares.median)} (median of {len(shares.each)})")
    for hint in audit.hints:
        note(f"hint: {hint}")


def _share(value: float | None) -> str:
    return "not judged" if value is None else f"{value:.0%}"
