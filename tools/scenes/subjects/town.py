"""A street corner."""

from __future__ import annotations

import numpy as np

from tools.scenes import materials as m
from tools.scenes import textures as t
from tools.scenes.meshes import Mesh, ball, box, cylinder, lathe, sheet, smooth
from tools.scenes.studio import Camera, Scene
from tools.scenes.subjects.greenery import FAR, tree


def street_corner() -> Scene:
    """A quiet corner with a brick house, a shop and a street lamp."""
    scene = Scene(Camera((-2.6, -9.0, 1.9), (0.8, 1.0, 2.15), 50), exposure=0.1)
    asphalt = t.speckled((0.22, 0.22, 0.23), (0.32, 0.32, 0.33), 3, 5, 0.3)
    scene.add(sheet(FAR, FAR, FAR / 2.6, FAR / 2.6), m.satin(asphalt, 0.8))
    paving = t.tiles((0.58, 0.56, 0.52), (0.40, 0.39, 0.37), 8, 8, 5, 0.5, 0.03, 0.10)
    scene.add(box(16, 14, 0.16, 0.03).moved(6.6, 5.5), m.satin(np.tile(paving, (1, 1, 1)), 0.8))
    bricks = t.tiles((0.56, 0.25, 0.18), (0.70, 0.66, 0.60), 8, 24, 9, 0.5, 0.06, 0.22)
    scene.add(_house(9, 8, 6.2).moved(5.2, 5.0, 0.14), m.matte(bricks))
    stone = m.satin((0.80, 0.76, 0.68), 0.7)
    scene.add(box(9.3, 8.3, 0.28, 0.04).moved(5.2, 5.0, 6.3), stone)
    scene.add(box(9.14, 8.14, 0.2, 0.03).moved(5.2, 5.0, 3.05), stone)
    pane = m.satin((0.10, 0.14, 0.18), 0.05, 0.8)
    trim = m.satin((0.92, 0.90, 0.85), 0.5)
    for x in (1.9, 3.9, 5.9, 7.9):
        _sash(scene, x, 1.0, 3.85, 1.0, 1.6, pane, trim, 0)
    for y in (2.4, 4.6, 6.8):
        _sash(scene, 0.7, y, 3.85, 1.0, 1.6, pane, trim, 90)
        _sash(scene, 0.7, y, 0.95, 1.0, 1.5, pane, trim, 90)
    scene.add(box(3.6, 0.10, 1.75, 0.02).moved(4.4, 0.98, 0.75), m.satin((0.10, 0.26, 0.24), 0.4))
    scene.add(box(3.3, 0.10, 1.5, 0.02).moved(4.4, 0.93, 0.87), pane)
    scene.add(box(0.95, 0.12, 2.2, 0.02).moved(2.0, 0.98, 0.16), m.satin((0.10, 0.26, 0.24), 0.35))
    scene.add(box(0.62, 0.10, 1.0, 0.02).moved(2.0, 0.92, 1.15), pane)
    scene.add(ball(0.045).moved(2.32, 0.88, 1.12), m.metal("Au", 0.2))
    awning = t.stripes([(0.78, 0.16, 0.14), (0.93, 0.90, 0.84)], 9)
    slope = sheet(4.1, 1.25).turned(-26, "x").moved(4.4, 0.40, 2.75)
    scene.add(slope, m.matte(awning))
    front = sheet(4.1, 0.25).turned(90, "x").moved(4.4, -0.165, 2.36)
    scene.add(front, m.matte(awning))
    iron = m.satin((0.06, 0.08, 0.08), 0.4)
    pole = smooth([(0.16, 0), (0.15, 0.25), (0.06, 0.4), (0.045, 2.8), (0.07, 2.85), (0.10, 2.95)])
    scene.add(lathe([(0, 0), *pole], 32).moved(-0.9, -0.9, 0.16), iron)
    scene.add(
        lathe([(0.12, 0), (0.22, 0.5), (0.05, 0.66), (0, 0.72)], 6, corner=10).moved(
            -0.9, -0.9, 3.1
        ),
        iron,
    )
    scene.add(
        lathe([(0.10, 0.03), (0.19, 0.46)], 6, corner=10).scaled(1.08).moved(-0.9, -0.9, 3.1),
        m.satin((0.95, 0.92, 0.80), 0.2),
    )
    red = m.satin((0.72, 0.10, 0.08), 0.35)
    hydrant = smooth(
        [
            (0.16, 0),
            (0.12, 0.06),
            (0.12, 0.42),
            (0.16, 0.45),
            (0.13, 0.55),
            (0.04, 0.66),
            (0.0, 0.68),
        ]
    )
    scene.add(lathe([(0, 0), *hydrant], 40).moved(0.1, -1.25, 0.16), red)
    scene.add(
        cylinder(0.06, 0.42, 0.01).moved(z=-0.21).turned(90, "y").moved(0.1, -1.25, 0.50), red
    )
    white = m.matte((0.82, 0.82, 0.80))
    for i in range(6):
        scene.add(sheet(0.42, 2.6).moved(-5.2 + 0.85 * i, -3.6, 0.005), white)
    plaster = m.matte(t.mottled((0.80, 0.70, 0.52), (0.86, 0.77, 0.60), 4, 300))
    scene.add(_house(8, 8, 7.5).moved(-9.0, 13.0), plaster)
    scene.add(
        _house(8, 8, 6.8).moved(-0.5, 19.0),
        m.matte(t.mottled((0.60, 0.66, 0.68), (0.68, 0.73, 0.74), 6, 300)),
    )
    for x in (-11.4, -9.4, -7.4):
        for z in (1.2, 4.2):
            _sash(scene, x, 9.0, z, 1.0, 1.6, pane, trim, 0)
    for x in (-3.2, -1.2, 0.8, 2.8):
        for z in (1.2, 4.0):
            _sash(scene, x, 15.0, z, 1.0, 1.6, pane, trim, 0)
    tree(scene, -5.2, 6.0, 4.6, 17)
    scene.sky((-0.60, -0.55, 0.58))
    return scene


def _house(width: float, depth: float, height: float) -> Mesh:
    block = box(width, depth, height, 0.01, 1)
    return Mesh(block.points, block.triangles, block.uv * np.array([0.5, 0.5]))


def _sash(
    scene: Scene,
    x: float,
    y: float,
    z: float,
    width: float,
    height: float,
    pane: m.Material,
    trim: m.Material,
    turn: float,
) -> None:
    """A window on a wall that faces -y (turn 0) or -x (turn 90)."""

    def put(part: Mesh, material: m.Material) -> None:
        scene.add(part.turned(-turn).moved(x, y, z), material)

    put(box(width, 0.08, height, 0.01, 1), pane)
    for dx in (-width / 2, 0.0, width / 2):
        put(box(0.09, 0.16, height + 0.09, 0.01, 1).moved(dx, 0, -0.04), trim)
    for dz in (0.0, height / 2, height):
        put(box(width, 0.16, 0.09, 0.01, 1).moved(0, 0, dz - 0.04), trim)
    put(box(width + 0.35, 0.34, 0.10, 0.02, 2).moved(0, -0.05, -0.14), trim)


SCENES = {
    "street-corner": street_corner,
}
