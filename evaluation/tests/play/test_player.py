"""Playing into a run folder: no answer is lost or paid for twice."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from PIL import Image

from evaluation.content import catalog
from evaluation.content.suites import Case
from evaluation.editors import Answer, Editor, EditorError, Fault, Refused, load_editor
from evaluation.images import EncodedImage
from evaluation.play.folder_store import folder_player
from evaluation.play.retries import Limits
from evaluation.play.run_folder import RunFolder, RunFolderError
from evaluation.play.store import Paused
from evaluation.run_secret import shuffled
from evaluation.testing.waiting import wait_until

SMOKE = catalog.suite("smoke")
QUICK = Limits(attempts=2, first_wait=0.001, longest_wait=0.01)


def small_suite(*pairs, trips=2, repeats=1, image="books"):
    """A suite of one image with some of the smoke suite's pairs."""
    return dataclasses.replace(
        SMOKE,
        trips=trips,
        repeats=repeats,
        cases=tuple(Case(image, pair) for pair in pairs or ("clock", "red-ball")),
    )


def new_run(path, suite, editor="jpeg", secret="5" * 64):
    return RunFolder.create(path, suite, editor=editor, options={}, secret=secret)


class Scripted(Editor):
    """Answer like the JPEG editor, except for the calls in the script."""

    def __init__(self, script=None):
        self.inner, self.script, self.calls = load_editor("jpeg"), dict(script or {}), []
        self.lock = threading.Lock()

    def send(self, image, prompt, seed=None, context=None):
        with self.lock:
            self.calls.append(prompt)
            end = self.script.get(len(self.calls))
        if isinstance(end, Exception):
            raise end
        return end or self.inner.send(image, prompt, seed, context)

    def edit(self, image, prompt, seed=None):
        return self.inner.edit(image, prompt, seed)


def play(folder, editor, **options):
    with folder.playing():
        folder_player(folder, editor, limits=QUICK, **options).play()


def test_a_run_is_played_to_the_end_and_its_files_record_every_edit(tmp_path):
    folder = new_run(tmp_path / "run", small_suite())
    play(folder, load_editor("jpeg"), parallel=2)
    for case in folder.suite.cases:
        where = tmp_path / "run/chains" / case.slug
        chain = json.loads((where / "chain.json").read_text())
        assert chain["outcome"] == "completed"
        assert (where / "I0_source.png").is_file()
        assert [edit["file"] for edit in chain["edits"]] == [
            "I1_forward.jpg",
            "I1_backward.jpg",
            "I2_forward.jpg",
            "I2_backward.jpg",
        ]
        for edit in chain["edits"]:
            image = EncodedImage.from_bytes((where / edit["file"]).read_bytes())
            assert image.sha256 == edit["sha256"]
            assert image.size == (edit["width"], edit["height"])
    again = RunFolder.open(tmp_path / "run")
    assert again.complete
    assert again.chains == folder.chains


def test_the_secret_determines_the_order_of_chains(tmp_path):
    def order(name, secret=None):
        folder = RunFolder.create(
            tmp_path / name, dataclasses.replace(SMOKE, trips=1), editor="noop", options={},
            secret=secret,
        )  # fmt: skip
        play(folder, load_editor("noop"))
        lines = (tmp_path / name / "calls.jsonl").read_text().splitlines()
        return [call["chain"] for call in map(json.loads, lines) if call["direction"] == "forward"]

    first, other = order("first"), order("other")
    assert sorted(first) == sorted(other) == sorted(case.slug for case in SMOKE.cases)
    assert first != other
    assert first == order("again", RunFolder.open(tmp_path / "first").secret)


def test_repeats_differ_by_their_seed_only(tmp_path):
    folder = new_run(tmp_path / "run", small_suite("clock", repeats=2), "noise")
    play(folder, load_editor("noise"))
    first, second = folder.chains.values()
    assert [first.slug, second.slug] == ["books--clock", "books--clock--2"]
    assert first.edits[0].sha256 != second.edits[0].sha256


@pytest.mark.parametrize("calls_before", range(1, 8))
def test_after_an_outage_the_chain_continues_where_it_was(calls_before, tmp_path):
    suite = small_suite("clock", "red-ball")
    whole = new_run(tmp_path / "whole", suite, "noise")
    play(whole, load_editor("noise"))
    down = EditorError("down", fault=Fault.UNREACHABLE)
    editor = Scripted({calls_before + 1: down, calls_before + 2: down})
    editor.inner = load_editor("noise")
    folder = new_run(tmp_path / "run", suite, "noise")
    with pytest.raises(Paused, match="cannot be reached"):
        play(folder, editor)
    assert RunFolder.open(tmp_path / "run").edits_done == calls_before
    folder = RunFolder.open(tmp_path / "run")
    play(folder, editor)
    assert len(editor.calls) == 8 + 2
    assert [[h.sha256 for h in chain.edits] for chain in folder.chains.values()] == [
        [h.sha256 for h in chain.edits] for chain in whole.chains.values()
    ]


BLANK = Answer(EncodedImage.from_image(Image.new("RGB", (288, 192))), 0.1)


@pytest.mark.parametrize(
    ("end", "outcome", "trips"),
    [
        (Refused("no people"), "refused", 1),
        (EditorError("bad", fault=Fault.BAD_ANSWER, permanent=True), "failed", 1),
        (BLANK, "blank", 1),
    ],
)
def test_a_failure_of_the_model_ends_only_its_chain(end, outcome, trips, tmp_path):
    folder = new_run(tmp_path / "run", small_suite("clock", "red-ball"))
    play(folder, Scripted({4: end}))
    first, second = (folder.chains[slug] for slug in shuffled(folder.secret, folder.chains, str))
    assert (first.outcome, len(first.trips)) == (outcome, trips)
    assert (second.outcome, len(second.trips)) == ("completed", 2)
    ledger = [json.loads(line) for line in (tmp_path / "run/calls.jsonl").read_text().splitlines()]
    assert len(ledger) == 8


def test_a_budget_pauses_before_it_is_exceeded_and_counts_earlier_costs(tmp_path):
    folder = new_run(tmp_path / "run", small_suite(trips=5))
    editor = Scripted()
    editor.inner = type(
        "Priced", (), {"send": lambda self, p, t, s=None, b=None: _priced(p, t, s)}
    )()
    with pytest.raises(Paused, match=r"\$0.30 of the budget"):
        play(folder, editor, parallel=2, budget=0.35, price=0.1)
    assert len(editor.calls) == 3
    folder = RunFolder.open(tmp_path / "run")
    with pytest.raises(Paused):
        play(folder, editor, budget=0.35, price=0.1)
    assert len(editor.calls) == 3


def test_the_maximum_of_edits_is_never_exceeded_and_retries_count(tmp_path):
    folder = new_run(tmp_path / "run", small_suite("clock", "red-ball", trips=5))
    editor = Scripted({2: EditorError("busy", fault=Fault.RATE_LIMITED)})
    with pytest.raises(Paused, match="--max-edits 5 is reached"):
        play(folder, editor, parallel=2, max_edits=5)
    assert len(editor.calls) == 5
    with pytest.raises(Paused):
        play(RunFolder.open(tmp_path / "run"), editor, max_edits=5)
    assert len(editor.calls) == 5


def _priced(image, prompt, seed):
    answer = load_editor("jpeg").edit(image, prompt, seed)
    return dataclasses.replace(answer, cost=0.1)


def test_a_bug_is_not_swallowed(tmp_path):
    folder = new_run(tmp_path / "run", small_suite())
    with pytest.raises(ZeroDivisionError):
        play(folder, Scripted({3: ZeroDivisionError()}))


def test_two_processes_do_not_play_in_one_folder(tmp_path):
    folder = new_run(tmp_path / "run", small_suite())
    other = RunFolder.open(tmp_path / "run")
    with folder.playing(), pytest.raises(RunFolderError, match="another process"), other.playing():
        pass


def test_a_changed_image_is_not_edited_further(tmp_path):
    folder = new_run(tmp_path / "run", small_suite("clock"))
    with pytest.raises(Paused):
        play(folder, Scripted({2: EditorError("x", fault=Fault.TLS, permanent=True)}))
    file = tmp_path / "run/chains/books--clock/I1_forward.jpg"
    Image.new("RGB", (288, 192)).save(file, "JPEG")
    with pytest.raises(RunFolderError, match="SHA-256 differs"):
        play(RunFolder.open(tmp_path / "run"), load_editor("jpeg"))


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda path: None, "there is no folder"),
        (lambda path: path.mkdir(), "no run.json"),
        (lambda path: (path.mkdir(), (path / "run.json").write_text("{}")), "format 3"),
    ],
)
def test_an_invalid_run_folder_is_explained(break_it, message, tmp_path):
    break_it(tmp_path / "run")
    with pytest.raises(RunFolderError, match=message):
        RunFolder.open(tmp_path / "run")


def test_an_altered_suite_in_the_run_file_is_noticed(tmp_path):
    new_run(tmp_path / "run", small_suite())
    file = tmp_path / "run/run.json"
    file.write_text(file.read_text().replace('"trips": 2', '"trips": 1'))
    with pytest.raises(RunFolderError, match="the file was changed"):
        RunFolder.open(tmp_path / "run")


def edits_in(calls):
    """Return the number of edits saved by a running process."""
    return calls.read_bytes().count(b"\n") if calls.is_file() else 0


def playing(editor, *more):
    play = [sys.executable, "-m", "evaluation", "run", "--play-only", "--suite", "smoke"]
    return [*play, "--editor", editor, *more]


def test_ctrl_c_keeps_answers_and_the_same_command_continues(tmp_path):
    command = playing("jpeg", "--out", str(tmp_path / "run"))
    calls = tmp_path / "run/calls.jsonl"
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        # A shell that starts tests in the background makes them ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    wait_until(lambda: edits_in(calls) >= 5 or process.poll() is not None, 120)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in said
    assert b"run the same command again" in said
    folder = RunFolder.open(tmp_path / "run")
    assert folder.edits_done == len(calls.read_text().splitlines())
    assert len(folder.chains) == 14
    subprocess.run(command, check=True, capture_output=True)
    assert len(calls.read_text().splitlines()) == folder.suite.edits


def test_a_killed_play_resumes_without_repeating_a_finished_edit(tmp_path):
    more = ["--parallel", "2", "--trips", "2"]
    command = playing("noise", *more, "--out", str(tmp_path / "run"))
    calls = tmp_path / "run/calls.jsonl"
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    wait_until(lambda: edits_in(calls) >= 12 or process.poll() is not None, 120)
    assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    folder = RunFolder.open(tmp_path / "run")
    finished = {
        (slug, edit.number, edit.direction)
        for slug, chain in folder.chains.items()
        for edit in chain.edits
    }
    assert 10 <= len(finished) < folder.suite.edits
    before = calls.read_text().splitlines()
    subprocess.run(command, check=True, capture_output=True)
    new = [json.loads(line) for line in calls.read_text().splitlines()[len(before) :]]
    repeated = finished & {(row["chain"], row["number"], row["direction"]) for row in new}
    assert repeated == set()
    folder = RunFolder.open(tmp_path / "run")
    assert folder.complete
    assert len(new) == folder.suite.edits - len(finished)
    # An uninterrupted run gives the same images.
    chain = next(iter(folder.chains.values()))
    one = dataclasses.replace(folder.suite, cases=folder.suite.cases[:1])
    whole = new_run(tmp_path / "whole", one, "noise", folder.secret)
    play(whole, load_editor("noise"))
    assert [h.sha256 for h in next(iter(whole.chains.values())).edits] == [
        h.sha256 for h in chain.edits
    ]
