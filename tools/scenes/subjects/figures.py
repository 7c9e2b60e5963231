"""Figures with faces, for glasses, hats and scarves: a snowman, a robot, a duck."""

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
    cylinder,
    heightfield,
    join,
    sheet,
    smooth,
    tube,
)
from tools.scenes.mouldings import blend, ellipsoid, mould, rod, sphere
from tools.scenes.props import portrait_light
from tools.scenes.studio import Camera, Scene
from tools.scenes.subjects.greenery import FAR, pine


def snowman() -> Scene:
    """A snowman in a winter garden."""
    scene = Scene(Camera((0.3, -4.6, 1.55), (0, 0, 1.30), 42), 1024, 1024, exposure=0.25)
    snow = m.satin(t.mottled((0.90, 0.92, 0.96), (0.97, 0.98, 1.0), 3, 60), 0.9, 0.2)
    ground = heightfield(
        60,
        60,
        lambda x, y: 0.10 * np.sin(x * 0.9 + 1) * np.cos(y * 0.7) + 0.02 * np.clip(y, 0, 40),
        200,
    )
    scene.add(ground, snow)
    scene.add(sheet(FAR, FAR).moved(z=-0.05), snow)
    body = blend(
        [
            ellipsoid((0, 0, 0.62), (0.85, 0.82, 0.70)),
            ellipsoid((0, 0, 1.48), (0.60, 0.58, 0.52)),
            sphere((0, 0, 2.12), 0.41),
        ],
        0.08,
    )
    lumps = np.random.default_rng(3).normal(size=(40, 3))

    def bumpy(p: Array) -> Array:
        wobble = sum(np.sin(p @ (k * 5) + i) for i, k in enumerate(lumps[:8])) * 0.006
        return body(p) + wobble

    scene.add(mould(bumpy, (-1, -1, -0.2), (1, 1, 2.7), 130), snow)
    coal = m.satin((0.05, 0.05, 0.06), 0.5)
    for x, z in ((-0.14, 2.20), (0.14, 2.20)):
        scene.add(ball(0.052, 32).moved(x, -0.375, z), coal)
    for i in range(7):
        a = math.radians(-56 + 112 * i / 6)
        scene.add(
            ball(0.028, 24).moved(
                0.20 * math.sin(a), -0.385 + 0.05 * (1 - math.cos(a)), 2.10 - 0.15 * math.cos(a)
            ),
            coal,
        )
    for z in (1.72, 1.5, 1.28):
        scene.add(ball(0.055, 32).moved(0, -0.575 + 0.20 * (z - 1.5) ** 2, z), coal)
    nose = smooth([(0, -0.36, 2.10), (0.02, -0.58, 2.09), (0.05, -0.80, 2.06)])
    scene.add(
        tube(nose, np.linspace(0.07, 0.012, len(nose)), 24),
        m.satin(t.stripes([(0.90, 0.42, 0.08), (0.82, 0.36, 0.06)], 9), 0.6),
    )
    bark = m.matte((0.24, 0.16, 0.10))
    for side in (-1, 1):
        arm = smooth([(side * 0.5, 0, 1.6), (side * 0.9, -0.05, 1.78), (side * 1.25, -0.1, 2.05)])
        scene.add(tube(arm, np.linspace(0.04, 0.02, len(arm)), 12), bark)
        for dz, dx in ((0.18, 0.05), (0.06, 0.2)):
            scene.add(
                tube(
                    [(side * 1.1, -0.08, 1.93), (side * (1.2 + dx), -0.1, 2.0 + dz)],
                    [0.02, 0.01],
                    8,
                ),
                bark,
            )
    needles = m.satin(t.mottled((0.06, 0.15, 0.09), (0.16, 0.28, 0.16), 3, 200), 0.7, 0.2)
    trees = [
        pine(h, i).moved(x, y, 0.1)
        for i, (x, y, h) in enumerate(
            [
                (-3.4, 5, 4.2),
                (-5.2, 7, 5.0),
                (3.6, 6, 4.6),
                (5.6, 8.5, 5.4),
                (0.9, 10, 4.8),
                (-1.6, 9, 4.2),
                (-8, 11, 6),
                (8.5, 12, 6),
            ]
        )
    ]
    scene.add(join(trees), needles)
    scene.sky((-0.55, -0.60, 0.42), 3.0)
    return scene


def robot() -> Scene:
    """A tin robot."""
    scene = Scene(Camera((0.35, -4.8, 1.75), (0, 0, 1.28), 36, 0.02, (0, -0.4, 1.8)), 768, 1024)
    scene.add(sheet(9, 9, 4, 4), m.satin(t.wood((0.50, 0.36, 0.24), (0.70, 0.54, 0.38), 3), 0.4))
    scene.backdrop(t.mottled((0.84, 0.62, 0.34), (0.90, 0.70, 0.42), 4), depth=2.4)
    tin = m.coloured_metal((0.36, 0.60, 0.64), 0.32)
    red = m.coloured_metal((0.78, 0.20, 0.14), 0.3)
    steel = m.metal("Al", 0.25)
    scene.add(box(1.05, 0.72, 0.95, 0.09).moved(z=0.72), tin)
    scene.add(box(0.78, 0.66, 0.66, 0.10).moved(z=1.80), tin)
    scene.add(cylinder(0.2, 0.16, 0.02).moved(z=1.66), steel)
    for x in (-0.19, 0.19):
        scene.add(_facing(cylinder(0.13, 0.07, 0.02)).moved(x, -0.33, 2.22), steel)
        scene.add(
            _facing(cylinder(0.10, 0.05, 0.02)).moved(x, -0.375, 2.22),
            m.satin((0.98, 0.93, 0.72), 0.15),
        )
        scene.add(ball(0.045, 32).moved(x, -0.42, 2.22), m.satin((0.04, 0.04, 0.05), 0.15))
    scene.add(box(0.44, 0.05, 0.14, 0.02).moved(0, -0.335, 1.90), m.satin((0.10, 0.10, 0.11), 0.4))
    for i in range(6):
        scene.add(box(0.05, 0.06, 0.11, 0.008).moved(-0.18 + 0.072 * i, -0.345, 1.915), steel)
    for x in (-1, 1):
        scene.add(
            cylinder(0.11, 0.1, 0.02)
            .turned(90, "y")
            .moved(x * 0.38 + (0 if x > 0 else -0.1), 0, 2.12),
            red,
        )
        shoulder = smooth(
            [
                (x * 0.52, 0, 1.50),
                (x * 0.80, -0.02, 1.36),
                (x * 0.84, -0.12, 1.02),
                (x * 0.80, -0.36, 0.90),
            ]
        )
        scene.add(tube(shoulder, 0.095, 24), steel)
        for i in range(9):
            p = shoulder[3 + 2 * i]
            scene.add(ball(0.115, 24).scaled(1, 1, 0.5).moved(*p), tin)
        hand = [
            rod((x * 0.80, -0.40, 0.90), (x * (0.80 + d), -0.58, 0.90), 0.045) for d in (-0.1, 0.1)
        ]
        scene.add(
            mould(blend(hand, 0.05), (x * 0.8 - 0.3, -0.7, 0.7), (x * 0.8 + 0.3, -0.3, 1.1), 60),
            red,
        )
        scene.add(cylinder(0.14, 0.5, 0.02).moved(x * 0.27, 0, 0.25), steel)
        scene.add(box(0.38, 0.62, 0.26, 0.08).moved(x * 0.27, -0.08, 0), red)
    scene.add(tube([(0, 0, 2.44), (0, 0, 2.72)], 0.018), steel)
    scene.add(ball(0.07).moved(0, 0, 2.76), m.satin((0.85, 0.12, 0.10), 0.15))
    scene.add(
        _facing(cylinder(0.20, 0.05, 0.02)).moved(-0.22, -0.36, 1.34),
        m.satin((0.94, 0.92, 0.84), 0.3),
    )
    scene.add(
        box(0.02, 0.02, 0.15, 0.005).turned(30, "y").moved(-0.20, -0.42, 1.34),
        m.satin((0.75, 0.1, 0.1), 0.3),
    )
    for i, paint in enumerate([(0.85, 0.15, 0.12), (0.95, 0.75, 0.15), (0.20, 0.55, 0.28)]):
        scene.add(ball(0.055, 32).moved(0.14 + 0.13 * i, -0.36, 1.42), m.satin(paint, 0.15))
    for i in range(3):
        scene.add(
            box(0.38, 0.03, 0.03, 0.01).moved(0.27, -0.365, 1.02 + 0.085 * i),
            m.satin((0.10, 0.10, 0.11), 0.4),
        )
    portrait_light(scene)
    return scene


def _facing(part: Mesh) -> Mesh:
    """A cylinder rotated so that its top faces the camera."""
    return part.turned(90, "x")


def duck() -> Scene:
    """A rubber duck at the edge of a bath."""
    scene = Scene(Camera((-0.5, -3.9, 1.45), (0.1, 0, 0.72), 43, 0.02, (0, -0.3, 1.0)))
    tiles = t.tiles((0.62, 0.80, 0.84), (0.90, 0.92, 0.92), 8, 8, 5, 0.0, 0.03, 0.06)
    wall = sheet(9, 6, 3, 2).turned(90, "x").moved(0, 1.9, 2.4)
    scene.add(wall, m.satin(tiles, 0.12))
    scene.add(sheet(9, 6, 1, 1).moved(0, -1, 0), m.satin((0.93, 0.93, 0.92), 0.15))
    body = blend(
        [
            ellipsoid((0.05, 0, 0.42), (0.72, 0.52, 0.42)),
            sphere((-0.42, 0, 1.02), 0.40),
            rod((0.50, 0, 0.55), (0.86, 0, 0.86), 0.20, 0.05),
        ],
        0.16,
    )
    wings = [
        body,
        ellipsoid((0.16, -0.50, 0.50), (0.36, 0.10, 0.20)),
        ellipsoid((0.16, 0.50, 0.50), (0.36, 0.10, 0.20)),
    ]

    def flat_bottom(p: Array) -> Array:
        return np.maximum(blend(wings, 0.06)(p), 0.06 - p[..., 2])

    shape = mould(flat_bottom, (-1.1, -0.8, -0.05), (1.1, 0.8, 1.6), 150).turned(38)
    scene.add(shape.moved(z=-0.06), m.satin((0.97, 0.78, 0.10), 0.18, clearcoat=0.8))
    beak = blend(
        [
            ellipsoid((-0.82, 0, 0.98), (0.20, 0.17, 0.055)),
            ellipsoid((-0.80, 0, 0.92), (0.16, 0.14, 0.045)),
        ],
        0.03,
    )
    scene.add(
        mould(beak, (-1.1, -0.3, 0.8), (-0.5, 0.3, 1.1), 80).turned(38).moved(z=-0.06),
        m.satin((0.93, 0.42, 0.08), 0.2),
    )
    for side in (-1, 1):
        white = ball(0.085, 32).scaled(0.6, 1, 1).moved(-0.735, side * 0.175, 1.14)
        dot = ball(0.052, 32).scaled(0.6, 1, 1).moved(-0.775, side * 0.185, 1.145)
        scene.add(white.turned(38).moved(z=-0.06), m.satin((0.98, 0.98, 0.97), 0.15))
        scene.add(dot.turned(38).moved(z=-0.06), m.satin((0.03, 0.03, 0.04), 0.1))
    rng = np.random.default_rng(5)
    for _ in range(26):
        x, y, r = rng.uniform(-1.6, 1.7), rng.uniform(-1.0, 0.6), rng.uniform(0.03, 0.10)
        if math.hypot(x, y) > 0.95:
            scene.add(ball(r, 32).moved(x, y, r * 0.8), m.glass(thin=True))
    soap = box(0.62, 0.40, 0.20, 0.09)
    scene.add(soap.turned(-20).moved(1.35, 0.55, 0), m.satin((0.90, 0.70, 0.76), 0.35))
    portrait_light(scene, 13, 0.5)
    return scene


SCENES = {
    "snowman": snowman,
    "robot": robot,
    "duck": duck,
}
