"""Cold audits: before any trip, the model must remove an object that we drew into the source.

An endpoint that cheats with stored images cannot have stored this answer, so it must edit. The loss
of this one edit is compared with the loss of the chain in three trips (docs/method.md). The drawing
is varied at random, by the run's secret, so that it differs from every public drawing.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
from PIL import Image

from evaluation.audits.plan import Audit, object_of
from evaluation.content.annotations import Annotations
from evaluation.content.suites import EditPair
from evaluation.editors.instructions import follow, widened
from evaluation.images import EncodedImage, clean_wire

Values = npt.NDArray[np.float32]
Random = np.random.Generator

#: Limits of the variation: rotation in degrees, scale, and bend as shares of the drawing's box.
TURN, SCALE, BEND = 7.0, (0.88, 1.12), (0.015, 0.04)
#: Shift of hue in degrees, factors of saturation and brightness, and depth of the shading.
HUE, COLOUR, SHADE = (6.0, 18.0), (0.8, 1.2), 0.14
#: A rim of this width around the drawing is not measured, as a share of the shorter side.
RIM = 0.03


class Cold:
    """The request of a cold audit. The same secret always gives the same image."""

    def __init__(
        self,
        audit: Audit,
        secret: str,
        pair: EditPair,
        source: EncodedImage,
        annotations: Annotations,
    ) -> None:
        instruction = object_of(pair)
        if instruction is None:
            raise ValueError(f"nothing can be drawn for {pair.slug}")
        self.source, self.category = source, pair.category
        before = np.asarray(source.decoded)
        public = np.asarray(follow(instruction, source.decoded, annotations))
        drawn, cover = _varied(before, public, audit.random(secret))
        self._changed = (public != before).any(axis=2) | (cover > 0)
        self.sent = clean_wire(EncodedImage.from_image(Image.fromarray(drawn)))
        self.words = f"{instruction.subject} was drawn into the source image"

    @cached_property
    def covered(self) -> npt.NDArray[np.bool_]:
        """The pixels that are not measured."""
        return widened(self._changed, max(2, round(RIM * min(self.source.size))))

    def outside(self, image: Image.Image) -> Image.Image:
        """Return the image with the covered pixels replaced by those of the source."""
        pixels = np.where(
            self.covered[..., None], np.asarray(self.source.decoded), np.asarray(image)
        )
        return Image.fromarray(pixels)


def _varied(
    before: npt.NDArray[np.uint8], public: npt.NDArray[np.uint8], random: Random
) -> tuple[npt.NDArray[np.uint8], Values]:
    """Vary the public drawing; return the image and the drawing's coverage of each pixel."""
    import cv2

    mask = (public != before).any(axis=2)
    if not mask.any():
        return before, mask.astype(np.float32)
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    middle = np.array([columns[0] + columns[-1], rows[0] + rows[-1]]) / 2
    half = np.array([columns[-1] - columns[0], rows[-1] - rows[0]]) / 2 + 1
    turn = np.radians(random.uniform(-TURN, TURN))
    across, down = random.uniform(*SCALE, 2)
    bend = random.uniform(*BEND, 2) * random.choice([-1, 1], 2)
    waves, phases = random.uniform(0.7, 1.4, 2), random.uniform(0, 2 * np.pi, 2)
    y, x = np.mgrid[: mask.shape[0], : mask.shape[1]].astype(np.float64)
    u, v = x - middle[0], y - middle[1]
    u, v = u * np.cos(turn) + v * np.sin(turn), v * np.cos(turn) - u * np.sin(turn)
    u, v = u / (across * half[0]), v / (down * half[1])
    u, v = (
        u + bend[0] * np.sin(np.pi * waves[0] * v + phases[0]),
        v + bend[1] * np.sin(np.pi * waves[1] * u + phases[1]),
    )
    at = [(part * half[axis] + middle[axis]).astype(np.float32) for axis, part in enumerate((u, v))]
    cover = np.asarray(cv2.remap(mask.astype(np.float32), at[0], at[1], cv2.INTER_LINEAR))
    layer = cv2.remap(public, at[0], at[1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    shade = 1 + SHADE * np.sin(np.pi * (waves[1] * u - waves[0] * v) + phases[1])
    ink = _recoloured(layer, random) * shade[..., None].astype(np.float32)
    mixed = before * (1 - cover[..., None]) + np.clip(ink, 0, 255) * cover[..., None]
    return np.rint(mixed).astype(np.uint8), cover


def _recoloured(layer: npt.NDArray[np.uint8], random: Random) -> Values:
    import cv2

    hsv = cv2.cvtColor(np.float32(layer) / 255, cv2.COLOR_RGB2HSV)
    hsv[..., 0] = (hsv[..., 0] + random.choice([-1, 1]) * random.uniform(*HUE)) % 360
    saturation, value = random.uniform(*COLOUR, 2)
    hsv[..., 1] = np.clip(hsv[..., 1] * saturation, 0, 1)
    hsv[..., 2] = np.clip(hsv[..., 2] * value, 0, 1)
    return np.asarray(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)) * np.float32(255)
