"""The options of commands that ask a judge, and what is printed of it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evaluation.cli.printing import note
from evaluation.witnesses.judge.answers import AnswerFile
from evaluation.witnesses.judge.judge import Judge, JudgeOptions

ANSWERS = "judge.jsonl"


def add_judge(parser: argparse.ArgumentParser) -> None:
    """The options of a judge; what they do not say comes from the environment."""
    parser.add_argument(
        "--judge",
        metavar="MODEL",
        help="ask this vision-language model about the trips that people read; "
        "its key is in JUDGE_KEY",
    )
    parser.add_argument("--judge-url", metavar="URL", help="of its OpenAI-compatible API")
    parser.add_argument("--judge-kind", choices=("chat", "gemini"), help="how it is asked (chat)")
    parser.add_argument("--judge-usd", metavar="USD", help="what may be spent on it")
    parser.add_argument("--judge-calls", metavar="N", help="how often it may be asked")


def asked_judge(args: argparse.Namespace, answers: Path) -> Judge | None:
    """The judge that the options and the environment name; None without `--judge`."""
    if not args.judge:
        return None
    stated = {
        "model": args.judge,
        "url": args.judge_url,
        "kind": args.judge_kind,
        "usd": args.judge_usd,
        "calls": args.judge_calls,
    }
    return judge_of(stated, answers)


def judge_of(stated: Mapping[str, Any], answers: Path) -> Judge | None:
    """The judge of these settings; what they do not say comes from the environment."""
    known: Mapping[str, str] = {k: v for k, v in os.environ.items() if k.startswith("JUDGE_")}
    options = JudgeOptions.from_settings(
        {**known, **{f"JUDGE_{k.upper()}": v for k, v in stated.items() if v is not None}}
    )
    return Judge.of(options, AnswerFile(answers)) if options else None


def report_judge(judge: Judge) -> None:
    """Print to standard error what was asked, what it cost, and how reliable the judge is."""
    about = judge.summary()
    first = about["first_preferred"]
    note(
        f"{about['calls']} answers of {about['version']}, USD {about['usd']:.4f}; "
        f"{about['controls_failed']} of {about['controls']} controls failed"
        + ("" if first is None else f"; it prefers the first picture in {first:.0%}")
    )
    if judge.silent:
        note(f"the judge is not asked any more: {judge.silent}")
