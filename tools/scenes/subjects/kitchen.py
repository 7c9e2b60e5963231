"""A laid table and a kitchen shelf."""

from __future__ import annotations

import math

import numpy as np

from tools.scenes import materials as m
from tools.scenes import textures as t
from tools.scenes.meshes import (
    Mesh,
    box,
    cylinder,
    join,
    lathe,
    sheet,
    smooth,
    tube,
    vessel,
)
from tools.scenes.mouldings import blend, ellipsoid, mould
from tools.scenes.props import OAK, daylit, wall
from tools.scenes.studio import Camera, Scene


def laid_table() -> Scene:
    """A table laid for one, seen from the chair."""
    scene = Scene(
        Camera((0.0, -2.45, 2.0), (0, 0.18, 0.1), 50, 0.012, (0, -0.1, 0.05)), exposure=0.45
    )
    cloth = (
        t.mottled((0.88, 0.86, 0.80), (0.94, 0.92, 0.88), 3, 12)
        * (1 + 0.04 * np.sin(np.arange(1024) * 1.2))[None, :, None]
    )
    scene.add(sheet(8, 8, 6, 6), m.velvet(np.clip(cloth, 0, 1)))
    runner = t.stripes([(0.36, 0.48, 0.52), (0.44, 0.56, 0.60)], 24)
    scene.add(box(9, 0.75, 0.006, 0.002).moved(y=0.62), m.velvet(runner))
    white = m.glazed((0.95, 0.95, 0.93))
    plate = smooth([(0.30, 0), (0.32, 0.012), (0.52, 0.05), (0.56, 0.06)])
    scene.add(vessel(plate, 0.018).moved(0, -0.15), m.glazed((0.30, 0.42, 0.50)))
    scene.add(vessel(plate, 0.018).scaled(0.72).moved(0, -0.15, 0.045), white)
    napkin = box(0.26, 0.40, 0.02, 0.01) + box(0.24, 0.38, 0.02, 0.01).moved(z=0.018)
    scene.add(napkin.turned(12).moved(0, -0.15, 0.085), m.velvet((0.80, 0.48, 0.32)))
    silver = m.metal("Ag", 0.12)
    scene.add(_fork().moved(-0.78, -0.15), silver)
    scene.add(_knife().moved(0.76, -0.15), silver)
    scene.add(_spoon().moved(0.95, -0.15), silver)
    bowl = smooth([(0.0, 0.42), (0.10, 0.44), (0.19, 0.58), (0.20, 0.72), (0.165, 0.90)])
    inner = np.array(bowl)[::-1] * [0.95, 1.0] + [0, 0.006]
    goblet = lathe(
        [(0, 0), (0.17, 0), (0.16, 0.012), (0.02, 0.03), (0.016, 0.38), *bowl[2:], *inner[:-1]]
    )
    scene.add(goblet.moved(0.72, 0.60), m.glass())
    tumbler = vessel(smooth([(0.13, 0), (0.15, 0.36)]), 0.012)
    scene.add(tumbler.moved(0.32, 0.68), m.glass())
    bread = vessel(plate, 0.018).scaled(0.5)
    scene.add(bread.moved(-0.80, 0.60), white)
    loaf = mould(
        blend(
            [
                ellipsoid((0, 0, 0), (0.21, 0.15, 0.10)),
                ellipsoid((0.04, 0.02, 0.06), (0.12, 0.10, 0.07)),
            ],
            0.08,
        ),
        (-0.3, -0.3, -0.2),
        (0.3, 0.3, 0.25),
        60,
    )
    scene.add(
        loaf.moved(-0.80, 0.60, 0.12),
        m.satin(t.mottled((0.62, 0.36, 0.14), (0.85, 0.62, 0.34), 5, 140), 0.7),
    )
    for x in (-0.2, -0.02):
        shaker = smooth([(0.06, 0), (0.065, 0.01), (0.045, 0.16), (0.05, 0.19), (0.0, 0.23)])
        scene.add(
            lathe([(0, 0), *shaker]).moved(x, 0.62, 0.006),
            m.metal("Cr", 0.1) if x < -0.1 else white,
        )
    scene.softbox((-2.6, 1.6, 2.8), (0, 0, 0), 1.8, (17, 16, 14))
    scene.softbox((2.5, -1.5, 3.0), (0, 0, 0), 1.6, (3, 3.2, 3.6))
    scene.surroundings((0.35, 0.35, 0.36))
    return scene


def _spoon() -> Mesh:
    path = smooth([(0, -0.45, 0.02), (0, -0.1, 0.025), (0, 0.16, 0.02)])
    bowl = (
        lathe(smooth([(0.0, 0.0), (0.06, 0.012), (0.085, 0.03)]))
        .scaled(0.85, 1.4, 1)
        .moved(0, 0.27)
    )
    return tube(path, np.linspace(0.026, 0.014, len(path)), 12) + bowl


def _fork() -> Mesh:
    path = smooth([(0, -0.45, 0.02), (0, -0.1, 0.025), (0, 0.12, 0.02)])
    tines = [
        tube(smooth([(0, 0.12, 0.02), (x, 0.19, 0.015), (x, 0.38, 0.025)]), 0.010, 10)
        for x in (-0.055, -0.018, 0.018, 0.055)
    ]
    return join([tube(path, np.linspace(0.026, 0.014, len(path)), 12), *tines])


def _knife() -> Mesh:
    blade = box(0.062, 0.48, 0.012, 0.005).moved(0, 0.16, 0.01)
    return tube([(0, -0.45, 0.02), (0, -0.08, 0.02)], [0.022, 0.018], 12) + blade


def kitchen_shelf() -> Scene:
    """Two kitchen shelves with jars, bowls and bottles, in front of tiles."""
    scene = Scene(Camera((0.15, -4.4, 1.35), (0, 0.5, 1.08), 45, 0.02, (0, 0.3, 1.1)))
    tiles = t.tiles((0.86, 0.90, 0.88), (0.62, 0.62, 0.60), 8, 16, 5, 0.5, 0.04, 0.05)
    scene.add(wall(8, 4).moved(y=0.75, z=-1), m.satin(tiles, 0.12))
    oak = m.satin(t.wood(*OAK, 7, 1), 0.4)
    for z in (0.30, 1.25):
        scene.add(box(3.6, 0.55, 0.07, 0.015).moved(0, 0.46, z), oak)
        for x in (-1.3, 1.3):
            scene.add(box(0.05, 0.42, 0.05, 0.01).moved(x, 0.5, z - 0.05), m.metal("Al", 0.4))
    contents = [
        (-1.35, (0.72, 0.52, 0.28)),
        (-0.98, (0.88, 0.82, 0.70)),
        (-0.61, (0.45, 0.20, 0.10)),
    ]
    for x, paint in contents:
        scene.add(
            vessel(smooth([(0.145, 0), (0.15, 0.02), (0.15, 0.40), (0.12, 0.45)]), 0.012).moved(
                x, 0.45, 1.32
            ),
            m.glass(),
        )
        scene.add(
            cylinder(0.132, 0.30).moved(x, 0.45, 1.335),
            m.matte(t.speckled(paint, np.array(paint) * 0.6, 4, 8, 0.4)),
        )
        scene.add(
            cylinder(0.125, 0.07, 0.02).moved(x, 0.45, 1.76), m.satin(t.wood(*OAK, 2, 1), 0.5)
        )
    bowls = [(0.30, (0.25, 0.42, 0.50)), (0.27, (0.90, 0.86, 0.78)), (0.24, (0.80, 0.45, 0.30))]
    for i, (r, paint) in enumerate(bowls):
        outline = smooth([(r * 0.4, 0), (r * 0.75, 0.06), (r, 0.18)])
        scene.add(vessel(outline, 0.015).moved(0.12, 0.45, 1.32 + 0.075 * i), m.glazed(paint))
    tall = smooth(
        [(0.13, 0), (0.135, 0.02), (0.135, 0.34), (0.05, 0.47), (0.045, 0.62), (0.055, 0.64)]
    )
    scene.add(vessel(tall, 0.012).moved(0.72, 0.48, 1.32), m.glass((0.35, 0.62, 0.25)))
    scene.add(vessel(tall, 0.012).scaled(0.85).moved(1.05, 0.42, 1.32), m.glass((0.85, 0.60, 0.25)))
    jug = smooth([(0.16, 0), (0.20, 0.10), (0.21, 0.26), (0.13, 0.42), (0.15, 0.50)])
    scene.add(vessel(jug, 0.014).moved(1.42, 0.45, 1.32), m.glazed((0.90, 0.80, 0.35)))
    scene.add(
        tube(
            smooth(
                [(1.56, 0.45, 1.74), (1.76, 0.45, 1.72), (1.74, 0.45, 1.48), (1.60, 0.45, 1.44)]
            ),
            0.022,
        ),
        m.glazed((0.90, 0.80, 0.35)),
    )
    for x, paint in [
        (-1.40, (0.85, 0.30, 0.25)),
        (-1.02, (0.93, 0.90, 0.84)),
        (-0.64, (0.28, 0.48, 0.46)),
    ]:
        cup = vessel(smooth([(0.11, 0), (0.14, 0.06), (0.15, 0.24)]), 0.012)
        handle = tube(
            smooth([(0.14, 0, 0.19), (0.23, 0, 0.19), (0.22, 0, 0.08), (0.13, 0, 0.07)]), 0.016
        )
        scene.add((cup + handle).turned(-40).moved(x, 0.42, 0.37), m.glazed(paint))
    pan = vessel(smooth([(0.28, 0), (0.33, 0.03), (0.34, 0.20)]), 0.012)
    lid = lathe(
        smooth([(0.34, 0), (0.30, 0.04), (0.05, 0.09), (0.03, 0.12), (0.06, 0.16), (0.0, 0.19)])
    )
    copper = m.metal("Cu", 0.18)
    scene.add(pan.moved(0.12, 0.44, 0.37) + lid.moved(0.12, 0.44, 0.57), copper)
    for dx in (-1, 1):
        scene.add(
            tube(
                smooth(
                    [
                        (0.12 + dx * 0.34, 0.44, 0.52),
                        (0.12 + dx * 0.44, 0.44, 0.54),
                        (0.12 + dx * 0.34, 0.44, 0.47),
                    ]
                ),
                0.016,
            ),
            copper,
        )
    board = box(0.42, 0.04, 0.62, 0.03).turned(-9, "x").moved(1.0, 0.62, 0.37)
    scene.add(board, m.satin(t.wood((0.48, 0.30, 0.17), (0.68, 0.48, 0.30), 23, 1), 0.5))
    scene.add(cylinder(0.11, 0.34, 0.02).moved(1.42, 0.42, 0.37), m.glazed((0.92, 0.92, 0.90)))
    for i in range(4):
        a = i * 1.7
        scene.add(
            tube(
                [(1.42, 0.42, 0.5), (1.42 + 0.10 * math.cos(a), 0.42 + 0.06 * math.sin(a), 0.98)],
                [0.016, 0.012 + 0.014 * (i % 2)],
                10,
            ),
            m.satin(t.wood(*OAK, i, 1), 0.5),
        )
    daylit(scene, 26)
    return scene


SCENES = {
    "laid-table": laid_table,
    "kitchen-shelf": kitchen_shelf,
}
