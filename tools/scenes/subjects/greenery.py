"""Trees, grass and stones."""

from __future__ import annotations

import numpy as np

from tools.scenes import materials as m
from tools.scenes import textures as t
from tools.scenes.meshes import Array, Mesh, ball, leaves, sheet, smooth, tube
from tools.scenes.studio import Scene

#: The sky is black below the horizon, so ground and sea must reach the horizon.
FAR = 6000.0


GREENS = ((0.16, 0.30, 0.09), (0.42, 0.52, 0.18))


def crown(
    centre: tuple[float, float, float], radius: float, count: int, seed: int, size: float = 0.09
) -> Mesh:
    """The foliage of a tree: leaves on a few overlapping spheres."""

    def where(rng: np.random.Generator, n: int) -> Array:
        hubs = rng.normal(size=(9, 3))
        hubs *= (radius * 0.55) / np.linalg.norm(hubs, axis=1, keepdims=True) * [1, 1, 0.75]
        away = rng.normal(size=(n, 3))
        away *= (
            radius
            * 0.55
            * rng.uniform(0.75, 1.0, (n, 1))
            / np.linalg.norm(away, axis=1, keepdims=True)
        )
        return np.array(centre) + hubs[rng.integers(0, 9, n)] + away

    return leaves(count, size, where, seed)


def tree(
    scene: Scene,
    x: float,
    y: float,
    height: float,
    seed: int,
    paints: tuple[t.Colour, t.Colour] = GREENS,
) -> None:
    bark = m.matte(t.mottled((0.22, 0.15, 0.10), (0.40, 0.30, 0.21), 3, 30))
    trunk = smooth([(x, y, 0), (x + 0.05, y, height * 0.35), (x - 0.04, y, height * 0.7)])
    scene.add(tube(trunk, np.linspace(0.06, 0.025, len(trunk)) * height, 16), bark)
    foliage = m.satin(t.mottled(paints[0], paints[1], seed, 250), 0.6, 0.3)
    scene.add(crown((x, y, height * 0.74), height * 0.34, 5200, seed, 0.038 * height), foliage)


def pine(height: float, seed: int) -> Mesh:
    def where(rng: np.random.Generator, n: int) -> Array:
        up = 1 - np.sqrt(rng.uniform(0, 1, n))
        tier = 0.72 + 0.28 * (1 - (up * 9) % 1)
        radius = 0.27 * height * (1 - up) * tier * np.sqrt(rng.uniform(0.15, 1, n))
        angle = rng.uniform(0, 2 * np.pi, n)
        return np.stack(
            [radius * np.cos(angle), radius * np.sin(angle), height * (0.1 + 0.9 * up)], 1
        )

    return leaves(1500, 0.035 * height, where, seed)


def lawn(scene: Scene, blades: int, seed: int, clear: float = 0.0, far: float = 6.0) -> None:
    """Green ground with blades of grass near the camera; `clear` keeps a path free."""
    scene.add(
        sheet(FAR, FAR, FAR / 2, FAR / 2),
        m.matte(t.mottled((0.18, 0.30, 0.08), (0.38, 0.48, 0.16), seed, 60)),
    )

    def where(rng: np.random.Generator, n: int) -> Array:
        y = -4.5 + (far + 4.5) * rng.uniform(0, 1, n) ** 1.6
        x = rng.uniform(-4.5, 4.5, n)
        if clear:
            x = np.where(np.abs(x) < clear, np.sign(x) * (clear + rng.uniform(0, 3, n)), x)
        return np.stack([x, y, np.full(n, 0.03)], 1)

    grass = leaves(blades, 0.06, where, seed + 1)
    stretched = grass.points.copy()
    stretched[:, 2] = np.abs(stretched[:, 2] - 0.03) * 1.6
    scene.add(
        Mesh(stretched, grass.triangles, grass.uv),
        m.satin(t.mottled((0.20, 0.32, 0.11), (0.42, 0.50, 0.20), seed, 300), 0.6, 0.2),
    )


def rock(size: float, seed: int) -> Mesh:
    rng = np.random.default_rng(seed)
    bumps = rng.normal(size=(14, 3))
    bumps /= np.linalg.norm(bumps, axis=1, keepdims=True)
    rough = ball(1.0, 72)
    unit = rough.points / np.linalg.norm(rough.points, axis=1, keepdims=True)
    cut = np.min(np.stack([0.80 / np.maximum(unit @ b, 0.62) for b in bumps]), axis=0)
    return Mesh(
        unit * np.minimum(cut, 1.0)[:, None] * size * [1.15, 1, 0.8], rough.triangles, rough.uv
    )
