"""Carved and painted faces: a bust and a nesting doll."""

from __future__ import annotations

import math

import numpy as np

from tools.scenes import materials as m
from tools.scenes import textures as t
from tools.scenes.meshes import Array, Mesh, lathe, sheet, smooth
from tools.scenes.mouldings import blend, carve, ellipsoid, mould, rod, sphere
from tools.scenes.props import portrait_light
from tools.scenes.studio import Camera, Scene


def bust() -> Scene:
    """A marble bust of a young man."""
    scene = Scene(Camera((0.55, -4.4, 1.72), (0, 0, 1.30), 33), 768, 1024, exposure=-0.45)
    scene.backdrop(t.mottled((0.22, 0.26, 0.30), (0.32, 0.37, 0.42), 4, 400), depth=2.6)
    head = [
        ellipsoid((0, 0.06, 1.98), (0.40, 0.47, 0.46)),
        ellipsoid((0, -0.10, 1.66), (0.29, 0.33, 0.38)),
        ellipsoid((0, -0.30, 1.40), (0.13, 0.12, 0.10)),
        rod((0, 0.05, 1.60), (0, 0.12, 0.98), 0.24, 0.29),
        ellipsoid((-0.17, -0.26, 1.67), (0.12, 0.11, 0.11)),
        ellipsoid((0.17, -0.26, 1.67), (0.12, 0.11, 0.11)),
    ]
    face = blend(head, 0.16)
    for side in (-1, 1):
        face = carve(face, ellipsoid((side * 0.155, -0.45, 1.83), (0.105, 0.11, 0.065)), 0.06)
    features = [
        face,
        rod((0, -0.40, 1.87), (0, -0.545, 1.625), 0.040, 0.066),
        ellipsoid((-0.055, -0.47, 1.61), (0.045, 0.05, 0.034)),
        ellipsoid((0.055, -0.47, 1.61), (0.045, 0.05, 0.034)),
        rod((-0.25, -0.33, 1.925), (-0.06, -0.42, 1.905), 0.022),
        rod((0.25, -0.33, 1.925), (0.06, -0.42, 1.905), 0.022),
    ]
    face = blend(features, 0.045)
    fine = [face]
    for side in (-1, 1):
        fine.append(sphere((side * 0.155, -0.355, 1.83), 0.070))
        fine.append(ellipsoid((side * 0.405, 0.03, 1.78), (0.045, 0.10, 0.15)))
    fine.append(ellipsoid((0, -0.425, 1.520), (0.105, 0.055, 0.026)))
    fine.append(ellipsoid((0, -0.415, 1.470), (0.085, 0.060, 0.030)))
    face = blend(fine, 0.022)
    rng = np.random.default_rng(12)
    curls = []
    for _ in range(120):
        away = rng.normal(size=3)
        away /= np.linalg.norm(away)
        spot = np.array([0, 0.07, 1.99]) + away * np.array([0.42, 0.49, 0.47])
        if spot[2] > 2.18 - 0.45 * max(spot[1] + 0.2, 0) * 2.2 and spot[2] > 1.72:
            curls.append(
                sphere(
                    (float(spot[0]), float(spot[1]), float(spot[2])),
                    float(rng.uniform(0.055, 0.085)),
                )
            )
    hair = blend(curls, 0.03)
    shoulders = blend(
        [
            ellipsoid((0, 0.12, 0.62), (0.82, 0.36, 0.36)),
            rod((-0.62, 0.12, 0.72), (0.62, 0.12, 0.72), 0.24),
            ellipsoid((0, 0.0, 0.50), (0.56, 0.36, 0.36)),
        ],
        0.2,
    )
    whole = blend([blend([face, shoulders], 0.16), hair], 0.02)

    def cut(p: Array) -> Array:
        return np.maximum(whole(p), 0.42 - p[..., 2] + 0.25 * p[..., 0] ** 2)

    stone = t.marble((0.90, 0.88, 0.84), (0.62, 0.58, 0.54), 5)
    scene.add(mould(cut, (-1.1, -0.75, 0.2), (1.1, 0.75, 2.7), 150), m.satin(stone, 0.4, 0.5))
    base = smooth([(0.42, 0), (0.42, 0.08), (0.26, 0.14), (0.24, 0.34), (0.34, 0.42), (0.34, 0.48)])
    scene.add(
        lathe([(0, 0), *base, (0, 0.48)]),
        m.satin(t.marble((0.16, 0.18, 0.18), (0.6, 0.6, 0.58), 9), 0.25),
    )
    portrait_light(scene, 17, 0.22)
    return scene


def nesting_doll() -> Scene:
    """A painted wooden doll and her smaller sister."""
    scene = Scene(Camera((0.3, -4.6, 1.6), (0.15, 0, 0.92), 45, 0.02, (0, -0.5, 1.2)))
    scene.add(sheet(9, 9, 4, 4), m.satin(t.wood((0.42, 0.28, 0.18), (0.64, 0.46, 0.30), 23), 0.35))
    scene.backdrop(t.mottled((0.50, 0.60, 0.56), (0.58, 0.68, 0.63), 4), depth=2.6)
    _doll(scene, -0.35, 0.1, 1.0, (0.72, 0.10, 0.12), (0.93, 0.72, 0.16), (0.12, 0.34, 0.28))
    _doll(scene, 0.95, -0.25, 0.66, (0.14, 0.30, 0.56), (0.86, 0.26, 0.24), (0.92, 0.76, 0.30))
    portrait_light(scene)
    return scene


def _doll(
    scene: Scene, x: float, y: float, size: float, shawl: m.Paint, apron: m.Paint, trim: m.Paint
) -> None:
    n = 1024
    v, u = np.mgrid[0:n, 0:n] / n  # v: along the profile from the foot up, u: around
    around = (u - 0.75) * 2 * np.pi  # 0 faces the camera
    around = (around + np.pi) % (2 * np.pi) - np.pi
    paint = np.empty((n, n, 3))
    paint[:] = shawl
    paint[v < 0.46] = trim
    front = np.hypot(around / 0.95, (v - 0.30) / 0.20) < 1
    paint[front] = apron
    skin = np.hypot(around / 0.62, (v - 0.755) / 0.105) < 1
    hair = (np.hypot(around / 0.62, (v - 0.755) / 0.105) < 1) & (
        np.hypot(around / 0.55, (v - 0.725) / 0.105) > 1
    )
    paint[skin] = (0.95, 0.80, 0.66)
    paint[hair] = (0.36, 0.20, 0.10)
    for side in (-1, 1):
        paint[np.hypot((around - side * 0.21) / 0.065, (v - 0.765) / 0.018) < 1] = (
            0.98,
            0.98,
            0.98,
        )
        paint[np.hypot((around - side * 0.21) / 0.038, (v - 0.765) / 0.015) < 1] = (
            0.10,
            0.22,
            0.36,
        )
        paint[
            (np.abs(around - side * 0.22) < 0.10)
            & (np.abs(v - 0.795 + 0.25 * (around - side * 0.22) ** 2) < 0.0035)
        ] = (0.25, 0.14, 0.08)
        paint[np.hypot((around - side * 0.34) / 0.09, (v - 0.725) / 0.022) < 1] = (0.95, 0.60, 0.52)
    paint[np.hypot(around / 0.085, (v - 0.702) / 0.010) < 1] = (0.78, 0.12, 0.14)
    for i in range(9):
        a, w = -0.6 + 0.15 * i, 0.22 + 0.08 * ((i * 5) % 3)
        for k in range(5):
            b = 2 * np.pi * k / 5
            paint[
                np.hypot(
                    (around - a - 0.05 * math.cos(b)) / 0.04, (w - v + 0.02 * math.sin(b)) / 0.015
                )
                < 1
            ] = shawl if i % 2 else trim
        paint[np.hypot((around - a) / 0.03, (v - w) / 0.011) < 1] = (0.97, 0.93, 0.80)
    paint[np.abs(v - 0.47) < 0.006] = apron
    profile = smooth(
        [
            (0.42, 0.0),
            (0.50, 0.12),
            (0.62, 0.55),
            (0.56, 0.92),
            (0.40, 1.16),
            (0.40, 1.34),
            (0.42, 1.55),
            (0.30, 1.82),
            (0.0, 1.94),
        ],
        20,
    )
    length = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(profile, axis=0), axis=1))])
    mesh = lathe(profile, 128, corner=180)
    rows = len(profile)
    uv = mesh.uv.copy()
    uv[:, 1] = np.repeat(length / length[-1], len(uv) // rows)
    scene.add(
        Mesh(mesh.points, mesh.triangles, uv).scaled(size).moved(x, y),
        m.satin(paint, 0.3, clearcoat=1.0),
    )


SCENES = {
    "bust": bust,
    "nesting-doll": nesting_doll,
}
