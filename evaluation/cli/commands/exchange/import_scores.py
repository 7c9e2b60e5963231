"""`convergebench import-scores FILE RUN`: what metrics said that ran elsewhere."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from evaluation.cli.commands.score import no_reference_table
from evaluation.cli.printing import CommandError, say, say_json
from evaluation.metrics.no_reference import no_reference_in_order
from evaluation.metrics.score_file import (
    MAX_IN_RUN,
    ChainPictures,
    ScoreFileError,
    place,
    read_score_file,
)
from evaluation.play.run_folder import RunFolder
from evaluation.play.run_scores import RunScores, read_scores

HELP = "take the values of no-reference metrics that ran elsewhere into a run"
DESCRIPTION = """\
Takes a CSV or JSON file of values that no-reference metrics gave to the pictures of a
scored run, for metrics that do not run here. A row names a picture by the SHA-256 of its
file, or by case, repeat and trip (0 is the source), then metric, value (empty: not run)
and version; metrics that Banana100 does not list also say higher_is_better.
A row that does not fit is named with its line, and nothing is written then.
A metric that the run has from an earlier file is replaced."""
EPILOG = """\
examples:
  python examples/no_reference_scores.py RUN --metrics musiq,topiq_nr > scores.csv
  convergebench import-scores scores.csv RUN"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a CSV or JSON file")
    parser.add_argument("run", type=Path, metavar="RUN", help="a folder made by `play`, scored")
    parser.add_argument("--json", action="store_true", help="print what was taken as JSON")


def run(args: argparse.Namespace) -> int:
    folder = RunFolder.open(args.run)
    scores = read_scores(folder)
    if scores is None:
        raise CommandError(f"{args.run} is not scored yet: convergebench score {args.run}")
    found = read_score_file(args.file)
    files = {**scores.provenance.get("score_files", {}), **found.metrics}
    if len(files) > MAX_IN_RUN:
        raise ScoreFileError(f"{args.run} would have more than {MAX_IN_RUN} imported metrics")
    pictures = {slug: _pictures(folder, scores, slug) for slug in scores.chains}
    place(found, pictures.values())
    chains = {
        slug: replace(
            chain,
            # Of a chain that the file does not speak of, nothing of before stays either.
            quality={n: v for n, v in chain.quality.items() if n not in found.metrics}
            | {name: tuple(values) for name, values in pictures[slug].quality.items()},
        )
        for slug, chain in scores.chains.items()
    }
    told = {**scores.provenance, "score_files": files}
    scores = replace(scores, chains=chains, provenance=told)
    folder.write_json("scores.json", scores.to_dict())
    numbers = scores.no_reference(folder.suite)
    if args.json:
        say_json(
            "import-scores",
            {
                "run": str(args.run),
                "metrics": no_reference_in_order(found.metrics),
                "values": len(found.rows),
                "no_reference": numbers,
            },
        )
        return 0
    say(no_reference_table(numbers))
    return 0


def _pictures(folder: RunFolder, scores: RunScores, slug: str) -> ChainPictures:
    chain = folder.chains[slug]
    source = folder.source(chain).sha256
    return ChainPictures(chain.case, chain.repeat, source, scores.chains[slug].restored)
