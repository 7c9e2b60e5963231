"""Objects and lights shared by several scenes."""

from __future__ import annotations

import numpy as np

from tools.scenes import materials as m
from tools.scenes import textures as t
from tools.scenes.meshes import Mesh, box, join, sheet, smooth, tube, vessel
from tools.scenes.mouldings import blend, carve, ellipsoid, mould, sphere
from tools.scenes.studio import Scene

WARM, COOL, NEUTRAL = (1.0, 0.9, 0.76), (0.75, 0.87, 1.0), (1.0, 1.0, 1.0)


OAK = ((0.55, 0.38, 0.22), (0.76, 0.58, 0.38))


WALNUT = ((0.22, 0.13, 0.08), (0.42, 0.27, 0.16))


def lit(scene: Scene, key: float = 14.0, fill: float = 0.35) -> Scene:
    """Add a large warm lamp on the left, a weak cool lamp on the right, and ambient light."""
    scene.softbox((-3.2, -2.2, 4.2), (0, 0, 0.3), 2.4, [key * c for c in WARM])
    scene.softbox((4.0, -1.5, 2.5), (0, 0, 0.3), 2.0, [0.25 * key * c for c in COOL])
    scene.surroundings([fill * c for c in NEUTRAL])
    return scene


def portrait_light(scene: Scene, key: float = 15.0, fill: float = 0.35) -> None:
    scene.softbox((-2.8, -3.6, 3.6), (0, 0, 1.1), 2.0, (key, key * 0.94, key * 0.84))
    scene.softbox((3.4, -2.4, 1.8), (0, 0, 1.0), 1.8, (key * 0.22, key * 0.25, key * 0.30))
    scene.softbox((2.4, 1.4, 5.0), (0, 0, 1.2), 1.3, (key * 0.6, key * 0.6, key * 0.6))
    scene.surroundings((fill, fill, fill))


def daylit(scene: Scene, power: float = 30.0) -> None:
    """Add window light from the left and weak ambient light."""
    scene.softbox((-5.5, -1.0, 2.6), (0, 0.5, 0.8), 3.0, (power, power * 0.97, power * 0.90))
    scene.softbox((3.0, -5.0, 3.6), (0, 1.0, 0.8), 3.0, (power * 0.16, power * 0.17, power * 0.19))
    scene.surroundings((0.45, 0.45, 0.46))


def table(scene: Scene, paint: m.Paint, roughness: float = 0.35) -> None:
    scene.add(sheet(8, 8, 4, 4), m.satin(paint, roughness))


def wall(
    width: float, height: float, opening: tuple[float, float, float, float] | None = None
) -> Mesh:
    """An upright wall in the plane y = 0 from z = 0; `opening` is left, right, bottom, top."""
    if opening is None:
        return _panel(-width / 2, width / 2, 0, height)
    left, right, bottom, top = opening
    pieces = [
        _panel(-width / 2, left, 0, height),
        _panel(right, width / 2, 0, height),
        _panel(left, right, 0, bottom),
        _panel(left, right, top, height),
    ]
    return join(pieces)


def _panel(left: float, right: float, bottom: float, top: float) -> Mesh:
    flat = sheet(right - left, top - bottom).turned(90, "x")
    mesh = flat.moved((left + right) / 2, 0, (bottom + top) / 2)
    return Mesh(mesh.points, mesh.triangles, mesh.points[:, [0, 2]] * 0.5)


def apple(radius: float) -> Mesh:
    body = carve(
        blend(
            [ellipsoid((0, 0, 0), (1, 1, 0.92)), ellipsoid((0, 0, -0.35), (0.72, 0.72, 0.62))], 0.2
        ),
        ellipsoid((0, 0, 1.02), (0.26, 0.26, 0.34)),
        0.22,
    )
    return mould(body, (-1.1, -1.1, -1.1), (1.1, 1.1, 1.1), 64).moved(z=0.93).scaled(radius)


def pear(radius: float) -> Mesh:
    body = blend([sphere((0, 0, 0), 1.0), sphere((0.05, 0, 1.25), 0.52)], 0.75)
    return mould(body, (-1.2, -1.2, -1.2), (1.2, 1.2, 2.0), 72).moved(z=1.0).scaled(radius)


def stem(height: float, at: tuple[float, float, float]) -> Mesh:
    x, y, z = at
    return tube(
        smooth([(x, y, z), (x + 0.01, y, z + height / 2), (x + 0.04, y, z + height)]), 0.012
    )


def cup(radius: float, height: float) -> Mesh:
    outline = smooth(
        [
            (radius * 0.55, 0),
            (radius * 0.8, height * 0.2),
            (radius * 0.97, height * 0.6),
            (radius, height),
        ]
    )
    handle = tube(
        smooth(
            [
                (radius * 0.92, 0, height * 0.75),
                (radius * 1.45, 0, height * 0.8),
                (radius * 1.5, 0, height * 0.35),
                (radius * 0.85, 0, height * 0.25),
            ]
        ),
        radius * 0.09,
    )
    return vessel(outline, radius * 0.07) + handle


def book(
    width: float, depth: float, height: float, cover: tuple[float, float, float]
) -> list[tuple[Mesh, m.Material]]:
    board = 0.02
    cloth = m.satin(t.mottled(cover, np.clip(np.array(cover) * 1.3, 0, 1), 3, 30), 0.6)
    pages = t.stripes([(0.90, 0.86, 0.76), (0.80, 0.75, 0.63)], 40).swapaxes(0, 1)
    shell = join(
        [
            box(width, depth, board, 0.008),
            box(width, depth, board, 0.008).moved(z=height - board),
            box(0.03, depth, height, 0.012).moved(x=-width / 2 + 0.01),
        ]
    )
    bands = join(
        [
            box(0.012, 0.05, height - 0.03, 0.004).moved(-width / 2 - 0.005, y * depth, 0.015)
            for y in (-0.38, -0.3, 0.34)
        ]
    )
    block = box(width - 0.08, depth - 0.08, height - 2 * board, 0.005).moved(0.0, 0, board)
    return [(shell, cloth), (block, m.matte(pages)), (bands, m.metal("Au", 0.3))]


def small_book(
    width: float, depth: float, height: float, cover: tuple[float, float, float]
) -> list[tuple[Mesh, m.Material]]:
    shell = box(width, depth, height * 0.2, 0.002) + box(width, depth, height * 0.2, 0.002).moved(
        z=height * 0.8
    )
    pages = box(width * 0.97, depth * 0.95, height * 0.62, 0.001).moved(z=height * 0.19)
    return [(shell, m.satin(cover, 0.5)), (pages, m.matte((0.90, 0.87, 0.79)))]
