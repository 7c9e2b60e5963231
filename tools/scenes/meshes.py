"""Triangle meshes in numpy: lathed, swept, bevelled and extruded shapes. Z is up."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Point = Sequence[float]


@dataclass(frozen=True)
class Mesh:
    """Points (n, 3), triangles (m, 3) and texture coordinates (n, 2)."""

    points: Array
    triangles: npt.NDArray[np.int64]
    uv: Array

    def moved(self, x: float = 0, y: float = 0, z: float = 0) -> Mesh:
        return Mesh(self.points + np.array([x, y, z]), self.triangles, self.uv)

    def scaled(self, x: float, y: float | None = None, z: float | None = None) -> Mesh:
        factors = np.array([x, x if y is None else y, x if z is None else z])
        return Mesh(self.points * factors, self.triangles, self.uv)

    def turned(self, degrees: float, axis: str = "z") -> Mesh:
        c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
        matrix = {
            "x": [[1, 0, 0], [0, c, -s], [0, s, c]],
            "y": [[c, 0, s], [0, 1, 0], [-s, 0, c]],
            "z": [[c, -s, 0], [s, c, 0], [0, 0, 1]],
        }[axis]
        return Mesh(self.points @ np.array(matrix).T, self.triangles, self.uv)

    def tiled(self, u: float, v: float) -> Mesh:
        """Return the same shape with its texture repeated u x v times."""
        return Mesh(self.points, self.triangles, self.uv * np.array([u, v]))

    def __add__(self, other: Mesh) -> Mesh:
        return join([self, other])

    def write(self, path: Path) -> None:
        """Write a binary PLY file."""
        vertex = np.zeros(len(self.points), dtype=[(n, "<f4") for n in ("x", "y", "z", "u", "v")])
        for i, name in enumerate(("x", "y", "z")):
            vertex[name] = self.points[:, i]
        vertex["u"], vertex["v"] = self.uv[:, 0], self.uv[:, 1]
        face = np.zeros(len(self.triangles), dtype=[("count", "u1"), ("index", "<i4", 3)])
        face["count"], face["index"] = 3, self.triangles
        properties = "".join(f"property float {n}\n" for n in ("x", "y", "z", "u", "v"))
        header = (
            "ply\nformat binary_little_endian 1.0\n"
            f"element vertex {len(vertex)}\n{properties}"
            f"element face {len(face)}\nproperty list uchar int vertex_indices\nend_header\n"
        )
        path.write_bytes(header.encode() + vertex.tobytes() + face.tobytes())


def join(meshes: Sequence[Mesh]) -> Mesh:
    """Merge meshes into one."""
    offsets = np.cumsum([0, *(len(mesh.points) for mesh in meshes[:-1])])
    return Mesh(
        np.concatenate([mesh.points for mesh in meshes]),
        np.concatenate([m.triangles + o for m, o in zip(meshes, offsets, strict=True)]),
        np.concatenate([mesh.uv for mesh in meshes]),
    )


def grid(points: Array, uv: Array | None = None) -> Mesh:
    """The surface through a lattice of points (rows, columns, 3)."""
    rows, columns = points.shape[:2]
    index = np.arange(rows * columns).reshape(rows, columns)
    a, b = index[:-1, :-1].ravel(), index[:-1, 1:].ravel()
    c, d = index[1:, 1:].ravel(), index[1:, :-1].ravel()
    triangles = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
    flat = points.reshape(-1, 3)
    if uv is None:
        v, u = np.meshgrid(np.linspace(0, 1, rows), np.linspace(0, 1, columns), indexing="ij")
        uv = np.stack([u, v], -1)
    corners = flat[triangles]
    area = np.linalg.norm(
        np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1
    )
    # Poles and repeated points give triangles without area, which have no normal.
    return Mesh(flat, triangles[area > 1e-12], uv.reshape(-1, 2))


def sheet(width: float, depth: float, u: float = 1, v: float = 1) -> Mesh:
    """A flat rectangle in the ground plane, its texture repeated u x v times."""
    x, y = width / 2, depth / 2
    points = np.array([[[-x, -y, 0], [x, -y, 0]], [[-x, y, 0], [x, y, 0]]], dtype=np.float64)
    return grid(points).tiled(u, v)


def smooth(points: Sequence[Point], steps: int = 8) -> Array:
    """A Catmull-Rom curve through the points; a point given twice stays a corner."""
    p = np.array(points, dtype=np.float64)
    out = []
    for i in range(len(p) - 1):
        if np.allclose(p[i], p[i + 1]):
            out.append(p[i])
            continue
        before = p[i - 1] if i and not np.allclose(p[i - 1], p[i]) else 2 * p[i] - p[i + 1]
        after = (
            p[i + 2]
            if i + 2 < len(p) and not np.allclose(p[i + 1], p[i + 2])
            else 2 * p[i + 1] - p[i]
        )
        t = np.linspace(0, 1, steps, endpoint=False)[:, None]
        out.extend(
            0.5
            * (
                2 * p[i]
                + (p[i + 1] - before) * t
                + (2 * before - 5 * p[i] + 4 * p[i + 1] - after) * t**2
                + (3 * p[i] - before - 3 * p[i + 1] + after) * t**3
            )
        )
    return np.array([*out, p[-1]])


def lathe(profile: Sequence[Point] | Array, segments: int = 96, corner: float = 35) -> Mesh:
    """The profile (radius, height), from bottom to top, turned about the z axis.

    Where the profile bends by more than `corner` degrees, the edge is kept sharp.
    """
    p = np.array(profile, dtype=np.float64)
    kept = [p[0]]
    for i in range(1, len(p) - 1):
        one, two = p[i] - p[i - 1], p[i + 1] - p[i]
        lengths = np.linalg.norm(one) * np.linalg.norm(two)
        kept.append(p[i])
        if lengths > 0 and np.degrees(np.arccos(np.clip(one @ two / lengths, -1, 1))) > corner:
            kept.append(p[i])
    p = np.array([*kept, p[-1]])
    angle = np.linspace(0, 2 * np.pi, segments + 1)
    points = np.stack(
        [
            p[:, None, 0] * np.cos(angle),
            p[:, None, 0] * np.sin(angle),
            np.broadcast_to(p[:, None, 1], (len(p), segments + 1)),
        ],
        -1,
    )
    return grid(points)


def vessel(outline: Sequence[Point] | Array, wall: float, segments: int = 96) -> Mesh:
    """A lathed vessel with walls of thickness `wall`: cups, bowls, glasses."""
    outer = np.array(outline, dtype=np.float64)
    inner = outer[::-1].copy()
    inner[:, 0] = np.maximum(inner[:, 0] - wall, 0)
    inner[:, 1] = np.maximum(inner[:, 1], outer[0, 1] + wall)
    inner[0, 1] = outer[-1, 1]
    bottom = [[0.0, outer[0, 1]]]
    return lathe(np.concatenate([bottom, outer, inner, [[0.0, outer[0, 1] + wall]]]), segments)


def cylinder(radius: float, height: float, bevel: float = 0.0, segments: int = 64) -> Mesh:
    """An upright closed cylinder standing on z = 0."""
    b = bevel
    arc = [
        (radius - b + b * math.sin(t), b - b * math.cos(t)) for t in np.linspace(0, np.pi / 2, 6)
    ]
    side = arc if b else [(radius, 0.0)]
    top = [(r, height - z) for r, z in reversed(side)]
    return lathe([(0.0, 0.0), *side, *top, (0.0, height)], segments)


def ball(radius: float, segments: int = 64) -> Mesh:
    """A sphere about the origin."""
    t = np.linspace(-np.pi / 2, np.pi / 2, segments // 2)
    return lathe(np.stack([radius * np.cos(t), radius * np.sin(t)], 1), segments)


def torus(radius: float, thickness: float, segments: int = 64) -> Mesh:
    """A ring lying flat about the origin."""
    t = np.linspace(0, 2 * np.pi, 25)
    return lathe(
        np.stack([radius + thickness * np.cos(t), thickness * np.sin(t)], 1), segments, corner=180
    )


def box(
    width: float, depth: float, height: float, bevel: float = 0.01, round_steps: int = 4
) -> Mesh:
    """A box with rounded edges standing on z = 0; texture in units of length."""
    half = np.array([width, depth, height]) / 2
    bevel = min(bevel, *(half * 0.999))
    inner = half - bevel
    sides = []
    for axis in range(3):
        for sign in (-1.0, 1.0):
            one, two = [a for a in range(3) if a != axis]
            if (sign > 0) != (axis == 1):
                first, second = one, two
            else:
                first, second = two, one
            ticks = []
            for a in (first, second):
                turn = np.linspace(0, 1, round_steps + 1) * bevel / half[a]
                ticks.append(np.concatenate([-1 + turn, (1 - turn)[::-1]]))
            a, b = np.meshgrid(ticks[0], ticks[1], indexing="ij")
            cube = np.empty((*a.shape, 3))
            cube[..., axis], cube[..., first], cube[..., second] = sign, a, b
            full = cube * half
            core = np.clip(full, -inner, inner)
            out = full - core
            length = np.linalg.norm(out, axis=-1, keepdims=True)
            points = core + np.divide(out, length, out=np.zeros_like(out), where=length > 0) * bevel
            uv = np.stack([points[..., one] + half[one], points[..., two] + half[two]], -1)
            sides.append(grid(points.swapaxes(0, 1), uv.swapaxes(0, 1)))
    return join(sides).moved(z=half[2])


def tube(
    path: Sequence[Point] | Array, radius: float | Sequence[float] | Array, segments: int = 24
) -> Mesh:
    """A round rod along the path, with round ends; the radius may change along the path."""
    p = np.array(path, dtype=np.float64)
    r = np.broadcast_to(np.array(radius, dtype=np.float64), (len(p),)).copy()
    tangents = np.gradient(p, axis=0)
    tangents /= np.linalg.norm(tangents, axis=1, keepdims=True)
    side = np.cross(tangents[0], [0.0, 0.0, 1.0])
    if np.linalg.norm(side) < 1e-6:
        side = np.array([1.0, 0.0, 0.0])
    rings = []
    angle = np.linspace(0, 2 * np.pi, segments + 1)[:, None]
    caps = np.linspace(0, np.pi / 2, 6)[:-1]
    for i in range(len(p)):
        # Transport the sideways direction along the path, so that the rod does not twist.
        side = side - tangents[i] * (side @ tangents[i])
        side /= np.linalg.norm(side)
        up = np.cross(tangents[i], side)
        around = np.cos(angle) * side + np.sin(angle) * up
        if i == 0:
            rings += [
                p[0] - tangents[0] * r[0] * np.cos(t) + around * r[0] * np.sin(t) for t in caps
            ]
        rings.append(p[i] + around * r[i])
        if i == len(p) - 1:
            rings += [
                p[i] + tangents[i] * r[i] * np.cos(t) + around * r[i] * np.sin(t)
                for t in caps[::-1]
            ]
    return grid(np.array(rings))


def prism(outline: Sequence[Point] | Array, height: float) -> Mesh:
    """A solid with sharp edges, extruded from a star-shaped counterclockwise outline (x, y)."""
    p = np.array(outline, dtype=np.float64)
    closed = np.concatenate([p, p[:1]])
    pieces = []
    for z, flip in ((0.0, True), (height, False)):
        ring = np.column_stack([closed, np.full(len(closed), z)])
        middle = np.broadcast_to([*p.mean(axis=0), z], ring.shape)
        rows = np.stack([ring, middle] if not flip else [middle, ring])
        pieces.append(grid(rows, rows[..., :2].copy()))
    for one, two in itertools.pairwise(closed):
        a, b = [*one, 0.0], [*two, 0.0]
        c, d = [*one, height], [*two, height]
        pieces.append(grid(np.array([[a, b], [c, d]])))
    return join(pieces)


def heightfield(
    width: float, depth: float, height: Callable[[Array, Array], Array], steps: int = 200
) -> Mesh:
    """Ground of the shape z = height(x, y) about the origin; texture in units of length."""
    x, y = np.meshgrid(
        np.linspace(-width / 2, width / 2, steps), np.linspace(-depth / 2, depth / 2, steps)
    )
    points = np.stack([x, y, height(x, y)], -1)
    return grid(points, np.stack([x, y], -1))


def leaves(
    count: int, size: float, where: Callable[[np.random.Generator, int], Array], seed: int
) -> Mesh:
    """Many small pointed leaves in random directions, at the positions given by `where`."""
    rng = np.random.default_rng(seed)
    centres = where(rng, count)
    one = rng.normal(size=(count, 3))
    one /= np.linalg.norm(one, axis=1, keepdims=True)
    two = np.cross(one, rng.normal(size=(count, 3)))
    two /= np.linalg.norm(two, axis=1, keepdims=True)
    length = size * rng.uniform(0.6, 1.2, (count, 1))
    tips = np.stack(
        [
            centres - one * length,
            centres + two * length * 0.45,
            centres + one * length,
            centres - two * length * 0.45,
        ],
        1,
    )
    base = np.arange(count)[:, None] * 4
    triangles = np.concatenate([base + np.array(corners) for corners in ((0, 1, 2), (0, 2, 3))])
    uv = np.tile(np.array([[0, 0.5], [0.5, 1], [1, 0.5], [0.5, 0]]), (count, 1))
    return Mesh(tips.reshape(-1, 3), triangles, uv)
