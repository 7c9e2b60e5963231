"""A game of chess and a child's toys."""

from __future__ import annotations

import numpy as np

from tools.scenes import materials as m
from tools.scenes import textures as t
from tools.scenes.meshes import Mesh, ball, box, cylinder, lathe, sheet, smooth, torus
from tools.scenes.mouldings import blend, ellipsoid, mould, rod
from tools.scenes.props import lit, table
from tools.scenes.studio import Camera, Scene


def chess() -> Scene:
    """A game of chess half played."""
    scene = Scene(Camera((-3.3, -5.9, 3.7), (0.0, -0.15, 0.2), 47, 0.05, (-0.2, -1.2, 0.4)))
    table(scene, t.wood((0.20, 0.12, 0.08), (0.36, 0.22, 0.13), 21))
    scene.backdrop((0.24, 0.27, 0.26), depth=5.5)
    scene.add(
        box(5.0, 5.0, 0.16, 0.04),
        m.satin(t.wood((0.22, 0.10, 0.05), (0.36, 0.18, 0.09), 5, 1), 0.25),
    )
    squares = (
        t.checks((0.30, 0.16, 0.08), (0.86, 0.74, 0.54), 8)
        * (0.85 + 0.3 * t.noise(1024, 8, 6, 3, 20))[..., None]
    )
    scene.add(sheet(4.4, 4.4).moved(z=0.163), m.satin(np.clip(squares, 0, 1), 0.2))
    pale, dark = m.satin((0.90, 0.82, 0.66), 0.22), m.satin((0.10, 0.06, 0.05), 0.2)
    for material, pieces in (
        (pale, "Ra1 Bd3 Kg1 Rf1 Qe2 Nf3 Pa2 Pb2 Pc3 Pd4 Pf2 Pg2 Ph2 Bg5"),
        (dark, "ra8 rf8 kg8 qd8 nf6 bb7 nd7 pa7 pb6 pd5 pe6 pf7 pg7 ph7 be7"),
    ):
        for piece in pieces.split():
            x = ("abcdefgh".index(piece[1]) - 3.5) * 0.55
            y = (int(piece[2]) - 4.5) * 0.55
            turn = 0 if piece[0].isupper() else 180
            scene.add(_chessman(piece[0].lower()).turned(turn).moved(x, y, 0.165), material)
    return lit(scene, 16, 0.3)


def _chessman(name: str) -> Mesh:
    foot = [(0.0, 0.0), (0.2, 0.0), (0.2, 0.05), (0.17, 0.09), (0.19, 0.12), (0.13, 0.17)]
    heights = {"p": 0.36, "r": 0.48, "n": 0.40, "b": 0.56, "q": 0.72, "k": 0.76}
    h = heights[name]
    stem = [
        (0.085, 0.17 + (h - 0.17) * 0.5),
        (0.075, h - 0.06),
        (0.13, h - 0.05),
        (0.13, h - 0.02),
        (0.07, h),
    ]
    profile = [*foot, *stem]
    if name == "p":
        return lathe([*profile, (0, h)], 48) + ball(0.105, 32).moved(z=h + 0.07)
    if name == "r":
        crown = [(0.14, h), (0.15, h + 0.13), (0.10, h + 0.13), (0.10, h + 0.07), (0, h + 0.07)]
        return lathe([*profile, *crown], 48)
    if name == "b":
        head = smooth([(0.06, h), (0.12, h + 0.08), (0.09, h + 0.17), (0.02, h + 0.26)])
        return lathe([*profile, *head, (0, h + 0.27)], 48) + ball(0.035, 24).moved(z=h + 0.28)
    if name == "n":
        skull = blend(
            [
                ellipsoid((0.0, 0, h + 0.06), (0.11, 0.085, 0.17)),
                ellipsoid((0.0, 0.06, h + 0.22), (0.065, 0.15, 0.085)),
                ellipsoid((0.0, 0.16, h + 0.16), (0.05, 0.09, 0.055)),
                ellipsoid((0.035, -0.03, h + 0.31), (0.02, 0.025, 0.05)),
                ellipsoid((-0.035, -0.03, h + 0.31), (0.02, 0.025, 0.05)),
            ],
            0.06,
        )
        return lathe([*foot, (0.1, 0.22), (0.12, h - 0.04), (0, h)], 48) + mould(
            skull, (-0.2, -0.2, h - 0.15), (0.2, 0.3, h + 0.4), 56
        )
    crown = [(0.07, h), (0.15, h + 0.16), (0.12, h + 0.18), (0.0, h + 0.14)]
    top = ball(0.045, 24).moved(z=h + 0.21)
    if name == "k":
        top = box(0.04, 0.035, 0.17, 0.01).moved(z=h + 0.15) + box(0.12, 0.035, 0.04, 0.01).moved(
            z=h + 0.22
        )
    return lathe([*profile, *crown], 48) + top


def toys() -> Scene:
    """Wooden blocks, a stacking ring tower, a small car."""
    scene = Scene(Camera((-0.3, -5.1, 2.4), (0.0, 0, 0.72), 46, 0.045, (0, -0.8, 0.4)))
    table(scene, t.wood((0.66, 0.50, 0.34), (0.84, 0.69, 0.50), 61))
    scene.backdrop((0.62, 0.74, 0.82), depth=3.8)
    red, yellow, green, blue = (
        (0.82, 0.13, 0.11),
        (0.95, 0.75, 0.12),
        (0.20, 0.55, 0.25),
        (0.13, 0.33, 0.68),
    )
    blocks = [
        (-1.55, 0.35, 0.0, 12, red),
        (-0.95, 0.45, 0.0, -8, yellow),
        (-1.25, 0.40, 0.5, 20, blue),
        (-0.35, -0.85, 0.0, 33, green),
        (-1.25, 0.4, 1.0, -14, green),
    ]
    for x, y, z, turn, paint in blocks:
        scene.add(box(0.5, 0.5, 0.5, 0.035).turned(turn).moved(x, y, z), m.satin(paint, 0.35))
    scene.add(
        cylinder(0.62, 0.09, 0.03).moved(1.3, 0.5),
        m.satin(t.wood((0.60, 0.44, 0.28), (0.80, 0.63, 0.43), 7, 1), 0.4),
    )
    for i, paint in enumerate((red, (0.95, 0.45, 0.10), yellow, green, blue, (0.45, 0.20, 0.55))):
        scene.add(
            torus(0.44 - 0.052 * i, 0.135).scaled(1, 1, 0.9).moved(1.3, 0.5, 0.21 + 0.235 * i),
            m.satin(paint, 0.25),
        )
    scene.add(ball(0.16).moved(1.3, 0.5, 1.68), m.satin(red, 0.25))
    _toy_car(scene, 0.55, -1.0, 25)
    return lit(scene, 13, 0.45)


def _toy_car(scene: Scene, x: float, y: float, turn: float) -> None:
    body = blend(
        [rod((-0.45, 0, 0.26), (0.45, 0, 0.24), 0.2), rod((-0.22, 0, 0.44), (0.12, 0, 0.44), 0.17)],
        0.1,
    )
    shell = mould(body, (-0.8, -0.4, -0.05), (0.8, 0.4, 0.75), 90)
    scene.add(
        shell.scaled(1, 1.1, 1).turned(turn).moved(x, y),
        m.satin((0.86, 0.20, 0.14), 0.15, clearcoat=1.0),
    )
    panes = mould(
        rod((-0.20, 0, 0.47), (0.10, 0, 0.47), 0.15), (-0.5, -0.3, 0.2), (0.4, 0.3, 0.7), 60
    )
    scene.add(
        panes.scaled(1.02, 1.30, 0.98).turned(turn).moved(x, y), m.satin((0.10, 0.16, 0.22), 0.08)
    )
    for dx in (-0.36, 0.36):
        for dy in (-0.24, 0.24):
            wheel = cylinder(0.15, 0.1, 0.03).moved(z=-0.05).turned(90, "x").moved(dx, dy, 0.15)
            hub = cylinder(0.07, 0.115, 0.02).moved(z=-0.0575).turned(90, "x").moved(dx, dy, 0.15)
            scene.add(wheel.turned(turn).moved(x, y), m.satin((0.07, 0.07, 0.08), 0.6))
            scene.add(hub.turned(turn).moved(x, y), m.satin((0.92, 0.80, 0.20), 0.3))


SCENES = {
    "chess": chess,
    "toys": toys,
}
