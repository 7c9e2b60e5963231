"""A drawn scene and known kinds of damage, the same on every machine."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

Damage = Callable[[Image.Image], Image.Image]


def scene() -> Image.Image:
    """Draw things on a table, with a little grain."""
    image = Image.new("RGB", (320, 240), (196, 178, 150))
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 150, 320, 240), (120, 84, 58))
    for left in range(0, 320, 40):
        draw.line((left, 0, left + 30, 150), (176, 156, 128), 3)
    draw.ellipse((40, 90, 110, 170), (70, 110, 160))
    draw.rectangle((150, 60, 190, 165), (60, 140, 80))
    draw.polygon([(230, 165), (260, 95), (290, 165)], (190, 60, 50))
    grain = np.random.RandomState(3).normal(0, 2, (240, 320, 3))
    return Image.fromarray(np.clip(np.rint(np.asarray(image) + grain), 0, 255).astype(np.uint8))


def noise(strength: float) -> Damage:
    def damage(image: Image.Image) -> Image.Image:
        shape = (image.height, image.width, 3)
        added = np.asarray(image) + np.random.RandomState(11).normal(0, strength, shape)
        return Image.fromarray(np.clip(np.rint(added), 0, 255).astype(np.uint8))

    return damage


def jpeg(quality: int) -> Damage:
    def damage(image: Image.Image) -> Image.Image:
        stream = io.BytesIO()
        image.save(stream, "JPEG", quality=quality)
        return Image.open(stream).convert("RGB")

    return damage


def zoom(share: float) -> Damage:
    def damage(image: Image.Image) -> Image.Image:
        across, down = (round(side * share / 2) for side in image.size)
        box = (across, down, image.width - across, image.height - down)
        return image.crop(box).resize(image.size, Image.Resampling.BICUBIC)

    return damage


def blur(radius: float) -> Damage:
    return lambda image: image.filter(ImageFilter.GaussianBlur(radius))


def erased(image: Image.Image) -> Image.Image:
    """Inpaint the middle of the image from its surroundings."""
    import cv2

    values = np.array(image)
    height, width = values.shape[:2]
    mask = np.zeros((height, width), np.uint8)
    mask[int(0.4 * height) : int(0.6 * height), int(0.4 * width) : int(0.6 * width)] = 255
    return Image.fromarray(np.asarray(cv2.inpaint(values, mask, 5, cv2.INPAINT_TELEA)))


def another_hue(image: Image.Image) -> Image.Image:
    """Rotate the hue in the middle of the image by a third of the circle."""
    values = np.array(image.convert("HSV"))
    height, width = values.shape[:2]
    middle = np.s_[int(0.35 * height) : int(0.65 * height), int(0.35 * width) : int(0.65 * width)]
    values[(*middle, 0)] = (values[(*middle, 0)].astype(int) + 85) % 256
    return Image.fromarray(values, "HSV").convert("RGB")


#: Damages, named as in the golden values that the reference implementation computed.
DAMAGES: dict[str, Damage] = {
    "jpeg75": jpeg(75),
    "jpeg10": jpeg(10),
    "noise4": noise(4),
    "noise16": noise(16),
    "blur1": blur(1),
    "blur3": blur(3),
    "zoom4": zoom(0.04),
    "centre erased": erased,
    "centre hue": another_hue,
}
