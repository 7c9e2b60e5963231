"""`convergebench score-chain`: score pictures that you have already."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from evaluation.cli.commands.score import (
    add_metrics,
    new_scorer,
    no_reference_table,
    ranks_table,
    results_table,
)
from evaluation.cli.judge_options import ANSWERS, add_judge, asked_judge, report_judge
from evaluation.cli.printing import progress, say, say_json, table
from evaluation.cli.report import Report, ReportedRun
from evaluation.cli.results import ranks, run_results
from evaluation.content.operators import OPERATORS
from evaluation.content.suites import EditPair, Suite
from evaluation.images import Picture
from evaluation.measuring.calibrations.jpeg import jpeg_equivalent
from evaluation.metrics import HEADLINE, load_metric, metric_class
from evaluation.metrics.no_reference import value_scale
from evaluation.play.own_chains import (
    OwnChain,
    OwnRuns,
    find_chain,
    find_runs,
    is_chain,
    known_pair,
    read_picture,
    score_runs,
    with_pair,
)
from evaluation.play.run_scores import RunScores
from evaluation.witnesses.judge.judge import Judge

HELP = "score a folder of pictures: your own chain, or many"
DESCRIPTION = """\
Scores a chain that was played elsewhere: a folder with

  I0_source.png, I1_forward.png, I1_backward.png, I2_forward.png, ...

with or without the forward pictures; or any pictures in sorted order, the first
being the source; or a manifest.json:

  {"model": "...", "source": "a.png",
   "trips": [{"forward": "b.png", "backward": "c.png"}, ...],
   "pair": {"forward": "Add a hat.", "backward": "Remove the hat.", "change": "local"}}

A folder of such folders is one run: half-life and interval of all of them. A folder
of model folders, with chains in each, is a run for every model, compared and ranked;
chains with the same source picture and the same edit are the same case.

Prints what every trip kept, and writes the report into the folder. Where forward pictures are
there, it is judged whether each edit was made."""
EPILOG = """\
examples:
  convergebench score-chain my-chain
  convergebench score-chain my-chains                FOLDER/CHAIN/I0_source.png, ...
  convergebench score-chain my-models                FOLDER/MODEL/CHAIN/I0_source.png, ...
  convergebench score-chain my-flips --operator flip_horizontal
  convergebench score-chain my-chain --pair glasses  witnesses look for it; or --object glasses
  convergebench score-chain my-chain --judge gpt-4o  and so does a model; its key is in JUDGE_KEY
  convergebench score-chain frames --in-turn --json > scores.json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--name", help="what to call the model in the report (the folder's name)")
    parser.add_argument(
        "--in-turn",
        action="store_true",
        help="sorted pictures are edited and restored in turn (else all are restored)",
    )
    parser.add_argument(
        "--change",
        choices=("local", "global", "none"),
        help="what the forward edit does: adds or removes something (local, the default), "
        "changes all of the picture, or nothing",
    )
    parser.add_argument("--operator", choices=list(OPERATORS), help="the edit is this exact move")
    parser.add_argument(
        "--pair", metavar="SLUG", help="the edit is this pair of the benchmark's, such as glasses"
    )
    parser.add_argument(
        "--object", help="what is added and removed, such as glasses: witnesses look for it"
    )
    parser.add_argument("--forward", default="", help="the forward prompt, for the report")
    parser.add_argument("--backward", default="", help="the backward prompt, for the report")
    parser.add_argument("--out", type=Path, help="folder of the report (FOLDER/NAME-report)")
    parser.add_argument("--no-report", action="store_true", help="only the numbers")
    add_metrics(parser)
    add_judge(parser)
    parser.add_argument(
        "--json", action="store_true", help="print distances, retention and events as JSON"
    )


def run(args: argparse.Namespace) -> int:
    names = ("forward", "backward", "change", "operator", "object")
    said = {name: getattr(args, name) for name in names}
    known = known_pair(args.pair) if args.pair else None

    def changed(pair: EditPair) -> EditPair:
        return with_pair(known or pair, said)

    judge = asked_judge(args, args.folder / ANSWERS)
    if args.folder.is_dir() and not is_chain(args.folder):
        return _many(args, changed, judge)
    chain = find_chain(args.folder, in_turn=args.in_turn)
    chain = replace(chain, pair=changed(chain.pair), name=args.name or chain.name)
    own = chain.alone(read_picture(chain.source))
    suite = own.suite
    scorer = new_scorer(args.metrics)
    with progress(len(chain.trips), f"scoring {chain.name}", "trip") as bar:
        scores = score_runs(own, scorer, judge, on_trips=bar.update)[chain.name]
    if judge:
        report_judge(judge)
    page, results = None, run_results(suite, scores)
    if results and not args.no_report:
        out = args.out or _report_folder(args.folder, chain.name)
        page = Report(suite, [_reported(own, chain.name, scores)]).write(out)
    if args.json:
        say_json("score-chain", _as_json(chain, suite, scores, page))
        return 0
    say(_trip_table(scores))
    say()
    say(results_table(results))
    if numbers := scores.no_reference(suite):
        say(f"\n{no_reference_table(numbers)}")
    if page:
        say(f"\nThe report is {page}")
    return 0


def _many(
    args: argparse.Namespace, changed: Callable[[EditPair], EditPair], judge: Judge | None
) -> int:
    """A folder of chains, or of models with their chains."""
    own = find_runs(
        args.folder,
        in_turn=args.in_turn,
        name=args.name or "",
        changed=changed,
    )
    scorer = new_scorer(args.metrics)
    with progress(own.trips, "scoring", "trip") as bar:
        scores = score_runs(own, scorer, judge, on_trips=bar.update)
    if judge:
        report_judge(judge)
    page = None
    results = {model: run_results(own.suite, found) for model, found in scores.items()}
    if all(results.values()) and not args.no_report:
        out = args.out or _report_folder(args.folder, args.name or args.folder.resolve().name)
        page = Report(own.suite, [_reported(own, *found) for found in scores.items()]).write(out)
    board = ranks(own.suite, scores)
    if args.json:
        say_json(
            "score-chains",
            {
                "suite": own.suite.to_dict(),
                "runs": {
                    model: {
                        "chains": {
                            slug: placed.chain.source.parent.name
                            for slug, placed in own.runs[model].items()
                        },
                        "results": {name: result.to_dict() for name, result in found.items()},
                        "scores": scores[model].to_dict(),
                    }
                    for model, found in results.items()
                },
                "ranks": board,
                "report": str(page) if page else None,
            },
        )
        return 0
    for model, found in results.items():
        say(f"{model}\n\n{results_table(found)}\n")
    if len(results) > 1:
        say(ranks_table(board))
    if page:
        say(f"\nThe report is {page}")
    return 0


def _report_folder(folder: Path, name: str) -> Path:
    return folder / f"{name}-report".replace("/", "-")


def _reported(own: OwnRuns, model: str, scores: RunScores) -> ReportedRun:
    """A model's chains as the report needs them."""

    def chain(slug: str) -> OwnChain[Path]:
        return own.runs[model][slug].chain

    def trip(slug: str, number: int) -> tuple[Picture | None, Picture]:
        forward, backward = chain(slug).trips[number - 1]
        return read_picture(forward) if forward else None, read_picture(backward)

    return ReportedRun(
        model,
        scores,
        {"editor": model},
        source=lambda slug: read_picture(chain(slug).source),
        trip=trip,
    )


def _trip_table(scores: RunScores) -> str:
    (chain,) = scores.chains.values()
    head, columns = ["trip"], [[str(n + 1) for n in range(len(chain.trips))]]
    for name in scores.metrics:
        distances = chain.distances[name]
        if distances is None:
            continue
        metric = load_metric(name)
        head.append(metric.label)
        columns.append([metric.text(distance) for distance in distances])
        kept = scores.retention(chain, name)
        calibration = scores.pictures["source"][name]
        if name == HEADLINE and kept and calibration:
            head += [f"{metric.label} kept", "as one JPEG save"]
            columns.append([f"{q:.3f}" for q in kept])
            qualities = [jpeg_equivalent(d, calibration.ladder) for d in distances]
            columns.append([f"{q:.0f}" if q and q >= 1 else "< 1" for q in qualities])
    head.append("change seen")
    columns.append([_verdict(trip.change_seen) for trip in chain.trips])
    if any(trip.reframed for trip in chain.trips):
        head.append("reframed")
        columns.append(["yes" if trip.reframed else "no" for trip in chain.trips])
    return table(head, list(zip(*columns, strict=True)))


def _verdict(seen: bool | None) -> str:
    return {None: "not judged", True: "yes", False: "no"}[seen]


def _as_json(
    chain: OwnChain[Path], suite: Suite, scores: RunScores, page: Path | None
) -> dict[str, Any]:
    (scored,) = scores.chains.values()
    results = run_results(suite, scores)
    metrics = {}
    for name in scores.metrics:
        distances, calibration = scored.distances[name], scores.pictures["source"][name]
        metric, result = metric_class(name), results.get(name)
        metrics[name] = {
            "label": metric.label,
            "version": metric.version,
            "distances": distances,
            "shown": distances and [load_metric(name).shown(d) for d in distances],
            "blank": calibration.blank if calibration else None,
            "retention": scores.retention(scored, name),
            "jpeg_equivalent": distances
            and calibration
            and [jpeg_equivalent(d, calibration.ladder) for d in distances],
            "event": asdict(next(iter(result.events.values()))) if result else None,
            "half_life": result.summary.half_life if result else None,
            "usable_trips": result.summary.usable_trips if result else None,
            "auc": result.summary.auc if result else None,
        }
    return {
        "name": chain.name,
        "source": str(chain.source),
        "trips": [trip.model_dump() for trip in scored.trips],
        "metrics": metrics,
        "quality": {
            name: {
                "label": about.label,
                "version": told.get("version", ""),
                "higher_is_better": about.higher_is_better,
                "values": scored.quality[name],
            }
            for name, told in scores.quality_metrics.items()
            if (about := value_scale(name, told)) and name in scored.quality
        },
        "signs": scored.signs,
        "provenance": scores.provenance,
        "report": str(page) if page else None,
    }
