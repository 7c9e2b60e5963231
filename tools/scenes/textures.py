"""Procedural textures that tile: arrays (height, width, 3) of sRGB in 0..1."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from tools.scenes.meshes import Array

Colour = Sequence[float] | Array


def noise(size: int, scale: float, seed: int, octaves: int = 4, stretch: float = 1.0) -> Array:
    """Soft noise in 0..1: features of up to `scale` pixels, `stretch` times as long along x."""
    rng = np.random.default_rng(seed)
    fy, fx = np.meshgrid(np.fft.fftfreq(size), np.fft.rfftfreq(size), indexing="ij")
    total = np.zeros((size, size))
    for octave in range(octaves):
        sigma = scale / 2**octave / 2
        # A Gaussian blur in the frequency domain wraps around, so the texture tiles.
        blur = np.exp(-2 * (np.pi * sigma) ** 2 * (fy**2 + (fx * stretch) ** 2))
        layer = np.fft.irfft2(np.fft.rfft2(rng.normal(size=(size, size))) * blur, (size, size))
        total += layer / (layer.std() + 1e-12) / 2**octave
    low, high = np.percentile(total, [1, 99])
    return np.clip((total - low) / (high - low), 0, 1)


def mix(one: Colour, two: Colour, amount: Array) -> Array:
    """Interpolate between two colours by an amount in 0..1."""
    a, b = np.array(one, dtype=np.float64), np.array(two, dtype=np.float64)
    return a + (b - a) * np.clip(amount, 0, 1)[..., None]


def wood(dark: Colour, light: Colour, seed: int, planks: int = 4, size: int = 1024) -> Array:
    """Boards along x with grain, seams and boards of different tone."""
    rng = np.random.default_rng(seed)
    y = np.arange(size)[:, None]
    board = y * planks // size
    drift = noise(size, size / 4, seed + 1, 3, stretch=6)
    rings = np.sin(
        (y / size * planks * 3 + drift * 5 + rng.uniform(0, 9, planks)[board]) * 2 * np.pi
    )
    fibre = noise(size, 6, seed + 2, 3, stretch=40)
    tone = rng.uniform(-0.18, 0.18, planks)[board]
    amount = 0.5 + 0.18 * rings + 0.45 * (fibre - 0.5) + tone
    image = mix(dark, light, amount)
    if planks > 1:
        seam = np.minimum(y % (size // planks), -y % (size // planks))
        image *= np.where(seam < 2, 0.45, 1.0)[..., None]
    return np.clip(image, 0, 1)


def marble(base: Colour, vein: Colour, seed: int, size: int = 1024) -> Array:
    """Clouded stone with thin dark veins."""
    field = noise(size, size / 3, seed, 6)
    veins = np.clip(1 - np.abs(field - 0.5) * 14, 0, 1) ** 2
    cloud = noise(size, size / 5, seed + 1, 5)
    return mix(base, vein, 0.15 * cloud + 0.6 * veins * noise(size, size / 4, seed + 2))


def tiles(
    colour: Colour,
    joint: Colour,
    across: int,
    down: int,
    seed: int,
    shift: float = 0.0,
    gap: float = 0.03,
    variation: float = 0.12,
    size: int = 1024,
) -> Array:
    """Tiles or bricks with joints; `shift` moves every second row sideways."""
    rng = np.random.default_rng(seed)
    v, u = np.mgrid[0:size, 0:size] / size
    row = np.floor(v * down).astype(int)
    x = (u * across + shift * (row % 2)) % across
    column = np.floor(x).astype(int) % across
    fx, fy = x % 1, v * down % 1
    edge_x = np.minimum(fx, 1 - fx) * down / across
    edge_y = np.minimum(fy, 1 - fy)
    inside = np.clip((np.minimum(edge_x * across / down, edge_y) - gap) / 0.012, 0, 1)
    tone = 1 + rng.uniform(-variation, variation, (down, across))[row, column]
    rough = 1 + 0.25 * variation * (noise(size, 20, seed + 1, 4) - 0.5) * 4
    image = np.array(colour) * (tone * rough)[..., None]
    return np.clip(np.array(joint) * (1 - inside)[..., None] + image * inside[..., None], 0, 1)


def checks(one: Colour, two: Colour, across: int, size: int = 1024) -> Array:
    """A chessboard of `across` x `across` squares."""
    v, u = np.mgrid[0:size, 0:size] * across // size
    return mix(one, two, ((u + v) % 2).astype(np.float64))


def gingham(colour: Colour, ground: Colour, across: int, size: int = 1024) -> Array:
    """Checked tablecloth with a woven grain."""
    v, u = np.mgrid[0:size, 0:size] * across * 2 // size
    amount = ((u % 2) + (v % 2)) / 2
    weave = 1 + 0.06 * np.sin(np.mgrid[0:size, 0:size].sum(axis=0) * 1.9)
    return np.clip(mix(ground, colour, amount) * weave[..., None], 0, 1)


def stripes(colours: Sequence[Colour], repeats: int = 1, size: int = 1024) -> Array:
    """Bands of equal width along x."""
    u = np.arange(size) * len(colours) * repeats // size % len(colours)
    return np.broadcast_to(np.array(colours, dtype=np.float64)[u], (size, size, 3)).copy()


def speckled(
    base: Colour, spot: Colour, seed: int, scale: float = 12, share: float = 0.2, size: int = 1024
) -> Array:
    """Spots of one colour on another: fruit skin, gravel, terrazzo."""
    field = noise(size, scale, seed, 3)
    edge = np.quantile(field, 1 - share)
    return mix(base, spot, np.clip((field - edge) * 12, 0, 1))


def mottled(
    one: Colour, two: Colour, seed: int, scale: float = 200, octaves: int = 5, size: int = 1024
) -> Array:
    """A cloudy mixture of two colours: plaster, earth, foliage, cloth."""
    return mix(one, two, noise(size, scale, seed, octaves))


def wallpaper(ground: Colour, motif: Colour, across: int, size: int = 1024) -> Array:
    """A damask of rosettes in offset rows."""
    v, u = np.mgrid[0:size, 0:size] / size * across
    u = u + 0.5 * (np.floor(v) % 2)
    x, y = u % 1 - 0.5, v % 1 - 0.5
    angle, radius = np.arctan2(y, x), np.hypot(x, y)
    petals = 0.26 + 0.12 * np.cos(6 * angle)
    amount = np.clip((petals - radius) * 30, 0, 1) * np.clip((radius - 0.06) * 30, 0, 1)
    return mix(ground, motif, amount)


def landscape_painting(seed: int, size: int = 512) -> Array:
    """A small painted view for a frame on a wall: sky, hills, meadow."""
    v = np.linspace(0, 1, size)[:, None] * np.ones((1, size))
    image = mix((0.36, 0.56, 0.78), (0.95, 0.86, 0.70), v * 1.8)
    for i, (level, colour) in enumerate(
        [(0.45, (0.42, 0.50, 0.62)), (0.58, (0.30, 0.45, 0.36)), (0.72, (0.52, 0.58, 0.24))]
    ):
        ridge = level + 0.16 * (noise(size, size / 3, seed + i, 3)[0] - 0.5)
        image = np.where(
            (v > ridge)[..., None], np.array(colour) * (1.15 - 0.3 * v[..., None]), image
        )
    return np.clip(image + 0.10 * (noise(size, 14, seed + 9, 2, stretch=3) - 0.5)[..., None], 0, 1)


def card(
    width: int, height: int, ground: Colour, lines: Sequence[tuple[str, float, float, Colour, str]]
) -> Array:
    """A card with words; each line is (words, centre, capitals, colour, font).

    `centre` is the distance of the line's centre from the top, and `capitals` the height of its
    capitals, both as shares of the card's height. Fonts are matplotlib's: "DejaVuSerif-Bold".
    """
    image = Image.new("RGB", (width, height), _bytes(ground))
    draw = ImageDraw.Draw(image)
    for words, centre, tall, colour, font in lines:
        face = ImageFont.truetype(_font(font), tall * height / 0.73)
        draw.text(
            (width / 2, centre * height + tall * height / 2),
            words,
            _bytes(colour),
            face,
            anchor="ms",
        )
    return np.asarray(image, dtype=np.float64) / 255


def _bytes(colour: Colour) -> tuple[int, int, int]:
    red, green, blue = (round(255 * float(v)) for v in colour)
    return red, green, blue


def _font(name: str) -> str:
    spec = importlib.util.find_spec("matplotlib")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("scenes with words need matplotlib's fonts: pip install matplotlib")
    return f"{spec.submodule_search_locations[0]}/mpl-data/fonts/ttf/{name}.ttf"
