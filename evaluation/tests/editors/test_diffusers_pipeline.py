"""Local pipelines: real diffusers classes with tiny random weights, loaded from disk."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from PIL import Image

from evaluation.content.catalog import editing_models
from evaluation.editors import Editor, EditorError, Fault, Refused, load_editor, load_row
from evaluation.editors.diffusers_pipeline import WORKING_MEMORY, _cache, _place, placement
from evaluation.images import EncodedImage
from evaluation.testing import tiny_pipelines as tiny

# Looked up, not imported: collecting tests must not pay for torch.
pytestmark = pytest.mark.skipif(
    not (find_spec("torch") and find_spec("diffusers")),
    reason="local models need the worker extra",
)

SIZE = (96, 64)
GB = 2**30

# The class of each tiny pipeline, with what keeps it quick beside the row's own parameters.
PIPELINES: dict[str, tuple[tiny.Build, dict[str, Any]]] = {
    "StableDiffusionInstructPix2PixPipeline": (tiny.instruct_pix2pix, {}),
    "Flux2KleinPipeline": (
        tiny.flux2_klein,
        {"max_sequence_length": 32, "text_encoder_out_layers": (1, 2, 3)},
    ),
    "QwenImageEditPipeline": (tiny.qwen_image_edit, {}),
    "OmniGenPipeline": (tiny.omnigen, {}),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that builds the tiny pipeline of a class once and returns its folder."""
    built: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in built:
            built[name] = tiny.save(PIPELINES[name][0], tmp_path_factory.mktemp(name))
        return built[name]

    return folder


def make_qwen_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop Qwen's pipelines from scaling every input to 1 MP, which takes 10 s on a CPU."""
    from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit as module

    real = module.calculate_dimensions
    monkeypatch.setattr(module, "calculate_dimensions", lambda area, ratio: real(96 * 64, ratio))


@pytest.fixture(scope="module")
def image() -> EncodedImage:
    return EncodedImage.from_image(Image.radial_gradient("L").convert("RGB").resize(SIZE))


def row_of(name: str) -> dict[str, Any]:
    """Return the first shipped row of this pipeline class."""
    return next(row for row in editing_models() if row["options"].get("pipeline") == name)


def load(name: str, folder: Path, **params: Any) -> Editor:
    """Load the shipped row's editor, with its options but tiny weights."""
    row = row_of(name)
    options = {**row["options"], "checkpoint": str(folder), "revision": None}
    if "area" in options.get("size", {}):
        options["size"] = {**options["size"], "area": SIZE[0] * SIZE[1]}
    quick = {"num_inference_steps": 2, **PIPELINES[name][1], **params}
    options["params"] = {**options.get("params", {}), **quick}
    return load_row({**row, "options": options})


@pytest.mark.parametrize("name", PIPELINES)
def test_a_seed_repeats_the_image_and_another_seed_changes_it(
    name: str,
    folders: Callable[[str], Path],
    image: EncodedImage,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    editor = load(name, folders(name))
    if name.startswith("Qwen"):
        make_qwen_small(monkeypatch)
    assert editor.missing() == []
    assert editor.queue == "gpu"
    once = editor.edit(image, "Add a red hat.", seed=5)
    again = editor.edit(image, "Add a red hat.", seed=5)
    pipe = _cache.loaded
    other = load(name, folders(name)).edit(image, "Add a red hat.", seed=6)
    assert _cache.loaded is pipe, "the weights are loaded once for all editors of a row"
    assert once.image.size == SIZE
    assert once.image.sha256 == again.image.sha256 != other.image.sha256
    assert once.notes["placement"] in ("cpu", "cuda")
    described = editor.describe()
    assert described["dtype"] == once.notes["dtype"]
    json.dumps(described)


NAME = "StableDiffusionInstructPix2PixPipeline"


@pytest.fixture
def folder(folders: Callable[[str], Path]) -> Path:
    return folders(NAME)


def test_every_shipped_class_exists_and_takes_its_rows_parameters() -> None:
    import inspect

    from evaluation.torch_compat import fix_torchvision

    fix_torchvision()
    import diffusers

    for row in editing_models():
        if row["editor"] != "diffusers":
            continue
        options = row["options"]
        call = getattr(diffusers, options["pipeline"]).__call__
        given = {options.get("image_argument", "image"), "prompt", "generator", *options["params"]}
        assert given <= set(inspect.signature(call).parameters), row["slug"]


def test_prompt_and_image_both_matter(folder: Path, image: EncodedImage) -> None:
    editor = load(NAME, folder)
    hat = editor.edit(image, "Add a red hat.", seed=5).image
    scarf = editor.edit(image, "Remove the blue scarf!", seed=5).image
    flipped = EncodedImage.from_image(image.decoded.transpose(Image.Transpose.ROTATE_180))
    turned = editor.edit(flipped, "Add a red hat.", seed=5).image
    assert len({hat.sha256, scarf.sha256, turned.sha256}) == 3


def test_threads_take_turns_and_get_the_same_images_as_one_thread(
    folder: Path, image: EncodedImage
) -> None:
    editor = load(NAME, folder)
    alone = {seed: editor.edit(image, "x", seed=seed).image.sha256 for seed in range(3)}
    together: dict[int, str] = {}

    def edit(seed: int) -> None:
        together[seed] = editor.edit(image, "x", seed=seed).image.sha256

    threads = [threading.Thread(target=edit, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def test_torchs_global_random_state_is_restored(folder: Path, image: EncodedImage) -> None:
    import torch

    editor = load(NAME, folder)
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    editor.edit(image, "x", seed=9)
    assert torch.equal(torch.rand(3), expected)


def test_a_blacked_out_image_is_a_refusal(
    folder: Path, image: EncodedImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    editor = load(NAME, folder)
    editor.edit(image, "x", seed=1)
    assert _cache.loaded is not None
    checker = _cache.loaded.pipe.safety_checker
    low = torch.full_like(checker.concept_embeds_weights, -2.0)
    monkeypatch.setattr(checker.concept_embeds_weights, "data", low)
    with pytest.raises(Refused, match="safety checker"):
        editor.edit(image, "x", seed=1)


def test_missing_weights_name_the_download_command(tmp_path: Path, image: EncodedImage) -> None:
    row = row_of("FluxKontextPipeline")
    editor = load_row(row)
    assert editor.missing() == ["get the weights: hf download black-forest-labs/FLUX.1-Kontext-dev"]
    with pytest.raises(EditorError, match="hf download") as caught:
        editor.edit(image, "x")
    assert (caught.value.fault, caught.value.permanent) == (Fault.CONFIGURATION, True)
    absent = load(NAME, tmp_path / "nothing")
    assert "no pipeline" in absent.missing()[0]


def test_an_incomplete_download_is_reported(folder: Path, tmp_path: Path) -> None:
    half = tmp_path / "half"
    shutil.copytree(folder, half)
    shutil.rmtree(half / "unet")
    (reason,) = load(NAME, half).missing()
    assert "unet missing" in reason


@pytest.mark.parametrize("part", ["unet", "vae"])
def test_missing_or_truncated_weights_are_reported(
    folder: Path, tmp_path: Path, image: EncodedImage, part: str
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    weights = next((broken / part).glob("*.safetensors"))
    if part == "unet":
        weights.unlink()
    else:
        weights.write_bytes(weights.read_bytes()[:500])
    with pytest.raises(EditorError, match="cannot be loaded") as caught:
        load(NAME, broken).edit(image, "x")
    assert (caught.value.fault, caught.value.permanent) == (Fault.CONFIGURATION, True)


def test_a_class_unknown_to_diffusers_is_reported(folder: Path, image: EncodedImage) -> None:
    editor = load_editor("diffusers", pipeline="NoSuchPipeline", checkpoint=str(folder))
    with pytest.raises(EditorError, match="NoSuchPipeline"):
        editor.edit(image, "x")


def test_unknown_parameters_of_the_pipeline_are_reported(folder: Path, image: EncodedImage) -> None:
    with pytest.raises(EditorError, match="does not accept colour"):
        load(NAME, folder, colour="red").edit(image, "x")


def test_an_image_the_pipeline_cannot_process_is_reported(folders: Callable[[str], Path]) -> None:
    small = EncodedImage.from_image(Image.new("RGB", (32, 32), (9, 99, 9)))
    with pytest.raises(EditorError, match="too small"):
        load("Flux2KleinPipeline", folders("Flux2KleinPipeline")).edit(small, "x")


def test_close_stops_an_edit_between_two_steps(folder: Path, image: EncodedImage) -> None:
    editor = load(NAME, folder, num_inference_steps=10_000)
    ended: list[BaseException] = []

    def edit() -> None:
        try:
            editor.edit(image, "x")
        except EditorError as error:
            ended.append(error)

    thread = threading.Thread(target=edit)
    thread.start()
    editor.close()
    thread.join(timeout=30)
    assert not thread.is_alive()
    assert len(ended) == 1
    with pytest.raises(EditorError):
        editor.edit(image, "x")


def test_an_edit_stops_at_its_timeout(folder: Path, image: EncodedImage) -> None:
    editor = load(NAME, folder, num_inference_steps=10_000)
    editor.timeout = 0.2  # type: ignore[attr-defined]
    with pytest.raises(EditorError) as caught:
        editor.edit(image, "x")
    assert caught.value.fault is Fault.TIMEOUT


def test_running_out_of_memory_is_reported_and_frees_the_weights(
    folder: Path, image: EncodedImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    editor = load(NAME, folder)
    editor.edit(image, "x")
    assert _cache.loaded is not None

    def full(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    monkeypatch.setattr(_cache.loaded.pipe.unet, "forward", full)
    _cache.loaded.placement = "cuda"
    with pytest.raises(EditorError, match="out of GPU memory") as caught:
        editor.edit(image, "x")
    assert not caught.value.permanent, "the next try keeps less on the GPU"
    assert _cache.loaded is None
    editor.edit(image, "x")
    assert _cache.loaded is not None
    monkeypatch.setattr(_cache.loaded.pipe.unet, "forward", full)
    with pytest.raises(EditorError, match="runs out of memory") as caught:
        editor.edit(image, "x")
    assert caught.value.permanent
    _cache.excluded.clear()


@pytest.mark.parametrize(
    ("free", "excluded", "expected"),
    [
        (80 * GB, set(), "cuda"),
        (34 * GB + WORKING_MEMORY, set(), "cuda"),
        (34 * GB + WORKING_MEMORY - 1, set(), "model offload"),
        (80 * GB, {"cuda"}, "model offload"),
        (24 * GB + WORKING_MEMORY - 1, set(), "sequential offload"),
        (80 * GB, {"cuda", "model offload"}, "sequential offload"),
        (1 * GB, set(), "sequential offload"),
    ],
)
def test_a_model_is_placed_by_the_free_memory(free: int, excluded: set[Any], expected: str) -> None:
    assert placement(34 * GB, 24 * GB, free, excluded) == expected


@pytest.mark.parametrize(
    ("free", "called"),
    [
        (WORKING_MEMORY + 200, "to"),
        (WORKING_MEMORY + 130, "enable_model_cpu_offload"),
        (WORKING_MEMORY, "enable_sequential_cpu_offload"),
    ],
)
def test_the_pipeline_is_moved_to_its_placement(free: int, called: str) -> None:
    """Tested without a GPU: only the called method matters."""
    import torch

    pipe = Mock()
    # 100 and 64 bytes of weights, and a part without any.
    pipe.components = {"a": torch.nn.Linear(4, 5), "b": torch.nn.Linear(3, 4), "tokenizer": 1}
    gpu = SimpleNamespace(is_available=lambda: True, mem_get_info=lambda: (free, 80 * GB))
    _place(SimpleNamespace(cuda=gpu, nn=torch.nn), pipe, set())
    assert [name for name, _, _ in pipe.method_calls] == [called]


def test_a_model_larger_than_the_memory_is_not_loaded(
    folder: Path, image: EncodedImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psutil

    class Little:
        available = 1000

    monkeypatch.setattr(psutil, "virtual_memory", Little)
    other = load(NAME, folder)
    other.loading = {"low_cpu_mem_usage": True}  # type: ignore[attr-defined]
    with pytest.raises(EditorError, match="GB are free"):
        other.edit(image, "x")


def test_checking_what_a_local_editor_misses_loads_no_torch() -> None:
    code = (
        "import sys\n"
        "from evaluation.content.catalog import editing_models\n"
        "from evaluation.editors import load_row\n"
        "rows = [row for row in editing_models() if row['access'] != 'reference']\n"
        "assert all(isinstance(load_row(row).missing(), list) for row in rows)\n"
        "loaded = {'torch', 'diffusers', 'transformers', 'openai', 'google.genai', 'django'}\n"
        "print(sorted(loaded & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
