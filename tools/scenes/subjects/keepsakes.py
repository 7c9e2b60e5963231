"""Bottles, books and a globe."""

from __future__ import annotations

import numpy as np

from tools.scenes import materials as m
from tools.scenes import textures as t
from tools.scenes.meshes import ball, cylinder, lathe, smooth, tube, vessel
from tools.scenes.props import book, lit, pear, stem, table
from tools.scenes.studio import Camera, Scene


def bottles() -> Scene:
    """Coloured glass bottles in front of a bright wall."""
    scene = Scene(Camera((0, -5.0, 1.25), (0, 0, 0.80), 41), exposure=0.35)
    table(scene, t.wood((0.62, 0.54, 0.44), (0.82, 0.74, 0.62), 41))
    scene.backdrop((0.88, 0.87, 0.84), depth=2.2)
    shapes = [
        [
            (0.30, 0),
            (0.32, 0.03),
            (0.32, 0.95),
            (0.28, 1.10),
            (0.11, 1.32),
            (0.10, 1.72),
            (0.12, 1.75),
        ],
        [(0.26, 0), (0.45, 0.25), (0.36, 0.55), (0.12, 0.78), (0.10, 1.05), (0.14, 1.10)],
        [(0.22, 0), (0.24, 0.03), (0.24, 0.62), (0.10, 0.80), (0.09, 0.98), (0.11, 1.0)],
        [
            (0.34, 0),
            (0.36, 0.04),
            (0.30, 0.40),
            (0.36, 0.76),
            (0.15, 1.0),
            (0.13, 1.28),
            (0.17, 1.33),
        ],
    ]
    tints = [(0.25, 0.75, 0.45), (0.30, 0.55, 0.95), (0.95, 0.55, 0.15), (0.75, 0.30, 0.55)]
    for x, y, outline, tint in zip(
        (-1.15, -0.40, 0.32, 1.1), (0.1, -0.25, -0.45, 0.1), shapes, tints, strict=True
    ):
        scene.add(vessel(smooth(outline, 10), 0.035).moved(x, y), m.glass(tint))
    scene.add(
        cylinder(0.085, 0.2, 0.02).moved(-1.15, 0.1, 1.64),
        m.matte(t.speckled((0.72, 0.54, 0.36), (0.5, 0.34, 0.2), 3)),
    )
    scene.softbox((-3.0, 1.2, 3.2), (0, 0, 0.6), 2.6, (16, 15, 13))
    scene.softbox((2.8, -2.0, 3.0), (0, 0, 0.6), 1.6, (5, 6, 7))
    scene.surroundings((0.6, 0.62, 0.66))
    return scene


def stack_of_books() -> Scene:
    """Old books and a pear."""
    scene = Scene(Camera((1.2, -4.6, 1.9), (0, 0, 0.72), 43, 0.03, (0.1, -0.6, 0.6)))
    table(scene, t.wood((0.26, 0.15, 0.09), (0.48, 0.30, 0.18), 51))
    scene.backdrop(t.mottled((0.30, 0.22, 0.20), (0.40, 0.30, 0.26), 2), depth=2.8)
    z = 0.0
    covers = [
        (0.35, 0.08, 0.08),
        (0.10, 0.22, 0.30),
        (0.62, 0.50, 0.28),
        (0.16, 0.28, 0.18),
        (0.42, 0.30, 0.42),
    ]
    for i, cover in enumerate(covers):
        w, d, h = 2.0 - 0.13 * i, 1.4 - 0.08 * i, 0.16 + 0.05 * ((i * 7) % 3)
        turn = (-7, 5, -3, 11, -14)[i]
        for part, material in book(w, d, h, cover):
            scene.add(part.turned(turn).moved(z=z), material)
        z += h
    green = t.mottled((0.55, 0.62, 0.14), (0.80, 0.70, 0.25), 17, 160)
    scene.add(pear(0.27).turned(8, "x").moved(0.1, 0, z), m.satin(green, 0.3))
    scene.add(stem(0.18, (0.12, -0.08, z + 0.72)), m.matte((0.25, 0.16, 0.08)))
    return lit(scene, 15, 0.25)


def globe() -> Scene:
    """A globe on a brass stand."""
    scene = Scene(Camera((0.6, -4.6, 1.6), (0, 0, 1.05), 32, 0.03, (0, -0.7, 1.2)), 768, 1024)
    table(scene, t.wood((0.24, 0.14, 0.09), (0.44, 0.28, 0.17), 71))
    scene.backdrop(t.mottled((0.28, 0.36, 0.33), (0.36, 0.45, 0.41), 6, 300), depth=2.4)
    land = t.noise(1024, 260, 14, 6)
    mask = np.clip((land - 0.56) * 25, 0, 1)
    ground = t.mix((0.72, 0.66, 0.36), (0.45, 0.55, 0.28), t.noise(1024, 120, 15, 4))
    sea = t.mix((0.20, 0.42, 0.58), (0.34, 0.58, 0.68), t.noise(1024, 300, 16, 3))
    skin = sea * (1 - mask[..., None]) + ground * mask[..., None]
    v, u = np.mgrid[0:1024, 0:1024] / 1024
    lines = (np.minimum(u * 24 % 1, 1 - u * 24 % 1) < 0.02) | (
        np.minimum(v * 12 % 1, 1 - v * 12 % 1) < 0.012
    )
    skin = np.where(lines[..., None], skin * 0.75, skin)
    scene.add(ball(0.78, 96).turned(23, "y").moved(0, 0, 1.3), m.satin(skin, 0.3, clearcoat=0.6))
    brass = m.metal("Au", 0.2)
    angle = np.linspace(-np.pi / 2 - 0.4, np.pi / 2 - 0.4, 60)
    arm = np.stack([0.9 * np.cos(angle), np.zeros(60), 1.3 + 0.9 * np.sin(angle)], 1)
    scene.add(tube(arm, 0.035), brass)
    foot = smooth([(0.56, 0), (0.55, 0.06), (0.2, 0.12), (0.07, 0.2), (0.05, 0.42)])
    scene.add(
        lathe([(0, 0), *foot, (0, 0.44)]).moved(0.02),
        m.satin(t.wood((0.25, 0.11, 0.06), (0.42, 0.2, 0.1), 3, 1), 0.3),
    )
    return lit(scene, 15, 0.3)


SCENES = {
    "bottles": bottles,
    "books": stack_of_books,
    "globe": globe,
}
