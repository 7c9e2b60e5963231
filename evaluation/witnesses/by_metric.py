"""Witnesses that use the network of a metric: ImageNet classes, CLIP, faces."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from PIL import Image

from evaluation.content.suites import EditPair
from evaluation.images import fit
from evaluation.metrics.base import CELLS, Mask
from evaluation.metrics.networks.base import as_tensor
from evaluation.metrics.networks.faces import Faces, faces
from evaluation.metrics.semantic import SIDE, Clip, ImageNet
from evaluation.witnesses.base import AmountWitness, Evidence, TripToJudge, Witness, requested_thing

# The crop around the edit is at least this wide, in pixels.
LEAST_SIDE = 64
#: For each requested thing, the ImageNet classes of the thing and of similar things.
CLASSES: dict[str, tuple[int, ...]] = {
    "acoustic guitar": (402, 420, 546),
    "airplane": (404, 405, 895, 908),
    "apple": (948, 949, 952, 957),
    "balloon": (417, 701),
    "bicycle": (444, 671, 870, 880),
    "boat": (472, 484, 576, 780, 814, 871, 914),
    "book": (446, 917, 921, 922),
    "bottle": (440, 720, 737, 898, 907),
    "bow tie": (457, 906),
    "candle": (470, 862),
    "cat": (281, 282, 283, 284, 285),
    "chair": (423, 559, 765, 831, 857),
    "clock": (409, 530, 826, 892),
    "cup": (441, 504, 967, 968),
    "kite": (417, 701),
    "mask": (570, 643, 691, 796),
    "monarch": (321, 322, 323, 324, 325, 326),
    "potted plant": (580, 738, 883),
    "pumpkin": (607, 940, 941, 942),
    "sports ball": (417, 429, 430, 522, 574, 722, 768, 805, 852, 890),
    "suitcase": (414, 492, 519, 636, 748),
    "table lamp": (619, 846),
    "teddy bear": (850,),
    "tie": (451, 457, 906),
    "umbrella": (879,),
    "vase": (738, 883),
    "bird": (*range(7, 25), *range(80, 101), *range(127, 147)),
    "dog": tuple(range(151, 269)),
}


class ImageNetClasses(AmountWitness):
    """Measure the log probability that the edited region shows the requested thing."""

    name, label, version = "imagenet", "ImageNet classes", "efficientnet-lite0-2"
    licence = "Apache-2.0"
    can = "things that have an ImageNet class, in the edited region"
    cannot = (
        "how many things there are; the difference between similar things, such as a red ball and "
        "a balloon"
    )
    weights = "imagenet"
    uses_metric = "imagenet"
    modules = ImageNet.modules
    min_increase = dict.fromkeys(CLASSES, 1.0)

    def thing(self, pair: EditPair) -> str | None:
        thing = requested_thing(pair, self.name) or requested_thing(pair, "detector")
        return thing if thing in CLASSES else None

    def amount(self, image: Image.Image, thing: str, trip: TripToJudge) -> float | None:
        import torch

        region = crop_to_footprint(image, trip.subject.footprint)
        small = region.resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        inputs = as_tensor([small], self.metric.device).sub_(127).div_(128)
        with torch.inference_mode():
            network = self.metric.network
            scores = network(inputs.to(self.metric.dtype))[0].float().log_softmax(-1)
        return float(scores[list(CLASSES[thing])].logsumexp(0))

    @cached_property
    def metric(self) -> ImageNet:
        return ImageNet()


def crop_to_footprint(image: Image.Image, footprint: Mask | None) -> Image.Image:
    """Crop to a square around the edit's footprint; without a footprint, return the image."""
    if footprint is None:
        return image
    rows, columns = np.nonzero(footprint)
    width, height = image.size
    left, right = columns.min() / CELLS * width, (columns.max() + 1) / CELLS * width
    top, bottom = rows.min() / CELLS * height, (rows.max() + 1) / CELLS * height
    half = max(right - left, bottom - top, LEAST_SIDE) / 2
    x, y = (left + right) / 2, (top + bottom) / 2
    return image.crop(
        (
            max(0, round(x - half)),
            max(0, round(y - half)),
            min(width, round(x + half)),
            min(height, round(y + half)),
        )
    )


# The smallest cosine that papers report for edits in good data sets; an unedited image has about 0.
# CLIP's weights are not shipped, so its error rate was not measured and it ends no chain.
MIN_COSINE = 0.1


class ClipDirection(Witness):
    """Measure the cosine between the change of the image and the change of its caption."""

    name, label, version = "clip", "CLIP’s direction", f"{Clip.version}-direction-1"
    licence = "MIT"
    can = "any edit whose pair has captions of the image before and after the edit"
    cannot = (
        "small things, how many there are, left and right; this witness runs only if CLIP's "
        "weights are installed, and its error rate was not measured"
    )
    weights = Clip.weights
    modules = Clip.modules
    uses_metric = "clip"

    def examine(self, trip: TripToJudge) -> Evidence | None:
        before, after = trip.pair.source_text, trip.pair.target_text
        if not before or not after:
            return None
        forward = self.metric.direction(trip.before.decoded, trip.edited.decoded, before, after)
        # An unchanged image has no direction and counts as 0.
        amounts: tuple[float, ...] = (forward or 0.0,)
        made, undone = amounts[0] >= MIN_COSINE, None
        if made and trip.restored:
            back = self.metric.direction(trip.edited.decoded, trip.restored.decoded, after, before)
            amounts = (*amounts, back or 0.0)
            undone = amounts[1] >= MIN_COSINE
        return Evidence(self.name, self.version, after, made, undone, gates=False, amounts=amounts)

    @cached_property
    def metric(self) -> Clip:
        return Clip()


# The largest distance between faces of the same person, as recommended by dlib.
SAME_PERSON = 0.6


class SamePerson(Witness):
    """Compare the faces in source and restored image; a missing face counts as most distant."""

    name, label, version = "identity", "face recognition", Faces.version
    licence = "Boost; weights CC0"
    can = "whether the only face of an image still shows the same person"
    cannot = (
        "images without a face or with several faces; if a chain ends because “the face is gone or "
        "another person’s”, the face part of the metric Overall found this, not this witness"
    )
    weights, modules = Faces.weights, Faces.modules

    def examine(self, trip: TripToJudge) -> Evidence | None:
        face = trip.subject.face
        if face is None or trip.restored is None:
            return None
        source, restored = (
            faces().embedding(fit(image.decoded, trip.source.size), face)
            for image in (trip.source, trip.restored)
        )
        if source is None:
            return None
        distance = faces().distance(source, restored)
        return Evidence(
            self.name,
            self.version,
            "the same person",
            made=None,
            undone=None,
            gates=False,
            amounts=(distance,),
            kept=distance <= SAME_PERSON,
            said="no face" if restored is None else f"face distance {distance:.2f}",
        )
