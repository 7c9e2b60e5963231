"""Arms: their settings, invalid settings, and chains that continue in their arm."""

from __future__ import annotations

import re

import numpy as np
import pytest
from PIL import Image

from evaluation.arms import CODES, CONVERSATION, DEFAULT, Arm, ArmError
from evaluation.content import catalog
from evaluation.content.suites import EditPair
from evaluation.editors import load_editor
from evaluation.editors.base import Answer, EditContext, Editor
from evaluation.experiment_file import ExperimentError, ExperimentFile, catalogue_variants
from evaluation.images import EncodedImage, clean_wire
from evaluation.play.plan import Plan, Position
from evaluation.play.round_trips import history, round_trips
from evaluation.run_secret import chain_seeds
from evaluation.testing.chains import asking

PAIR = next(pair for pair in catalog.edit_pairs() if pair.slug == "glasses")


def noisy(size: int = 48, seed: int = 0) -> EncodedImage:
    random = np.random.default_rng(seed)
    image = Image.radial_gradient("L").resize((size, size)).convert("RGB")
    values = np.asarray(image, dtype=float) + random.normal(0, 12, (size, size, 3))
    return EncodedImage.from_image(Image.fromarray(np.clip(values, 0, 255).astype(np.uint8)))


def test_the_default_arm_is_empty_and_others_round_trip_with_distinct_digests():
    arms = [
        DEFAULT,
        Arm(wording="long"),
        Arm(fidelity=True),
        Arm(also="Remove any noise."),
        Arm(seeds="fixed"),
        Arm(temperature=0.0),
        Arm(sizes=("1K",)),
        Arm(sizes=("1K", "2K", "4K")),
        Arm(session=CONVERSATION),
        Arm(cleanup="denoise"),
        Arm(repeats=3),
    ]
    assert DEFAULT.is_default
    assert DEFAULT.to_dict() == {}
    assert DEFAULT.digest == ""
    assert len({arm.digest for arm in arms}) == len(arms)
    for arm in arms:
        assert Arm.from_dict(arm.to_dict()) == arm
    assert str(Arm(wording="short", fidelity=True, temperature=0.4)) == (
        "short wording, keep the rest; temperature 0.4"
    )


def test_the_letters_of_the_restoration_study_name_wordings():
    assert {code: Arm.from_dict({"wording": code}) for code in ("S", "SF", "L", "LF")} == {
        "S": Arm(wording="short"),
        "SF": Arm(wording="short", fidelity=True),
        "L": Arm(wording="long"),
        "LF": Arm(wording="long", fidelity=True),
    }
    assert len(CODES) == 8


def test_every_pair_has_all_eight_wordings_and_an_arm_uses_one():
    said = {wording.name: (wording.forward, wording.backward) for wording in PAIR.wordings}
    for name, fidelity in CODES.values():
        arm = Arm(wording=name, fidelity=fidelity).resolved([PAIR], {PAIR.slug: PAIR.variants})
        worded = arm.reworded(PAIR.pair)
        words = said[f"{name}, keep the rest" if fidelity else name]
        assert (worded.forward, worded.backward) == words
    assert DEFAULT.resolved([PAIR]) == DEFAULT
    also = Arm(also="Remove any noise.").resolved([PAIR]).prompts["glasses"]
    assert also[0] == f"{PAIR.forward} Remove any noise."
    assert load_editor("oracle").read_prompt(also[0], 0) == load_editor("oracle").read_prompt(
        PAIR.forward, 0
    )
    variants = catalogue_variants()
    for suite in catalog.suites():
        if suite.slug == "shapes":
            with pytest.raises(ArmError, match=r"is a chain shape .*only one wording"):
                Arm(wording="long").resolved(suite.pairs, variants)
        else:
            Arm(wording="long").resolved(suite.pairs, variants)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"temperature": 3}, "temperature: should be less than or equal to 2"),
        ({"temperature": float("nan")}, "temperature: "),
        ({"temperature": True}, "temperature: "),
        ({"size": "8K"}, "sizes.0: should be '512', '1K', '2K' or '4K'"),
        ({"size": {"a": 1}}, "sizes.0: "),
        ({"size": ["1K"] * 9}, "sizes: "),
        ({"seeds": "mine"}, "seeds: should be 'per-edit', 'fixed' or 'none'"),
        ({"session": "chat"}, "session: "),
        ({"cleanup": "sharpen"}, "cleanup: should be '' or 'denoise'"),
        ({"also": "a" * 301}, "also: String should have at most 300"),
        ({"fidelity": "yes"}, "fidelity: should be a valid boolean"),
        ({"wording": "Ω"}, "wording: "),
        ({"wording": 3}, "wording: "),
        ({"colour": 1}, "colour: "),
        ({"prompts": {"a": ["only one"]}}, "prompts.a"),
        ({"prompts": 4}, "prompts: "),
        ({"repeats": 99}, "repeats: "),
        ({"repeats": 1.5}, "repeats: "),
        ([], "should be a valid dictionary"),
    ],
)
def test_an_invalid_setting_is_refused_by_name(settings, words):
    with pytest.raises(ArmError, match=re.escape(words)):
        Arm.from_dict(settings)


def test_a_pair_without_the_wording_is_named():
    with pytest.raises(ArmError, match="the pair hat has no long wording"):
        Arm(wording="long").resolved(
            [EditPair("hat", "accessories", "Add a hat.", "Remove it.", "local")]
        )


def test_seeds_are_fixed_or_per_edit_or_absent():
    edits = [(n, d) for n in (1, 2) for d in ("forward", "backward")]
    each, fixed, none = (
        [chain_seeds("s", "case", 0, mode)(*edit) for edit in edits]
        for mode in ("per-edit", "fixed", "none")
    )
    assert len(set(each)) == 4
    assert len(set(fixed)) == 1
    assert fixed[0] != chain_seeds("s", "case", 1, "fixed")(1, "forward")
    assert none == [None] * 4


class Listening(Editor):
    """Mirrors images and records its arguments."""

    takes_temperature = takes_history = True

    def __init__(self):
        self.heard = []

    @property
    def tiers(self):
        return ("512", "1K")

    def send(self, image, prompt, seed=None, context=None):
        self.heard.append((image, prompt, seed, context or EditContext()))
        return super().send(image, prompt, seed, context)

    def edit(self, image, prompt, seed=None):
        return Answer(EncodedImage.from_image(image.decoded.transpose(0)), 0.0)

    def edit_with(self, image, prompt, seed, settings):
        return self.edit(image, prompt, seed)


MIRROR = EditPair("mirror", "geometry", "Mirror it.", "Mirror it back.", "none")


def played(arm, start, trips=3):
    editor = Listening()
    return editor, list(round_trips(plan_of(arm, trips), asking(editor.send), start))


def plan_of(arm, trips=3):
    return Plan(MIRROR, trips, chain_seeds("secret", "case", 0, arm.seeds), arm)


def test_sizes_alternate_trip_by_trip_and_the_temperature_stays():
    editor, _ = played(Arm(sizes=("1K", "512"), temperature=0.4), Position(noisy()))
    settings = [context.settings for *_, context in editor.heard]
    assert [s.size for s in settings] == ["1K", "1K", "512", "512", "1K", "1K"]
    assert {s.temperature for s in settings} == {0.4}
    assert {s.history for s in settings} == {None}


def test_a_conversation_has_every_edit_and_is_the_same_after_a_resume():
    arm, source = Arm(session=CONVERSATION), noisy()
    editor, edits = played(arm, Position(source))
    lengths = [len(context.settings.history) for *_, context in editor.heard]
    assert lengths == [0, 1, 2, 3, 4, 5]
    last = editor.heard[-1][3].settings.history
    assert [turn.prompt for turn in last] == ["Mirror it.", "Mirror it back."] * 2 + ["Mirror it."]
    assert [turn.sent is None for turn in last] == [False, True, True, True, True]
    assert last[0].answer.data == clean_wire(edits[0].answer.image).data
    answers = [edit.answer.image for edit in edits[:3]]
    said = history(plan_of(arm), source, answers)
    again, rest = played(arm, Position(answers[-1], 2, (answers[-2],), said))
    assert [context.settings.history for *_, context in again.heard] == [
        context.settings.history for *_, context in editor.heard[3:]
    ]
    assert [h.answer.image.sha256 for h in rest] == [h.answer.image.sha256 for h in edits[3:]]


def test_a_clean_up_runs_between_trips_and_not_on_stored_images():
    arm = Arm(cleanup="denoise").resolved([])
    assert "OpenCV" in arm.cleanup_version
    source = noisy()
    editor, edits = played(arm, Position(source), trips=2)
    sent = [image for image, *_ in editor.heard]
    assert sent[0] is source
    assert sent[1] is edits[0].answer.image
    cleaned = arm.cleaned(edits[1].answer.image)
    assert sent[2].sha256 == cleaned.sha256 != edits[1].answer.image.sha256
    assert np.std(np.diff(np.asarray(cleaned.decoded, dtype=float), axis=0)) < np.std(
        np.diff(np.asarray(edits[1].answer.image.decoded, dtype=float), axis=0)
    )
    # The exact inverse gets the image that the trip began with.
    assert editor.heard[3][3].before.sha256 == cleaned.sha256
    other = arm.model_copy(update={"cleanup_version": "another"})
    with pytest.raises(ArmError, match="began with another, but non-local means"):
        other.cleaned(source)


def test_an_editor_lists_the_settings_it_cannot_follow():
    arm = Arm(temperature=1.0, sizes=("1K", "2K"), session=CONVERSATION)
    assert len(arm.unable(load_editor("jpeg"))) == 2
    assert arm.unable(Listening()) == [
        "Listening does not support the size 2K: it has only 512, 1K"
    ]
    assert DEFAULT.unable(load_editor("jpeg")) == []


def test_the_misreader_ignores_long_prompts_and_otherwise_adds_noise():
    misreader, noise = load_editor("misreader", sigma=4.0, words=6), load_editor("noise", sigma=4.0)
    image = clean_wire(noisy())
    short = "Mirror the image horizontally, left to right."
    long = f"{short} Take care that nothing else in it is touched."
    assert misreader.edit(image, "Flip it horizontally.", 7).image.sha256 == (
        noise.edit(image, "Flip it horizontally.", 7).image.sha256
    )
    answer = misreader.edit(image, long, 7)
    assert answer.notes["understood"] == "keep"
    apart = np.asarray(answer.image.decoded, dtype=float) - np.asarray(image.decoded)
    assert np.abs(apart).mean() < 8
    misreader = load_editor("misreader", sigma=4.0, words=6, share=0.5)
    read = [misreader.edit(image, long, seed).notes["understood"] for seed in range(200)]
    assert 70 < read.count("keep") < 130


FILE = """\
title: Does the wording matter?
suite: smoke
models: misreader
repeats: 2
arms:
  plain:
  LF: {wording: LF, temperature: 0.4}
"""


def test_an_experiment_is_read_from_its_file(tmp_path):
    path = tmp_path / "My wording.yaml"
    path.write_text(FILE)
    file = ExperimentFile.read(path)
    assert (file.slug, file.suite, file.models) == ("my-wording", "smoke", ["misreader"])
    assert file.arms == {
        "plain": Arm(repeats=2),
        "LF": Arm(wording="long", fidelity=True, temperature=0.4, repeats=2),
    }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("title: Does the wording matter?", "title: ''"), "title: "),
        (("suite: smoke", "suit: smoke"), "suit"),
        (("models: misreader", "models: []"), "models: List should have at least 1"),
        (("models: misreader", "models: [a, a]"), "models: a name occurs twice"),
        (("repeats: 2", "repeats: 0"), "repeats: should be greater than or equal to 1"),
        (("repeats: 2", "repeats: yes"), "repeats: "),
        (("  plain:\n", ""), "arms: Dictionary should have at least 2"),
        (("plain:", "../plain:"), "arms.../plain"),
        (("LF: {", "LF: {colour: 1, "), "arms.LF.colour"),
        (("LF: {", "LF: {repeats: 3, "), "set repeats for the whole experiment"),
        (("wording: LF, temperature: 0.4", ""), "the arms plain and LF have the same settings"),
        (("  plain:", "  plain: &a {}\n  b: *a"), "references"),
        (("title:", "title: x\ntitle:"), "'title' occurs twice"),
        (("title: Does", "- title: Does"), "is not valid YAML"),
        (("title: Does", "!!python/object:os.system {}\ntitle: Does"), "is not valid YAML"),
    ],
)
def test_an_invalid_file_is_refused_naming_the_field(change, words):
    with pytest.raises(ExperimentError) as caught:
        ExperimentFile.parse(FILE.replace(*change), "wording")
    assert words in str(caught.value)


def test_a_file_of_nonsense_is_refused_with_a_message(tmp_path):
    for text in ("[" * 1_500, "a: " * 50, "\x00", "7", ""):
        with pytest.raises(ExperimentError):
            ExperimentFile.parse(text, "x")
    large = tmp_path / "large.yaml"
    large.write_text("#" * 200_000)
    with pytest.raises(ExperimentError, match="larger than"):
        ExperimentFile.read(large)
    with pytest.raises(ExperimentError, match="No such file"):
        ExperimentFile.read(tmp_path / "none.yaml")
