"""Fruit, tea and cakes."""

from __future__ import annotations

import math

import numpy as np

from tools.scenes import materials as m
from tools.scenes import textures as t
from tools.scenes.meshes import (
    Mesh,
    ball,
    cylinder,
    grid,
    join,
    lathe,
    smooth,
    tube,
    vessel,
)
from tools.scenes.props import apple, cup, lit, pear, stem, table
from tools.scenes.studio import Camera, Scene


def fruit() -> Scene:
    """A wooden bowl of fruit on a table."""
    scene = Scene(Camera((0.3, -3.7, 1.9), (0, -0.1, 0.34), 48, 0.03, (0, -0.5, 0.4)), exposure=0.2)
    table(scene, t.wood((0.30, 0.17, 0.09), (0.58, 0.38, 0.22), 3))
    scene.backdrop(t.mottled((0.35, 0.40, 0.38), (0.45, 0.50, 0.47), 5), depth=3.6)
    outline = smooth([(0.42, 0), (0.42, 0.05), (0.75, 0.16), (1.05, 0.42)])
    scene.add(
        vessel(outline, 0.05), m.satin(t.wood((0.36, 0.20, 0.10), (0.62, 0.40, 0.22), 8, 1), 0.4)
    )
    red = t.mottled((0.62, 0.07, 0.06), (0.85, 0.62, 0.22), 11, 120)
    for x, y, z, r, turn in [(-0.42, -0.18, 0.25, 0.27, 10), (0.02, -0.48, 0.24, 0.27, 130)]:
        scene.add(apple(r).turned(turn).turned(12, "x").moved(x, y, z), m.satin(red, 0.22))
        scene.add(stem(0.14, (x, y, z + 0.46)), m.matte((0.25, 0.16, 0.08)))
    orange = t.speckled((0.93, 0.50, 0.07), (0.80, 0.38, 0.04), 13, 5, 0.3)
    for x, y, z, r in [
        (0.5, -0.15, 0.50, 0.27),
        (0.12, 0.35, 0.55, 0.28),
        (-0.35, 0.38, 0.50, 0.26),
    ]:
        scene.add(ball(r).moved(x, y, z), m.satin(orange, 0.3))
    green = t.mottled((0.55, 0.62, 0.14), (0.80, 0.74, 0.25), 17, 160)
    scene.add(pear(0.24).turned(24, "y").moved(-0.05, 0.02, 0.42), m.satin(green, 0.3))
    scene.add(pear(0.25).turned(-82, "y").turned(35).moved(1.22, -0.85, 0.25), m.satin(green, 0.3))
    yellow = t.mottled((0.93, 0.76, 0.14), (0.86, 0.66, 0.10), 19, 90)
    for i, shift in enumerate((0.0, 0.13)):
        bend = [(-0.5, 0, 0.12), (-0.25, -0.14, 0.09), (0.1, -0.16, 0.09), (0.42, 0.02, 0.12)]
        path = smooth([(x, y - shift, z + 0.03 * i) for x, y, z in bend], 12)
        girth = 0.095 * np.sqrt(np.sin(np.linspace(0.14, np.pi - 0.12, len(path))))
        scene.add(tube(path, girth).turned(14).moved(-0.98, -0.95), m.satin(yellow, 0.35))
    return lit(scene)


def teapot() -> Scene:
    """A blue teapot with two cups on a linen cloth."""
    scene = Scene(Camera((0.2, -4.4, 2.0), (0.08, -0.1, 0.45), 45, 0.03, (0, -0.3, 0.5)))
    table(scene, t.gingham((0.80, 0.75, 0.65), (0.93, 0.91, 0.86), 24), 0.8)
    scene.backdrop(t.mottled((0.62, 0.55, 0.45), (0.70, 0.64, 0.54), 2), depth=3.2)
    blue = m.glazed(t.speckled((0.12, 0.28, 0.47), (0.20, 0.40, 0.58), 4, 7, 0.25))
    body = smooth(
        [(0.42, 0.0), (0.44, 0.03), (0.78, 0.35), (0.72, 0.78), (0.34, 0.98), (0.30, 1.0)]
    )
    scene.add(lathe([(0, 0), *body, (0, 1.0)]), blue)
    lid = smooth(
        [(0.36, 0.99), (0.30, 1.06), (0.10, 1.12), (0.05, 1.16), (0.11, 1.24), (0.06, 1.31)]
    )
    scene.add(lathe([*lid, (0, 1.32)]), blue)
    spout = smooth([(0.62, 0, 0.38), (0.92, 0, 0.46), (1.06, 0, 0.74), (1.24, 0, 0.92)], 10)
    scene.add(tube(spout, np.linspace(0.17, 0.07, len(spout))), blue)
    handle = smooth(
        [(-0.62, 0, 0.80), (-1.02, 0, 0.90), (-1.16, 0, 0.58), (-0.98, 0, 0.28), (-0.66, 0, 0.28)]
    )
    scene.add(tube(handle, 0.06), blue)
    white = m.glazed((0.93, 0.92, 0.88))
    tea = m.satin((0.38, 0.14, 0.03), 0.05)
    for x, y, turn in [(1.35, -0.72, -35), (-1.25, -0.75, 200)]:
        saucer = vessel(smooth([(0.18, 0), (0.30, 0.02), (0.46, 0.08)]), 0.02)
        scene.add(saucer.moved(x, y), white)
        scene.add(cup(0.27, 0.36).turned(turn).moved(x, y, 0.03), white)
        scene.add(cylinder(0.24, 0.01).moved(x, y, 0.30), tea)
    scene.add(_biscuits(), m.matte(t.speckled((0.80, 0.58, 0.32), (0.62, 0.40, 0.20), 9, 10, 0.25)))
    return lit(scene)


def _biscuits() -> Mesh:
    spots = [(0.30, -1.12, 0.0, 0), (0.34, -1.10, 0.05, 40), (-0.18, -1.22, 0.0, 10)]
    return join([cylinder(0.19, 0.05, 0.02).turned(a).moved(x, y, z) for x, y, z, a in spots])


def cupcakes() -> Scene:
    """Four iced cakes on a stand."""
    scene = Scene(Camera((0.2, -4.2, 1.9), (0, 0, 0.70), 41, 0.04, (0, -0.5, 0.8)))
    table(scene, t.gingham((0.85, 0.45, 0.50), (0.96, 0.93, 0.91), 20), 0.8)
    scene.backdrop((0.70, 0.80, 0.80), depth=3.2)
    stand = smooth(
        [
            (0.5, 0),
            (0.45, 0.05),
            (0.12, 0.14),
            (0.12, 0.34),
            (0.4, 0.42),
            (1.25, 0.44),
            (1.32, 0.50),
        ]
    )
    scene.add(lathe([(0, 0), *stand, (1.26, 0.47), (0, 0.46)]), m.glazed((0.95, 0.95, 0.93)))
    icing = [(0.95, 0.62, 0.70), (0.96, 0.92, 0.80), (0.48, 0.28, 0.18), (0.62, 0.82, 0.72)]
    for i, paint in enumerate(icing):
        a = math.radians(45 + 90 * i)
        x, y = 0.62 * math.cos(a), 0.62 * math.sin(a)
        angle = np.linspace(0, 2 * np.pi, 193)
        rim = 1 + 0.035 * np.cos(24 * angle)
        rows = [
            [(r * k * math.cos(b), r * k * math.sin(b), z) for b, k in zip(angle, rim, strict=True)]
            for r, z in ((0.26, 0), (0.37, 0.34))
        ]
        scene.add(
            grid(np.array(rows)).moved(x, y, 0.47),
            m.matte(t.stripes([paint, (0.97, 0.96, 0.94)], 24)),
        )
        turns = np.linspace(0, 1, 150)
        swirl = np.stack(
            [
                (0.30 - 0.27 * turns) * np.cos(22 * turns),
                (0.30 - 0.27 * turns) * np.sin(22 * turns),
                0.06 + 0.42 * turns,
            ],
            1,
        )
        scene.add(tube(swirl, 0.115 - 0.075 * turns, 20).moved(x, y, 0.80), m.satin(paint, 0.45))
        scene.add(ball(0.075).moved(x, y, 1.36), m.satin((0.75, 0.04, 0.08), 0.12))
    return lit(scene, 13, 0.45)


SCENES = {
    "fruit": fruit,
    "teapot": teapot,
    "cupcakes": cupcakes,
}
