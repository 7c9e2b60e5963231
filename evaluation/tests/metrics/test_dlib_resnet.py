"""The face embedding by torch compared with dlib's, and invalid files."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from evaluation.content import catalog
from evaluation.content.sources import original, prepare
from evaluation.images import EncodedImage
from evaluation.metrics import MetricError
from evaluation.metrics.networks.dlib_resnet import DlibResnet
from evaluation.metrics.networks.faces import Faces, _around, _file
from evaluation.metrics.parts import Face
from evaluation.weights.packages import DlibFaces

pytestmark = pytest.mark.skipif(bool(Face().missing()), reason="dlib or torch is missing")
PORTRAITS = (
    "calm-man", "laughing-woman", "woman-with-round-glasses", "zachary-taylor",
)  # fmt: skip


@pytest.fixture(scope="module")
def file():
    return Path(_file(DlibFaces.EMBEDDING))


@pytest.fixture(scope="module")
def network(file):
    return DlibResnet(file)


@pytest.fixture(scope="module")
def portraits():
    """Return some portraits with the boxes of their faces."""
    network, result = Faces(), []
    for row in catalog.source_images():
        if row.slug in PORTRAITS:
            image = prepare(EncodedImage.from_bytes(original(row.origin, row.sha256)).decoded, 512)
            result.append((image, network.only_face(image)))
    assert len(result) == len(PORTRAITS)
    return result


def test_embeddings_equal_those_of_dlib(file, portraits):
    import dlib

    theirs, ours, wanted = dlib.face_recognition_model_v1(str(file)), Faces(), []
    for image, face in portraits:
        view = _around(image, face)
        pixels = np.ascontiguousarray(view)
        landmarks = ours._landmarks(pixels, ours._face(pixels, view))
        wanted.append(np.array(theirs.compute_face_descriptor(pixels, landmarks)))
    result = [ours.embedding(image, face) for image, face in portraits]
    assert np.abs(np.array(result) - wanted).max() < 1e-5
    distances = [ours.distance(result[0], other) for other in result[1:]]
    apart = [np.linalg.norm(wanted[0] - other) for other in wanted[1:]]
    assert distances == pytest.approx(apart, abs=1e-5)
    assert min(distances) > 0.5  # they are different people


def test_embeddings_are_identical_in_any_number_of_threads(network):
    import torch

    face = np.random.default_rng(0).integers(0, 256, (150, 150, 3), dtype=np.uint8)
    before = torch.get_num_threads()
    with ThreadPoolExecutor(2) as pool:
        result = list(pool.map(network.embedding, [face] * 4))
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            result.append(network.embedding(face))
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(before)
    assert {numbers.tobytes() for numbers in result} == {result[0].tobytes()}


@pytest.mark.parametrize("share", [0, 0.00001, 0.001, 0.5, 0.9999])
def test_a_file_that_ends_early_is_refused_by_name(file, tmp_path, share):
    data = file.read_bytes()
    short = tmp_path / "short.dat"
    short.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(
        MetricError, match=r"short\.dat is not dlib's network of faces: it (ends|has)"
    ):
        DlibResnet(short)


def test_another_network_of_dlib_is_refused(file):
    with pytest.raises(MetricError, match=r"detector\.dat is not dlib's network of faces"):
        DlibResnet(file.with_name(DlibFaces.DETECTOR))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda data: data.replace(b"affine_", b"affine2"), "con_4, not affine_"),
        (lambda data: data.replace(b"fc_2", b"fc_1"), "is fc_1, not fc_2"),
        (lambda data: data + b"\x01\x04fc_2", "one layer too many"),
        (lambda data: _after(data, b"con_4", 3, b"\x81"), "header of tensor at byte"),
        (lambda data: _after(data, b"affine_", 10, b"\x00\x00\xc0\x7f"), "not a number"),
        (
            lambda data: _after(data, b"input_rgb_image_sized", 0, b"\x7f"),
            "does not begin an integer",
        ),
    ],
    ids=["no affine", "another version", "too long", "another shape", "nan", "no integer"],
)
def test_a_damaged_network_file_is_refused_with_the_reason(file, tmp_path, change, why):
    other = tmp_path / "other.dat"
    other.write_bytes(change(file.read_bytes()))
    with pytest.raises(MetricError, match=why):
        DlibResnet(other)


def _after(data, name, skip, put):
    """Return the bytes with some replaced at an offset after a name's first occurrence."""
    at = data.index(name) + len(name) + skip
    return data[:at] + put + data[at + len(put) :]


def test_a_face_of_another_size_is_refused(network):
    with pytest.raises(MetricError, match="not 150 x 150 x 3"):
        network.embedding(np.zeros((96, 96, 3), np.uint8))
