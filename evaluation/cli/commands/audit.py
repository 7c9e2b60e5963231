"""`convergebench audit`: what we would see of an editor, before it is submitted."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from evaluation.audits.plan import plan
from evaluation.cli.commands.editors import add_choice, chosen_editor
from evaluation.cli.commands.score import new_scorer, scored
from evaluation.cli.commands.suites import find_suite
from evaluation.cli.printing import at_least_one, note, progress, say, say_json
from evaluation.cli.results import run_results
from evaluation.cli.suite_parts import part_of
from evaluation.measuring.scoring import Scorer
from evaluation.play.finish import review
from evaluation.play.folder_scores import FolderScores
from evaluation.play.folder_store import folder_player
from evaluation.play.retries import Limits
from evaluation.play.run_folder import RunFolder
from evaluation.play.run_scores import RunScores

HELP = "play a suite with audits, and say whether a person would have to look"
DESCRIPTION = """\
Plays a suite as the site does, with its audits: now and then the editor is sent
its own answer with a mark painted on it, or saved again, trimmed or brightened
a little, and asked for the same way back. An honest editor returns the mark and
loses nothing more. "review" means that the run would stay out of the ranks
until a person has looked; the reasons say why. Hints touch no rank."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_choice(parser)
    parser.add_argument(
        "--suite", required=True, help="a name of `convergebench suites`, or a file"
    )
    parser.add_argument(
        "--trips", type=at_least_one, metavar="N", help="play fewer trips than the suite"
    )
    parser.add_argument("--out", type=Path, metavar="RUN", help="keep the run in this folder")
    parser.add_argument("--parallel", type=at_least_one, metavar="N", help="chains played at once")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args: argparse.Namespace) -> int:
    """0 when the run is clean, 1 when a person would have to look."""
    scorer = new_scorer(None)
    editor, record = chosen_editor(args)
    suite = part_of(find_suite(args.suite), args.trips)
    with tempfile.TemporaryDirectory(prefix="convergebench-audit-") as aside:
        out = args.out or Path(aside) / "run"
        known = (out / "run.json").is_file()
        folder = (
            RunFolder.open(out)
            if known
            else RunFolder.create(out, suite, editor=record["editor"], options=record["options"])
        )
        audits = plan(folder.secret, folder.suite)
        with folder.playing(), progress(suite.edits, record["name"], "edit") as bar:
            folder_player(
                folder,
                editor,
                parallel=args.parallel or record["in_flight"],
                limits=Limits(),
                audits=audits,
                on_answer=lambda chain: bar.update(),
            ).play()
        report = audit_report(folder, scored(folder, scorer), scorer)
    if args.json:
        say_json("audit", report)
    else:
        _tell(report)
    return 0 if report["verdict"] == "clean" else 1


def audit_report(folder: RunFolder, scores: RunScores, scorer: Scorer) -> dict[str, Any]:
    """What an admin would see of this run, as plain data."""
    store = FolderScores(folder, scorer)
    reviewed = review(store, scorer)
    audited, findings = reviewed.audited, store.findings()
    summary = next(iter(run_results(folder.suite, scores).values())).summary
    return {
        "verdict": audited.verdict,
        "reasons": list(audited.reasons),
        "change_seen": summary.change_seen,
        "edits_made": summary.edits_made,
        "undone": summary.edits_undone,
        "marks_kept": {
            "median": audited.marks_kept,
            "each": [found.kept for found in findings if found.kept is not None],
        },
        "loss_under_audit": {
            "median": audited.loss_under_audit,
            "each": [found.loss for found in findings if found.kind == "fragility"],
        },
        "hints": [*audited.hints, *(f"{hint.kind}, {hint.text}" for hint in reviewed.hints)],
    }


def _tell(report: dict[str, Any]) -> None:
    if report["verdict"] == "clean":
        say("clean: nothing here would keep the run out of the ranks")
    else:
        say("review: the run would stay out of the ranks until a person has looked")
    for reason in report["reasons"]:
        say(f"  {reason}")
    for name, words in (
        ("change_seen", "edits that can be seen"),
        ("edits_made", "edits that show what was asked for"),
        ("undone", "edits that were taken back"),
    ):
        say(f"{words}: {_share(report[name])}")
    for name, words in (
        ("marks_kept", "marks kept"),
        ("loss_under_audit", "loss under audit"),
    ):
        each = report[name]["each"]
        say(f"{words}: {_share(report[name]['median'])} (median of {len(each)})")
    for hint in report["hints"]:
        note(f"hint: {hint}")


def _share(value: float | None) -> str:
    return "nobody looked" if value is None else f"{value:.0%}"
