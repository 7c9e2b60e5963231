"""A beach, a lake, a lighthouse."""

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
    lathe,
    prism,
    sheet,
    smooth,
    tube,
)
from tools.scenes.studio import Camera, Scene
from tools.scenes.subjects.greenery import FAR, pine, rock

SEA = {
    "type": "twosided",
    "bsdf": {
        "type": "principled",
        "base_color": {"type": "rgb", "value": [0.01, 0.07, 0.10]},
        "roughness": 0.08,
        "specular": 0.5,
    },
}


def _waves(scale: float, seed: int, height: float = 0.06) -> Array:
    rng = np.random.default_rng(seed)
    return np.stack(
        [
            rng.uniform(0, 2 * np.pi, 24),
            rng.uniform(0.5, 3.2, 24) * scale,
            rng.uniform(0, 2 * np.pi, 24),
            height * rng.uniform(0.3, 1, 24),
        ],
        1,
    )


def _water(
    width: float, depth: float, scale: float, seed: int, height: float, steps: int = 420
) -> Mesh:
    waves = _waves(scale, seed, height)

    def surface(x: Array, y: Array) -> Array:
        z = np.zeros_like(x)
        for direction, frequency, phase, amplitude in waves:
            d = direction * 0.25 + np.pi / 2 - 0.8
            z += (
                amplitude
                / frequency
                * np.sin(frequency * (x * math.cos(d) + y * math.sin(d)) * 2 + phase)
            )
        return z

    return heightfield(width, depth, surface, steps)


def beach() -> Scene:
    """A beach with a striped parasol and a deck of sand by the sea."""
    scene = Scene(Camera((0.6, -6.2, 1.9), (0.2, 3.0, 1.05), 52), exposure=0.15)

    dunes = t.noise(400, 60, 3, 5)

    def sand(x: Array, y: Array) -> Array:
        bumps = dunes[
            np.clip(((y + 20) * 10).astype(int), 0, 399),
            np.clip(((x + 20) * 10).astype(int), 0, 399),
        ]
        return 0.10 * bumps - np.clip(y - 1.2, 0, 30) * 0.14

    ground = heightfield(40, 40, sand, 400)
    scene.add(ground, m.matte(t.mottled((0.74, 0.62, 0.44), (0.84, 0.73, 0.55), 5, 12)))
    scene.add(_water(160, 160, 0.8, 4, 0.05, 700).moved(0, 81.0, -0.16), SEA)
    scene.add(sheet(FAR, FAR).moved(y=FAR / 2 + 150, z=-0.2), SEA)
    foam = smooth(
        [
            (-20, 2.55, -0.06),
            (-8, 2.85, -0.06),
            (-3, 2.55, -0.06),
            (2, 2.9, -0.06),
            (7, 2.6, -0.06),
            (20, 2.9, -0.06),
        ],
        16,
    )
    scene.add(tube(foam, 0.10, 10).scaled(1, 1, 0.3).moved(z=-0.12), m.matte((0.92, 0.93, 0.92)))
    pole = m.satin((0.88, 0.85, 0.78), 0.4)
    scene.add(tube([(-1.5, -0.3, 0), (-1.15, -0.2, 2.55)], 0.035), pole)
    shade = lathe(smooth([(1.45, 0.0), (1.0, 0.26), (0.5, 0.44), (0.0, 0.52)]), 96)
    wedge = t.stripes([(0.85, 0.20, 0.16), (0.95, 0.92, 0.86)], 6)
    scene.add(shade.turned(8, "y").moved(-1.17, -0.2, 2.08), m.matte(wedge))
    towel = t.stripes([(0.18, 0.42, 0.62), (0.93, 0.91, 0.86), (0.95, 0.72, 0.25)], 4)
    scene.add(sheet(0.95, 1.9).turned(18).moved(-0.55, -1.2, 0.13), m.velvet(towel))
    bucket = m.satin((0.90, 0.62, 0.10), 0.3)
    scene.add(
        lathe(
            [
                (0, 0),
                (0.16, 0),
                (0.22, 0.36),
                (0.235, 0.36),
                (0.235, 0.39),
                (0.2, 0.39),
                (0.15, 0.05),
                (0, 0.05),
            ]
        ).moved(1.25, -1.6, 0.05),
        bucket,
    )
    angle = np.linspace(0, np.pi, 24)
    scene.add(
        tube(
            np.stack(
                [
                    1.25 + 0.23 * np.cos(angle),
                    -1.6 - 0.16 * np.sin(angle),
                    0.42 + 0.12 * np.sin(angle),
                ],
                1,
            ),
            0.012,
        ),
        m.satin((0.95, 0.95, 0.93), 0.4),
    )
    for i, (x, y, r) in enumerate(
        [(3.0, 0.2, 0.55), (3.7, 0.9, 0.8), (2.4, 0.9, 0.3), (4.6, 0.1, 0.5)]
    ):
        scene.add(
            rock(r, i).moved(x, y, 0.0),
            m.satin(t.mottled((0.30, 0.28, 0.26), (0.48, 0.45, 0.41), i, 80), 0.8),
        )
    scene.sky((0.55, -0.30, 0.70), 2.6)
    return scene


def mountain_lake() -> Scene:
    """A cabin by a lake under mountains."""
    scene = Scene(Camera((0, -9.0, 2.0), (0.6, 10, 2.7), 52), exposure=0.1)
    field = t.noise(512, 130, 11, 7)

    def peaks(x: Array, y: Array) -> Array:
        sample = field[
            np.clip(((y + 60) / 120 * 511).astype(int), 0, 511),
            np.clip(((x + 60) / 120 * 511).astype(int), 0, 511),
        ]
        ridge = 1 - np.abs(2 * sample - 1)
        far = np.clip((y - 6) / 40, 0, 1)
        return -1.0 + far * (4 + 22 * ridge**1.3) * (
            0.35 + 0.65 * np.clip(np.abs(x - 6) / 22, 0, 1)
        )

    land = heightfield(120, 120, peaks, 512).moved(0, 22)
    z = land.points[:, 2]
    paint = np.zeros((256, 256, 3))
    levels = np.linspace(-1, 20, 256)[:, None]
    grain = t.noise(256, 20, 5, 4)
    level = levels + 5 * (grain - 0.5)
    paint[:] = np.where(
        level[..., None] < 4.2,
        t.mix((0.16, 0.26, 0.12), (0.30, 0.36, 0.18), grain),
        t.mix((0.36, 0.36, 0.37), (0.50, 0.48, 0.46), grain),
    )
    paint = np.where((level > 9.5)[..., None], np.array([0.92, 0.93, 0.95]), paint)
    uv = np.stack([land.uv[:, 0] / 17, np.clip((z + 1) / 21, 0.002, 0.998)], 1)
    scene.add(Mesh(land.points, land.triangles, uv), m.matte(paint))
    scene.add(_water(140, 90, 2.2, 6, 0.010, 620).moved(0, 30, -0.02), SEA)
    shore = heightfield(
        60, 8, lambda x, y: 0.25 - 0.24 * (y + 1.0) / 3 + 0.08 * np.sin(x * 1.3), 120
    )
    scene.add(
        shore.moved(0, -6.6, 0), m.matte(t.mottled((0.28, 0.33, 0.16), (0.48, 0.46, 0.28), 9, 30))
    )
    log = m.matte(t.wood((0.30, 0.19, 0.11), (0.48, 0.33, 0.20), 3, 8))
    spot = (5.2, 7.6)
    bank = heightfield(12, 7, lambda x, y: 0.5 - 0.016 * x**2 - 0.055 * y**2, 60)
    scene.add(
        bank.moved(6.4, 9.2, 0), m.matte(t.mottled((0.24, 0.32, 0.14), (0.40, 0.44, 0.22), 8, 30))
    )
    scene.add(box(2.6, 2.0, 1.3, 0.03).moved(*spot, 0.25), log)
    gable = np.array([(-1.5, 0), (1.5, 0), (0, 1.15)])
    scene.add(
        prism(gable, 2.5).turned(90, "x").moved(spot[0], spot[1] + 1.25, 1.5),
        m.matte((0.36, 0.16, 0.12)),
    )
    scene.add(
        box(0.5, 0.06, 0.85, 0.01).moved(spot[0] - 0.5, spot[1] - 1.0, 0.28),
        m.satin((0.20, 0.30, 0.28), 0.5),
    )
    scene.add(
        box(0.6, 0.06, 0.5, 0.01).moved(spot[0] + 0.55, spot[1] - 1.0, 0.75),
        m.satin((0.95, 0.80, 0.45), 0.3),
    )
    scene.add(
        box(0.3, 0.3, 0.9, 0.01).moved(spot[0] + 0.7, spot[1] + 0.3, 1.9),
        m.matte((0.45, 0.42, 0.40)),
    )
    rng = np.random.default_rng(2)
    needles = m.satin(t.mottled((0.05, 0.14, 0.08), (0.14, 0.28, 0.14), 3, 200), 0.7, 0.2)
    pines = []
    for _ in range(26):
        x, y = rng.uniform(2.5, 12), rng.uniform(9.3, 12)
        pines.append(pine(rng.uniform(2.2, 3.8), int(rng.integers(1000))).moved(x, y, 0.25))
    for x, y, h in [(-4.6, -3.0, 3.9), (-5.8, -2.4, 4.6), (-3.9, -3.6, 2.4)]:
        pines.append(pine(h, int(100 * h)).moved(x, y, 0.1))
    scene.add(join(pines), needles)
    scene.sky((-0.65, -0.25, 0.48), 2.8)
    return scene


def lighthouse() -> Scene:
    """A striped lighthouse on a rock in the sea, toward evening."""
    scene = Scene(Camera((-3.2, -12.0, 2.2), (0.4, 0, 3.0), 44), 768, 1024, exposure=0.3)
    scene.add(_water(200, 200, 1.0, 9, 0.06, 800).moved(0, 60, 0), SEA)
    scene.add(sheet(FAR, FAR).moved(y=FAR / 2 + 150, z=-0.05), SEA)
    granite = m.satin(t.mottled((0.26, 0.23, 0.22), (0.46, 0.41, 0.37), 3, 70), 0.8)
    for i, (x, y, z, r) in enumerate(
        [
            (0.6, 0, -0.5, 2.1),
            (-1.3, 0.3, -0.7, 1.5),
            (2.6, 0.8, -0.6, 1.4),
            (0.2, -1.8, -0.5, 0.9),
            (1.9, -1.4, -0.4, 0.7),
        ]
    ):
        scene.add(rock(r, 30 + i).moved(x, y, z), granite)
    bands = t.stripes([(0.80, 0.15, 0.12), (0.93, 0.91, 0.86)], 3).swapaxes(0, 1)
    tower = lathe([(0.95, 0.0), (0.56, 4.6)])
    scene.add(tower.moved(0.6, 0, 0.9), m.satin(bands, 0.5))
    white = m.satin((0.92, 0.90, 0.86), 0.5)
    scene.add(cylinder(0.82, 0.12, 0.03).moved(0.6, 0, 5.5), white)
    for i in range(16):
        a = 2 * np.pi * i / 16
        scene.add(
            tube(
                [
                    (0.6 + 0.76 * math.cos(a), 0.76 * math.sin(a), 5.6),
                    (0.6 + 0.76 * math.cos(a), 0.76 * math.sin(a), 5.95),
                ],
                0.015,
                8,
            ),
            white,
        )
    ring = np.linspace(0, 2 * np.pi, 60)
    scene.add(
        tube(
            np.stack([0.6 + 0.76 * np.cos(ring), 0.76 * np.sin(ring), np.full(60, 5.95)], 1),
            0.02,
            8,
        ),
        white,
    )
    scene.add(cylinder(0.36, 0.62).moved(0.6, 0, 5.62), m.satin((0.20, 0.22, 0.25), 0.1))
    scene.add(
        cylinder(0.22, 0.4).moved(0.42, -0.25, 5.72), m.matte((1, 1, 1)), m.glowing((50, 38, 18))
    )
    scene.add(
        lathe(smooth([(0.50, 0), (0.40, 0.16), (0.10, 0.36), (0.0, 0.42)])).moved(0.6, 0, 6.22),
        m.satin((0.62, 0.10, 0.08), 0.4),
    )
    scene.add(ball(0.07).moved(0.6, 0, 6.7), m.metal("Au", 0.2))
    for z, a in ((2.0, -1.9), (3.3, -1.55), (4.5, -1.9)):
        r = 0.95 - 0.085 * (z - 0.9)
        scene.add(
            box(0.24, 0.24, 0.42, 0.02)
            .turned(math.degrees(a) + 90)
            .moved(0.6 + r * math.cos(a), r * math.sin(a), z),
            m.satin((0.12, 0.16, 0.20), 0.1),
        )
    scene.add(box(1.5, 1.2, 0.9, 0.02).moved(2.0, 0.3, 0.55), white)
    roof = prism(np.array([(-0.85, 0), (0.85, 0), (0, 0.62)]), 1.4).turned(90, "x")
    scene.add(roof.moved(2.0, 1.0, 1.4), m.matte((0.50, 0.18, 0.13)))
    scene.sky((-0.75, -0.35, 0.20), 4.0)
    return scene


SCENES = {
    "beach": beach,
    "mountain-lake": mountain_lake,
    "lighthouse": lighthouse,
}
