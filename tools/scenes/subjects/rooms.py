"""Rooms and furniture."""

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
    grid,
    join,
    lathe,
    leaves,
    sheet,
    smooth,
    tube,
    vessel,
)
from tools.scenes.mouldings import mould
from tools.scenes.props import OAK, WALNUT, daylit, small_book, wall
from tools.scenes.studio import Camera, Scene


def living_room() -> Scene:
    """A living room with a sofa, a rug and a picture on the wall."""
    scene = Scene(Camera((0.5, -4.1, 1.5), (0.05, 1.4, 0.98), 54))
    scene.add(sheet(12, 12, 3, 3), m.satin(t.wood(*OAK, 3, 8), 0.35))
    scene.add(wall(12, 5.0).moved(y=2.2), m.matte((0.80, 0.82, 0.78)))
    scene.add(box(12, 0.03, 0.14, 0.01).moved(y=2.17), m.satin((0.93, 0.93, 0.91), 0.4))
    rug = t.stripes(
        [(0.78, 0.72, 0.62), (0.72, 0.40, 0.28), (0.78, 0.72, 0.62), (0.28, 0.36, 0.44)], 3
    )
    scene.add(box(3.4, 2.0, 0.025, 0.01).moved(0, 0.0, 0), m.velvet(rug))
    _sofa(scene, -0.1, 1.45, t.mottled((0.16, 0.34, 0.38), (0.22, 0.42, 0.46), 5, 20))
    scene.add(
        _cushion(0.55).turned(70, "x").turned(8).moved(-0.85, 1.22, 0.92),
        m.velvet((0.86, 0.62, 0.22)),
    )
    scene.add(
        _cushion(0.5).turned(68, "x").turned(-12).moved(0.72, 1.20, 0.90),
        m.velvet((0.85, 0.80, 0.72)),
    )
    _frame(scene, -0.1, 2.14, 1.95, 1.5, 0.9, t.landscape_painting(4)[::-1])
    wood = m.satin(t.wood(*WALNUT, 9, 1), 0.3)
    scene.add(box(1.25, 0.65, 0.05, 0.02).moved(0.1, -0.15, 0.40), wood)
    for dx in (-0.52, 0.52):
        for dy in (-0.24, 0.24):
            scene.add(
                tube(
                    [(0.1 + dx, -0.15 + dy, 0.40), (0.1 + dx * 1.1, -0.15 + dy * 1.2, 0.03)],
                    [0.03, 0.018],
                ),
                wood,
            )
    scene.add(
        vessel(smooth([(0.08, 0), (0.16, 0.05), (0.22, 0.11)]), 0.015).moved(0.25, -0.2, 0.45),
        m.glazed((0.90, 0.88, 0.84)),
    )
    for part, material in small_book(0.34, 0.24, 0.035, (0.55, 0.20, 0.16)):
        scene.add(part.turned(20).moved(-0.22, -0.1, 0.45), material)
    _bookcase(scene, -2.25, 1.95)
    _floor_lamp(scene, 1.85, 1.7)
    daylit(scene)
    return scene


def _bookcase(scene: Scene, x: float, y: float) -> None:
    oak = m.satin(t.wood(*OAK, 17, 1), 0.4)
    for dx in (-0.5, 0.5):
        scene.add(box(0.05, 0.36, 1.9, 0.01).moved(x + dx, y), oak)
    rng = np.random.default_rng(6)
    for level in range(5):
        scene.add(box(1.0, 0.36, 0.04, 0.01).moved(x, y, 0.06 + 0.45 * level), oak)
        along = -0.45
        while level < 4 and along < 0.3:
            thick, tall = rng.uniform(0.03, 0.07), rng.uniform(0.24, 0.36)
            paint = 0.15 + 0.65 * rng.uniform(0, 1, 3) * rng.uniform(0.5, 1.0)
            book = box(thick, 0.24, tall, 0.006).moved(x + along + thick / 2, y - 0.02)
            scene.add(book.moved(z=0.10 + 0.45 * level), m.satin(paint, 0.5))
            along += thick + 0.004


def _floor_lamp(scene: Scene, x: float, y: float) -> None:
    brass = m.metal("Au", 0.25)
    scene.add(cylinder(0.17, 0.03, 0.01).moved(x, y), brass)
    scene.add(tube([(x, y, 0.02), (x, y, 1.55)], 0.014), brass)
    shade = lathe([(0.26, 0.0), (0.17, 0.32)]).moved(x, y, 1.45)
    scene.add(shade, m.matte((0.93, 0.88, 0.78)), m.glowing((0.55, 0.47, 0.36)))


def _sofa(scene: Scene, x: float, y: float, paint: m.Paint) -> None:
    cloth = m.velvet(paint)
    scene.add(box(2.6, 1.0, 0.32, 0.08).moved(x, y, 0.16), cloth)
    for dx in (-0.56, 0.56):
        scene.add(box(1.1, 0.85, 0.22, 0.09).moved(x + dx, y - 0.08, 0.46), cloth)
        scene.add(box(1.1, 0.24, 0.55, 0.10).turned(-10, "x").moved(x + dx, y + 0.30, 0.60), cloth)
    for dx in (-1.25, 1.25):
        scene.add(box(0.26, 1.0, 0.62, 0.10).moved(x + dx, y, 0.14), cloth)
    scene.add(box(2.6, 0.22, 0.85, 0.08).moved(x, y + 0.45, 0.16), cloth)
    for dx in (-1.15, 1.15):
        for dy in (-0.4, 0.4):
            scene.add(cylinder(0.035, 0.17).moved(x + dx, y + dy), m.satin(WALNUT[0], 0.4))


def _cushion(size: float) -> Mesh:
    def field(p: Array) -> Array:
        x, y = np.abs(p[..., 0]), np.abs(p[..., 1])
        thick = 0.20 * np.sqrt(np.clip((1 - x**4) * (1 - y**4), 0, 1)) + 0.01
        return np.maximum(np.abs(p[..., 2]) - thick, np.maximum(x, y) - 0.99) * 0.6

    return mould(field, (-1.1, -1.1, -0.4), (1.1, 1.1, 0.4), 80).scaled(size / 2)


def _frame(
    scene: Scene, x: float, y: float, z: float, width: float, height: float, image: m.Paint
) -> None:
    """A framed picture on a wall along x."""
    rim = m.satin(WALNUT[1], 0.35)
    for dx in (-width / 2, width / 2):
        scene.add(
            box(0.07, 0.06, height + 0.07, 0.015).moved(x + dx, y, z - height / 2 - 0.035), rim
        )
    for dz in (-height / 2, height / 2):
        scene.add(box(width + 0.07, 0.06, 0.07, 0.015).moved(x, y, z + dz - 0.035), rim)
    canvas = sheet(width, height).turned(90, "x").moved(x, y + 0.01, z)
    scene.add(canvas, m.satin(image, 0.5))


def lamp_by_window() -> Scene:
    """A lit lamp on a side table by a window at dusk."""
    scene = Scene(Camera((0.35, -2.3, 1.5), (-0.05, 1.3, 1.36), 46), 768, 1024, exposure=-0.35)
    scene.add(sheet(8, 8, 2, 2), m.satin(t.wood(*WALNUT, 13, 6), 0.35))
    scene.add(
        wall(8, 5.0, (-1.5, 0.1, 0.95, 2.65)).moved(y=2.0),
        m.matte(t.wallpaper((0.66, 0.70, 0.62), (0.72, 0.76, 0.68), 12)),
    )
    _window(scene, -0.7, 2.02, 0.95, 1.6, 1.7)
    linen = m.matte(t.mottled((0.78, 0.72, 0.62), (0.84, 0.79, 0.70), 3, 30))
    scene.add(_curtain(0.55, 2.3, 4).moved(-1.65, 1.86, 0.55), linen)
    scene.add(_curtain(0.50, 2.3, 4).moved(0.25, 1.86, 0.55), linen)
    scene.add(tube([(-2.1, 1.86, 2.9), (0.7, 1.86, 2.9)], 0.025), m.metal("Cu", 0.3))
    table = m.satin(t.wood((0.40, 0.22, 0.12), (0.60, 0.36, 0.20), 5, 1), 0.3)
    scene.add(cylinder(0.55, 0.04, 0.015).moved(0.45, 1.1, 0.74), table)
    scene.add(
        lathe(smooth([(0.26, 0), (0.24, 0.05), (0.05, 0.12), (0.05, 0.65), (0.14, 0.74)])).moved(
            0.45, 1.1
        ),
        table,
    )
    clay = m.glazed((0.20, 0.36, 0.42))
    stand = smooth(
        [(0.13, 0), (0.14, 0.02), (0.17, 0.16), (0.07, 0.30), (0.03, 0.38), (0.03, 0.50)]
    )
    scene.add(lathe([(0, 0), *stand]).moved(0.5, 1.15, 0.78), clay)
    shade = lathe([(0.30, 0.0), (0.18, 0.34)]).moved(0.5, 1.15, 1.20)
    scene.add(
        shade,
        {
            "type": "twosided",
            "bsdf": {"type": "diffuse", "reflectance": m.colour((0.95, 0.85, 0.66))},
        },
        m.glowing((1.3, 0.86, 0.42)),
    )
    scene.add(ball(0.05).moved(0.5, 1.15, 1.36), m.matte((1, 1, 1)), m.glowing((160, 105, 52)))
    for part, material in small_book(0.26, 0.19, 0.04, (0.50, 0.14, 0.14)):
        scene.add(part.turned(-18).moved(0.22, 0.92, 0.78), material)
    for part, material in small_book(0.23, 0.17, 0.03, (0.80, 0.72, 0.50)):
        scene.add(part.turned(6).moved(0.22, 0.92, 0.82), material)
    hills = sheet(60, 6).turned(90, "x").moved(0, 26, -2.2)
    scene.add(hills, m.matte((0.45, 0.48, 0.58)))
    scene.gradient_sky((0.035, 0.06, 0.16), (0.30, 0.16, 0.12))
    scene.softbox((2.5, -4.0, 3.0), (0, 1.5, 1.0), 2.5, (0.9, 0.9, 1.1))
    return scene


def _window(scene: Scene, x: float, y: float, bottom: float, width: float, height: float) -> None:
    """A white frame with bars, in a wall along x."""
    white = m.satin((0.92, 0.92, 0.90), 0.4)
    bar = 0.07
    for dx in (-width / 2, 0.0, width / 2):
        scene.add(box(bar, 0.12, height + bar, 0.01).moved(x + dx, y, bottom - bar / 2), white)
    for dz in (0.0, height / 2, height):
        scene.add(box(width, 0.12, bar, 0.01).moved(x, y, bottom + dz - bar / 2), white)
    scene.add(box(width + 0.4, 0.5, 0.06, 0.015).moved(x, y - 0.2, bottom - 0.1), white)


def _curtain(width: float, height: float, folds: int) -> Mesh:
    u, v = np.meshgrid(np.linspace(0, 1, folds * 16), np.linspace(0, 1, 30))
    depth = 0.09 * np.sin(u * folds * 2 * np.pi) * (0.55 + 0.45 * (1 - v)) + 0.03 * np.sin(
        u * folds * 5 + v * 3
    )
    return grid(np.stack([width * (u - 0.5), depth, height * v], -1))


def desk() -> Scene:
    """A desk with a screen, pencils and a notebook."""
    scene = Scene(Camera((0.35, -2.5, 1.25), (0, 0.15, 0.34), 46, 0.012, (0, -0.1, 0.25)))
    scene.add(
        sheet(7, 2.4, 2, 0.7).moved(y=0.1),
        m.satin(t.wood((0.62, 0.45, 0.30), (0.80, 0.64, 0.46), 3, 3), 0.35),
    )
    scene.add(wall(9, 4).moved(y=1.3, z=-0.4), m.matte((0.84, 0.83, 0.80)))
    dark = m.satin((0.06, 0.06, 0.07), 0.3)
    scene.add(box(1.15, 0.05, 0.70, 0.02).turned(-4, "x").moved(-0.15, 0.62, 0.24), dark)
    view = t.landscape_painting(12)[::-1]
    shine = {"type": "area", "radiance": {**m.colour(view), "raw": False}}
    scene.add(
        sheet(1.09, 0.63).turned(86, "x").moved(-0.15, 0.585, 0.59),
        m.satin((0.02, 0.02, 0.02), 0.2),
        shine,
    )
    scene.add(box(0.10, 0.06, 0.30, 0.02).moved(-0.15, 0.67, 0.0), m.metal("Al", 0.3))
    scene.add(box(0.42, 0.26, 0.02, 0.01).moved(-0.15, 0.62, 0), m.metal("Al", 0.3))
    scene.add(box(0.92, 0.30, 0.03, 0.012).moved(-0.15, 0.08), m.satin((0.86, 0.86, 0.86), 0.4))
    keys = [
        box(0.05, 0.05, 0.018, 0.006, 2).moved(
            -0.555 + 0.0578 * i - 0.0 * j, -0.02 + 0.062 * j, 0.028
        )
        for i in range(15)
        for j in range(4)
    ]
    scene.add(join(keys), m.satin((0.96, 0.96, 0.95), 0.4))
    mug = vessel(smooth([(0.105, 0), (0.11, 0.01), (0.11, 0.26)]), 0.01)
    scene.add(mug.moved(0.85, 0.42), m.glazed((0.85, 0.42, 0.25)))
    rng = np.random.default_rng(4)
    for i, paint in enumerate(
        [
            (0.93, 0.72, 0.12),
            (0.15, 0.45, 0.65),
            (0.75, 0.12, 0.12),
            (0.2, 0.5, 0.25),
            (0.1, 0.1, 0.1),
        ]
    ):
        a = 1.3 * i
        lean = np.array([0.06 * math.cos(a), 0.06 * math.sin(a)])
        foot, top = (
            (0.85 - lean[0], 0.42 - lean[1], 0.02),
            (0.85 + 1.5 * lean[0], 0.42 + 1.5 * lean[1], 0.46 + rng.uniform(0, 0.08)),
        )
        scene.add(tube([foot, top], 0.013, 8), m.satin(paint, 0.35))
    scene.add(
        box(0.46, 0.62, 0.03, 0.01).turned(-14).moved(0.78, -0.32), m.satin((0.16, 0.26, 0.36), 0.5)
    )
    scene.add(
        box(0.43, 0.59, 0.02, 0.004).turned(-14).moved(0.785, -0.32, 0.004),
        m.matte((0.92, 0.90, 0.84)),
    )
    scene.add(
        tube([(0.66, -0.52, 0.044), (0.92, -0.14, 0.044)], 0.013, 10),
        m.satin((0.92, 0.72, 0.12), 0.35),
    )
    mouse = smooth([(0.075, 0.0), (0.08, 0.02), (0.06, 0.05), (0.0, 0.065)])
    scene.add(
        lathe(mouse).scaled(0.85, 1.35, 1).moved(0.46, 0.06), m.satin((0.92, 0.92, 0.92), 0.3)
    )
    scene.add(
        vessel(smooth([(0.13, 0), (0.16, 0.22), (0.17, 0.25)]), 0.012).moved(-1.12, 0.45),
        m.glazed((0.93, 0.93, 0.91)),
    )
    bush = leaves(
        420, 0.075, lambda r, n: r.normal(size=(n, 3)) * [0.13, 0.13, 0.12] + [-1.12, 0.45, 0.43], 7
    )
    scene.add(bush, m.satin(t.mottled((0.14, 0.36, 0.14), (0.34, 0.56, 0.24), 7, 200), 0.5))
    scene.softbox((-3.2, -0.6, 2.6), (0, 0.1, 0.2), 1.8, (22, 21.5, 20))
    scene.softbox((2.0, -3.0, 2.4), (0, 0.2, 0.2), 1.6, (3.5, 3.7, 4.2))
    scene.surroundings((0.35, 0.35, 0.37))
    return scene


SCENES = {
    "living-room": living_room,
    "lamp-by-window": lamp_by_window,
    "desk": desk,
}
