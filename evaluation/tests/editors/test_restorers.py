"""The restoration baselines: they restore images, and follow other prompts by rule."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps
from skimage import data

from evaluation.content import catalog
from evaluation.content.operators import degraded
from evaluation.editors import load_editor
from evaluation.images import EncodedImage
from evaluation.weights.packages import EsrganSlim

#: A photograph, for which the filters are made.
IMAGE = EncodedImage.from_image(Image.fromarray(data.astronaut()).resize((160, 160)))


def rmse(one: EncodedImage, other: EncodedImage) -> float:
    a, b = (np.asarray(image.decoded, dtype=float) for image in (one, other))
    return float(np.sqrt(((a - b) ** 2).mean()))


def prompts() -> list[str]:
    pair = next(p for p in catalog.edit_pairs() if p.slug == "restore-zoom")
    return sorted({wording.backward for wording in pair.wordings})


@pytest.mark.parametrize("name", ["old-black-and-white", "old-colour", "surveillance"])
def test_the_restorer_brings_old_images_nearer_to_the_original(name):
    worn = degraded(name, IMAGE, 1)
    restored = load_editor("restorer").send(worn, prompts()[0]).image
    assert rmse(IMAGE, restored) < 0.95 * rmse(IMAGE, worn)


def test_every_prompt_of_the_study_is_recognised_as_a_restoration():
    worn = degraded("old-colour", IMAGE, 1)
    answers = {load_editor("restorer").send(worn, prompt).image.sha256 for prompt in prompts()}
    assert len(answers) == 1


def test_asked_for_a_flip_it_flips():
    answer = load_editor("restorer").send(IMAGE, "Mirror the image horizontally, left to right.")
    assert answer.notes["understood"] == "turn flip_horizontal"
    assert rmse(answer.image, EncodedImage.from_image(ImageOps.mirror(IMAGE.decoded))) < 3


@pytest.fixture
def small_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a model of the same format that enlarges an image and adds 10 to red."""
    layers = [
        {"name": "in", "class_name": "InputLayer", "config": {}, "inbound_nodes": []},
        {
            "name": "up",
            "class_name": "UpSampling2D",
            "config": {"size": [2, 2]},
            "inbound_nodes": [[["in", 0, 0, {}]]],
        },
        {
            "name": "out",
            "class_name": "Conv2D",
            "config": {},
            "inbound_nodes": [[["up", 0, 0, {}]]],
        },
        {
            "name": "relu",
            "class_name": "Activation",
            "config": {"activation": "relu"},
            "inbound_nodes": [[["out", 0, 0, {}]]],
        },
    ]
    rows = [
        {"name": "out/kernel", "shape": [1, 1, 3, 3], "dtype": "float32"},
        {"name": "out/bias", "shape": [3], "dtype": "float32"},
    ]
    model = {
        "modelTopology": {"model_config": {"config": {"layers": layers}}},
        "weightsManifest": [{"weights": rows}],
    }
    head = json.dumps(model).encode()
    numbers = np.concatenate([np.eye(3).ravel(), [10.0, 0.0, 0.0]]).astype(np.float32)
    file = tmp_path / "esrgan-slim.weights"
    file.write_bytes(len(head).to_bytes(8, "little") + head + numbers.tobytes())
    monkeypatch.setattr(EsrganSlim, "locate", lambda weights: (file, "0" * 64))


def test_the_network_is_run_layer_by_layer(small_network):
    editor = load_editor("super-resolver")
    assert editor.missing() == []
    answer = editor.send(IMAGE, "Restore the image.").image
    assert answer.size == IMAGE.size
    before, after = (np.asarray(p.decoded, dtype=float).mean(axis=(0, 1)) for p in (IMAGE, answer))
    assert after - before == pytest.approx([10, 0, 0], abs=2.5)
    assert editor.describe()["weights_sha256"] == "0" * 64


def test_without_its_weights_it_states_how_to_get_them(monkeypatch, tmp_path):
    monkeypatch.setenv("CONVERGEBENCH_WEIGHTS", str(tmp_path))
    assert "convergebench weights esrgan-slim" in load_editor("super-resolver").missing()[0]
