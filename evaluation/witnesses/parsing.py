"""Detect glasses, hats and jewellery by face parsing (BiSeNetV2, trained on CelebAMask-HQ)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from PIL import Image

from evaluation import weights
from evaluation.content.suites import EditPair
from evaluation.metrics.base import Box
from evaluation.metrics.networks.tfjs_graph import Graph
from evaluation.witnesses.base import AmountWitness, TripToJudge, requested_thing

SIDE = 384
# The crop has room for a hat above the face and a necklace below, as shares of the face's height.
ABOVE, BELOW = 0.5, 0.45
# The class numbers of the network.
CLASSES = {"glasses": 6, "earrings": 9, "necklace": 15, "hat": 18}
#: The network's class for the object of an edit pair.
KINDS = {
    "sunglasses": "glasses",
    "cap": "hat",
    "crown": "hat",
    "beanie": "hat",
    "party-hat": "hat",
} | {name: name for name in CLASSES}


# Faces with a smaller height in pixels are not judged, because the network misses their glasses.
SMALLEST_FACE = 80
# Faces whose sharpness, relative to the source, is below SHARP are not judged either. Sharpness is
# measured after resizing the crop to SHARP_SIDE pixels.
SHARP, SHARP_SIDE = 0.6, 192


class FaceParsing(AmountWitness):
    """Measure the probability of glasses, hat, earrings or necklace around an annotated face.

    The probability is the mean over the crop. So it also rises with small things such as earrings,
    even if they are not the most probable class of any pixel.
    """

    name, label, version = "parsing", "face parsing", "bisenetv2-celebamask-2"
    licence = "MIT; its training set, CelebAMask-HQ, is for research only"
    can = "glasses, hats, earrings and necklaces on an annotated face"
    cannot = (
        "which kind of hat it is (even headphones count); faces that are blurred, smaller than 80 "
        "pixels or not annotated; glasses or hats on people who already wear them. It sees "
        "crowns, earrings and necklaces, but not reliably enough to end a chain"
    )
    weights = "face-parsing"
    modules = {"torch": "torch"}
    gates = frozenset({"glasses", "sunglasses", "hat", "cap", "beanie"})
    # Mean probabilities over the crop; earrings and necklaces are small.
    min_increase = {"glasses": 0.0045, "hat": 0.015, "earrings": 0.001, "necklace": 0.0006}
    max_in_source = {"glasses": 0.015, "hat": 0.06, "earrings": 0.01, "necklace": 0.01}

    def thing(self, pair: EditPair) -> str | None:
        thing = requested_thing(pair, self.name) or KINDS.get(pair.object)
        return thing if thing in CLASSES else None

    def amount(self, image: Image.Image, thing: str, trip: TripToJudge) -> float | None:
        face = trip.subject.face
        if face is None or (face[3] - face[1]) * trip.source.height < SMALLEST_FACE:
            return None
        if sharpness(image, face) < SHARP * sharpness(trip.source.decoded, face):
            return None
        return float(self.shares(image, face)[CLASSES[thing]])

    def shares(self, image: Image.Image, face: Box) -> Any:
        """Return the mean probability of each class around the face."""
        import torch

        pixels = np.asarray(surroundings(image, face), dtype=np.float32)
        inputs = torch.from_numpy(pixels)[None] / 127.5 - 1
        (logits,) = self.network.run(
            {"input_tensor": inputs}, ["BiseNetV2/logits/1x1_conv_block/Conv2D"]
        )
        return logits[0].softmax(-1).mean((0, 1)).numpy()

    @cached_property
    def network(self) -> Graph:
        return Graph(weights.locate(self.weights)[0].read_bytes())


def surroundings(image: Image.Image, face: Box) -> Image.Image:
    """Crop the head with room above and below, and resize it for the network.

    Beyond the image, its border is repeated, because the network takes black for hair or a hat.
    """
    left, top, right, bottom = (s * side for s, side in zip(face, image.size * 2, strict=True))
    height = max(right - left, bottom - top)
    upper, lower = top - ABOVE * height, bottom + BELOW * height
    middle, half = (left + right) / 2, (lower - upper) / 2
    x, y = (
        np.clip(np.arange(round(begin), round(end)), 0, size - 1)
        for begin, end, size in (
            (middle - half, middle + half, image.width),
            (upper, lower, image.height),
        )
    )
    square = Image.fromarray(np.asarray(image)[y[:, None], x])
    return square.resize((SIDE, SIDE), Image.Resampling.BILINEAR)


def sharpness(image: Image.Image, face: Box) -> float:
    """Return the mean absolute Laplacian of the head, at a fixed size."""
    small = surroundings(image, face).convert("L").resize((SHARP_SIDE, SHARP_SIDE))
    v = np.asarray(small, dtype=np.float32)
    around = v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:]
    return float(np.abs(4 * v[1:-1, 1:-1] - around).mean())
