"""Score a run folder with the chosen metrics and, optionally, a judge (a vision-language model)."""

from __future__ import annotations

import argparse
import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evaluation.cli.printing import CommandError, note, progress
from evaluation.measuring.scoring import Scorer
from evaluation.metrics import METRICS
from evaluation.play.folder_scores import score_run
from evaluation.play.run_folder import RunFolder
from evaluation.play.run_scores import RunScores
from evaluation.witnesses.judge import AnswerFile, Judge, JudgeOptions

#: The file of a judge's answers in a run folder.
ANSWERS = "judge.jsonl"


def add_metrics(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names the metrics."""
    parser.add_argument(
        "--metrics",
        metavar="NAMES",
        help=f"only these metrics, separated by commas ({', '.join(METRICS)})",
    )


def new_scorer(names: str | None) -> Scorer:
    """Return the scorer of these metrics; print those that cannot run."""
    # Scoring always needs OpenCV, to judge whether an edit was made.
    if importlib.util.find_spec("cv2") is None:
        raise CommandError(
            "scoring needs packages that are missing: pip install 'convergebench[worker]'"
        )
    wanted = [name.strip() for name in names.split(",")] if names else None
    for name in wanted or ():
        if name not in METRICS:
            raise CommandError(f"there is no metric {name!r}; there are {', '.join(METRICS)}")
    scorer = Scorer(wanted)
    for name, reason in scorer.not_run.items():
        note(f"{name} is not run: {reason}")
    if not any(metric.reference for metric in scorer.metrics.values()):
        raise CommandError("no metric can run here")
    return scorer


def update_scores(
    folder: RunFolder, scorer: Scorer, *, again: bool = False, judge: Judge | None = None
) -> RunScores:
    """Update the run's scores.json and return it; `again` computes everything again."""
    trips = sum(len(chain.trips) for chain in folder.chains.values())
    if not trips and not any(chain.outcome for chain in folder.chains.values()):
        raise CommandError(f"{folder.path} has no finished trip yet: continue the run first")

    with progress(trips, f"scoring {folder.name}", "trip") as bar:
        scores = score_run(folder, scorer, again=again, judge=judge, on_trips=bar.update)
    if judge:
        report_judge(judge)
    return scores


def add_judge(parser: argparse.ArgumentParser) -> None:
    """Add the options of a judge; further settings come from the environment."""
    parser.add_argument(
        "--judge",
        metavar="MODEL",
        help="also judge some trips with this vision-language model; its key is in JUDGE_KEY",
    )
    parser.add_argument(
        "--judge-url", metavar="URL", help="base URL of the judge's OpenAI-compatible API"
    )
    parser.add_argument(
        "--judge-kind", choices=("chat", "gemini"), help="API of the judge (default: chat)"
    )
    parser.add_argument("--judge-usd", metavar="USD", help="limit of the judge's cost")
    parser.add_argument("--judge-calls", metavar="N", help="limit of the queries to the judge")


def requested_judge(args: argparse.Namespace, answers: Path) -> Judge | None:
    """Return the judge that the options request; None without `--judge`."""
    if not args.judge:
        return None
    settings = {
        "model": args.judge,
        "url": args.judge_url,
        "kind": args.judge_kind,
        "usd": args.judge_usd,
        "calls": args.judge_calls,
    }
    return judge_from_settings(settings, answers)


def judge_from_settings(settings: Mapping[str, Any], answers: Path) -> Judge | None:
    """Return the judge of these settings; missing ones come from the environment."""
    defaults: Mapping[str, str] = {k: v for k, v in os.environ.items() if k.startswith("JUDGE_")}
    options = JudgeOptions.from_settings(
        {**defaults, **{f"JUDGE_{k.upper()}": v for k, v in settings.items() if v is not None}}
    )
    return Judge.from_options(options, AnswerFile(answers)) if options else None


def report_judge(judge: Judge) -> None:
    """Print the judge's calls, cost and reliability to standard error."""
    about = judge.summary()
    first = about["first_preferred"]
    note(
        f"{about['calls']} answers of {about['version']}, USD {about['usd']:.4f}; "
        f"{about['controls_failed']} of {about['controls']} control questions were answered wrongly"
        + (
            ""
            if first is None
            else f"; in {first:.0%} of its choices the judge prefers the image shown first"
        )
    )
    if judge.stopped:
        note(f"the judge stopped: {judge.stopped}")
