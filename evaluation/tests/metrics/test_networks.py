"""Networks: lack of memory, CLIP from a file, torchvision's operators."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest

import evaluation
from evaluation.content.suites import EditPair
from evaluation.images import EncodedImage, blank_card
from evaluation.measuring.scoring import Scorer
from evaluation.metrics import MetricError, load_metric
from evaluation.metrics import base as metrics_base
from evaluation.metrics.lpips import Band
from evaluation.metrics.networks.base import (
    HALF_TOLERANCE,
    FeatureMetric,
    as_tensor,
    optimise_for_cpu,
)
from evaluation.metrics.networks.dinov2 import ROWS, attention
from evaluation.metrics.semantic import Clip
from evaluation.testing.reference_images import small, worn
from evaluation.torch_compat import fix_torchvision
from evaluation.witnesses import TripToJudge, load_witness

torch = pytest.importorskip("torch")
ROOT = Path(evaluation.__file__).parent.parent


class Tensor:
    """Stand-in for features on a device that this machine may not have."""

    def __init__(self, device):
        self.device = device

    def to(self, device):
        return Tensor(device)


class Hungry(FeatureMetric):
    """A metric whose device has memory for `room` images; its distance is the image's width."""

    name = label = version = "hungry"
    higher_is_better = False
    weights = "imagenet"
    batch = {"cuda": 16, "cpu": 4}

    def __init__(self, device, room, error=None):
        self.device = device
        self.room = room
        self.error = error or torch.OutOfMemoryError("CUDA out of memory")
        self.tried = []

    def load(self):
        raise AssertionError("nothing to load")

    def features(self, images):
        self._take(images)
        return Tensor(self.device)

    def compare(self, sources, images):
        assert {source.device for source in sources} == {self.device}
        self._take(images)
        return [float(image.width) for image in images]

    def _take(self, images):
        self.tried.append((self.device, len(images)))
        if len(images) > self.room[self.device]:
            raise self.error


WIDTHS = list(range(1, 21))
IMAGES = [small(width, 8) for width in WIDTHS]


def test_out_of_memory_halves_the_batch_until_it_fits():
    metric = Hungry("cuda", {"cuda": 3, "cpu": 9})
    assert metric.distances(metric.prepare(IMAGES[0]), IMAGES) == WIDTHS
    assert metric.device == "cuda"
    assert [size for _, size in metric.tried[:5]] == [1, 16, 8, 4, 2]


def test_a_gpu_too_small_for_one_image_leaves_the_work_to_the_cpu():
    metric = Hungry("cuda", {"cuda": 0, "cpu": 9})
    assert metric.distances(metric.prepare(IMAGES[0]), IMAGES) == WIDTHS
    assert metric.device == "cpu"


def test_features_computed_on_the_gpu_move_to_the_cpu():
    metric = Hungry("cuda", {"cuda": 1, "cpu": 9})
    source = metric.prepare(IMAGES[0])
    metric.room["cuda"] = 0
    assert metric.distances(source, IMAGES) == WIDTHS


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 byte"),
    ],
)
def test_a_cpu_without_memory_for_one_image_reports_it(error):
    metric = Hungry("cpu", {"cpu": 0}, error)
    with pytest.raises(
        MetricError, match="not enough memory for hungry on an image of 1 x 8 pixels"
    ):
        metric.prepare(IMAGES[0])


def test_other_errors_are_not_treated_as_lack_of_memory():
    metric = Hungry("cuda", {"cuda": 0, "cpu": 0}, RuntimeError("the network is broken"))
    with pytest.raises(RuntimeError, match="broken"):
        metric.prepare(IMAGES[0])
    assert len(metric.tried) == 1


def test_a_network_that_leaves_the_gpu_is_loaded_again_in_full_precision(monkeypatch):
    metric = Hungry("cuda", {"cuda": 0, "cpu": 9})
    assert metric.precision == "float16"
    metric.network = "rounded to half"
    metric.distances(metric.prepare(IMAGES[0]), IMAGES)
    assert "network" not in vars(metric)
    assert metric.precision == "float32"


def test_a_gpu_can_be_set_to_full_precision(monkeypatch):
    monkeypatch.setenv("CONVERGEBENCH_PRECISION", "float32")
    assert Hungry("cuda", {}).precision == "float32"
    monkeypatch.setenv("CONVERGEBENCH_PRECISION", "double")
    with pytest.raises(MetricError, match="CONVERGEBENCH_PRECISION is 'double': it should be"):
        _ = Hungry("cuda", {}).precision


# Half precision: the code of a GPU, run on the CPU and on a GPU if available


def kept(**made):
    """Return each metric's retentions of a worn portrait, with networks set up as given."""
    scorer = Scorer(["overall", "lpips", "imagenet"])
    if scorer.not_run:
        pytest.skip("; ".join(scorer.not_run.values()))
    for metric in scorer.metrics.values():
        vars(metric).update(made)
    image = small(96, 80)
    returned = [image, *(worn(image, strength) for strength in (2, 90)), blank_card(image)]
    result = scorer.score(image, returned).distances
    return {
        name: [1 - d / (scorer.metrics[name].blank or card) for d in distances]
        for name, (*distances, card) in result.items()
    }


@pytest.mark.release
def test_half_precision_keeps_to_its_tolerance(real_network):
    full, half = kept(), kept(precision="float16")
    for name, wanted in full.items():
        assert half[name] != wanted
        assert half[name] == pytest.approx(wanted, abs=HALF_TOLERANCE), name
        assert half[name][0] == 1  # equal images stay equal


def test_gpu_and_cpu_agree_within_the_tolerance(real_network):
    if not torch.cuda.is_available():
        pytest.skip("this machine has no CUDA device")
    full, gpu = kept(device="cpu"), kept(device="cuda")
    exact = kept(device="cuda", precision="float32")
    for name, wanted in full.items():
        assert gpu[name] == pytest.approx(wanted, abs=HALF_TOLERANCE), name
        assert exact[name] == pytest.approx(wanted, abs=1e-4), name


# CLIP, by a tiny network of random weights


TINY = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8},
    "text_cfg": {
        "context_length": 77,
        "vocab_size": 49408,
        "width": 16,
        "heads": 2,
        "layers": 1,
    },
}


class TinyClip(Clip):
    architecture = "tiny-clip"


@pytest.fixture(scope="module")
def tiny_weights(tmp_path_factory):

    fix_torchvision()
    import open_clip
    from safetensors.torch import save_file

    folder = tmp_path_factory.mktemp("clip")
    (folder / "tiny-clip.json").write_text(json.dumps(TINY))
    open_clip.add_model_config(folder / "tiny-clip.json")
    torch.manual_seed(0)
    network = open_clip.create_model("tiny-clip", force_quick_gelu=True)
    file = folder / "tiny.safetensors"
    save_file({k: v.contiguous() for k, v in network.state_dict().items()}, file)
    return file


def test_clip_runs_from_a_given_file(tiny_weights, monkeypatch):
    monkeypatch.setenv("CLIP_WEIGHTS", str(tiny_weights))
    metric = TinyClip()
    assert metric.missing() == []
    image = small()
    others = [image, worn(image, 5), worn(image, 60)]
    distances = metric.distances(metric.prepare(image), others)
    assert distances[0] == pytest.approx(0, abs=1e-9)
    assert 0 < distances[1] < distances[2] < 2
    assert len(metric.weights_sha256) == 64
    alone = [metric.distances(metric.prepare(image), [other])[0] for other in others]
    assert distances == pytest.approx(alone, abs=1e-6)


def test_clip_in_half_precision_gives_nearly_the_same_distances(tiny_weights, monkeypatch):
    monkeypatch.setenv("CLIP_WEIGHTS", str(tiny_weights))
    image = small()
    others = [image, worn(image, 5), worn(image, 60)]
    full, half = TinyClip(), TinyClip()
    half.precision = "float16"
    wanted = full.distances(full.prepare(image), others)
    assert half.distances(half.prepare(image), others) == pytest.approx(wanted, abs=HALF_TOLERANCE)


def test_clip_measures_the_direction_of_an_edit(tiny_weights, monkeypatch):
    monkeypatch.setenv("CLIP_WEIGHTS", str(tiny_weights))
    metric, image = TinyClip(), small()
    score = metric.direction(image, worn(image, 60), "a portrait", "a portrait with glasses")
    assert -1 <= score <= 1
    assert metric.direction(image, image, "a portrait", "with glasses") is None
    assert metric.direction(image, worn(image, 60), "the same", "the same") is None


def test_the_clip_direction_witness_judges_pairs_with_descriptions(tiny_weights, monkeypatch):
    monkeypatch.setenv("CLIP_WEIGHTS", str(tiny_weights))
    witness, image = load_witness("clip"), small()
    witness.share({"clip": TinyClip()})
    before, edited = EncodedImage.from_image(image), EncodedImage.from_image(worn(image, 60))
    words = {"source_text": "a portrait", "target_text": "a portrait with glasses"}
    pair = EditPair("glasses", "accessories", "Add.", "Remove.", "local", **words)
    result = witness.examine(TripToJudge(before, before, edited, before, pair))
    assert result.made is (result.amounts[0] >= 0.1)
    assert not result.gates
    idle = witness.examine(TripToJudge(before, before, before, before, pair))
    assert (idle.made, idle.undone) == (False, None)
    silent = EditPair("glasses", "accessories", "Add.", "Remove.", "local")
    assert witness.examine(TripToJudge(before, before, edited, before, silent)) is None


def test_clip_without_weights_is_not_run_and_names_the_remedy(tmp_path, monkeypatch):
    monkeypatch.delenv("CLIP_WEIGHTS", raising=False)
    monkeypatch.setenv("CONVERGEBENCH_WEIGHTS", str(tmp_path))
    scorer = Scorer(["psnr", "clip"])
    assert "Set CLIP_WEIGHTS" in scorer.not_run["clip"]
    scores = scorer.score(small(), [small()])
    assert scores.distances == {"psnr": [0.0], "clip": None}


def test_a_file_that_is_not_clip_is_refused_by_name(tmp_path, monkeypatch, tiny_weights):
    other = tmp_path / "other.safetensors"
    other.write_bytes(b"not weights at all")
    monkeypatch.setenv("CLIP_WEIGHTS", str(other))
    with pytest.raises(MetricError, match=r"other.safetensors is not a CLIP tiny-clip file"):
        TinyClip().prepare(small())


def test_code_in_a_weights_file_is_never_run(tmp_path, monkeypatch, tiny_weights):
    marker = tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return Path.touch, (marker,)

    file = tmp_path / "evil.pt"
    torch.save({"state_dict": Evil()}, file)
    monkeypatch.setenv("CLIP_WEIGHTS", str(file))
    with pytest.raises(MetricError):
        TinyClip().prepare(small())
    assert not marker.exists()


# LPIPS without its package, and LPIPS of large images


def pair_of_images(size):
    image = small(*size)
    return image, worn(image, 15)


def lpips_or_skip():
    metric = load_metric("lpips")
    if missing := metric.missing():
        pytest.skip("; ".join(missing))
    return metric


def test_cached_source_features_give_the_packages_distance():
    metric = lpips_or_skip()
    image, noisy = pair_of_images((160, 120))
    one, other = (as_tensor([i], "cpu").div(127.5).sub(1) for i in (image, noisy))
    with torch.no_grad():
        wanted = float(metric.load().eval()(one, other))
    assert metric.distances(metric.prepare(image), [noisy]) == pytest.approx([wanted], rel=1e-5)


def test_lpips_of_a_large_image_is_equal_in_bands(monkeypatch):
    metric = lpips_or_skip()
    image, noisy = pair_of_images((300, 430))
    whole = metric.distances(metric.prepare(image), [noisy])
    monkeypatch.setattr(metrics_base, "LARGE_PIXELS", 1_000)
    monkeypatch.setattr(Band.split.__func__, "__defaults__", (128,))
    assert len(list(Band.split(430))) == 3
    held = metric.prepare(image)
    assert held is image
    assert metric.distances(held, [image, noisy]) == pytest.approx([0, *whole], rel=1e-5)


@pytest.mark.parametrize("name", ["ssim", "ms_ssim", "psnr"])
def test_a_large_image_has_equal_numbers_with_less_memory(name, monkeypatch):
    metric = load_metric(name)
    image, noisy = pair_of_images((420, 300))
    wanted = metric.distances(metric.prepare(image), [noisy])
    monkeypatch.setattr(metrics_base, "LARGE_PIXELS", 1_000)
    assert metric.distances(metric.prepare(image), [noisy]) == pytest.approx(wanted, rel=1e-5)


def test_scoring_large_images_gives_equal_scores_and_caches_little(monkeypatch):
    names = ["psnr", "ssim", "ms_ssim"]
    names += [] if load_metric("lpips").missing() else ["lpips", "overall"]
    image, noisy = pair_of_images((420, 300))
    wanted = Scorer(names).score(image, [noisy] * 6)
    monkeypatch.setattr(metrics_base, "LARGE_PIXELS", 1_000)
    scorer = Scorer(names)
    result = scorer.score(image, [noisy] * 6)
    for name in names:
        assert result.distances[name] == pytest.approx(wanted.distances[name], rel=1e-4), name
    (kept,) = scorer._sources.values()
    assert not {"ssim", "ms_ssim"} & kept.keys()


# torchvision that does not match torch


def test_lpips_and_open_clip_import_after_a_failed_import_of_torchvision():
    code = (
        "try: import torchvision\nexcept Exception: pass\n"
        "from evaluation.torch_compat import fix_torchvision\n"
        "fix_torchvision(); fix_torchvision()\n"
        "import torchvision, lpips, open_clip\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


# The optimised network


@pytest.mark.parametrize("side", [1, 2, 3, 7, 16, 33])
def test_an_optimised_network_gives_the_numbers_of_the_original(side):
    torch.manual_seed(0)
    plain = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 5, padding=2),
        torch.nn.ReLU(inplace=True),
        torch.nn.Conv2d(8, 8, 3, padding=1, groups=2),
        torch.nn.Conv2d(8, 6, 3, padding=2, dilation=2),
        torch.nn.Conv2d(6, 6, 3, padding=2, stride=2),
        torch.nn.MaxPool2d(2, 1, padding=1),
        torch.nn.Conv2d(6, 4, 3, padding="same"),
        torch.nn.Conv2d(4, 4, 3, padding=2, bias=False),
        torch.nn.Conv2d(4, 4, (3, 1), padding=(1, 0)),
        torch.nn.Conv2d(4, 2, 3, padding=1, padding_mode="reflect"),
        torch.nn.Conv2d(2, 2, 3, padding=1),
    ).eval()
    quick = optimise_for_cpu(copy.deepcopy(plain))
    values = torch.rand(1, 3, side, side)
    with torch.inference_mode():
        expected = plain(values)
        for given in (values, values.contiguous(memory_format=torch.channels_last)):
            assert torch.allclose(quick(given), expected, atol=1e-5)


def test_an_optimised_layer_multiplies_like_the_original_and_drops_its_weights():
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(7, 40), torch.nn.GELU(), torch.nn.Linear(40, 3))
    quick = optimise_for_cpu(copy.deepcopy(plain))
    values = torch.rand(2, 5, 7)
    with torch.inference_mode():
        assert torch.allclose(quick(values), plain(values), atol=1e-6)
    assert quick[0].weight.numel() == 0


def test_attention_by_rows_equals_torchs():
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 6, ROWS + 3, 8)
    result, _ = attention(None, query, key, value, None, scaling=0.3)
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, scale=0.3)
    assert torch.allclose(result, expected.transpose(1, 2), atol=1e-6)


def test_scoring_restores_the_number_of_threads():
    before = torch.get_num_threads()
    image = small(40, 40)
    Scorer(["imagenet"]).score(image, [worn(image, n) for n in range(3)])
    assert torch.get_num_threads() == before
