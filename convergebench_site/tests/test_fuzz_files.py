"""Random files for all readers of files: they accept them or refuse them clearly.

The files are score files, experiments, suites, run folders, folders of images and tables of
figures. As in test_fuzz, `make fuzz` extends the corpus, and `@example` lists former defects.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from evaluation.analysis.half_life import METHOD_VERSION
from evaluation.content.suites import Case, EditPair, Suite, SuiteImage
from evaluation.errors import UserFacingError
from evaluation.experiment_file import ExperimentFile
from evaluation.metrics.score_file import ChainImages, parse, place_values
from evaluation.play.external_chains import find_chain
from evaluation.play.run_folder import PlayedAudit, PlayedChain, PlayedEdit, RunFolder
from evaluation.play.run_scores import ChainScores, read_scores
from evaluation.records import TripMeasures
from evaluation.testing.images import encoded, gradient
from evaluation.testing.made_up import Corpus, altered
from evaluation.untrusted_json import can_be_stored
from evaluation.witnesses.judge import AnswerFile, StoredAnswer
from leaderboard.published_figures import FiguresError, _csv_rows

pytestmark = pytest.mark.fuzz

IMAGE = SuiteImage(
    *("desk", "0" * 64, 512, 384, "object", "file:desk.webp", "A desk", "A", "CC0-1.0", "A")
)
PAIR = EditPair("cup", "objects", "Add a cup.", "Remove the cup.", "local", object="cup")
SUITE = Suite("s", 1, "S", 3, 512, (IMAGE,), (PAIR,), (Case("desk", "cup"),))


@contextmanager
def folder_with(**files: bytes) -> Iterator[Path]:
    """Make a folder with these files; two underscores in a name stand for a dot."""
    with TemporaryDirectory() as name:
        for file, data in files.items():
            (Path(name) / file.replace("__", ".")).write_bytes(data)
        yield Path(name)


def check_storable(value: object) -> None:
    """Check that accepted JSON can be stored in any database."""
    assert can_be_stored(value)


# The readers.


def read_score_file(data: bytes) -> str:
    found = parse(data, "file")
    check_storable([[row.metric, str(row.image), row.line] for row in found.rows])
    json.dumps([row.value for row in found.rows], allow_nan=False)
    place_values(found, [ChainImages("desk--cup", 0, "0" * 64, ("1" * 64, "2" * 64))])
    return f"{len(found.metrics)} metrics"


def read_experiment(data: bytes) -> str:
    with folder_with(words__yaml=data) as folder:
        found = ExperimentFile.read(folder / "words.yaml")
    check_storable(
        [found.title, found.question, found.suite, list(found.models), found.cases or ""]
    )
    for arm in found.arms.values():
        check_storable(arm.to_dict())
        json.dumps(arm.to_dict(), allow_nan=False)
    return f"{len(found.arms)} arms"


def read_suite(data: bytes) -> str:
    with folder_with(suite__json=data) as folder:
        suite = Suite.read(folder / "suite.json")
    check_storable(suite.to_dict())
    assert Suite.from_dict(json.loads(json.dumps(suite.to_dict()))) == suite
    return f"{len(suite.cases)} cases"


def read_run(data: bytes) -> str:
    """Read a run's run.json."""
    with folder_with(run__json=data) as path:
        folder = RunFolder.open(path)
        check_storable(folder.name)
        return f"{folder.complete} {folder.edits_done} {len(folder.chains)}"


def opened(path: Path) -> RunFolder:
    return RunFolder.create(path / "run", SUITE, editor="oracle", options={}, secret="s" * 32)


def read_chain(data: bytes) -> str:
    """Read a chain's chain.json."""
    with TemporaryDirectory() as name:
        path = opened(Path(name)).path
        (path / "chains" / "desk--cup").mkdir(parents=True)
        (path / "chains" / "desk--cup" / "chain.json").write_bytes(data)
        folder = RunFolder.open(path)
        chain = folder.chains["desk--cup"]
        folder.save()
        return f"{chain.outcome in ('', 'completed')} {len(chain.trips)} {folder.edits_done}"


def read_lines(data: bytes) -> str:
    """Read calls.jsonl, and a file of a judge's answers."""
    with TemporaryDirectory() as name:
        folder = opened(Path(name))
        (folder.path / "calls.jsonl").write_bytes(data)
        calls = folder.calls()
        return f"{len(calls)} {len(AnswerFile(folder.path / 'calls.jsonl').all())}"


def read_scores_json(data: bytes) -> str:
    with TemporaryDirectory() as name:
        folder = opened(Path(name))
        (folder.path / "scores.json").write_bytes(data)
        found = read_scores(folder)
        if found is None:
            return "none of use"
        results = [found.results(SUITE, name) for name in found.metrics]
        return f"{len(results)} metrics, {len(found.no_reference(SUITE))}"


def read_manifest(data: bytes) -> str:
    """Read the manifest.json of a folder of images."""
    with folder_with(manifest__json=data, a__png=encoded(gradient(8, 8))) as path:
        found = find_chain(path)
        return f"{len(found.trips)} {found.pair.change}"


def read_figures(data: bytes) -> str:
    with folder_with(figures__csv=data) as path:
        return f"{len(_csv_rows(path / 'figures.csv', ['model']))} lines"


CORPUS = Corpus(
    Path(__file__).parent / "corpus",
    {
        "score-file": read_score_file,
        "experiment": read_experiment,
        "suite": read_suite,
        "run": read_run,
        "chain": read_chain,
        "lines": read_lines,
        "scores": read_scores_json,
        "manifest": read_manifest,
        "figures": read_figures,
    },
    (UserFacingError, FiguresError),
)


# The inputs of these readers.

ROW = {"case": "desk--cup", "repeat": 0, "trip": 1, "metric": "musiq", "value": 4.5, "version": "1"}
HASHED = {"sha256": "1" * 64, "metric": "own", "value": 4, "version": "1", "higher_is_better": True}
TABLE = (
    b"case,repeat,trip,metric,value,version\ndesk--cup,0,1,musiq,50.5,1\ndesk--cup,,2,musiq,,1\n"
)
EXPERIMENT = b"""title: Does the wording matter?
question: Do longer prompts keep more of the image?
suite: lite
models: [gemini-3.1-flash-image]
repeats: 2
arms:
  plain: {}
  long: {wording: LF, temperature: 0.5, size: interleaved, seeds: fixed}
  also: {also: "Keep it.", session: conversation, cleanup: denoise}
"""
THERE = PlayedEdit(1, "forward", "I1_forward.png", "0" * 64, "image/png", 8, 8, 7, 1.5, 0.01)
BACK = PlayedEdit(1, "backward", "I1_backward.png", "1" * 64, "image/png", 8, 8, 7, 1.5, None)
AUDIT = PlayedAudit(1, "again", "Add a cup.", 3, "A1_sent.png", "answered", "A1_answer.png")
CHAIN = asdict(PlayedChain("desk", "cup", 0, "completed", "", (THERE, BACK), (AUDIT,)))
RUN = {
    "format": 3,
    "editor": "oracle",
    "options": {"name": "x"},
    "secret": "s" * 32,
    "begun": "2026-11-17T14:00:00+00:00",
    "provenance": {"package": "1"},
    "suite": SUITE.to_dict(),
    "arm": {"wording": "long", "prompts": {"cup": ["Add.", "Remove."]}},
    "name": "An editor",
}
CALL = {"at": "2026", "chain": "desk--cup", "direction": "forward", "number": 1, "attempt": 1}
CALL |= {"seconds": 1.5, "ended": "answer", "cost": 0.5}
KEPT = {"key": "k", **asdict(StoredAnswer("trip", "1", "answered", "yes", 0.1, 2.0))}
SCORED = ChainScores(
    *("desk", "cup", 0, "completed", ("1" * 64, "2" * 64), {"psnr": (0.1, 0.2), "object": None}),
    trips=(
        TripMeasures(step=1.0, from_source=1.0),
        TripMeasures(step=1.0, from_source=2.0, change_seen=True, change_measure={"seen": 1.0}),
    ),
    quality={"niqe": (3.0, 3.5, None)},
)
SCORED_ROW = TypeAdapter(ChainScores).dump_python(SCORED)
SCORES = {
    "format": 3,
    "suite": SUITE.content_hash,
    "provenance": {"metrics": {"psnr": {"version": "1"}, "niqe": {"version": "1"}}},
    "method": METHOD_VERSION,
    "orders": [],
    "repeats": 0,
    "images": {"desk": {"psnr": {"blank": 0.5, "ladder": {"90": 0.1}}}},
    "chains": {"desk--cup": SCORED_ROW},
}
MANIFEST = {
    "source": "a.png",
    "model": "m",
    "trips": ["a.png", {"forward": "a.png", "backward": "a.png"}],
}
FIGURES = (
    b"model,metric,trip,value,source,url,date,notes\nA,lpips,1,0.5,Paper,https://a.example,,\n"
)


def lines(*rows: object) -> bytes:
    return "\n".join(json.dumps(row) for row in rows).encode()


@given(CORPUS.damaged("score-file", [TABLE, lines([ROW, HASHED])]) | altered([ROW, HASHED]))
@example(lines([ROW | {"value": 10**400}]))
@example(lines([ROW | {"case": "\0"}]))
def test_any_score_file_is_accepted_or_refused(data: bytes) -> None:
    CORPUS.read("score-file", data)


@given(
    CORPUS.damaged("experiment", [EXPERIMENT])
    | st.text(max_size=200).map(lambda t: t.encode(errors="replace"))
)
@example(EXPERIMENT.replace(b"repeats: 2", b"repeats: !!int ''"))
@example(EXPERIMENT.replace(b"repeats: 2", b"repeats: !!bool x"))
@example(EXPERIMENT.replace(b"repeats: 2", b"repeats: !!timestamp x"))
@example(EXPERIMENT.replace(b"{}", b"!!map [a]"))
@example(EXPERIMENT.replace(b"Keep it.", b"\\ud800"))
@example(EXPERIMENT.replace(b"Keep it.", b"\\0"))
def test_any_experiment_is_accepted_or_refused(data: bytes) -> None:
    CORPUS.read("experiment", data)


@given(
    CORPUS.damaged("suite", [lines(SUITE.to_dict())])
    | altered(SUITE.to_dict())
    | altered({k: v for k, v in SUITE.to_dict().items() if k != "content_hash"})
)
@example(lines(SUITE.to_dict() | {"content_hash": 1}))
@example(lines(SUITE.to_dict() | {"images": [1]}))
@example(lines([]))
@example(b"[" * 100_000)
def test_any_suite_is_accepted_or_refused(data: bytes) -> None:
    CORPUS.read("suite", data)


@given(CORPUS.damaged("run", [lines(RUN)]) | altered(RUN))
def test_any_run_folder_is_opened_or_refused(data: bytes) -> None:
    CORPUS.read("run", data)


@given(CORPUS.damaged("chain", [lines(CHAIN)]) | altered(CHAIN))
def test_any_chain_of_a_run_is_opened_or_refused(data: bytes) -> None:
    CORPUS.read("chain", data)


@given(
    CORPUS.damaged("lines", [lines(CALL, KEPT)])
    | altered([CALL, KEPT]).map(
        lambda data: b"\n".join(json.dumps(row).encode() for row in json.loads(data))
    )
)
def test_any_line_in_a_run_folder_is_read_or_skipped(data: bytes) -> None:
    CORPUS.read("lines", data)


@given(CORPUS.damaged("scores", [lines(SCORES)]) | altered(SCORES))
@example(lines(SCORES | {"images": {"desk": {"psnr": {"blank": "0" * 64, "ladder": {}}}}}))
@example(lines(SCORES | {"chains": {"desk--cup": SCORED_ROW | {"outcome": "../../x"}}}))
def test_any_scores_of_a_run_are_read_or_recomputed(data: bytes) -> None:
    CORPUS.read("scores", data)


@given(CORPUS.damaged("manifest", [lines(MANIFEST)]) | altered(MANIFEST))
def test_any_manifest_of_images_is_accepted_or_refused(data: bytes) -> None:
    CORPUS.read("manifest", data)


@given(CORPUS.damaged("figures", [FIGURES]))
def test_any_table_of_figures_is_read_or_refused(data: bytes) -> None:
    CORPUS.read("figures", data)


@pytest.mark.parametrize("name", sorted(CORPUS.readers))
def test_the_corpus_is_accepted_or_refused(name: str) -> None:
    inputs = CORPUS.known(name)
    assert inputs
    for data in inputs:
        CORPUS.ending(name, data)
