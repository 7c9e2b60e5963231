"""Cold audits: drawn by the secret, sent before any trip, and stored images do not help."""

import dataclasses
from functools import partial

import numpy as np
import pytest

from evaluation.audits.cold import Cold
from evaluation.audits.findings import Finding, find_cold, judge_audits
from evaluation.audits.plan import BEFORE_TRIPS, LEAST_COLD, Audit, audit_count, object_of, plan
from evaluation.content import catalog, sources
from evaluation.editors.instructions import follow
from evaluation.errors import EditorError, Fault
from evaluation.images import EncodedImage, clean_wire
from evaluation.measuring.scoring import Scorer
from evaluation.play.finish import chain_signs, measure_audits, review
from evaluation.play.folder_scores import FolderScores, score_run
from evaluation.play.folder_store import folder_player
from evaluation.play.retries import Limits
from evaluation.play.run_folder import RunFolder
from evaluation.records import TripMeasures
from evaluation.testing.tricks import HONEST, TRICKS

SMOKE = catalog.suite("smoke")
COPIES = "repeats our alteration on the image that it stored"


def cold_of(case, secret="secret"):
    image = SMOKE.image_by_slug[case.image]
    source = EncodedImage.from_image(sources.load_prepared(image, SMOKE.size))
    pair = SMOKE.pair_by_slug[case.pair]
    return Cold(Audit(case.slug, 0, BEFORE_TRIPS, "cold"), secret, pair, source, image.annotations)


DRAWN = [case for case in SMOKE.cases if object_of(SMOKE.pair_by_slug[case.pair])]


# The sent image.


@pytest.mark.parametrize("case", DRAWN, ids=lambda case: case.slug)
def test_a_drawn_object_matches_no_public_drawing_and_changes_nothing_else(case):
    made, other = cold_of(case), cold_of(case, "another")
    wire = np.asarray(clean_wire(made.source).decoded)
    sent = np.asarray(made.sent.decoded)
    assert np.array_equal(sent[~made.covered], wire[~made.covered])
    assert made.sent.data == cold_of(case).sent.data == clean_wire(made.sent).data
    assert 0.02 < made.covered.mean() < 0.3
    places = SMOKE.image_by_slug[case.image].annotations
    public = follow(object_of(SMOKE.pair_by_slug[case.pair]), made.source.decoded, places)
    there = (np.abs(sent.astype(int) - wire).max(axis=2) > 24)[..., None]
    for drawing in (np.asarray(public), np.asarray(other.sent.decoded)):
        apart = np.abs(sent.astype(int) - drawing)
        assert apart[np.broadcast_to(there, apart.shape)].mean() > 12


def test_only_objects_and_words_are_drawn_and_each_image_once():
    assert len(DRAWN) == LEAST_COLD
    for suite in catalog.suites():
        audits = plan("secret", suite)
        images = [audit.case.partition("--")[0] for audit in audits if audit.kind == "cold"]
        assert len(set(images)) == len(images)
        assert len(audits) == audit_count(suite)
    assert plan("secret", SMOKE, 0) == []


def test_a_cold_audit_requests_the_removal_of_the_drawing(tmp_path):
    calls = played(tmp_path, Watched(), DRAWN[:3], parallel=3)
    for image, case in {case.image: case for case in DRAWN[:3]}.items():
        backward = SMOKE.pair_by_slug[case.pair].backward
        assert next(prompt for name, prompt in calls if name == image) == backward


# The time of sending.


class Watched(type(HONEST["JPEG 75"]())):
    """Records the image and the prompt of each call."""

    def __init__(self, fails=lambda call: False):
        super().__init__()
        self.calls, self.fails = [], fails
        self.small = {
            image.slug: small(EncodedImage.from_image(sources.load_prepared(image, SMOKE.size)))
            for image in SMOKE.images
        }

    def edit(self, image, prompt, seed=None, context=None):
        thumb = small(image)
        name = min(self.small, key=lambda slug: np.abs(self.small[slug] - thumb).mean())
        self.calls.append((name, prompt))
        if self.fails(self.calls[-1]):
            raise EditorError("busy", fault=Fault.SERVER_ERROR)
        return super().edit(image, prompt, seed, context)


def small(image):
    return np.asarray(image.decoded.resize((16, 16)), dtype=float)


def played(tmp_path, editor, cases, parallel=1, **changes):
    suite = dataclasses.replace(SMOKE, cases=tuple(cases), trips=2, **changes)
    folder = RunFolder.create(tmp_path / "run", suite, editor="x", options={}, secret="7" * 64)
    limits = Limits(attempts=2, first_wait=0.01)
    with folder.playing():
        audits = plan(folder.secret, suite)
        folder_player(folder, editor, audits=audits, parallel=parallel, limits=limits).play()
    assert folder.complete
    return editor.calls


def test_no_chain_sends_a_source_before_its_cold_audit(tmp_path):
    """Two pairs and two repeats of each image, four at a time."""
    images = [case.image for case in DRAWN[:2]]
    flip = next(pair for pair in SMOKE.pairs if pair.operator == "flip_horizontal")
    flips = [dataclasses.replace(DRAWN[0], image=image, pair=flip.slug) for image in images]
    calls = played(tmp_path, Watched(), [*flips, *DRAWN[:2]], parallel=4, repeats=2)
    backward = {case.image: SMOKE.pair_by_slug[case.pair].backward for case in DRAWN[:2]}
    for image in images:
        first = [prompt for name, prompt in calls if name == image]
        assert first[0] == backward[image]
        assert len(first) == 2 * 2 * 2 * 2 + 1 + 2  # edits, a cold audit, two touched audits


def test_a_cold_audit_that_always_fails_neither_ends_nor_delays_chains(tmp_path):
    backward = SMOKE.pair_by_slug[DRAWN[0].pair].backward
    editor = Watched()
    editor.fails = lambda call: call[1] == backward and len(editor.calls) < 26
    flip = next(pair for pair in SMOKE.pairs if pair.operator == "flip_horizontal")
    other = dataclasses.replace(DRAWN[0], pair=flip.slug)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evaluation.play.player.MAX_ATTEMPTS", 2)
        calls = played(tmp_path, editor, [other, DRAWN[0]])
    chains = RunFolder.open(tmp_path / "run").chains.values()
    assert {chain.outcome for chain in chains} <= {"completed", "failed"}
    cold = [audit for chain in chains for audit in chain.audits if audit.kind == "cold"]
    assert [audit.outcome for audit in cold] == ["failed"]
    assert (other.image, flip.forward) in calls


# Findings.


@pytest.fixture(scope="module")
def scorer():
    scorer = Scorer(["lpips"])
    if scorer.not_run:
        pytest.skip(str(scorer.not_run))
    return scorer


@pytest.fixture(scope="module")
def gap(scorer, tmp_path_factory):
    """The gaps of an editor on four cases of smoke, and the verdict on them."""

    def measured(editor):
        suite = dataclasses.replace(SMOKE, cases=tuple(DRAWN[-4:]), trips=3)
        path = tmp_path_factory.mktemp("cold") / "run"
        folder = RunFolder.create(path, suite, editor="x", options={}, secret="5" * 64)
        cold = [audit for audit in plan(folder.secret, suite) if audit.kind == "cold"]
        with folder.playing():
            folder_player(folder, editor, audits=cold).play()
        store = FolderScores(folder, scorer)
        measure_audits(store, scorer)
        score_run(folder, Scorer(["psnr"], witnesses=()))
        return review(store, scorer).audited

    return measured


@pytest.mark.parametrize("name", ["lossless flips", "JPEG 30", "noise", "crops by 1 %"])
def test_an_honest_editor_loses_no_more_by_one_edit_than_by_six(name, gap):
    audited = gap(HONEST[name]())
    assert audited.cold_gap <= 0.001
    assert audited.reasons == ()


@pytest.mark.parametrize(
    "name",
    [
        COPIES,
        "the same, blended with a quarter of its own answer",
        "the same, jittered so that no bytes repeat",
        "a strategy for each category of edits",
    ],
)
def test_a_stored_image_does_not_help_in_a_cold_audit(name, gap):
    audited = gap(TRICKS[name]())
    assert audited.verdict == "review"
    assert "new to the model" in audited.reasons[0]


def test_refusing_unknown_images_is_no_way_out(gap):
    audited = gap(TRICKS["the same, and refuses what it has not seen"]())
    assert audited.cold_gap is None
    assert "gave no image in 4 cold audits" in audited.reasons[0]


def test_without_lpips_cold_audits_are_not_judged_and_a_hint_says_so(tmp_path):
    played(tmp_path, Watched(), DRAWN[:3])
    folder, scorer = RunFolder.open(tmp_path / "run"), Scorer(["psnr"], witnesses=())
    score_run(folder, scorer)
    reviewed = review(FolderScores(folder, scorer), scorer)
    assert reviewed.audited.cold_gap is None
    assert ("cold audits", "3 are not judged: LPIPS was not run") in [
        (hint.kind, hint.text) for hint in reviewed.hints
    ]


def test_nothing_inside_the_drawing_counts(scorer):
    cold = cold_of(DRAWN[0])
    hidden = np.asarray(cold.source.decoded).copy()
    hidden[cold.covered] = 0
    found = find_cold(cold, cold.source, EncodedImage.from_image(_image(hidden)), scorer)
    assert found is not None
    assert found.loss == 0


def _image(values):
    from PIL import Image

    return Image.fromarray(values)


COLD = partial(Finding, "cold", None, lost=0.1)


@pytest.mark.parametrize(
    ("findings", "silent", "verdict"),
    [
        ([COLD(loss=0.019)] * 8, [], "clean"),
        ([COLD(loss=0.021)] * 8, [], "review"),
        ([COLD(loss=0.3)] * 2, [], "clean"),
        ([COLD(loss=0.3)] * 3 + [COLD(loss=-0.1)] * 4, [], "clean"),
        (
            [COLD(loss=0.3, category="a")] * 3 + [COLD(loss=-0.1, category="b")] * 9,
            [],
            "review",
        ),
        ([COLD(loss=0.0)] * 8, ["cold"] * 7, "clean"),
        ([COLD(loss=0.0)] * 8, ["cold"] * 8, "review"),
        ([], ["mark"], "clean"),
        ([], ["mark"] * 2, "review"),
    ],
)
def test_a_run_is_set_to_review_by_medians_and_by_silence(findings, silent, verdict):
    assert judge_audits(findings, (), silent).verdict == verdict


def test_the_same_image_at_several_trips_is_a_hint():
    pair = SMOKE.pair_by_slug[DRAWN[0].pair]
    flip = next(pair for pair in SMOKE.pairs if pair.change == "exact")
    first = TripMeasures(step=0.1, from_source=0.1, change_seen=True)
    same, unseen = (
        TripMeasures(step=0.0, from_source=0.1, change_seen=seen) for seen in (True, False)
    )
    trips = [first, same, unseen, first, same]

    def again(trips, pair):
        return [s.number for s in chain_signs(trips, pair) if s.name == "same image again"]

    assert again(trips, pair) == [2, 5]
    assert again(trips, flip) == again([same, first], pair) == []
