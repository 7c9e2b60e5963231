"""`convergebench score`: score a run folder, or existing images."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from evaluation.analysis.levels import life, lost
from evaluation.cli.chain_folders import add_chain_arguments, score_chains
from evaluation.cli.printing import CommandError, Output, note, say, say_json
from evaluation.cli.results import (
    NoReference,
    Results,
    no_reference_table,
    results_table,
    run_results,
)
from evaluation.cli.scoring import (
    ANSWERS,
    add_judge,
    add_metrics,
    asked_judge,
    new_scorer,
    scored,
)
from evaluation.metrics.score_file import (
    MAX_IN_RUN,
    ChainPictures,
    ScoreFileError,
    place,
    read_score_file,
)
from evaluation.play.run_folder import RunFolder
from evaluation.play.run_scores import RunScores, read_scores

HELP = "score a run folder, or pictures that you have already"
DESCRIPTION = f"""\
Scores every restored picture against its source by every metric that can run here,
and judges whether each edit was made. A case is usable until {lost()} of
its picture is lost, as a whole or in one place, or an edit was not made; the
{life().lower()} is that of the exponential decay with as many usable trips.

A run folder: writes RUN/scores.json after every chain; scored again, only what is new
is computed. With --import it takes values of no-reference metrics that ran elsewhere
into a scored run instead: a CSV or JSON file whose rows name a picture by the SHA-256
of its file, or by case, repeat and trip (0 is the source), then metric, value (empty:
not run) and version; metrics that Banana100 does not list also say higher_is_better.
A row that does not fit is named with its line, and nothing is written then.

A chain that was played elsewhere: a folder with

  I0_source.png, I1_forward.png, I1_backward.png, I2_forward.png, ...

with or without the forward pictures; or any pictures in sorted order, the first
being the source; or a manifest.json:

  {{"model": "...", "source": "a.png",
   "trips": [{{"forward": "b.png", "backward": "c.png"}}, ...],
   "pair": {{"forward": "Add a hat.", "backward": "Remove the hat.", "change": "local"}}}}

A folder of such folders is one run: half-life and interval of all of them. A folder of
model folders, with chains in each, is a run for every model, compared and ranked;
chains with the same source picture and the same edit are the same case. The report is
written into the folder."""
EPILOG = """\
examples:
  convergebench score jpeg-smoke                     a run
  convergebench score jpeg-smoke --import musiq.csv  values of examples/no_reference_scores.py
  convergebench score my-chain
  convergebench score my-chains                      FOLDER/CHAIN/I0_source.png, ...
  convergebench score my-models                      FOLDER/MODEL/CHAIN/I0_source.png, ...
  convergebench score my-flips --operator flip_horizontal
  convergebench score my-chain --pair glasses        witnesses look for it; or --object glasses
  convergebench score my-chain --judge gpt-4o        and so does a model; its key is in JUDGE_KEY
  convergebench score frames --in-turn --json > scores.json

A metric that cannot run here is "not run", never 0: `convergebench weights`."""


class ScoreOutput(Output):
    """`score`, of a run folder."""

    schema_name = "score"
    run: str
    name: str
    complete: bool
    no_reference: dict[str, NoReference] = Field(default={}, description="By no-reference metric.")
    results: Results = Field(description="By metric, the headline first.")
    scores: RunScores


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a run, or pictures")
    parser.add_argument("--again", action="store_true", help="compute everything of a run anew")
    parser.add_argument(
        "--import",
        dest="score_file",
        type=Path,
        metavar="FILE",
        help="take the values of no-reference metrics that ran elsewhere into a scored run",
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
        judge = asked_judge(args, folder.path / ANSWERS)
        scores = scored(folder, new_scorer(args.metrics), again=args.again, judge=judge)
    results, no_reference = run_results(folder.suite, scores), scores.no_reference(folder.suite)
    if args.json:
        say_json(
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
        note(f"{args.folder} is not complete: these numbers are of the chains that are")
    say(results_table(results))
    if no_reference:
        say(f"\n{no_reference_table(no_reference)}")
    say(f"\nnext: convergebench report {args.folder}")
    return 0


def import_scores(folder: RunFolder, file: Path) -> RunScores:
    """Import a score file into a scored run. Raises ScoreFileError naming the line."""
    scores = read_scores(folder)
    if scores is None:
        raise CommandError(f"{folder.path} is not scored yet: convergebench score {folder.path}")
    table = read_score_file(file)
    files = {**scores.provenance.get("score_files", {}), **table.metrics}
    if len(files) > MAX_IN_RUN:
        raise ScoreFileError(f"{folder.path} would have more than {MAX_IN_RUN} imported metrics")
    pictures = {slug: _pictures(folder, scores, slug) for slug in scores.chains}
    place(table, pictures.values())
    chains = {
        slug: replace(
            chain,
            # Earlier values of these metrics are removed from all chains.
            quality={n: v for n, v in chain.quality.items() if n not in table.metrics}
            | {name: tuple(values) for name, values in pictures[slug].quality.items()},
        )
        for slug, chain in scores.chains.items()
    }
    provenance = {**scores.provenance, "score_files": files}
    scores = replace(scores, chains=chains, provenance=provenance)
    folder.write_json("scores.json", scores.to_dict())
    note(f"{len(table.rows)} values of {', '.join(table.metrics)}")
    return scores


def _pictures(folder: RunFolder, scores: RunScores, slug: str) -> ChainPictures:
    chain = folder.chains[slug]
    source = folder.source(chain).sha256
    return ChainPictures(chain.case, chain.repeat, source, scores.chains[slug].restored)
