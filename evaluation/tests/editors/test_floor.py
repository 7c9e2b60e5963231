"""The floor under a local model: its autoencoder alone, whatever the prompt says."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from evaluation.__main__ import main
from evaluation.arms import FLOOR, Arm, ArmError
from evaluation.content.suites import EditPair
from evaluation.editors import EditorError, load_editor
from evaluation.editors.base import Beside, EditSettings
from evaluation.images import Picture
from evaluation.testing import tiny_pipelines as tiny
from evaluation.testing.json_outputs import checked
from evaluation.testing.pictures import busy

pytestmark = pytest.mark.skipif(
    not (find_spec("torch") and find_spec("diffusers")),
    reason="local models need the worker extra",
)
ASIDE = Beside(settings=EditSettings(floor=True))
SIZE = (72, 40)


@pytest.mark.parametrize(
    ("name", "build"),
    [
        ("StableDiffusionInstructPix2PixPipeline", tiny.instruct_pix2pix),
        ("Flux2KleinPipeline", tiny.flux2_klein),
        ("QwenImageEditPipeline", tiny.qwen_image_edit),  # it takes pictures as films
    ],
)
def test_a_pipelines_autoencoder_is_played_alone(name: str, build: tiny.Build, tmp_path: Path):
    editor = load_editor("diffusers", pipeline=name, checkpoint=str(tiny.save(build, tmp_path)))
    picture = Picture.from_image(busy(*SIZE))
    one = editor.send(picture, "Add a hat.", 1, ASIDE)
    two = editor.send(picture, "Paint it blue.", 2, ASIDE)
    assert one.picture.size == SIZE
    assert one.picture.sha256 == two.picture.sha256  # neither prompt nor seed is heard
    assert one.cost == 0
    assert one.notes["autoencoder"].startswith("Autoencoder")


def test_the_small_autoencoder_has_a_floor_and_rules_have_none():
    picture = Picture.from_image(busy(*SIZE))
    latent = load_editor("latent")
    flipped = latent.send(picture, "Mirror the image horizontally.", 1).picture.image
    floor = latent.send(picture, "Mirror the image horizontally.", 1, ASIDE).picture.image
    apart = [np.abs(np.asarray(one, float) - picture.image).mean() for one in (floor, flipped)]
    assert apart[0] < apart[1] / 2  # nothing was mirrored
    with pytest.raises(EditorError, match="Jpeg has no autoencoder here"):
        load_editor("jpeg").send(picture, "Mirror the image horizontally.", 1, ASIDE)


def test_a_floor_is_measured_without_an_edit_to_look_for():
    pair = EditPair("hat", "things", "Add a hat.", "Remove the hat.", "local", object="hat")
    measured = FLOOR.measured(pair)
    assert (measured.change, measured.object, measured.forward) == ("none", "", pair.forward)
    assert FLOOR.worded(pair) == measured
    assert Arm().measured(pair) is pair
    assert Arm.from_dict(FLOOR.to_dict()) == FLOOR
    with pytest.raises(ArmError, match="turns is a chain shape, which has no floor"):
        FLOOR.settled([EditPair("turns", "geometry", "a", "b", "none", shape="F F F F")])
    with pytest.raises(ArmError, match="floor makes no edit"):
        Arm.from_dict({"floor": True, "wording": "long"})


def test_a_floor_is_played_scored_and_verified_in_a_shell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    play = ["--suite", "smoke", "--trips", "1", "--cases", "desert--flip-vertical"]
    assert main(["run", "--play-only", "--editor", "jpeg", *play, "--floor"]) == 1
    assert "has no floor" in capsys.readouterr().err
    assert (
        main(["run", "--play-only", "--editor", "latent", *play, "--floor", "--out", "floor"]) == 0
    )
    capsys.readouterr()
    assert main(["score", "floor", "--metrics", "psnr,piqe", "--json"]) == 0
    scores = checked("score", capsys.readouterr().out)["scores"]
    (chain,) = scores["chains"].values()
    assert chain["trips"][0]["change_seen"] is None  # a flip that nobody asked for is not missed
    assert main(["bundle", "floor", "--out", "floor.zip"]) == 0
    capsys.readouterr()
    assert main(["verify", "floor.zip", "--json"]) == 0
    assert checked("verify", capsys.readouterr().out)["verified"] is True
