"""The interpreter of TensorFlow.js graphs compared with results by hand and by torch."""

import base64
import json

import numpy as np
import pytest

from evaluation.metrics.networks.tfjs_graph import Graph, GraphError

torch = pytest.importorskip("torch")


def text(value):
    return {"s": base64.b64encode(value.encode()).decode()}


def numbers(*values):
    return {"list": {"i": [str(value) for value in values]}}


def graph(nodes, **weights):
    """Return a graph with these nodes and constant arrays."""
    specs, data = [], b""
    for name, array in weights.items():
        kind = "int32" if array.dtype.kind == "i" else "float32"
        specs.append({"name": name, "shape": list(array.shape), "dtype": kind})
        data += array.astype(kind).tobytes()
        nodes = [*nodes, {"name": name, "op": "Const"}]
    model = {"modelTopology": {"node": nodes}, "weightsManifest": [{"weights": specs}]}
    described = json.dumps(model).encode()
    return Graph(len(described).to_bytes(8, "little") + described + data)


def random_image(height, width, channels=3, seed=0):
    values = np.random.default_rng(seed).normal(size=(1, height, width, channels))
    return torch.from_numpy(values.astype(np.float32))


def node(op, *inputs, name="out", **attributes):
    return {"name": name, "op": op, "input": list(inputs), "attr": attributes}


@pytest.mark.parametrize(("side", "stride", "kernel"), [(8, 1, 3), (9, 2, 3), (8, 2, 3), (7, 2, 5)])
def test_same_padding_adds_the_odd_pixel_at_the_far_side(side, stride, kernel):
    weights = np.random.default_rng(1).normal(size=(kernel, kernel, 3, 4)).astype(np.float32)
    bias = np.arange(4, dtype=np.float32)
    convolve = node(
        "_FusedConv2D", "x", "w", "b",
        strides=numbers(1, stride, stride, 1), padding=text("SAME"),
        fused_ops={"list": {"s": [text("BiasAdd")["s"], text("Relu")["s"]]}},
    )  # fmt: skip
    image = random_image(side, side)
    (found,) = graph([convolve], w=weights, b=bias).run({"x": image}, ["out"])
    wanted = -(-side // stride)
    total = max((wanted - 1) * stride + kernel - side, 0)
    near = total // 2
    padded = np.pad(image[0].numpy(), ((near, total - near),) * 2 + ((0, 0),))
    expected = np.array([
        [
            np.einsum(
                "abc,abcd->d",
                padded[y * stride : y * stride + kernel, x * stride : x * stride + kernel],
                weights,
            ) + bias
            for x in range(wanted)
        ]
        for y in range(wanted)
    ])  # fmt: skip
    assert found.shape == (1, wanted, wanted, 4)
    assert found[0].numpy() == pytest.approx(np.maximum(expected, 0), abs=1e-4)


def test_a_depthwise_convolution_keeps_channels_apart():
    weights = np.zeros((1, 1, 3, 2), np.float32)
    weights[0, 0] = [[1, 2], [3, 4], [5, 6]]
    depthwise = node(
        "DepthwiseConv2dNative", "x", "w", strides=numbers(1, 1, 1, 1), padding=text("VALID")
    )
    image = random_image(2, 2)
    (found,) = graph([depthwise], w=weights).run({"x": image}, ["out"])
    assert torch.allclose(found[..., 0], image[..., 0])
    assert torch.allclose(found[..., 3], 4 * image[..., 1])
    assert torch.allclose(found[..., 5], 6 * image[..., 2])


@pytest.mark.parametrize("half", [True, False])
def test_images_are_resized_like_torch_resizes_them(half):
    resize = node("ResizeBilinear", "x", "size", half_pixel_centers={"b": half})
    image = random_image(4, 6)
    (found,) = graph([resize], size=np.array([8, 12])).run({"x": image}, ["out"])
    assert found.shape == (1, 8, 12, 3)
    if half:
        expected = torch.nn.functional.interpolate(
            image.permute(0, 3, 1, 2), (8, 12), mode="bilinear"
        )
        assert torch.allclose(found, expected.permute(0, 2, 3, 1), atol=1e-5)
    else:
        assert torch.allclose(found[:, ::2, ::2], image)


def test_packed_weights_are_unpacked():
    spec = {
        "name": "w", "shape": [2], "dtype": "float32",
        "quantization": {"dtype": "uint8", "scale": 0.5, "min": -1.0},
    }  # fmt: skip
    model = {
        "modelTopology": {"node": [{"name": "w", "op": "Const"}]},
        "weightsManifest": [{"weights": [spec]}],
    }
    described = json.dumps(model).encode()
    data = len(described).to_bytes(8, "little") + described
    assert Graph(data + bytes([0, 4])).weights["w"].tolist() == [-1.0, 1.0]
    with pytest.raises(GraphError, match="3 bytes, not 2"):
        Graph(data + bytes(3))


def test_an_unsupported_operation_is_named():
    with pytest.raises(GraphError, match="out is Bessel"):
        graph([node("Bessel", "x")]).run({"x": random_image(2, 2)}, ["out"])


def test_a_deep_graph_does_not_run_out_of_stack():
    chain = [node("Identity", f"n{i}", name=f"n{i + 1}") for i in range(3000)]
    (found,) = graph(chain).run({"n0": random_image(1, 1)}, ["n3000"])
    assert found.shape == (1, 1, 1, 3)
