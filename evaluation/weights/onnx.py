"""Read the weights of an ONNX file without the onnx package.

An ONNX file is protobuf: a sequence of fields, each with a key (number and kind) and a value. Only
the float32 initialisers of the graph are read.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

# Field numbers: ModelProto.graph and GraphProto.initializer; then those of TensorProto.
GRAPH, INITIALIZER = 7, 5
DIMS, DATA_TYPE, NAME, RAW_DATA = 1, 2, 8, 9
FLOAT32 = 1
VARINT, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5


def initializers(data: bytes) -> dict[str, NDArray[np.float32]]:
    """Return the float32 initialisers by name, in the file's order. Raises ValueError."""
    tensors = {}
    for number, graph in fields(memoryview(data)):
        if number != GRAPH or isinstance(graph, int):
            continue
        for inner, tensor in fields(graph):
            if inner == INITIALIZER and not isinstance(tensor, int):
                name, values = _tensor(tensor)
                if values is not None:
                    tensors[name] = values
    return tensors


def fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield the number and value of each field: integers, and all other kinds as bytes."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        if kind == BYTES:
            length, position = _varint(data, position)
        elif kind in (EIGHT_BYTES, FOUR_BYTES):
            length = 8 if kind == EIGHT_BYTES else 4
        else:
            raise ValueError(f"this is not an ONNX file: it has a field of kind {kind}")
        if position + length > len(data):
            raise ValueError("the file ends in the middle of a field")
        yield number, data[position : position + length]
        position += length


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    """Parse a varint; return it and the position after it."""
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise ValueError("this is not an ONNX file: a number does not end")
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position


def _tensor(data: memoryview) -> tuple[str, NDArray[np.float32] | None]:
    """Return the name and values of a tensor; None as values if they are not float32."""
    shape, name, kind, raw = [], "", 0, memoryview(b"")
    for number, value in fields(data):
        if number == DIMS and isinstance(value, int):
            shape.append(value)
        elif number == DIMS and not isinstance(value, int):  # packed
            position = 0
            while position < len(value):
                size, position = _varint(value, position)
                shape.append(size)
        elif number == DATA_TYPE and isinstance(value, int):
            kind = value
        elif number == NAME and not isinstance(value, int):
            name = bytes(value).decode()
        elif number == RAW_DATA and not isinstance(value, int):
            raw = value
    if kind != FLOAT32 or len(raw) != 4 * int(np.prod(shape)):
        return name, None
    return name, np.frombuffer(raw, dtype="<f4").reshape(shape)
