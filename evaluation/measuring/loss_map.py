"""Where a trip lost the picture, as a small picture to lay over it."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from evaluation.metrics.base import CELLS, Cells

# Sixteen steps are four bits a cell: half a kilobyte a trip, which a row can hold.
STEPS = 16
COLOUR = (214, 30, 70)
OPAQUE = 0.8


def loss_map(lost: Cells) -> bytes:
    """A PNG of 48 x 48 pixels, clear where nothing is lost and red where all is.

    `lost` is one of `Scores.maps`: by cell the share lost, 1 as on a blank card. The PNG
    covers the whole picture, whatever its shape: the browser stretches it.
    """
    steps = np.rint(np.clip(lost, 0, 1) * (STEPS - 1)).astype(np.uint8)
    image = Image.frombytes("P", (CELLS, CELLS), steps.tobytes())
    image.putpalette(COLOUR * STEPS)
    alpha = bytes(round(255 * OPAQUE * step / (STEPS - 1)) for step in range(STEPS))
    stream = io.BytesIO()
    image.save(stream, "PNG", optimize=True, bits=4, transparency=alpha)
    return stream.getvalue()
