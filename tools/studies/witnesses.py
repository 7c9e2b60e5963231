"""The study of witnesses: how often they err, on chains whose truth is known."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from evaluation.cli.playing import find_suite
from evaluation.cli.printing import CommandError
from evaluation.measuring.error_rates import ErrorRate, ErrorTable
from evaluation.measuring.scoring import Scorer
from evaluation.measuring.subject import chain_subject
from evaluation.play.own_chains import find_chain, read_image, with_pair
from evaluation.play.run_folder import RunFolder
from evaluation.witnesses import WITNESSES, TripToJudge
from tools.studies import tables
from tools.studies.witness_rates import MEASURES

HELP = "measure how often the witnesses err, on chains whose truth is known"
DESCRIPTION = """\
Witnesses say whether an edit was made and undone. This study counts how often they
are wrong: on folders in which every edit was made and undone, such as a run of the
oracle, and on folders in which none was made, such as a run of an editor that draws a red
ball whatever it is asked. A folder is a run, or one chain as for `score` (with
"object" in its manifest's pair, or --object). For example:
  python -m tools.studies witnesses oracle-smoke --not-made red-ball-smoke"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument(
        "--not-made",
        action="append",
        default=[],
        type=Path,
        metavar="FOLDER",
        help="a folder in which no edit that was asked for was made; may be given again",
    )
    parser.add_argument(
        "--suite",
        action="append",
        default=[],
        metavar="SUITE",
        help="judge drawn edits of this suite, and a red ball in their place, through wear",
    )
    parser.add_argument(
        "--measure",
        default="drawn",
        metavar="WHAT",
        help=f"of a suite, with commas between: {', '.join(MEASURES)} (drawn)",
    )
    parser.add_argument("--witness", metavar="NAMES", help="hear only these, with commas between")
    parser.add_argument("--object", default="", help="what the edits of single chains are about")
    parser.add_argument("--trips", type=int, default=1, help="of each chain are judged (1)")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    parser.add_argument(
        "--store",
        action="store_true",
        help="keep the rows in the table that the site shows, in the place of those they measure anew",
    )


def run(args: argparse.Namespace) -> None:
    """Measure and print the table."""
    scorer = Scorer(["face"])  # it finds the face of an image that nobody annotated
    panel = scorer.panel
    if args.witness:
        panel.keep(_known(args.witness, WITNESSES))
    suites: dict[str, str] = {}
    rows: list[ErrorRate] = []
    for made, folders in ((True, args.folders), (False, args.not_made)):
        for folder in folders:
            rows += _rates(scorer, folder, made, args, suites)
    for name in args.suite:
        suite = find_suite(name)
        suites[suite.slug] = suite.content_hash
        for what in _known(args.measure, MEASURES):
            rows += [replace(rate, suite=suite.slug) for rate in MEASURES[what](panel, suite)]
    measured = ErrorTable(suites, tuple(rows))
    if args.store:
        tables.store(tables.merged(ErrorTable.stored("witness"), measured), "witness")
    if args.json:
        print(tables.as_json(measured, not_run=panel.not_run))
        return
    print(tables.as_text(["witness", "looked for"], [(rate.of, rate) for rate in rows]))
    for name, why in panel.not_run.items():
        print(f"{name} was not run: {why}")


def _known(names: str, among: Collection[str]) -> list[str]:
    """The names, all of which are known."""
    asked = [name.strip() for name in names.split(",")]
    for name in asked:
        if name not in among:
            raise CommandError(f"there is no {name!r}; there are {', '.join(among)}")
    return asked


def _rates(
    scorer: Scorer, folder: Path, made: bool, args: argparse.Namespace, suites: dict[str, str]
) -> list[ErrorRate]:
    """By witness, thing and half: how often it was wrong in this folder."""
    verdicts: dict[tuple[str, str], dict[str, bool]] = defaultdict(dict)
    for slug, trip in _trips(folder, scorer, args, suites):
        for heard in scorer.panel.hear(trip):
            for question in ("made", "undone", "kept") if made else ("made",):
                if heard.get(question) is None:
                    continue
                key = heard["witness"], f"{heard['thing']} {question}, {folder.name}"
                verdicts[key][slug] = heard[question]
    return [
        ErrorRate(
            of,
            what,
            made,
            len(seen),
            sum(seen.values()),
            tuple(slug for slug, verdict in seen.items() if verdict is not made),
        )
        for (of, what), seen in sorted(verdicts.items())
    ]


def _trips(
    folder: Path, scorer: Scorer, args: argparse.Namespace, suites: dict[str, str]
) -> Iterator[tuple[str, TripToJudge]]:
    """The first trips of every chain in the folder, by the chain's name and the trip's number."""
    if not (folder / "run.json").is_file():
        yield from _own_trips(folder, scorer, args)
        return
    run = RunFolder.open(folder)
    suites[run.suite.slug] = run.suite.content_hash
    for chain in run.chains.values():
        source, pair = run.source(chain), run.pair(chain)
        image = run.suite.image_by_slug[chain.image]
        before, subject = source, None
        for number, edits in enumerate(islice(chain.trips, args.trips), start=1):
            images = [before, *(run.read(chain, edit) for edit in edits)]
            for move in pair.trip(number).moves:
                own, edited = pair.of_move(number, move), images[move.edited]
                first, last = images[move.before], move.restored
                if not (subject and not pair.shape):
                    subject = chain_subject(image, first, edited, own)
                yield (
                    f"{chain.slug} {number}{move.letter}",
                    TripToJudge(
                        source,
                        first,
                        edited,
                        None if last is None else images[last],
                        own,
                        subject,
                    ),
                )
            before = images[-1]


def _own_trips(
    folder: Path, scorer: Scorer, args: argparse.Namespace
) -> Iterator[tuple[str, TripToJudge]]:
    chain = find_chain(folder)
    pair = with_pair(chain.pair, {"object": args.object})
    source = read_image(chain.source)
    before, face, subject = source, scorer.only_face(source), None
    for number, (forward, backward) in enumerate(islice(chain.trips, args.trips), start=1):
        restored = read_image(backward)
        if forward:
            edited = read_image(forward)
            subject = subject or chain_subject(None, source, edited, pair, face)
            yield (
                f"{chain.name} {number}",
                TripToJudge(source, before, edited, restored, pair, subject),
            )
        before = restored
