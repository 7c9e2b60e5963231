"""`convergebench run`: play, score and report, in one go."""

from __future__ import annotations

import argparse
from pathlib import Path

from evaluation.cli.commands.play import add_playing, pause_if_any, play_all, say_played
from evaluation.cli.commands.report import write_report
from evaluation.cli.commands.score import (
    add_metrics,
    new_scorer,
    ranks_table,
    results_table,
    scored,
)
from evaluation.cli.judge_options import ANSWERS, add_judge, asked_judge
from evaluation.cli.printing import say, say_json
from evaluation.cli.results import ranks, run_results

HELP = "play, score and report in one go"
DESCRIPTION = """\
What `play`, `score` and `report` do, one after the other in one process. Stop it where
you like: the same command goes on. Several models are compared in one report."""
EPILOG = """\
examples:
  convergebench run --editor jpeg --suite smoke
  convergebench run --models jpeg,noise-8,oracle --suite smoke --out runs"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_playing(parser)
    add_metrics(parser)
    add_judge(parser)
    parser.add_argument("--json", action="store_true", help="print results and ranks as JSON")


def run(args: argparse.Namespace) -> int:
    scorer = new_scorer(args.metrics)  # what is wrong with it is told before anything is paid
    runs = play_all(args)
    if any(p.paused for p in runs):
        for played in runs:
            played.hooks.end(None)
        if args.json:
            say_played(runs, many=True)
    pause_if_any(runs)
    scores = [
        scored(p.folder, scorer, judge=asked_judge(args, p.folder.path / ANSWERS)) for p in runs
    ]
    folders = [p.folder for p in runs]
    suite = folders[0].suite
    out = folders[0].path / "report" if len(runs) == 1 else (args.out or Path()) / "report"
    page = write_report(folders, scores, out)
    results = [run_results(suite, found) for found in scores]
    for played, found in zip(runs, results, strict=True):
        played.hooks.end(found)
    board = ranks(suite, {str(f.path): s for f, s in zip(folders, scores, strict=True)})
    if args.json:
        say_json(
            "run",
            {
                "runs": [
                    p.to_dict() | {"results": {name: r.to_dict() for name, r in found.items()}}
                    for p, found in zip(runs, results, strict=True)
                ],
                "ranks": board,
                "page": str(page),
            },
        )
        return 0
    say(results_table(results[0]) if len(runs) == 1 else ranks_table(board))
    say(f"\n{page}")
    return 0
