"""Score folders of existing images: one chain, many, or those of several models."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from evaluation.analysis.events import Event
from evaluation.cli.printing import Output, progress, say, say_json, table
from evaluation.cli.report import Report, ReportedRun
from evaluation.cli.results import (
    Rank,
    Results,
    Strict,
    no_reference_table,
    ranks,
    ranks_table,
    results_table,
    run_results,
)
from evaluation.cli.scoring import ANSWERS, asked_judge, new_scorer, report_judge
from evaluation.content.operators import OPERATORS
from evaluation.content.suites import EditPair, Suite
from evaluation.images import Picture
from evaluation.measuring.calibration import jpeg_equivalent
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
from evaluation.records import TripMeasures


class ChainByMetric(Strict):
    """One chain by one metric."""

    label: str
    version: str
    distances: Sequence[float] | None
    shown: Sequence[float | None] | None = Field(description="On the metric's own scale.")
    blank: float | None
    retention: Sequence[float] | None
    jpeg_equivalent: Sequence[float | None] | None
    event: Event | None
    half_life: float | None
    usable_trips: float | None
    auc: float | None


class ChainQuality(Strict):
    """One no-reference metric on one chain."""

    label: str
    version: str
    higher_is_better: bool
    values: Sequence[float | None] = Field(description="Of the source, then of each return.")


class ScoreChainOutput(Output):
    """`score`, of one chain."""

    schema_name = "score-chain"
    name: str
    source: str
    trips: Sequence[TripMeasures]
    metrics: dict[str, ChainByMetric]
    quality: dict[str, ChainQuality] = {}
    signs: Sequence[str]
    provenance: Mapping[str, Any]
    report: str | None


class OwnRun(Strict):
    """The chains of one model."""

    chains: dict[str, str] = Field(description="The folder of each chain.")
    results: Results
    scores: RunScores


class ScoreChainsOutput(Output):
    """`score`, of a folder of chains or of models with their chains."""

    schema_name = "score-chains"
    suite: dict[str, Any]
    runs: dict[str, OwnRun]
    ranks: list[Rank]
    report: str | None


def add_chain_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that describe the images."""
    group = parser.add_argument_group("pictures that are not a run's")
    group.add_argument("--name", help="what to call the model in the report (the folder's name)")
    group.add_argument(
        "--in-turn",
        action="store_true",
        help="sorted pictures are edited and restored in turn (else all are restored)",
    )
    group.add_argument(
        "--change",
        choices=("local", "global", "none"),
        help="what the forward edit does: adds or removes something (local, the default), "
        "changes all of the picture, or nothing",
    )
    group.add_argument("--operator", choices=list(OPERATORS), help="the edit is this exact move")
    group.add_argument(
        "--pair", metavar="SLUG", help="the edit is this pair of the benchmark's, such as glasses"
    )
    group.add_argument(
        "--object", help="what is added and removed, such as glasses: witnesses look for it"
    )
    group.add_argument("--forward", default="", help="the forward prompt, for the report")
    group.add_argument("--backward", default="", help="the backward prompt, for the report")
    group.add_argument("--out", type=Path, help="folder of the report (FOLDER/NAME-report)")
    group.add_argument("--no-report", action="store_true", help="only the numbers")


def score_chains(args: argparse.Namespace) -> int:
    """Score the images in `args.folder`; return the exit code."""
    names = ("forward", "backward", "change", "operator", "object")
    changes = {name: getattr(args, name) for name in names}
    pair_by_name = known_pair(args.pair) if args.pair else None

    def changed(pair: EditPair) -> EditPair:
        return with_pair(pair_by_name or pair, changes)

    judge = asked_judge(args, args.folder / ANSWERS)
    chain = None
    if is_chain(args.folder):
        chain = find_chain(args.folder, in_turn=args.in_turn)
        chain = replace(chain, pair=changed(chain.pair), name=args.name or chain.name)
        own_runs = chain.alone(read_picture(chain.source))
        name = chain.name
    else:
        name = args.name or ""
        own_runs = find_runs(args.folder, in_turn=args.in_turn, name=name, changed=changed)
        name = name or args.folder.resolve().name
    scorer = new_scorer(args.metrics)
    with progress(own_runs.trips, f"scoring {name}", "trip") as bar:
        scores = score_runs(own_runs, scorer, judge, on_trips=bar.update)
    if judge:
        report_judge(judge)
    results = {model: run_results(own_runs.suite, values) for model, values in scores.items()}
    page = None
    if all(results.values()) and not args.no_report:
        out = args.out or args.folder / f"{name}-report".replace("/", "-")
        page = Report(
            own_runs.suite, [_reported(own_runs, *item) for item in scores.items()]
        ).write(out)
    if chain:
        _say_chain(args, chain, own_runs.suite, scores[name], page)
    else:
        _say_runs(args, own_runs, scores, results, page)
    if page and not args.json:
        say(f"\nThe report is {page}")
    return 0


def _say_chain(
    args: argparse.Namespace,
    chain: OwnChain[Path],
    suite: Suite,
    scores: RunScores,
    page: Path | None,
) -> None:
    if args.json:
        say_json(_output(chain, suite, scores, page))
        return
    say(f"{_trip_table(scores)}\n\n{results_table(run_results(suite, scores))}")
    if numbers := scores.no_reference(suite):
        say(f"\n{no_reference_table(numbers)}")


def _say_runs(
    args: argparse.Namespace,
    own: OwnRuns,
    scores: Mapping[str, RunScores],
    results: Mapping[str, Results],
    page: Path | None,
) -> None:
    board = ranks(own.suite, scores)
    if args.json:
        runs = {
            model: OwnRun(
                chains={
                    slug: placed.chain.source.parent.name
                    for slug, placed in own.runs[model].items()
                },
                results=by_metric,
                scores=scores[model],
            )
            for model, by_metric in results.items()
        }
        report = str(page) if page else None
        say_json(
            ScoreChainsOutput(suite=own.suite.to_dict(), runs=runs, ranks=board, report=report)
        )
        return
    for model, by_metric in results.items():
        say(f"{model}\n\n{results_table(by_metric)}\n")
    if len(results) > 1:
        say(ranks_table(board))


def _reported(own: OwnRuns, model: str, scores: RunScores) -> ReportedRun:
    """Return a model's chains as a run of the report."""

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
        retention = scores.retention(chain, name)
        calibration = scores.pictures["source"][name]
        if name == HEADLINE and retention and calibration:
            head += [f"{metric.label} kept", "as one JPEG save"]
            columns.append([f"{q:.3f}" for q in retention])
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


def _output(
    chain: OwnChain[Path], suite: Suite, scores: RunScores, page: Path | None
) -> ScoreChainOutput:
    (scored,) = scores.chains.values()
    results = run_results(suite, scores)
    metrics = {}
    for name in scores.metrics:
        distances, calibration = scored.distances[name], scores.pictures["source"][name]
        metric, result = metric_class(name), results.get(name)
        metrics[name] = ChainByMetric(
            label=metric.label,
            version=metric.version,
            distances=distances,
            shown=[load_metric(name).shown(d) for d in distances] if distances else None,
            blank=calibration.blank if calibration else None,
            retention=scores.retention(scored, name),
            jpeg_equivalent=[jpeg_equivalent(d, calibration.ladder) for d in distances]
            if distances and calibration
            else None,
            event=next(iter(result.events.values())) if result else None,
            half_life=result.summary.half_life if result else None,
            usable_trips=result.summary.usable_trips if result else None,
            auc=result.summary.auc if result else None,
        )
    quality = {
        name: ChainQuality(
            label=about.label,
            version=run.get("version", ""),
            higher_is_better=about.higher_is_better,
            values=scored.quality[name],
        )
        for name, run in scores.quality_metrics.items()
        if (about := value_scale(name, run)) and name in scored.quality
    }
    return ScoreChainOutput(
        name=chain.name,
        source=str(chain.source),
        trips=scored.trips,
        metrics=metrics,
        quality=quality,
        signs=scored.signs,
        provenance=scores.provenance,
        report=str(page) if page else None,
    )
