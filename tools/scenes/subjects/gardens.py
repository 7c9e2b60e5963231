"""A garden, a park, a desert."""

from __future__ import annotations

import math

import numpy as np

from tools.scenes import materials as m
from tools.scenes import textures as t
from tools.scenes.meshes import (
    Array,
    Mesh,
    ball,
    box,
    grid,
    heightfield,
    join,
    leaves,
    prism,
    sheet,
    smooth,
    tube,
)
from tools.scenes.studio import Camera, Scene
from tools.scenes.subjects.greenery import FAR, lawn, rock, tree


def garden_path() -> Scene:
    """Stepping stones through a garden to a gate."""
    scene = Scene(Camera((0.2, -5.2, 1.6), (0, 1.5, 0.95), 50), exposure=-0.5)
    lawn(scene, 26000, 3, clear=0.5)
    rng = np.random.default_rng(8)
    stone = m.satin(t.mottled((0.48, 0.46, 0.43), (0.66, 0.63, 0.58), 5, 60), 0.8)
    for i in range(11):
        y = -4.1 + 0.95 * i
        corners = np.linspace(0, 2 * np.pi, 9)[:-1] + rng.uniform(-0.2, 0.2, 8)
        radii = rng.uniform(0.36, 0.48, 8)
        outline = np.stack([radii * np.cos(corners) * 1.15, radii * np.sin(corners) * 0.8], 1)
        scene.add(prism(outline, 0.06).moved(0.12 * math.sin(i * 1.3), y, 0.0), stone)
    hedge = m.satin(t.mottled((0.10, 0.24, 0.07), (0.30, 0.42, 0.15), 9, 250), 0.6, 0.3)
    for side in (-1, 1):

        def where(r: np.random.Generator, n: int, side: int = side) -> Array:
            return np.stack(
                [
                    side * (2.3 + 0.45 * r.uniform(-1, 1, n)),
                    r.uniform(-3.5, 7.0, n),
                    1.05 * r.uniform(0, 1, n) ** 0.6,
                ],
                1,
            )

        scene.add(leaves(15000, 0.085, where, 20 + side), hedge)
        scene.add(box(0.8, 10.4, 0.98, 0.05).moved(side * 2.3, 1.75), m.matte((0.08, 0.16, 0.05)))
        for colour, seed in (
            ((0.86, 0.20, 0.26), 31),
            ((0.95, 0.80, 0.26), 33),
            ((0.86, 0.62, 0.82), 35),
        ):

            def bed(r: np.random.Generator, n: int, side: int = side) -> Array:
                return np.stack(
                    [
                        side * r.uniform(1.35, 1.75, n),
                        r.uniform(-3.4, 6.5, n),
                        r.uniform(0.16, 0.34, n),
                    ],
                    1,
                )

            scene.add(leaves(420, 0.06, bed, seed + side), m.satin(colour, 0.6))

        def greens(r: np.random.Generator, n: int, side: int = side) -> Array:
            return np.stack(
                [side * r.uniform(1.25, 1.85, n), r.uniform(-3.5, 6.6, n), r.uniform(0, 0.26, n)], 1
            )

        scene.add(leaves(5200, 0.07, greens, 60 + side), hedge)
    white = m.satin((0.90, 0.90, 0.87), 0.5)
    for x in (-1.05, 1.05):
        scene.add(box(0.18, 0.18, 1.5, 0.02).moved(x, 6.6), white)
        scene.add(ball(0.15).moved(x, 6.6, 1.6), white)
    for i in range(11):
        x = -0.85 + 0.17 * i
        scene.add(box(0.10, 0.04, 1.0 + 0.18 * math.cos(x * 1.7), 0.01).moved(x, 6.6, 0.08), white)
    for z in (0.35, 0.85):
        scene.add(box(2.0, 0.05, 0.09, 0.01).moved(0, 6.64, z), white)
    tree(scene, -3.9, 8.2, 5.0, 41)
    tree(scene, 3.6, 9.5, 5.8, 43)
    tree(scene, 0.6, 15.0, 6.0, 45)
    scene.sky((-0.55, -0.45, 0.62))
    return scene


def park_bench() -> Scene:
    """A bench under a tree in a park in autumn."""
    scene = Scene(Camera((-1.6, -6.0, 1.55), (0.3, 0.6, 1.15), 50), exposure=-0.1)
    lawn(scene, 16000, 5, far=9)
    path = smooth([(-12, -1.2, 0), (-4, -1.6, 0), (1, -1.1, 0), (6, -1.9, 0), (14, -1.0, 0)], 20)
    band = np.stack([path + np.array([0, side, 0.085]) for side in (-0.75, 0.75)])
    gravel = t.speckled((0.66, 0.60, 0.50), (0.50, 0.45, 0.38), 3, 4, 0.4)
    scene.add(grid(band).tiled(14, 1), m.matte(gravel))
    wood = m.satin(t.wood((0.40, 0.23, 0.12), (0.58, 0.36, 0.20), 3, 1), 0.5)
    iron = m.satin((0.08, 0.09, 0.09), 0.4)
    for i in range(4):
        scene.add(box(1.9, 0.10, 0.04, 0.01).moved(0.5, 0.32 + 0.13 * i, 0.50), wood)
    for i in range(3):
        scene.add(
            box(1.9, 0.035, 0.11, 0.01)
            .turned(-12, "x")
            .moved(0.5, 0.80 + 0.03 * i, 0.62 + 0.16 * i),
            wood,
        )
    for x in (-0.3, 1.3):
        for path_ in (
            [(x, 0.28, 0), (x, 0.30, 0.48), (x, 0.75, 0.48), (x, 0.92, 1.08)],
            [(x, 0.86, 0), (x, 0.74, 0.48)],
            [(x, 0.30, 0.48), (x, 0.26, 0.74), (x, 0.78, 0.76)],
        ):
            scene.add(tube(path_, 0.028, 12), iron)
    autumn = ((0.62, 0.30, 0.06), (0.92, 0.66, 0.14))
    tree(scene, 2.6, 2.4, 5.4, 51, autumn)
    tree(scene, -3.8, 5.5, 6.2, 53, ((0.50, 0.16, 0.06), (0.85, 0.42, 0.12)))
    tree(scene, -0.8, 11.0, 6.4, 55)
    tree(scene, 6.8, 10.0, 6.8, 57, autumn)
    tree(scene, -8.5, 12.0, 7.0, 59)
    fallen = leaves(
        900,
        0.07,
        lambda r, n: np.stack([r.normal(2.0, 2.2, n), r.normal(1.0, 1.8, n), np.full(n, 0.08)], 1),
        61,
    )
    flat = fallen.points.copy()
    flat[:, 2] = 0.075 + 0.35 * (flat[:, 2] - 0.08)
    scene.add(Mesh(flat, fallen.triangles, fallen.uv), m.matte(t.mottled(*autumn, 7, 300)))
    scene.sky((-0.60, -0.40, 0.52), 3.5)
    return scene


def desert() -> Scene:
    """Cacti among dunes in late light."""
    scene = Scene(Camera((0, -8.0, 1.9), (0.3, 4, 1.75), 50), exposure=0.1)
    field = t.noise(512, 170, 21, 3, 1.8)

    def dunes(x: Array, y: Array) -> Array:
        sample = field[
            np.clip(((y + 50) / 100 * 511).astype(int), 0, 511),
            np.clip(((x + 50) / 100 * 511).astype(int), 0, 511),
        ]
        return (
            9.0 * sample * np.clip((y - 4) / 26, 0, 1) + 0.05 * np.sin(9 * y + 2 * np.sin(x)) * 0.35
        )

    scene.add(sheet(FAR, FAR, 40, 40).moved(z=-0.1), m.matte((0.80, 0.54, 0.31)))
    scene.add(
        heightfield(100, 100, dunes, 512),
        m.matte(t.mottled((0.76, 0.48, 0.26), (0.86, 0.60, 0.36), 5, 300)),
    )
    green = m.satin(t.stripes([(0.16, 0.32, 0.16), (0.30, 0.46, 0.24)], 12), 0.6)
    for x, y, size, arms in [
        (-2.0, 0.4, 1.0, ((1, 0.9), (-1, 1.3))),
        (2.9, 2.4, 1.25, ((-1, 1.0),)),
        (0.7, 7.0, 1.2, ((1, 0.8), (-1, 1.1))),
    ]:
        ground = float(dunes(np.array([x]), np.array([y]))[0])
        parts = [tube(smooth([(0, 0, -0.2), (0, 0, 1.2), (0, 0, 2.4)]), 0.27, 40)]
        for side, z in arms:
            path = smooth(
                [
                    (0, 0, z),
                    (side * 0.55, 0, z + 0.06),
                    (side * 0.68, 0, z + 0.4),
                    (side * 0.68, 0, z + 0.95),
                ]
            )
            parts.append(tube(path, 0.17, 32))
        scene.add(join(parts).scaled(size).turned(20 * x).moved(x, y, ground), green)
    for i, (x, y, r) in enumerate(
        [(-3.6, -2.0, 0.4), (-3.0, -1.6, 0.22), (1.6, -2.6, 0.28), (4.4, -0.6, 0.5)]
    ):
        scene.add(
            rock(r, 70 + i).moved(x, y, 0.05),
            m.satin(t.mottled((0.45, 0.26, 0.18), (0.62, 0.40, 0.28), i, 70), 0.9),
        )
    scene.sky((0.80, -0.25, 0.26), 3.5)
    return scene


SCENES = {
    "garden-path": garden_path,
    "park-bench": park_bench,
    "desert": desert,
}
