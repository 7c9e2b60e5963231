"""`convergebench score`: score a run folder, or existing images."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from evaluation.analysis.thresholds import life, named
from evaluation.cli.printing import (
    CommandError,
    Output,
    echo,
    echo_json,
    note,
    progress,
    table,
)
from evaluation.cli.report import Report, ReportedRun
from evaluation.cli.results import (
    NoReference,
    Rank,
    Results,
    Strict,
    no_reference_table,
    ranks,
    ranks_table,
    results_table,
    run_results,
)
from evaluation.cli.scoring import (
    ANSWERS,
    add_judge,
    add_metrics,
    new_scorer,
    report_judge,
    requested_judge,
    update_scores,
)
from evaluation.content.operators import OPERATORS
from evaluation.content.suites import EditPair
from evaluation.images import EncodedImage
from evaluation.measuring.calibration import jpeg_equivalent
from evaluation.metrics import HEADLINE, load_metric
from evaluation.metrics.score_file import (
    MAX_IN_RUN,
    ChainImages,
    ScoreFileError,
    place_values,
    read_score_file,
)
from evaluation.play.external_chains import (
    ExternalChain,
    ExternalRuns,
    catalog_pair,
    changed_pair,
    find_runs,
    is_chain,
    read_image,
    score_runs,
)
from evaluation.play.run_folder import RunFolder
from evaluation.play.run_scores import RunScores, read_scores

HELP = "score a run folder, or images that you already have"
DESCRIPTION = f"""\
Scores every restored image against its source by every metric that can run here,
and judges whether each edit was made. A case is usable until its image is
{named()}, or an edit was not made; the {life().lower()} is the trip by which
half of the images are no longer usable.

A run folder: writes RUN/scores.json after every chain. Scoring it again computes only
what is new. With --import, values of no-reference metrics that were computed elsewhere
are added to a scored run instead. The file is CSV or JSON. Each row gives an image (by
the SHA-256 of its file, or by case, repeat and trip; trip 0 is the source), a metric,
its value (empty: not run) and its version. Metrics that the paper Banana100 does not
list need higher_is_better too. If a row does not fit, its line is reported and nothing
is written.

A chain from elsewhere: a folder with

  I0_source.png, I1_forward.png, I1_backward.png, I2_forward.png, ...

with or without the forward images; or any images in sorted order, the first
being the source; or a manifest.json:

  {{"model": "...", "source": "a.png",
   "trips": [{{"forward": "b.png", "backward": "c.png"}}, ...],
   "pair": {{"forward": "Add a hat.", "backward": "Remove the hat.", "change": "local"}}}}

A folder of such folders is one run, with one half-life and interval. A folder of model
folders, each with chains, has one run per model; the runs are compared and ranked.
Chains with the same source image and the same edit are the same case. A chain with an
image that cannot be read is scored up to the trip before. Chains of different lengths
are compared over the trips that all of them have. The report is written into the folder."""
EPILOG = """\
examples:
  convergebench score jpeg-smoke                     a run
  convergebench score jpeg-smoke --import musiq.csv  values of examples/no_reference_scores.py
  convergebench score my-chain
  convergebench score my-chains                      FOLDER/CHAIN/I0_source.png, ...
  convergebench score my-models                      FOLDER/MODEL/CHAIN/I0_source.png, ...
  convergebench score my-flips --operator flip_horizontal
  convergebench score my-chain --pair glasses        checks look for its object; or --object glasses
  convergebench score my-chain --judge gpt-4o        a judge model too; its key is in JUDGE_KEY
  convergebench score frames --in-turn --json > scores.json

A metric that cannot run here is "not run", never 0; see `convergebench weights`."""


class ScoreOutput(Output):
    """Output of `score --json` for a run folder."""

    schema_name = "score"
    run: str
    name: str
    complete: bool
    no_reference: dict[str, NoReference] = Field(default={}, description="By no-reference metric.")
    results: Results = Field(description="By metric, the headline metric first.")
    scores: RunScores


class OwnRun(Strict):
    """The chains of one model."""

    chains: dict[str, str] = Field(description="The folder of each chain.")
    retention: dict[str, dict[str, Sequence[float] | None]] = Field(
        description="After each trip, by chain and metric."
    )
    results: Results
    scores: RunScores


class ScoreChainsOutput(Output):
    """Output of `score --json` for a chain, or a folder of chains or of models."""

    schema_name = "score-chains"
    suite: dict[str, Any]
    runs: dict[str, OwnRun]
    ranks: list[Rank]
    report: str | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a run, or images")
    parser.add_argument("--again", action="store_true", help="compute all scores of a run again")
    parser.add_argument(
        "--import",
        dest="score_file",
        type=Path,
        metavar="FILE",
        help="import values of no-reference metrics into a scored run",
    )
    add_metrics(parser)
    add_judge(parser)
    add_chain_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print scores and results as JSON")


def run(args: argparse.Namespace) -> int:
    if args.folder.is_dir() and not (args.folder / "run.json").is_file() and not args.score_file:
        return score_chains(args)
    folder = RunFolder.open(args.folder)
    if args.score_file:
        scores = import_scores(folder, args.score_file)
    else:
        judge = requested_judge(args, folder.path / ANSWERS)
        scores = update_scores(folder, new_scorer(args.metrics), again=args.again, judge=judge)
    results, no_reference = run_results(folder.suite, scores), scores.no_reference(folder.suite)
    if args.json:
        echo_json(
            ScoreOutput(
                run=str(args.folder),
                name=folder.name,
                complete=folder.complete,
                results=results,
                no_reference=no_reference,
                scores=scores,
            )
        )
        return 0
    if not folder.complete:
        note(f"{args.folder} is incomplete: these numbers cover only its finished chains")
    echo(results_table(results))
    if no_reference:
        echo(f"\n{no_reference_table(no_reference)}")
    echo(f"\nnext: convergebench report {args.folder}")
    return 0


def import_scores(folder: RunFolder, file: Path) -> RunScores:
    """Import a score file into a scored run. Raises ScoreFileError naming the line."""
    scores = read_scores(folder)
    if scores is None:
        raise CommandError(f"{folder.path} is not scored yet: convergebench score {folder.path}")
    values = read_score_file(file)
    files = {**scores.provenance.get("score_files", {}), **values.metrics}
    if len(files) > MAX_IN_RUN:
        raise ScoreFileError(f"{folder.path} would have more than {MAX_IN_RUN} imported metrics")
    images = {slug: _images(folder, scores, slug) for slug in scores.chains}
    place_values(values, images.values())
    chains = {
        slug: replace(
            chain,
            # Earlier values of these metrics are removed from all chains.
            quality={n: v for n, v in chain.quality.items() if n not in values.metrics}
            | {name: tuple(row) for name, row in images[slug].quality.items()},
        )
        for slug, chain in scores.chains.items()
    }
    provenance = {**scores.provenance, "score_files": files}
    scores = replace(scores, chains=chains, provenance=provenance)
    folder.write_json("scores.json", scores.to_dict())
    note(f"imported {len(values.rows)} values of {', '.join(values.metrics)}")
    return scores


def _images(folder: RunFolder, scores: RunScores, slug: str) -> ChainImages:
    chain = folder.chains[slug]
    source = folder.source(chain).sha256
    return ChainImages(chain.case, chain.repeat, source, scores.chains[slug].restored)


# Images that are not from a run.


def add_chain_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that describe the images."""
    group = parser.add_argument_group("images that are not from a run")
    group.add_argument("--name", help="the model's name in the report (default: the folder's name)")
    group.add_argument(
        "--in-turn",
        action="store_true",
        help="sorted images alternate between edited and restored (default: all are restored)",
    )
    group.add_argument(
        "--change",
        choices=("local", "global", "none"),
        help="what the forward edit does: adds or removes something (local, the default), "
        "changes all of the image, or nothing",
    )
    group.add_argument(
        "--operator", choices=list(OPERATORS), help="the edit is this exact operation"
    )
    group.add_argument(
        "--pair", metavar="SLUG", help="the edit is this pair of the benchmark, such as glasses"
    )
    group.add_argument(
        "--object",
        help="the object that is added and removed, such as glasses; witnesses (automatic "
        "checks) look for this object",
    )
    group.add_argument("--forward", default="", help="the forward prompt, for the report")
    group.add_argument("--backward", default="", help="the backward prompt, for the report")
    group.add_argument(
        "--out", type=Path, help="folder of the report (default: FOLDER/NAME-report)"
    )
    group.add_argument("--no-report", action="store_true", help="write no report")


def score_chains(args: argparse.Namespace) -> int:
    """Score the images in `args.folder`; return the exit code."""
    names = ("forward", "backward", "change", "operator", "object")
    changes = {name: getattr(args, name) for name in names}
    pair_by_name = catalog_pair(args.pair) if args.pair else None

    def change_pair(pair: EditPair) -> EditPair:
        return changed_pair(pair_by_name or pair, changes)

    judge = requested_judge(args, args.folder / ANSWERS)
    external = find_runs(
        args.folder,
        in_turn=args.in_turn,
        name=args.name or "",
        change_pair=change_pair,
        on_cut=note,
    )
    is_single_chain = is_chain(args.folder)
    name = next(iter(external.runs)) if is_single_chain else args.name or args.folder.resolve().name
    scorer = new_scorer(args.metrics)
    with progress(external.trips, f"scoring {name}", "trip") as bar:
        scores = score_runs(external, scorer, judge, on_trips=bar.update)
    if judge:
        report_judge(judge)
    results = {model: run_results(external.suite, values) for model, values in scores.items()}
    page = None
    if all(results.values()) and not args.no_report:
        out = args.out or args.folder / f"{name}-report".replace("/", "-")
        page = Report(
            external.suite, [_reported(external, *item) for item in scores.items()]
        ).write(out)
    board = ranks(external.suite, scores)
    if args.json:
        runs = {
            model: _own_run(external, model, scores[model], results[model]) for model in results
        }
        report = str(page) if page else None
        echo_json(
            ScoreChainsOutput(suite=external.suite.to_dict(), runs=runs, ranks=board, report=report)
        )
        return 0
    for model, by_metric in results.items():
        head = _trip_table(scores[model]) if is_single_chain else model
        echo(f"{head}\n\n{results_table(by_metric)}\n")
        if is_single_chain and (numbers := scores[model].no_reference(external.suite)):
            echo(f"{no_reference_table(numbers)}\n")
    if len(results) > 1:
        echo(ranks_table(board))
    if page:
        echo(f"The report is {page}")
    return 0


def _own_run(external: ExternalRuns, model: str, scores: RunScores, results: Results) -> OwnRun:
    chains = external.runs[model]
    return OwnRun(
        chains={slug: placed.chain.source.parent.name for slug, placed in chains.items()},
        retention={
            slug: {name: scores.retention(chain, name) for name in scores.metrics}
            for slug, chain in scores.chains.items()
        },
        results=results,
        scores=scores,
    )


def _reported(external: ExternalRuns, model: str, scores: RunScores) -> ReportedRun:
    """Return a model's chains as a run of the report."""

    def chain(slug: str) -> ExternalChain[Path]:
        return external.runs[model][slug].chain

    def trip(slug: str, number: int) -> tuple[EncodedImage | None, EncodedImage]:
        forward, backward = chain(slug).trips[number - 1]
        return read_image(forward) if forward else None, read_image(backward)

    return ReportedRun(
        model,
        scores,
        {"editor": model},
        source=lambda slug: read_image(chain(slug).source),
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
        calibration = scores.images[chain.image][name]
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
