"""Soft shapes: blended distance fields, converted to meshes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tools.scenes.meshes import Array, Mesh, Point

_COARSE = 4

#: A distance field: returns the distances of points (..., 3) to a shape; negative inside.
Field = Callable[[Array], Array]


def ellipsoid(centre: Point, radii: Point) -> Field:
    c, r = np.array(centre, dtype=np.float64), np.array(radii, dtype=np.float64)

    def field(p: Array) -> Array:
        q = (p - c) / r
        k = np.linalg.norm(q, axis=-1)
        gradient = np.linalg.norm(q / r, axis=-1)
        return k * (k - 1) / np.maximum(gradient, 1e-9)

    return field


def sphere(centre: Point, radius: float) -> Field:
    return ellipsoid(centre, (radius, radius, radius))


def rod(start: Point, end: Point, radius: float, end_radius: float | None = None) -> Field:
    a, b = np.array(start, dtype=np.float64), np.array(end, dtype=np.float64)
    last = radius if end_radius is None else end_radius

    def field(p: Array) -> Array:
        along = np.clip((p - a) @ (b - a) / ((b - a) @ (b - a)), 0, 1)
        away = np.linalg.norm(p - (a + along[..., None] * (b - a)), axis=-1)
        return away - (radius + (last - radius) * along)

    return field


def blend(parts: Sequence[Field], softness: float) -> Field:
    """The union of shapes, with fillets of about `softness`."""

    def field(p: Array) -> Array:
        total = parts[0](p)
        for part in parts[1:]:
            other = part(p)
            h = np.clip(0.5 + 0.5 * (other - total) / softness, 0, 1)
            total = other * (1 - h) + total * h - softness * h * (1 - h)
        return total

    return field


def carve(body: Field, hole: Field, softness: float) -> Field:
    """The shape `body` without the shape `hole`."""

    def field(p: Array) -> Array:
        one, other = body(p), -hole(p)
        h = np.clip(0.5 - 0.5 * (other - one) / softness, 0, 1)
        return other * (1 - h) + one * h + softness * h * (1 - h)

    return field


def mould(field: Field, low: Point, high: Point, steps: int = 96) -> Mesh:
    """The field's surface inside the box from `low` to `high`."""
    from skimage.measure import marching_cubes

    lo, hi = np.array(low, dtype=np.float64), np.array(high, dtype=np.float64)
    spacing = float((hi - lo).max()) / steps
    counts = [_COARSE * math.ceil((hi[i] - lo[i]) / spacing / _COARSE) for i in range(3)]
    axes = [lo[i] + spacing * np.arange(counts[i]) for i in range(3)]
    middles = [axis.reshape(-1, _COARSE).mean(axis=1) for axis in axes]
    values = field(np.stack(np.meshgrid(*middles, indexing="ij"), -1))
    for axis in range(3):
        values = np.repeat(values, _COARSE, axis=axis)
    # Evaluate only the blocks that may contain the surface.
    near = np.abs(values) < 2 * _COARSE * spacing
    places = np.nonzero(near)
    values[near] = field(np.stack([axes[i][places[i]] for i in range(3)], -1))
    vertices, faces, _, _ = marching_cubes(values, 0.0, spacing=(spacing,) * 3)
    vertices = vertices + lo
    around = np.arctan2(vertices[:, 1], vertices[:, 0]) / (2 * np.pi) + 0.5
    upward = (vertices[:, 2] - lo[2]) / (hi[2] - lo[2])
    return Mesh(vertices, faces[:, ::-1].astype(np.int64), np.stack([around, upward], 1))
