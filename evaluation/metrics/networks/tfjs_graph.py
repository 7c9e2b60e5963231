"""Interpreter of TensorFlow.js graph models in torch, for small networks from npm packages.

Only operations of the networks used here are supported. Values have TensorFlow's axes: batch,
height, width, channels. Convolutions use views in torch's order.
"""

from __future__ import annotations

import base64
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class GraphError(ValueError):
    """A graph that this interpreter cannot run."""


class Graph:
    """A graph model: nodes by name, and weights as tensors.

    `data` is the length of the model's description in 8 bytes, then the description in JSON, then
    the weights.
    """

    def __init__(self, data: bytes) -> None:
        import torch

        self._orders: dict[tuple[str, ...], list[str]] = {}
        begin = 8 + int.from_bytes(data[:8], "little")
        description, weights = json.loads(data[8:begin]), data[begin:]
        self.nodes = {node["name"]: node for node in description["modelTopology"]["node"]}
        self.weights = {
            name: torch.from_numpy(values)
            for name, values in _read_weights(description["weightsManifest"], weights).items()
        }
        for name, operation in self._kernels().items():
            self.weights[name] = KERNELS[operation](self.weights[name]).contiguous(
                memory_format=torch.channels_last
            )

    def run(self, inputs: Mapping[str, Any], outputs: Sequence[str]) -> list[Any]:
        """Return the values of the output nodes, given those of the placeholders."""
        import torch

        values: dict[str, Any] = dict(inputs)
        key = (*outputs, *sorted(values))
        if key not in self._orders:
            self._orders[key] = self._order(outputs, values)
        order = self._orders[key]
        # Values are dropped after their last use: together they are many times as large as the input.
        waiting = Counter(need for name in order for need in self._needs(name))
        waiting.update(outputs)
        with torch.inference_mode():
            for name in order:
                node = self.nodes[name]
                sources = node.get("input", ())
                values[name] = self._value(node, [_pick(values, source) for source in sources])
                for need in self._needs(name):
                    waiting[need] -= 1
                    if not waiting[need]:
                        values.pop(need)
        return [values[name] for name in outputs]

    def _kernels(self) -> dict[str, str]:
        """Return the operation of each convolution, by the name of its weights.

        Weights are converted to torch's order once, because the conversion takes longer than the
        convolution of a small image.
        """
        operations: dict[str, str] = {}
        for node in self.nodes.values():
            if node["op"] not in KERNELS:
                continue
            kernel = _node_name(node["input"][1])
            if (
                kernel not in self.weights
                or operations.setdefault(kernel, node["op"]) != node["op"]
            ):
                raise GraphError(
                    f"the convolution {node['name']} has no weights, or shares them with another "
                    "kind of convolution"
                )
        return operations

    def _order(self, outputs: Sequence[str], given: Collection[str]) -> list[str]:
        """Return the nodes that compute the outputs, each after its inputs."""
        computed, order = set(given), list[str]()
        waiting = list(reversed(outputs))
        while waiting:
            name = waiting[-1]
            if missing := [need for need in self._needs(name) if need not in computed]:
                waiting += missing
                continue
            waiting.pop()
            if name not in computed:
                computed.add(name)
                order.append(name)
        return order

    def _needs(self, name: str) -> set[str]:
        return {_node_name(source) for source in self.nodes[name].get("input", ())}

    def _value(self, node: Mapping[str, Any], values: list[Any]) -> Any:
        operation = node["op"]
        if operation == "Const":
            return self.weights[node["name"]]
        if operation not in OPERATIONS:
            raise GraphError(f"{node['name']} is {operation}, which is not supported")
        return OPERATIONS[operation](_Attributes(node.get("attr", {})), *values)


def _node_name(source: str) -> str:
    return source.lstrip("^").partition(":")[0]


def _pick(values: Mapping[str, Any], source: str) -> Any:
    """Return the value that an input names; "split:1" is the second value of the node "split"."""
    name, _, index = source.partition(":")
    value = values[name]
    return value[int(index or 0)] if isinstance(value, list) else value


def _read_weights(manifest: Sequence[Mapping[str, Any]], data: bytes) -> dict[str, NDArray[Any]]:
    weights: dict[str, NDArray[Any]] = {}
    position = 0
    for spec in (spec for group in manifest for spec in group["weights"]):
        count = math.prod(spec["shape"])
        packed = spec.get("quantization")
        kind = np.dtype(packed["dtype"] if packed else spec["dtype"])
        values = np.frombuffer(data, kind, count, position)
        position += kind.itemsize * count
        if packed and "scale" in packed:
            values = values.astype(np.float32) * np.float32(packed["scale"]) + np.float32(
                packed["min"]
            )
        dtype = np.int64 if spec["dtype"] == "int32" else np.float32
        weights[spec["name"]] = values.astype(dtype).reshape(spec["shape"])
    if position != len(data):
        raise GraphError(f"the weights have {len(data)} bytes, not {position}")
    return weights


class _Attributes:
    """A node's attributes in TensorFlow.js's form."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def ints(self, name: str) -> list[int]:
        return [int(value) for value in self.values.get(name, {}).get("list", {}).get("i", ())]

    def int(self, name: str) -> int:
        return int(self.values.get(name, {}).get("i", 0))

    def number(self, name: str, default: float) -> float:
        return float(self.values.get(name, {}).get("f", default))

    def flag(self, name: str) -> bool:
        return bool(self.values.get(name, {}).get("b", False))

    def text(self, name: str) -> str:
        return base64.b64decode(self.values.get(name, {}).get("s", "")).decode()

    def texts(self, name: str) -> list[str]:
        values = self.values.get(name, {}).get("list", {}).get("s", ())
        return [base64.b64decode(value).decode() for value in values]


def _channels_first(values: Any) -> Any:
    return values.permute(0, 3, 1, 2)


def _channels_last(values: Any) -> Any:
    return values.permute(0, 2, 3, 1)


def _padded(values: Any, kernel: Sequence[int], a: _Attributes, fill: float = 0.0) -> Any:
    """Add the border of TensorFlow's padding "SAME"."""
    from torch.nn.functional import pad

    border = _border(values, kernel, a)
    return pad(values, border, value=fill) if any(border) else values


def _border(values: Any, kernel: Sequence[int], a: _Attributes) -> list[int]:
    """Return the border that "SAME" adds on the left, right, top and bottom.

    An odd pixel is added on the right or at the bottom.
    """
    if a.text("padding") == "VALID":
        return [0, 0, 0, 0]
    (_, down, across, _) = a.ints("strides")
    dilations = a.ints("dilations") or [1, 1, 1, 1]
    border: list[int] = []
    for side, size, stride, dilation in (
        (values.shape[3], kernel[1], across, dilations[2]),
        (values.shape[2], kernel[0], down, dilations[1]),
    ):
        extent = (size - 1) * dilation + 1
        total = max((math.ceil(side / stride) - 1) * stride + extent - side, 0)
        border += [total // 2, total - total // 2]
    return border


#: Activations, applied in place to a convolution's result.
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "Relu": lambda x: x.relu_(),
    "Relu6": lambda x: x.clamp_(0, 6),
    "Sigmoid": lambda x: x.sigmoid_(),
}


def _convolution(a: _Attributes, values: Any, kernel: Any, *fused: Any) -> Any:
    return _convolved(a, values, kernel, 1, fused)


def _depthwise(a: _Attributes, values: Any, kernel: Any, *fused: Any) -> Any:
    return _convolved(a, values, kernel, values.shape[3], fused)


def _each_channel(kernel: Any) -> Any:
    """Convert TensorFlow's weights of a depthwise convolution to torch's order."""
    height, width, groups, times = kernel.shape
    return kernel.permute(2, 3, 0, 1).reshape(groups * times, 1, height, width)


def _convolved(a: _Attributes, values: Any, weights: Any, groups: int, fused: Sequence[Any]) -> Any:
    from torch.nn.functional import conv2d, pad

    (_, down, across, _) = a.ints("strides")
    dilations = a.ints("dilations") or [1, 1, 1, 1]
    inputs = _channels_first(values)
    border = _border(inputs, weights.shape[2:], a)
    around = (border[2], border[0])
    if border[0] != border[1] or border[2] != border[3]:
        inputs, around = pad(inputs, border), (0, 0)
    steps = a.texts("fused_ops")
    bias = fused[0] if "BiasAdd" in steps else None
    result = conv2d(inputs, weights, bias, (down, across), around, tuple(dilations[1:3]), groups)
    for step in steps:
        if step == "LeakyRelu":
            result = result.where(result > 0, result * a.number("leakyrelu_alpha", 0.2))
        elif step != "BiasAdd":
            result = ACTIVATIONS[step](result)
    return _channels_last(result)


def _pool(a: _Attributes, values: Any, *, largest: bool) -> Any:
    from torch.nn.functional import avg_pool2d, max_pool2d

    (_, high, wide, _), (_, down, across, _) = a.ints("ksize"), a.ints("strides")
    inputs = _channels_first(values)
    if largest:
        inputs = _padded(inputs, (high, wide), a, -math.inf)
        return _channels_last(max_pool2d(inputs, (high, wide), (down, across)))
    total = avg_pool2d(_padded(inputs, (high, wide), a), (high, wide), (down, across))
    # TensorFlow's mean excludes the border.
    share = avg_pool2d(
        _padded(inputs.new_ones(inputs.shape), (high, wide), a), (high, wide), (down, across)
    )
    return _channels_last(total / share)


def _resize(a: _Attributes, values: Any, size: Any) -> Any:
    """Resize bilinearly with TensorFlow's conventions for pixel positions."""
    import torch

    for axis, wanted in zip((1, 2), size.tolist(), strict=True):
        length = values.shape[axis]
        if a.flag("align_corners") and wanted > 1:
            at = torch.arange(wanted) * ((length - 1) / (wanted - 1))
        elif a.flag("half_pixel_centers"):
            at = (torch.arange(wanted) + 0.5) * (length / wanted) - 0.5
        else:
            at = torch.arange(wanted) * (length / wanted)
        at = at.clamp(0, length - 1)
        low = at.floor().long()
        high = (low + 1).clamp(max=length - 1)
        shape = [1, 1, 1, 1]
        shape[axis] = wanted
        share = (at - low).reshape(shape)
        values = values.index_select(axis, low).lerp_(values.index_select(axis, high), share)
    return values


def _pad(a: _Attributes, values: Any, borders: Any, fill: Any = 0.0) -> Any:
    from torch.nn.functional import pad

    flat = [int(side) for pair in reversed(borders.tolist()) for side in pair]
    return pad(values, flat, value=float(fill))


def _slice(a: _Attributes, values: Any, begin: Any, end: Any, step: Any) -> Any:
    """Return a strided slice of a shape, the only supported use."""
    whole_begin, whole_end = a.int("begin_mask"), a.int("end_mask")
    if values.dim() != 1:
        raise GraphError("only slices of shapes are supported")
    first = None if whole_begin & 1 else int(begin[0])
    last = None if whole_end & 1 else int(end[0])
    part = values[first : last : int(step[0])]
    return part[0] if a.int("shrink_axis_mask") & 1 else part


def _shape(a: _Attributes, values: Any) -> Any:
    import torch

    return torch.tensor(values.shape)


def _stack(a: _Attributes, *values: Any) -> Any:
    import torch

    return torch.stack(values, a.int("axis"))


def _joined(a: _Attributes, *values: Any) -> Any:
    import torch

    return torch.cat(values[:-1], int(values[-1]))


def _mean(a: _Attributes, values: Any, axes: Any) -> Any:
    return values.mean(tuple(np.atleast_1d(axes.numpy()).tolist()), keepdim=a.flag("keep_dims"))


def _split(a: _Attributes, values: Any, sizes: Any, axis: Any) -> list[Any]:
    return list(values.split(sizes.tolist(), int(axis)))


def _leaky(a: _Attributes, values: Any) -> Any:
    return values.where(values > 0, values * a.number("alpha", 0.2))


#: The conversion of weights to torch's order, by kind of convolution.
KERNELS: dict[str, Callable[[Any], Any]] = {
    "Conv2D": lambda kernel: kernel.permute(3, 2, 0, 1),
    "_FusedConv2D": lambda kernel: kernel.permute(3, 2, 0, 1),
    "DepthwiseConv2dNative": _each_channel,
    "FusedDepthwiseConv2dNative": _each_channel,
}
OPERATIONS: dict[str, Callable[..., Any]] = {
    "Conv2D": _convolution,
    "_FusedConv2D": _convolution,
    "DepthwiseConv2dNative": _depthwise,
    "FusedDepthwiseConv2dNative": _depthwise,
    "Add": lambda a, x, y: x + y,
    "AddV2": lambda a, x, y: x + y,
    "Mul": lambda a, x, y: x * y,
    "Identity": lambda a, x: x,
    "Relu": lambda a, x: x.relu(),
    "Relu6": lambda a, x: x.clamp(0, 6),
    "LeakyRelu": _leaky,
    "Sigmoid": lambda a, x: x.sigmoid(),
    "Softmax": lambda a, x: x.softmax(-1),
    "MaxPool": lambda a, x: _pool(a, x, largest=True),
    "AvgPool": lambda a, x: _pool(a, x, largest=False),
    "ResizeBilinear": _resize,
    "Pad": _pad,
    "PadV2": _pad,
    "ConcatV2": _joined,
    "SplitV": _split,
    "Pack": _stack,
    "Shape": _shape,
    "StridedSlice": _slice,
    "Mean": _mean,
    "Reshape": lambda a, x, shape: x.reshape(shape.tolist()),
    "Transpose": lambda a, x, order: x.permute(order.tolist()),
}
