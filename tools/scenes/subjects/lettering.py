"""Things with words on them: a mug, a book, shop and road signs, a poster, labels."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image, ImageDraw

from tools.scenes import materials as m
from tools.scenes import textures as t
from tools.scenes.meshes import (
    Array,
    Mesh,
    ball,
    box,
    cylinder,
    grid,
    lathe,
    sheet,
    smooth,
    tube,
    vessel,
)
from tools.scenes.props import OAK, WALNUT, daylit, lit, table, wall
from tools.scenes.studio import Camera, Scene
from tools.scenes.subjects.greenery import FAR, tree

SANS, SERIF = "DejaVuSans-Bold", "DejaVuSerif-Bold"
SLANTED = "DejaVuSerif-BoldItalic"


def mug() -> Scene:
    """A white mug with two words on it, on a desk."""
    scene = Scene(Camera((0.25, -3.6, 1.25), (0.05, 0, 0.52), 34, 0.02, (0, -0.5, 0.5)))
    table(scene, t.wood(*OAK, 5))
    scene.backdrop(t.mottled((0.42, 0.52, 0.50), (0.50, 0.60, 0.57), 4, 260), depth=2.6)
    radius, high = 0.46, 1.0
    white = (0.93, 0.92, 0.89)
    body = smooth([(0.42, 0), (radius, 0.06), (radius, 0.06), (radius, high)])
    scene.add(vessel(body, 0.03), m.glazed(white))
    handle = smooth(
        [(0.43, 0, 0.82), (0.74, 0, 0.84), (0.82, 0, 0.52), (0.70, 0, 0.24), (0.43, 0, 0.22)]
    )
    scene.add(tube(handle, 0.055).turned(12), m.glazed(white))
    scene.add(cylinder(0.43, 0.02).moved(z=0.86), m.satin((0.16, 0.09, 0.05), 0.1))
    navy = (0.10, 0.18, 0.34)
    words = t.card(
        1200,
        800,
        white,
        [("GOOD", 0.36, 0.17, navy, SANS), ("MORNING", 0.64, 0.17, navy, SANS)],
    )
    scene.add(_around(radius + 0.003, 0.16, 0.86, -90, 62), m.glazed(words[::-1]))
    biscuit = m.satin(t.speckled((0.72, 0.50, 0.26), (0.42, 0.24, 0.10), 8, 26, 0.2), 0.8)
    for x, y, z, turn in ((-1.0, -0.42, 0.0, 0), (-0.86, -0.30, 0.085, 5)):
        scene.add(cylinder(0.23, 0.08, 0.03).turned(turn, "y").moved(x, y, z), biscuit)
    scene.add(box(0.86, 0.6, 0.05, 0.01).turned(-16).moved(1.05, 0.32), m.satin((0.72, 0.3, 0.2)))
    scene.add(
        tube([(0.82, 0.12, 0.08), (1.38, 0.36, 0.08)], [0.03, 0.03]), m.satin((0.9, 0.72, 0.2))
    )
    return lit(scene, 15, 0.32)


def novel() -> Scene:
    """A novel standing on a table, with its cover to the camera."""
    scene = Scene(Camera((0.35, -4.2, 1.25), (0.1, 0, 0.86), 33, 0.02, (0, -0.2, 0.9)), 768, 1024)
    table(scene, t.wood(*WALNUT, 15))
    scene.backdrop(t.mottled((0.66, 0.60, 0.50), (0.74, 0.68, 0.58), 9, 300), depth=2.6)
    width, high, thick = 1.22, 1.78, 0.26
    turn = 9.0
    cloth = m.satin((0.10, 0.24, 0.30), 0.55)

    def put(part: Mesh, material: m.Material) -> None:
        scene.add(part.turned(turn).moved(0.0, 0.1), material)

    put(box(width, 0.03, high, 0.01).moved(0, -thick / 2), cloth)
    put(box(width, 0.03, high, 0.01).moved(0, thick / 2), cloth)
    put(box(0.04, thick, high, 0.015).moved(-width / 2 + 0.02), cloth)
    pages = t.stripes([(0.92, 0.89, 0.80), (0.82, 0.78, 0.67)], 50)
    put(box(width - 0.09, thick - 0.04, high - 0.06, 0.01).moved(0, 0, 0.03), m.matte(pages))
    cover = _harbour(1024, 1494)
    put(
        sheet(width - 0.02, high - 0.02).turned(90, "x").moved(0, -thick / 2 - 0.018, high / 2),
        m.satin(cover[::-1], 0.45),
    )
    shell = lathe(smooth([(0.0, 0.0), (0.2, 0.02), (0.24, 0.12), (0.10, 0.22), (0, 0.25)]))
    scene.add(
        shell.turned(30, "x").moved(-0.85, -0.45, 0.03),
        m.satin(t.mottled((0.90, 0.78, 0.66), (0.80, 0.58, 0.46), 5, 60), 0.35),
    )
    scene.add(ball(0.17).moved(0.92, -0.42, 0.17), m.glass((0.75, 0.92, 0.95)))
    return lit(scene, 15, 0.32)


def _harbour(width: int, height: int) -> Array:
    cream, ink, red = (0.94, 0.90, 0.80), (0.08, 0.16, 0.22), (0.78, 0.24, 0.16)
    page = t.card(
        width,
        height,
        (0.20, 0.42, 0.50),
        [
            ("THE LAST", 0.13, 0.068, cream, SERIF),
            ("HARBOUR", 0.235, 0.082, cream, SERIF),
            ("A NOVEL", 0.325, 0.026, cream, SANS),
        ],
    )
    image = Image.fromarray(np.rint(page * 255).astype(np.uint8))
    draw = ImageDraw.Draw(image)

    def rgb(colour: tuple[float, float, float]) -> tuple[int, ...]:
        return tuple(round(255 * v) for v in colour)

    draw.ellipse(
        (0.58 * width, 0.40 * height, 0.82 * width, 0.565 * height), rgb((0.95, 0.74, 0.35))
    )
    for i, shade in enumerate(((0.12, 0.30, 0.38), (0.09, 0.24, 0.32), (0.07, 0.18, 0.26))):
        top = (0.66 + 0.10 * i) * height
        waves = [
            (x, top + 0.012 * height * math.sin(x / width * 2 * math.pi * (3 + i) + i))
            for x in range(0, width + 1, 8)
        ]
        draw.polygon([*waves, (width, height), (0, height)], rgb(shade))
        if i == 0:
            left, right, deck = 0.24 * width, 0.62 * width, 0.665 * height
            hull = [(left, deck), (right, deck), (right - 60, deck + 75), (left + 60, deck + 75)]
            mast = 0.42 * width
            draw.rectangle((mast - 6, 0.44 * height, mast + 6, deck), rgb(ink))
            draw.polygon(
                [(mast + 16, 0.46 * height), (mast + 16, 0.65 * height), (right, 0.65 * height)],
                rgb(cream),
            )
            draw.polygon(
                [(mast - 16, 0.48 * height), (mast - 16, 0.65 * height), (left, 0.65 * height)],
                rgb(red),
            )
            draw.polygon(hull, rgb(red))
    return np.asarray(image, dtype=np.float64) / 255


def bakery() -> Scene:
    """A shop front with its name on a board, a striped awning and a bench."""
    scene = Scene(Camera((-0.7, -8.2, 1.7), (0.0, 0, 1.85), 47), exposure=0.1)
    paving = t.tiles((0.58, 0.56, 0.52), (0.42, 0.41, 0.39), 8, 8, 5, 0.5, 0.03, 0.10)
    scene.add(sheet(30, 12, 14, 6).moved(y=-5.0), m.satin(paving, 0.8))
    bricks = t.tiles((0.66, 0.42, 0.32), (0.78, 0.74, 0.68), 8, 24, 9, 0.5, 0.06, 0.18)
    scene.add(wall(24, 7), m.matte(bricks))
    green = m.satin((0.14, 0.30, 0.26), 0.4)
    pane = m.satin((0.12, 0.15, 0.18), 0.05, 0.8)
    cream = (0.95, 0.91, 0.80)
    scene.add(box(5.2, 0.16, 3.0, 0.02).moved(0.2, -0.06), green)
    scene.add(box(2.9, 0.06, 1.65, 0.02).moved(-0.75, -0.15, 0.70), pane)
    for x in (-2.25, -0.75, 0.75):
        scene.add(box(0.09, 0.14, 1.75, 0.01).moved(x, -0.16, 0.66), green)
    scene.add(
        box(1.1, 0.07, 2.25, 0.02).moved(1.85, -0.15, 0.05), m.satin((0.10, 0.23, 0.20), 0.35)
    )
    scene.add(box(0.76, 0.06, 1.15, 0.02).moved(1.85, -0.19, 0.98), pane)
    scene.add(ball(0.05).moved(2.28, -0.24, 1.08), m.metal("Au", 0.2))
    board = t.card(2048, 330, (0.14, 0.30, 0.26), [("BAKERY", 0.5, 0.56, cream, SERIF)])
    scene.add(box(5.0, 0.10, 0.82, 0.02).moved(0.2, -0.18, 2.98), green)
    scene.add(
        sheet(4.8, 0.773).turned(90, "x").moved(0.2, -0.236, 3.39), m.satin(board[::-1], 0.45)
    )
    awning = t.stripes([(0.86, 0.80, 0.66), (0.62, 0.20, 0.16)], 8)
    scene.add(sheet(3.4, 1.1).turned(-28, "x").moved(-0.75, -0.70, 2.62), m.matte(awning))
    scene.add(sheet(3.4, 0.22).turned(90, "x").moved(-0.75, -1.19, 2.26), m.matte(awning))
    wood = m.satin(t.wood(*OAK, 7, 1), 0.5)
    for y, z in ((-0.95, 0.46), (-0.78, 0.46), (-0.61, 0.46)):
        scene.add(box(1.7, 0.13, 0.05, 0.02).moved(-0.85, y, z), wood)
    for x in (-1.5, -0.2):
        scene.add(box(0.08, 0.46, 0.46, 0.02).moved(x, -0.78), m.satin((0.08, 0.09, 0.09), 0.4))
    pot = lathe([(0, 0), *smooth([(0.22, 0), (0.30, 0.45), (0.33, 0.47)]), (0.28, 0.44)])
    scene.add(pot.moved(3.35, -0.55), m.satin((0.66, 0.36, 0.24), 0.7))
    tree(scene, 3.35, -0.55, 1.9, 5)
    for x in (-3.9, 4.9):
        scene.add(box(1.1, 0.08, 1.6, 0.02).moved(x, -0.02, 3.3), pane)
        scene.add(
            box(1.35, 0.2, 0.12, 0.02).moved(x, -0.06, 3.16), m.satin((0.88, 0.84, 0.76), 0.6)
        )
    scene.add(box(24, 0.5, 0.25, 0.03).moved(0, -0.1, 4.3), m.satin((0.84, 0.80, 0.72), 0.7))
    scene.sky((-0.5, -0.75, 0.55))
    return scene


def concert_poster() -> Scene:
    """A framed poster on a wall above a sideboard."""
    scene = Scene(Camera((0.25, -4.6, 1.45), (0, 0.9, 1.35), 40))
    scene.add(sheet(12, 12, 3, 3), m.satin(t.wood(*WALNUT, 3, 8), 0.35))
    scene.add(
        wall(12, 5.0).moved(y=1.3),
        m.matte(t.mottled((0.80, 0.76, 0.68), (0.84, 0.80, 0.73), 8, 300)),
    )
    scene.add(box(12, 0.03, 0.14, 0.01).moved(y=1.27), m.satin((0.93, 0.93, 0.91), 0.4))
    oak = m.satin(t.wood(*OAK, 17, 2), 0.4)
    scene.add(box(2.7, 0.55, 0.55, 0.02).moved(-0.25, 0.95, 0.22), oak)
    for x in (-1.45, 0.95):
        scene.add(box(0.07, 0.5, 0.24, 0.01).moved(x, 0.95), oak)
    for x in (-1.13, -0.25, 0.63):
        scene.add(
            box(0.84, 0.02, 0.47, 0.01).moved(x, 0.665, 0.26),
            m.satin(t.wood(*OAK, int(90 + x * 10), 1), 0.4),
        )
        scene.add(ball(0.03).moved(x, 0.64, 0.62), m.metal("Au", 0.25))
    poster = _jazz(1024, 1400)
    width, high, z = 1.06, 1.45, 1.06
    scene.add(
        box(width + 0.10, 0.05, high + 0.10, 0.01).moved(-0.25, 1.26, z - 0.05),
        m.satin((0.07, 0.07, 0.07), 0.35),
    )
    scene.add(
        sheet(width, high).turned(90, "x").moved(-0.25, 1.228, z + high / 2), m.matte(poster[::-1])
    )
    jar = smooth([(0.13, 0), (0.19, 0.14), (0.10, 0.34), (0.12, 0.40)])
    scene.add(vessel(jar, 0.015).moved(-1.2, 0.95, 0.77), m.glazed((0.26, 0.40, 0.50)))
    for i in range(7):
        a = i * 0.9
        stalk = smooth(
            [
                (0, 0, 0.3),
                (0.10 * math.cos(a), 0.08 * math.sin(a), 0.55),
                (0.24 * math.cos(a), 0.16 * math.sin(a), 0.78),
            ]
        )
        scene.add(tube(stalk, 0.008, 8).moved(-1.2, 0.95, 0.77), m.matte((0.30, 0.42, 0.20)))
        scene.add(
            ball(0.045, 24).moved(-1.2 + 0.24 * math.cos(a), 0.95 + 0.16 * math.sin(a), 1.55),
            m.matte((0.92, 0.80, 0.42)),
        )
    daylit(scene, 28)
    return scene


def _jazz(width: int, height: int) -> Array:
    cream, red, ink = (0.95, 0.90, 0.78), (0.80, 0.22, 0.16), (0.10, 0.12, 0.16)
    page = t.card(
        width,
        height,
        cream,
        [
            ("JAZZ", 0.155, 0.150, ink, SANS),
            ("NIGHT", 0.335, 0.115, red, SANS),
            ("FRIDAY 8 PM", 0.925, 0.050, ink, SANS),
        ],
    )
    image = Image.fromarray(np.rint(page * 255).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    for radius, shade in ((0.225, ink), (0.150, (0.20, 0.23, 0.29)), (0.085, red), (0.018, cream)):
        r = radius * height
        x, y = width / 2, 0.64 * height
        draw.ellipse((x - r, y - r, x + r, y + r), tuple(round(255 * v) for v in shade))
    return np.asarray(image, dtype=np.float64) / 255


def chalkboard() -> Scene:
    """A café's board on the pavement, with the soup of the day."""
    scene = Scene(
        Camera((0.6, -4.4, 1.35), (0.05, 0, 0.92), 38, 0.015, (0, -0.3, 1.0)), 768, 1024, 0.15
    )
    stones = t.tiles((0.55, 0.53, 0.50), (0.38, 0.37, 0.35), 6, 6, 15, 0.5, 0.03, 0.14)
    scene.add(sheet(24, 10, 12, 5).moved(y=-3.0), m.satin(stones, 0.8))
    scene.add(
        wall(24, 6).moved(y=2.0),
        m.matte(t.mottled((0.78, 0.70, 0.56), (0.84, 0.76, 0.62), 12, 260)),
    )
    scene.add(box(24, 0.06, 0.5, 0.02).moved(0, 1.95), m.satin((0.44, 0.42, 0.40), 0.7))
    frame = m.satin(t.wood((0.40, 0.24, 0.13), (0.60, 0.40, 0.24), 21, 1), 0.5)
    width, high, lean = 1.12, 1.66, 9.0

    def put(part: Mesh, material: m.Material) -> None:
        scene.add(part.turned(-lean, "x").turned(-8), material)

    slate = t.mottled((0.10, 0.12, 0.12), (0.15, 0.17, 0.17), 6, 120)
    words = t.card(
        1024,
        1380,
        (0, 0, 0),
        [
            ("SOUP OF", 0.20, 0.072, (1, 1, 1), SANS),
            ("THE DAY", 0.34, 0.072, (1, 1, 1), SANS),
            ("tomato", 0.56, 0.100, (1, 1, 1), SLANTED),
            ("& basil", 0.71, 0.082, (1, 1, 1), SLANTED),
        ],
    )
    grain = t.noise(1400, 5, 3, 2)[:1380, :1024]
    chalk = words[..., :1] * (0.62 + 0.38 * grain[..., None])
    ground = np.kron(slate, np.ones((2, 1, 1)))[:1380, :1024]
    face = np.clip(ground * (1 - chalk) + chalk * np.array([0.96, 0.95, 0.90]), 0, 1)
    put(
        sheet(width, high - 0.18).turned(90, "x").moved(0, -0.045, 0.18 + (high - 0.18) / 2),
        m.matte(face[::-1]),
    )
    put(box(width, 0.05, high - 0.2, 0.01).moved(0, 0, 0.18), m.matte((0.12, 0.13, 0.13)))
    for x in (-width / 2, width / 2):
        put(box(0.10, 0.09, high, 0.02).moved(x, 0, 0.02), frame)
    for z in (0.14, high - 0.04):
        put(box(width + 0.1, 0.09, 0.10, 0.02).moved(0, 0, z), frame)
    scene.add(box(0.09, 0.07, 1.6, 0.02).turned(14, "x").moved(-0.55, 0.60), frame)
    scene.add(box(0.09, 0.07, 1.6, 0.02).turned(14, "x").moved(0.50, 0.48), frame)
    pot = lathe([(0, 0), *smooth([(0.17, 0), (0.25, 0.36), (0.28, 0.38)]), (0.22, 0.34)])
    scene.add(pot.moved(1.15, 0.8), m.satin((0.70, 0.40, 0.28), 0.7))
    tree(scene, 1.15, 0.8, 1.25, 9)
    scene.sky((-0.45, -0.8, 0.55))
    return scene


def road_sign() -> Scene:
    """A road through meadows with a town's sign beside it."""
    scene = Scene(Camera((-0.4, -7.4, 1.8), (0.2, 0, 1.75), 47), exposure=0.1)
    grass = t.mottled((0.24, 0.38, 0.12), (0.42, 0.52, 0.20), 3, 60)
    scene.add(sheet(FAR, FAR, FAR / 6, FAR / 6), m.matte(grass))
    asphalt = t.speckled((0.28, 0.28, 0.29), (0.38, 0.38, 0.39), 3, 5, 0.3)
    scene.add(sheet(3.8, 400, 2, 200).moved(-2.7, 190, 0.012), m.satin(asphalt, 0.8))
    paint = m.matte((0.88, 0.88, 0.85))
    for x in (-4.42, -0.98):
        scene.add(sheet(0.12, 400).moved(x, 190, 0.02), paint)
    for i in range(30):
        scene.add(sheet(0.13, 1.4).moved(-2.7, -5.4 + 3.2 * i, 0.02), paint)
    steel = m.metal("Al", 0.4)
    for x in (0.75, 2.65):
        scene.add(cylinder(0.055, 2.80, 0.01).moved(x, 0.4), steel)
    blue = (0.10, 0.24, 0.44)
    face = t.card(
        1600,
        800,
        (0.96, 0.96, 0.93),
        [("WELCOME TO", 0.30, 0.13, blue, SANS), ("LAKEVIEW", 0.63, 0.22, blue, SANS)],
    )
    edge = np.ones((800, 1600), bool)
    edge[28:-28, 28:-28] = False
    face[edge] = blue
    scene.add(box(2.7, 0.05, 1.37, 0.03).moved(1.7, 0.34, 1.40), steel)
    scene.add(sheet(2.66, 1.33).turned(90, "x").moved(1.7, 0.312, 2.085), m.satin(face[::-1], 0.4))
    for x, y, tall, seed in (
        (-9.0, 12.0, 4.6, 3),
        (-12.5, 19.0, 5.2, 15),
        (-7.0, 27.0, 5.0, 21),
        (1.5, 24.0, 5.4, 7),
        (6.0, 30.0, 5.2, 11),
        (12.0, 26.0, 5.6, 29),
    ):
        tree(scene, x, y, tall, seed)
    scene.sky((-0.55, -0.6, 0.6))
    return scene


def jam_jars() -> Scene:
    """Three jars of jam with paper labels."""
    scene = Scene(Camera((0.1, -4.5, 1.2), (0, 0, 0.58), 41, 0.02, (0, -0.4, 0.55)), exposure=0.2)
    table(scene, t.gingham((0.70, 0.24, 0.20), (0.93, 0.90, 0.84), 14))
    scene.backdrop(t.mottled((0.70, 0.66, 0.56), (0.77, 0.73, 0.64), 6, 300), depth=2.4)
    corner, shoulder = (0.40, 0.06), (0.40, 0.70)
    outline = smooth([(0.36, 0), corner, corner, shoulder, shoulder, (0.31, 0.86), (0.31, 0.92)])
    paper, ink = (0.95, 0.92, 0.83), (0.22, 0.12, 0.08)
    for x, y, words, jam in (
        (-1.06, 0.12, "PLUM", (0.26, 0.06, 0.16)),
        (0.0, -0.22, "HONEY", (0.80, 0.48, 0.08)),
        (1.06, 0.12, "CHERRY", (0.52, 0.04, 0.06)),
    ):
        scene.add(
            lathe([(0, 0), *outline, (0, 0.92)]).moved(x, y), m.satin(jam, 0.08, clearcoat=1.0)
        )
        scene.add(cylinder(0.325, 0.17, 0.03).moved(x, y, 0.89), m.metal("Au", 0.28))
        label = t.card(1000, 560, paper, [(words, 0.50, 0.20, ink, SERIF)])
        border = np.zeros((560, 1000), bool)
        border[24:34, 24:-24] = border[-34:-24, 24:-24] = True
        border[24:-24, 24:34] = border[24:-24, -34:-24] = True
        label[border] = ink
        facing = -90 - math.degrees(math.atan2(x - 0.1, 4.5))
        scene.add(_around(0.406, 0.18, 0.62, facing, 52).moved(x, y), m.matte(label[::-1]))
    spoon = tube(smooth([(-0.75, -0.95, 0.03), (-0.2, -0.98, 0.05), (0.1, -1.0, 0.03)]), 0.022)
    bowl = ball(0.12).scaled(1.5, 1, 0.25).moved(0.22, -1.0, 0.04)
    scene.add(spoon + bowl, m.satin(t.wood(*OAK, 2, 1), 0.5))
    return lit(scene, 14, 0.4)


def _around(radius: float, low: float, high: float, facing: float, half: float) -> Mesh:
    """A label around an upright cylinder, extending `half` degrees to each side of its middle."""
    angle = np.radians(np.linspace(facing - half, facing + half, 48))
    rows = [
        [[radius * math.cos(a), radius * math.sin(a), z] for a in angle]
        for z in np.linspace(low, high, 6)
    ]
    return grid(np.array(rows))


SCENES = {
    "mug": mug,
    "novel": novel,
    "bakery": bakery,
    "concert-poster": concert_poster,
    "chalkboard": chalkboard,
    "road-sign": road_sign,
    "jam-jars": jam_jars,
}
