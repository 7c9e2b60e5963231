"""The floor of a local model: a pass through its autoencoder, without an edit."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from evaluation.__main__ import main
from evaluation.arms import FLOOR, Arm, ArmError
from evaluation.content.suites import EditPair
from evaluation.editors import EditorError, load_editor
from evaluation.editors.base import EditContext, EditSettings
from evaluation.images import EncodedImage
from evaluation.testing import tiny_pipelines as tiny
from evaluation.testing.images import busy
from evaluation.testing.json_outputs import checked

pytestmark = pytest.mark.skipif(
    not (find_spec("torch") and find_spec("diffusers")),
    reason="local models need the worker extra",
)
ASIDE = EditContext(settings=EditSettings(floor=True))
SIZE = (72, 40)


@pytest.mark.parametrize(
    ("name", "build"),
    [
        ("StableDiffusionInstructPix2PixPipeline", tiny.instruct_pix2pix),
        ("Flux2KleinPipeline", tiny.flux2_klein),
        ("QwenImageEditPipeline", tiny.qwen_image_edit),  # it takes images as films
    ],
)
def test_a_pipelines_autoencoder_is_played_alone(name: str, build: tiny.Build, tmp_path: Path):
    editor = load_editor("diffusers", pipeline=name, checkpoint=str(tiny.save(build, tmp_path)))
    image = EncodedImage.from_image(busy(*SIZE))
    one = editor.send(image, "Add a hat.", 1, ASIDE)
    two = editor.send(image, "Paint it blue.", 2, ASIDE)
    assert one.image.size == SIZE
    assert one.image.sha256 == two.image.sha256  # neither prompt nor seed is heard
    assert one.cost == 0
    assert one.notes["autoencoder"].startswith("Autoencoder")


def test_the_small_autoencoder_has_a_floor_and_rules_have_none():
    image = EncodedImage.from_image(busy(*SIZE))
    latent = load_editor("latent")
    flipped = latent.send(image, "Mirror the image horizontally.", 1).image.decoded
    floor = latent.send(image, "Mirror the image horizontally.", 1, ASIDE).image.decoded
    apart = [np.abs(np.asarray(one, float) - image.decoded).mean() for one in (floor, flipped)]
    assert apart[0] < apart[1] / 2  # nothing was mirrored
    with pytest.raises(EditorError, match="Jpeg has no autoencoder"):
        load_editor("jpeg").send(image, "Mirror the image horizontally.", 1, ASIDE)


def test_a_floor_is_measured_without_looking_for_an_edit():
    pair = EditPair("hat", "things", "Add a hat.", "Remove the hat.", "local", object="hat")
    measured = FLOOR.measured_pair(pair)
    assert (measured.change, measured.object, measured.forward) == ("none", "", pair.forward)
    assert FLOOR.reworded(pair) == measured
    assert Arm().measured_pair(pair) is pair
    assert Arm.from_dict(FLOOR.to_dict()) == FLOOR
    with pytest.raises(ArmError, match=r"turns is a chain shape .*cannot be played with floor"):
        FLOOR.resolved([EditPair("turns", "geometry", "a", "b", "none", shape="F F F F")])
    with pytest.raises(ArmError, match="floor makes no edit"):
        Arm.from_dict({"floor": True, "wording": "long"})


def test_a_floor_is_played_scored_and_verified_in_a_shell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    play = ["--suite", "smoke", "--trips", "1", "--cases", "desert--flip-vertical"]
    assert main(["run", "--play-only", "--editor", "jpeg", *play, "--floor"]) == 1
    assert "cannot play with --floor" in capsys.readouterr().err
    assert (
        main(["run", "--play-only", "--editor", "latent", *play, "--floor", "--out", "floor"]) == 0
    )
    capsys.readouterr()
    assert main(["score", "floor", "--metrics", "psnr,piqe", "--json"]) == 0
    scores = checked("score", capsys.readouterr().out)["scores"]
    (chain,) = scores["chains"].values()
    assert chain["trips"][0]["change_seen"] is None  # a floor has no flip to be seen
    assert main(["bundle", "floor", "--out", "floor.zip"]) == 0
    capsys.readouterr()
    assert main(["verify", "floor.zip", "--json"]) == 0
    assert checked("verify", capsys.readouterr().out)["verified"] is True
