"""The study of witnesses: their error rates on chains with a known truth."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from evaluation.cli.playing import find_suite
from evaluation.cli.printing import CommandError
from evaluation.measuring.error_rates import ErrorRate, ErrorTable
from evaluation.measuring.scoring import Scorer
from evaluation.measuring.subject import chain_subject
from evaluation.play.external_chains import changed_pair, find_chain, read_image
from evaluation.play.run_folder import RunFolder
from evaluation.untrusted_json import read_json_file
from evaluation.witnesses import WITNESSES, TripToJudge
from tools.studies import tables
from tools.studies.witness_rates import MEASURES

HELP = "measure the error rates of the witnesses on chains with a known truth"
DESCRIPTION = """\
Witnesses are programs, such as an object detector, that judge if an edit was made and
undone. This study counts their errors. FOLDER is one of these:
- a run in which every edit was made and undone, such as a run of the oracle;
- with --not-made, a run in which no edit was made, such as a run of an editor that draws
  a red ball for every prompt;
- chains of any editor that a person judged by eye:
    FOLDER/CHAIN/I0_source.png, I1_forward.png, I1_backward.png, ...   as for `score`
    FOLDER/CHAIN/judged.json
      {"object": "hat",
       "trips": [{"made": true, "undone": true, "same_person": false, "kept": true}, ...]}
  "kept" means that all other things are still there. Missing answers are not counted.
  FOLDER may also be the folder of a single judged chain.
For example:
  python -m tools.studies witnesses oracle-smoke judged-chains --not-made red-ball-smoke"""
JUDGED = "judged.json"


class Judgement(BaseModel):
    """A person's judgement of one trip; None if not judged."""

    model_config = ConfigDict(extra="forbid", strict=True)

    made: bool | None = None
    undone: bool | None = None
    same_person: bool | None = None
    kept: bool | None = None


class JudgedChain(BaseModel):
    """The content of judged.json in the folder of a judged chain."""

    model_config = ConfigDict(extra="forbid", strict=True)

    object: str
    trips: list[Judgement]


DONE = Judgement(made=True, undone=True, same_person=True, kept=True)
NOT_MADE = Judgement(made=False)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument(
        "--not-made",
        action="append",
        default=[],
        type=Path,
        metavar="FOLDER",
        help="a folder of a run in which no requested edit was made; may be repeated",
    )
    parser.add_argument(
        "--suite",
        action="append",
        default=[],
        metavar="SUITE",
        help="judge edits drawn in this suite's images, and red balls drawn instead of the "
        "edits, with several kinds of wear",
    )
    parser.add_argument(
        "--measure",
        default="drawn",
        metavar="WHAT",
        help=f"what to measure with --suite, comma-separated: {', '.join(MEASURES)} "
        "(default: drawn)",
    )
    parser.add_argument("--witness", metavar="NAMES", help="only these witnesses, comma-separated")
    parser.add_argument(
        "--trips", type=int, default=1, help="trips to judge in each chain of a run (default: 1)"
    )
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    parser.add_argument(
        "--store",
        action="store_true",
        help="store the rows in the table of the methodology page, replacing older rows",
    )


def run(args: argparse.Namespace) -> None:
    """Measure and print the table."""
    scorer = Scorer(["face"])  # to detect faces in images without annotations
    panel = scorer.panel
    if args.witness:
        panel.restrict_to(_known(args.witness, WITNESSES))
    suites: dict[str, str] = {}
    rows: list[ErrorRate] = []
    for truth, folders in ((DONE, args.folders), (NOT_MADE, args.not_made)):
        for folder in folders:
            rows += _rates(scorer, folder, truth, args.trips, suites)
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
    print(tables.as_text(["witness", "question"], [(rate.of, rate) for rate in rows]))
    for name, why in panel.not_run.items():
        print(f"{name} was not run: {why}")


def _known(names: str, among: Collection[str]) -> list[str]:
    """Split comma-separated names. Raises CommandError naming the first unknown name."""
    requested = [name.strip() for name in names.split(",")]
    for name in requested:
        if name not in among:
            raise CommandError(f"there is no {name!r}; choose from {', '.join(among)}")
    return requested


def _rates(
    scorer: Scorer, folder: Path, truth: Judgement, trips: int, suites: dict[str, str]
) -> list[ErrorRate]:
    """Return the error rates in this folder, by witness, thing and question."""
    judged = _run_trips(folder, truth, trips, suites)
    if not (folder / "run.json").is_file():
        judged = _judged_trips(folder, scorer)
    verdicts: dict[tuple[str, str, bool], dict[str, bool]] = defaultdict(dict)
    for slug, trip, truths in judged:
        for item in scorer.panel.evidence(trip):
            for question in ("made", "undone", "kept"):
                person = question == "kept" and item["witness"] == "identity"
                should = truths.same_person if person else getattr(truths, question)
                if should is None or item.get(question) is None:
                    continue
                key = item["witness"], f"{item['thing']} {question}, {folder.name}", should
                verdicts[key][slug] = item[question]
    return [
        ErrorRate(
            of,
            what,
            should,
            len(seen),
            sum(seen.values()),
            tuple(slug for slug, verdict in seen.items() if verdict is not should),
        )
        for (of, what, should), seen in sorted(verdicts.items())
    ]


def _run_trips(
    folder: Path, truth: Judgement, trips: int, suites: dict[str, str]
) -> Iterator[tuple[str, TripToJudge, Judgement]]:
    """Yield name, images and truth of the first trips of every chain of a run."""
    run = RunFolder.open(folder)
    suites[run.suite.slug] = run.suite.content_hash
    for chain in run.chains.values():
        source, pair = run.source(chain), run.pair(chain)
        image = run.suite.image_by_slug[chain.image]
        before, subject = source, None
        for number, edits in enumerate(islice(chain.trips, trips), start=1):
            images = [before, *(run.read(chain, edit) for edit in edits)]
            for move in pair.trip(number).moves:
                edit_pair, edited = pair.move_as_pair(number, move), images[move.edited]
                first, last = images[move.before], move.restored
                if not (subject and not pair.shape):
                    subject = chain_subject(image, first, edited, edit_pair)
                back = None if last is None else images[last]
                trip = TripToJudge(source, first, edited, back, edit_pair, subject)
                yield f"{chain.slug} {number}{move.letter}", trip, truth
            before = images[-1]


def _judged_trips(folder: Path, scorer: Scorer) -> Iterator[tuple[str, TripToJudge, Judgement]]:
    """Yield name, images and truth of the trips that a person judged."""
    files = sorted(folder.rglob(JUDGED))
    if not files:
        raise CommandError(f"{folder} is not a run and contains no {JUDGED} (see --help)")
    for file in files:
        judged, chain = _judgements(file), find_chain(file.parent)
        pair = changed_pair(chain.pair, {"object": judged.object})
        source = read_image(chain.source)
        before, face, subject = source, scorer.only_face(source), None
        for number, ((forward, backward), truth) in enumerate(
            zip(chain.trips, judged.trips, strict=False), start=1
        ):
            restored = read_image(backward)
            if forward:
                edited = read_image(forward)
                subject = subject or chain_subject(None, source, edited, pair, face)
                trip = TripToJudge(source, before, edited, restored, pair, subject)
                yield f"{chain.name} {number}", trip, truth
            before = restored


def _judgements(file: Path) -> JudgedChain:
    try:
        return JudgedChain.model_validate(read_json_file(file))
    except (OSError, ValueError) as error:
        raise CommandError(f"{file}: {error}") from error
