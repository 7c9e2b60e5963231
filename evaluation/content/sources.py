"""Source images: the origins of their files, and the crop to a working size.

An origin is written `scheme:rest`:

    skimage:astronaut                              an image in the scikit-image wheel
    sklearn:china.jpg                              ... in the scikit-learn wheel
    matplotlib:grace_hopper.jpg                    ... in the matplotlib wheel
    file:pictures/desk.webp                        a file committed under fixtures/

For a detail of an image, append its box in pixels: `#left,top,right,bottom`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
from pathlib import Path, PurePosixPath

from PIL import Image

from evaluation.content import catalog
from evaluation.content.annotations import Annotations
from evaluation.content.suites import SuiteImage
from evaluation.errors import UserFacingError
from evaluation.images import EncodedImage, encode_png, fit

# Every provider supports these aspect ratios without cropping or padding.
ASPECTS = ((1, 1), (4, 3), (3, 4), (3, 2), (2, 3), (16, 9))
STEP = 16
# The aspect ratio of a prepared image may differ from its nominal one by this factor. (An answer
# counts as reframed if its ratio differs by more than 2 %.)
NEAR_ASPECT = 1.01
# The exact ratio is used if it keeps at least this share of the area that a near ratio keeps.
WORTHWHILE_AREA = 0.75

# Scheme: (distribution for pip, package, folder in the package)
WHEELS = {
    "skimage": ("scikit-image", "skimage", "data"),
    "sklearn": ("scikit-learn", "sklearn", "datasets/images"),
    "matplotlib": ("matplotlib", "matplotlib", "mpl-data/sample_data"),
}


class OriginError(UserFacingError):
    """An original is not available here; the message names a remedy."""


def original(origin: str, sha256: str = "") -> bytes:
    """Return the bytes of the original file, or a PNG of the detail that the origin names.

    With `sha256`, the file is checked against this hash.
    """
    whole, _, detail = origin.partition("#")
    data = _file(whole)
    actual = hashlib.sha256(data).hexdigest()
    if sha256 and actual != sha256:
        raise OriginError(
            f"{whole} has changed: its SHA-256 is {actual[:12]}…, expected {sha256[:12]}…; "
            "install the versions in constraints.txt"
        )
    return _detail(data, detail, origin) if detail else data


def _file(origin: str) -> bytes:
    scheme, _, rest = origin.partition(":")
    parts = PurePosixPath(rest).parts
    if not rest or ".." in parts or rest.startswith("/"):
        raise OriginError(f"{origin!r} is not an origin such as skimage:astronaut")
    if scheme in WHEELS:
        return _from_wheel(scheme, rest)
    if scheme == "file":
        return _read(catalog.folder() / rest, origin, "the file is committed with the project")
    schemes = ", ".join([*WHEELS, "file"])
    raise OriginError(f"{origin!r}: unknown scheme {scheme!r}; choose from {schemes}")


def _detail(data: bytes, box: str, origin: str) -> bytes:
    image = EncodedImage.from_bytes(data).decoded
    try:
        left, top, right, bottom = (int(side) for side in box.split(","))
    except ValueError:
        raise OriginError(
            f"{origin!r}: a detail needs four numbers: left,top,right,bottom"
        ) from None
    if not (0 <= left < right <= image.width and 0 <= top < bottom <= image.height):
        raise OriginError(
            f"{origin!r}: the detail is not inside the image of {image.width} x {image.height}"
        )
    return encode_png(image.crop((left, top, right, bottom)))


def load_prepared(image: SuiteImage, size: int) -> Image.Image:
    """Return a suite's image at the suite's size, checked against its pixel hash."""
    fitted = prepare(EncodedImage.from_bytes(original(image.origin)).decoded, size)
    if pixel_sha256(fitted) != image.sha256:
        raise OriginError(
            f"the pixels of {image.slug} ({image.origin}) differ from those in the frozen suite; "
            "install the versions in constraints.txt"
        )
    return fitted


def prepare(image: Image.Image, size: int) -> Image.Image:
    """Crop the image to the nearest allowed aspect ratio, at about `size`² pixels in all.

    Both sides become multiples of 16 and nothing is enlarged, so that no model must reframe or
    upscale.
    """
    working = working_size(image.width, image.height, size)
    return fit(image.crop(_centre(image.size, working)), working)


def prepare_annotations(
    annotations: Annotations, original_size: tuple[int, int], size: int
) -> Annotations:
    """Convert the annotations of an original to those of its prepared image."""
    left, top, right, bottom = _centre(original_size, working_size(*original_size, size))
    width, height = original_size
    return annotations.cropped((left / width, top / height, right / width, bottom / height))


def _centre(size: tuple[int, int], working: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return the largest centred rectangle with the aspect ratio of `working`, in pixels."""
    scale = min(size[0] / working[0], size[1] / working[1])
    width, height = round(working[0] * scale), round(working[1] * scale)
    left, top = (size[0] - width) // 2, (size[1] - height) // 2
    return left, top, left + width, top + height


def nearest_aspect(width: int, height: int) -> tuple[int, int]:
    """Return the allowed aspect ratio that crops the least."""
    ratio = math.log(width / height)
    return min(ASPECTS, key=lambda aspect: abs(ratio - math.log(aspect[0] / aspect[1])))


def working_size(width: int, height: int, size: int) -> tuple[int, int]:
    """Return the largest size of a prepared image within the original and `size`² pixels."""
    aspect = nearest_aspect(width, height)
    ratio = aspect[0] / aspect[1]
    exact, near = (0, 0), (0, 0)
    for w in range(STEP, width + 1, STEP):
        for h in {math.floor(w / ratio / STEP) * STEP, math.ceil(w / ratio / STEP) * STEP}:
            if not h or h > height or w * h > size * size:
                continue
            if w * aspect[1] == h * aspect[0]:
                exact = max(exact, (w, h))
            off = max(w / h / ratio, ratio * h / w)
            if off <= NEAR_ASPECT and w * h > near[0] * near[1]:
                near = (w, h)
    chosen = exact if exact[0] * exact[1] >= WORTHWHILE_AREA * near[0] * near[1] else near
    if not chosen[0]:
        raise ValueError(f"{width} x {height} pixels are too small for {aspect[0]}:{aspect[1]}")
    return chosen


def pixel_sha256(image: Image.Image) -> str:
    """Return the SHA-256 of the RGB pixels, row by row."""
    return hashlib.sha256(image.convert("RGB").tobytes()).hexdigest()


def _from_wheel(scheme: str, name: str) -> bytes:
    distribution, package, inside = WHEELS[scheme]
    hint = f"pip install -c constraints.txt {distribution}"
    # find_spec locates the package without importing it.
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise OriginError(f"{scheme}:{name} needs the package {distribution}: {hint}")
    base = Path(spec.submodule_search_locations[0]) / inside
    for candidate in (name, f"{name}.png", f"{name}.jpg"):
        if (base / candidate).is_file():
            return (base / candidate).read_bytes()
    raise OriginError(f"{distribution} has no image {name!r}; {hint}")


def _read(path: Path, origin: str, hint: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise OriginError(f"{origin} cannot be read ({error.strerror}); {hint}") from error
