"""A judge's word on runs and chains that are scored in the shell."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from evaluation.analysis.chain_scores import ChainScores
from evaluation.cli.played_chain import PlayedChain
from evaluation.cli.printing import note
from evaluation.cli.run_folder import RunFolder
from evaluation.cli.run_scores import RunScores
from evaluation.content.suites import EditPair
from evaluation.images import Picture
from evaluation.quality import WORN
from evaluation.witnesses.judge.answers import AnswerFile
from evaluation.witnesses.judge.hearing import ReadTrip, ask_worn, hear_chain, with_judge
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


def judged_by(judge: Judge, folder: RunFolder, scores: RunScores) -> RunScores:
    """The scores with what the judge says of each chain; a judge that fails changes nothing."""
    chains = {
        slug: _judged(judge, folder, folder.chains[slug], scored)
        for slug, scored in scores.chains.items()
    }
    told(judge)
    provenance = {**scores.provenance, "judge": judge.summary()}
    return replace(scores, chains=chains, provenance=provenance)


def _judged(
    judge: Judge, folder: RunFolder, chain: PlayedChain, scored: ChainScores
) -> ChainScores:
    source, played = folder.source(chain), chain.trips

    def read(number: int) -> tuple[Picture, Picture, Picture]:
        before = source if number == 1 else folder.read(chain, played[number - 2][-1])
        forward, *_, backward = played[number - 1]
        return before, folder.read(chain, forward), folder.read(chain, backward)

    return judged_chain(judge, source, read, folder.pair(chain), chain.slug, scored)


def judged_chain(
    judge: Judge, source: Picture, read: ReadTrip, pair: EditPair, about: str, scored: ChainScores
) -> ChainScores:
    """The scores of one chain with what the judge says of its trips."""
    trips = list(scored.trips)
    for number, said in hear_chain(judge, source, len(trips), read, pair, about).items():
        trip = trips[number - 1]
        trips[number - 1] = trip.model_copy(update={"evidence": with_judge(trip.evidence, said)})

    def returned(number: int) -> Picture | None:
        pictures = read(number)
        return pictures[2] if pictures else None

    worn = ask_worn(judge, source, len(trips), returned, about)
    told = {WORN: tuple(worn)} if any(said is not None for said in worn) else {}
    return replace(scored, trips=tuple(trips), quality={**scored.quality, **told})


def told(judge: Judge) -> None:
    """Say on standard error what was asked, what it cost, and what to think of the judge."""
    about = judge.summary()
    first = about["first_preferred"]
    note(
        f"{about['calls']} answers of {about['version']}, USD {about['usd']:.4f}; "
        f"{about['controls_failed']} of {about['controls']} controls failed"
        + ("" if first is None else f"; it prefers the first picture in {first:.0%}")
    )
    if judge.silent:
        note(f"the judge is not asked any more: {judge.silent}")
