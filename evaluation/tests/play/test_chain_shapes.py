"""Chain shapes in the shell: played, killed, resumed, scored and reported step by step."""

import dataclasses
import json

import pytest

from evaluation.analysis.events import event
from evaluation.bundle import document as bundles
from evaluation.bundle.checks import DIFFERENT
from evaluation.bundle.folder import write_bundle
from evaluation.bundle.verify import verify
from evaluation.content import catalog
from evaluation.content.suites import Case
from evaluation.editors import Answer, load_editor
from evaluation.editors.reference import RuleEditor
from evaluation.measuring.scoring import Scorer
from evaluation.measuring.trip_measures import measure_steps
from evaluation.play.folder_scores import score_run
from evaluation.play.folder_store import folder_player
from evaluation.play.retries import Limits
from evaluation.play.run_folder import RunFolder
from evaluation.play.run_scores import RunScores
from evaluation.play.store import Paused
from evaluation.run_secret import chain_seeds
from evaluation.witnesses import Panel
from evaluation.witnesses.base import Verdict

SHIPPED = catalog.suite("shapes")
ORDERS = ("cup-and-clock", "clock-and-cup", "cup-and-clock-in-turn")
CASES = (
    Case("snowman", "four-quarter-turns"),
    *(Case("globe", pair) for pair in ORDERS),
    Case("globe", "hello-session"),
    Case("concert-poster", "three-things-indoors"),
)
SUITE = dataclasses.replace(SHIPPED, trips=2, cases=CASES)


def played(path, editor, suite=SUITE, **options):
    folder = RunFolder.create(path, suite, editor="x", options={}, secret="5" * 64)
    with folder.playing():
        folder_player(folder, editor, limits=Limits(attempts=1), **options).play()
    return RunFolder.open(path)


def scored(folder):
    scorer = Scorer(["psnr"])
    scorer.panel = Panel([])
    return score_run(folder, scorer)


@pytest.fixture(scope="module")
def perfect(tmp_path_factory):
    return played(tmp_path_factory.mktemp("oracle") / "run", load_editor("oracle"))


@pytest.fixture(scope="module")
def scores(perfect):
    return scored(perfect)


def test_the_oracle_returns_exactly_on_every_shape_and_every_edit_is_seen(scores):
    for slug, chain in scores.chains.items():
        assert chain.outcome == "completed"
        assert chain.distances["psnr"] == (0.0, 0.0), slug
        assert [trip.change_seen for trip in chain.trips] == [True, True], slug
        for trip in chain.trips:
            assert [row["back"] for row in trip.steps if "back" in row][-1] == 0.0
    assert RunScores.from_dict(json.loads(json.dumps(scores.to_dict()))).orders == scores.orders


def test_every_step_has_its_file_its_seed_and_its_line_in_the_ledger(perfect):
    chain = perfect.chains["concert-poster--three-things-indoors"]
    assert [edit.direction for edit in chain.trips[0]] == [
        *("forward", "2-B", "3-C", "4-c", "5-b", "backward")
    ]
    assert chain.trips[1][2].file == "I2_3-C.png"
    seed = chain_seeds(perfect.secret, chain.case, 0)
    assert [edit.seed for edit in chain.edits] == [
        seed(edit.number, edit.direction) for edit in chain.edits
    ]
    calls = [call for call in perfect.calls() if call.chain == chain.slug]
    assert [(call.number, call.direction) for call in calls] == [
        (edit.number, edit.direction) for edit in chain.edits
    ]


def test_the_order_of_edits_does_not_matter_to_an_editor_by_rule(scores):
    rows = [dict(row) for row in scores.orders]
    # Sent images are dithered, so a later drawn edge may differ by a level.
    assert max(row["distance"] for row in rows) < 0.003
    assert {row["distance"] for row in rows if not row["standing"]} == {0.0}
    met = {(row["pair"], row["against"], row["edits"], row["standing"]) for row in rows}
    # Images with both things, in either order, and images with all things removed.
    assert ("clock-and-cup", "cup-and-clock", 2, 2) in met
    assert ("cup-and-clock", "cup-and-clock-in-turn", 4, 0) in met
    assert ("cup-and-clock", "cup-and-clock-in-turn", 1, 1) in met
    assert ("clock-and-cup", "cup-and-clock", 1, 1) not in met


class Forgets(RuleEditor):
    """Skip the `nth` requested change."""

    def __init__(self, nth):
        self.nth, self.asked = nth, 0

    def send(self, image, prompt, seed=None, context=None):
        self.asked += 1
        if self.asked == self.nth:
            return Answer(image, 0.0, cost=0.0)
        return super().send(image, prompt, seed, context)


@pytest.mark.parametrize(
    ("pair", "nth", "row"),
    [
        ("cup-and-clock", 2, 1),
        ("four-quarter-turns", 3, 2),
        ("hello-session", 2, 1),
    ],
)
def test_a_forgotten_edit_ends_the_chain_in_that_trip_and_names_its_step(tmp_path, pair, nth, row):
    case = next(case for case in CASES if case.pair == pair)
    suite = dataclasses.replace(SUITE, trips=1, cases=(case,))
    scores = scored(played(tmp_path / "run", Forgets(nth), suite))
    (chain,) = scores.chains.values()
    assert chain.trips[0].change_seen is False
    seen = [step["seen"] for step in chain.trips[0].steps]
    assert [place for place, verdict in enumerate(seen) if verdict is False] == [row]
    (result,) = scores.results(suite, "psnr")
    assert result.change_seen == (False,)
    assert event(result, 1).time == 0


def test_a_forgotten_turn_leaves_the_image_turned(tmp_path):
    suite = dataclasses.replace(SUITE, trips=1, cases=CASES[:1])
    scores = scored(played(tmp_path / "run", Forgets(4), suite))
    (chain,) = scores.chains.values()
    assert chain.distances["psnr"][0] > 0.01
    assert chain.trips[0].steps[-1]["back"] > 0.1


@pytest.mark.parametrize("edits", [1, 3, 5, 6, 10])
def test_a_chain_stopped_within_a_trip_continues_at_the_next_step(tmp_path, perfect, edits):
    suite = dataclasses.replace(SUITE, cases=CASES[-1:])
    folder = RunFolder.create(tmp_path / "run", suite, editor="x", options={}, secret="5" * 64)
    with pytest.raises(Paused):
        folder_player(folder, load_editor("oracle"), max_edits=edits).play()
    # As after a crash: a new process reads the folder.
    again = RunFolder.open(tmp_path / "run")
    (chain,) = again.chains.values()
    assert len(chain.edits) == edits
    position = again.position(chain)
    assert (position.trip, position.place) == (1 + edits // 6, edits % 6)
    folder_player(again, load_editor("oracle")).play()
    (chain,) = RunFolder.open(tmp_path / "run").chains.values()
    same = perfect.chains["concert-poster--three-things-indoors"]
    assert [edit.sha256 for edit in chain.edits] == [edit.sha256 for edit in same.edits]
    assert len(again.calls()) == 12


def test_things_are_counted_after_every_step_if_the_detector_is_installed(perfect):
    panel = Panel(["detector"])
    if not panel.witnesses:
        pytest.skip(f"needs the detector: {panel.not_run['detector']}")
    chain = perfect.chains["concert-poster--three-things-indoors"]
    source = perfect.source(chain)
    images = [source, *(perfect.read(chain, edit) for edit in chain.trips[0])]
    verdict, evidence, rows = measure_steps(source, images, perfect.pair(chain), 1, panel, None)
    assert [row["wanted"] for row in rows] == [1, 2, 3, 2, 1, 0]
    assert [row["counted"] for row in rows] == [1, 2, 3, 2, 1, 0]
    assert {(one["thing"], one["step"], one["undone"]) for one in evidence} == {
        ("chair", 1, True),
        ("clock", 2, True),
        ("cup", 3, True),
    }
    # A thing that was never removed is still counted.
    stays = [*images[:4], *[images[3]] * 3]
    *_, last = measure_steps(source, stays, perfect.pair(chain), 1, panel, None)[2]
    assert (last["wanted"], last["counted"]) == (0, 3)
    assert verdict.seen


def test_each_of_many_edits_must_have_been_made():
    said = {"gates": True, "undone": None}
    both = [{**said, "made": True, "step": 1}, {**said, "made": False, "step": 2}]
    assert Verdict.from_evidence(both).made is False
    assert Verdict.from_evidence([*both, {**said, "made": True, "step": 2}]).made is True


def test_a_bundle_from_the_shell_contains_every_step_and_verifies(tmp_path):
    suite = dataclasses.replace(SUITE, trips=1, cases=CASES[:1])
    folder = played(tmp_path / "run", load_editor("jpeg"), suite)
    scores = scored(folder)
    folder.write_json("scores.json", scores.to_dict())
    path = tmp_path / "run.zip"
    write_bundle(folder, scores, path, images=True)
    with bundles.read(path) as bundle:
        (trip,) = bundle.document.chains[0].trips
        assert [step.name for step in trip.between] == ["2-F", "3-F"]
        checks = list(verify(bundle))
    assert [f"{c.line}, {c.what}" for c in checks if c.verdict == DIFFERENT] == []
