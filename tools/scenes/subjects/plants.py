"""Tulips and succulents."""

from __future__ import annotations

import math

import numpy as np

from tools.scenes import materials as m
from tools.scenes import textures as t
from tools.scenes.meshes import Mesh, cylinder, grid, join, smooth, tube, vessel
from tools.scenes.mouldings import ellipsoid, mould
from tools.scenes.props import lit, table
from tools.scenes.studio import Camera, Scene


def vase_of_tulips() -> Scene:
    """Tulips in a white vase."""
    scene = Scene(Camera((0, -4.6, 1.7), (0, 0, 1.12), 30, 0.03, (0, -0.2, 1.3)), 768, 1024)
    table(scene, t.wood((0.55, 0.42, 0.30), (0.78, 0.64, 0.48), 31))
    scene.backdrop(t.mottled((0.47, 0.56, 0.58), (0.56, 0.65, 0.66), 4), depth=2.6)
    outline = smooth([(0.28, 0), (0.30, 0.02), (0.42, 0.35), (0.24, 0.75), (0.27, 0.92)])
    scene.add(vessel(outline, 0.03), m.glazed((0.93, 0.92, 0.90)))
    rng = np.random.default_rng(5)
    colours = [(0.83, 0.10, 0.16), (0.95, 0.55, 0.12), (0.92, 0.36, 0.50), (0.96, 0.80, 0.20)]
    stems, blades = [], []
    petals: dict[int, list[Mesh]] = {i: [] for i in range(len(colours))}
    for i in range(11):
        angle, lean = 2.4 * i, 0.12 + 0.6 * math.sqrt(i / 11)
        top = np.array(
            [
                lean * math.cos(angle),
                lean * math.sin(angle) * 0.7,
                1.95 - 0.45 * lean + rng.uniform(-0.1, 0.1),
            ]
        )
        path = smooth(
            [
                (0.1 * math.cos(angle), 0.1 * math.sin(angle), 0.5),
                (*(top[:2] * 0.45), 1.3),
                tuple(top),
            ]
        )
        stems.append(tube(path, 0.022, 12))
        tilt = math.degrees(lean) * 0.55
        petals[i % 4].append(_tulip().turned(tilt, "y").turned(math.degrees(angle)).moved(*top))
        if i % 2:
            blade = smooth(
                [
                    (0.12 * math.cos(angle + 1), 0.12 * math.sin(angle + 1), 0.7),
                    (0.45 * math.cos(angle + 1), 0.45 * math.sin(angle + 1), 1.35),
                    (0.8 * math.cos(angle + 1), 0.6 * math.sin(angle + 1), 1.25),
                ]
            )
            width = 0.075 * np.sin(np.linspace(0.25, np.pi - 0.02, len(blade)))
            blades.append(tube(blade, np.maximum(width, 0.003), 10))
    scene.add(join(stems), m.satin((0.35, 0.52, 0.22), 0.5))
    scene.add(join(blades), m.satin(t.mottled((0.22, 0.42, 0.18), (0.35, 0.55, 0.25), 7, 80), 0.5))
    for i, group in petals.items():
        light = np.clip(np.array(colours[i]) * 1.15 + 0.05, 0, 1)
        scene.add(join(group), m.satin(t.mottled(colours[i], light, i, 60), 0.5, sheen=0.4))
    scene.add(
        _tulip().turned(80, "y").turned(200).moved(0.75, -0.55, 0.13), m.satin(colours[2], 0.5)
    )
    return lit(scene, 13, 0.45)


def _tulip() -> Mesh:
    petals = []
    for i in range(6):
        radius = 0.15 if i % 2 else 0.165
        u, v = np.meshgrid(np.linspace(-1, 1, 14), np.linspace(0, 1, 18))
        spread = 0.62 * np.sin(np.pi * np.clip(v * 0.80 + 0.16, 0, 1)) * u
        reach = radius * np.sin(np.pi * np.clip(0.08 + v * 0.62, 0, 1)) + 0.01
        bulge = 1 + 0.06 * (1 - u**2)
        points = np.stack(
            [
                reach * bulge * np.cos(spread),
                reach * bulge * np.sin(spread),
                0.36 * v - 0.02 * u**2,
            ],
            -1,
        )
        petals.append(grid(points).turned(60 * i))
    return join(petals)


def succulents() -> Scene:
    """Three small plants in clay pots."""
    scene = Scene(Camera((0.4, -4.6, 2.1), (0.05, 0, 0.66), 47, 0.035, (0, -0.4, 0.6)))
    table(scene, t.marble((0.90, 0.89, 0.87), (0.45, 0.46, 0.50), 3), 0.2)
    scene.backdrop(t.mottled((0.80, 0.72, 0.62), (0.86, 0.79, 0.70), 8), depth=3.0)
    clay = m.satin(t.mottled((0.62, 0.30, 0.18), (0.76, 0.42, 0.28), 3, 160), 0.75)
    earth = m.matte(t.mottled((0.14, 0.09, 0.06), (0.28, 0.19, 0.13), 5, 20))
    for x, y, size in [(-1.15, 0.05, 1.0), (0.1, -0.35, 0.85), (1.2, 0.1, 1.1)]:
        pot = [(0.30, 0), (0.40, 0.48), (0.46, 0.48), (0.47, 0.64)]
        scene.add(vessel(pot, 0.05).scaled(size).moved(x, y), clay)
        scene.add(cylinder(0.40 * size, 0.02).moved(x, y, 0.55 * size), earth)
    fresh = m.satin(t.mottled((0.36, 0.55, 0.38), (0.55, 0.70, 0.50), 9, 90), 0.45)
    scene.add(_rosette(0.62).moved(-1.15, 0.05, 0.56), fresh)
    ribs = mould(
        lambda p: (
            np.linalg.norm(p * [1, 1, 0.62], axis=-1)
            - 0.36 * (1 + 0.07 * np.cos(14 * np.arctan2(p[..., 1], p[..., 0])))
        ),
        (-0.5, -0.5, -0.6),
        (0.5, 0.5, 0.7),
        90,
    )
    scene.add(ribs.moved(0.1, -0.35, 0.9), m.satin((0.26, 0.46, 0.28), 0.6))
    bloom = [
        _rosette(0.16)
        .turned(20 * i)
        .moved(0.1 + 0.1 * math.cos(2.1 * i), -0.35 + 0.1 * math.sin(2.1 * i), 1.44)
        for i in range(3)
    ]
    scene.add(join(bloom), m.satin((0.90, 0.38, 0.52), 0.5))
    spikes = []
    for i in range(26):
        a, lean = 2.4 * i, 0.10 + 0.75 * i / 26
        tip = (lean * math.cos(a), lean * math.sin(a), 1.05 - 0.55 * lean)
        path = smooth(
            [
                (0.05 * math.cos(a), 0.05 * math.sin(a), 0),
                (tip[0] * 0.5, tip[1] * 0.5, tip[2] * 0.62),
                tip,
            ]
        )
        spikes.append(tube(path, np.linspace(0.075, 0.006, len(path)), 10))
    scene.add(
        join(spikes).moved(1.2, 0.1, 0.58),
        m.satin(t.stripes([(0.20, 0.38, 0.22), (0.42, 0.58, 0.36)], 6), 0.5),
    )
    return lit(scene, 13, 0.4)


def _rosette(size: float) -> Mesh:
    petals = []
    for i in range(34):
        share = i / 34
        reach, lift = 0.25 + 0.75 * share, 1.05 * (1 - share) + 0.12
        leaf = mould(
            ellipsoid((0.55, 0, 0), (0.52, 0.24, 0.09)), (-0.1, -0.4, -0.2), (1.2, 0.4, 0.2), 30
        )
        petals.append(
            leaf.scaled(reach)
            .turned(-math.degrees(math.atan(lift)), "y")
            .turned(137.5 * i)
            .moved(z=0.12 * (1 - share))
        )
    return join(petals).scaled(size)


SCENES = {
    "tulips": vase_of_tulips,
    "succulents": succulents,
}
