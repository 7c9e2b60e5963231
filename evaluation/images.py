"""Decode images safely into one canonical form; resize and encode them.

All images from files, uploads and answers are decoded here, and all images sent to editors are
encoded here.
"""

from __future__ import annotations

import hashlib
import io
import re
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms, ImageFile, PngImagePlugin, UnidentifiedImageError

from evaluation.caches import computed_once
from evaluation.errors import UserFacingError

FORMATS = ("PNG", "JPEG", "WEBP")
EXTENSIONS = {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp"}
MAX_BYTES = 64 * 2**20
# Pillow's own limit is 179 MP; a benchmark image has about 1 MP.
MAX_PIXELS = 40_000_000
# A progressive JPEG has about ten scans. A million empty scans, of eleven bytes each, would keep a
# processor busy for a day.
MAX_SCANS = 500
# Parts are the chunks of a PNG or WebP and the segments of a JPEG. Each takes at least 4 bytes in
# the file, but a hundred or more in Pillow's memory. Large images have some thousands.
MAX_PARTS = 20_000
# The limit of a PNG's text, in characters of 1 to 4 bytes: text can be compressed a thousandfold.
PngImagePlugin.MAX_TEXT_MEMORY = 2**20
# A broken EXIF could cause 65,535 warnings.
warnings.filterwarnings("ignore", module=r"PIL\.")
STRIP_ROWS = 64
MID_GREY = (128, 128, 128)
REFRAMED_RATIO = 1.02
# A channel of a blank image spans at most this many levels: JPEG makes an image slightly uneven.
BLANK_SPREAD = 6

# A 4 x 4 Bayer pattern of thresholds 0..3, for the dither of `clean_wire`.
_BAYER = np.array([[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]], np.uint8) // 4

# Exceptions of decoders for broken bytes. `Exception` would also catch a job's time-out.
BROKEN = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    Warning,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)

_PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
_PNG_CHUNK, _WEBP_CHUNK = struct.Struct(">I4s"), struct.Struct("<4xI")
# The markers of segments that Pillow keeps. Compressed pixels never contain them.
_JPEG_SEGMENT = re.compile(rb"\xff[\xc0-\xcf\xe0-\xef\xfe]")
_UP = 2  # PNG's filter that stores a row as its difference from the row above

_SRGB = ImageCms.createProfile("sRGB")
# All combinations of four levels per channel, to test whether a colour profile changes anything.
_PROBE = np.stack(np.meshgrid(*[np.array([0, 64, 160, 255], dtype=np.uint8)] * 3), -1)
_PROBE = _PROBE.reshape(8, 8, 3)
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class ImageError(UserFacingError):
    """An image that cannot be used."""


@dataclass(frozen=True)
class EncodedImage:
    """An encoded image, byte for byte as it arrived, with its type and size."""

    data: bytes = field(repr=False)
    mime: str
    width: int
    height: int
    notes: tuple[str, ...] = ()

    @classmethod
    def from_bytes(
        cls, data: bytes, *, max_bytes: int = MAX_BYTES, max_pixels: int = MAX_PIXELS
    ) -> EncodedImage:
        """Check and fully decode an image. Raises ImageError naming the problem."""
        image, mime, notes = _decode(data, max_bytes, max_pixels)
        encoded = cls(data, mime, image.width, image.height, notes)
        encoded.__dict__["decoded"] = image
        return encoded

    @classmethod
    def from_head(
        cls, data: bytes, *, max_bytes: int = MAX_BYTES, max_pixels: int = MAX_PIXELS
    ) -> EncodedImage:
        """Read only the header of an image. Raises ImageError naming the problem.

        `decoded` may still fail, and may swap width and height by the EXIF orientation.
        """
        image, mime = _opened(data, max_bytes, max_pixels)
        return cls(data, mime, image.width, image.height)

    @classmethod
    def from_image(cls, image: Image.Image) -> Self:
        """Encode an image of our own as PNG."""
        encoded = cls(encode_png(image), "image/png", image.width, image.height)
        if image.mode == "RGB":
            encoded.__dict__["decoded"] = image
        return encoded

    @computed_once
    def decoded(self) -> Image.Image:
        """The image in canonical form: upright 8-bit sRGB without alpha, at its own size."""
        return _decode(self.data, MAX_BYTES, MAX_PIXELS)[0]

    @computed_once
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def size(self) -> tuple[int, int]:
        return self.width, self.height

    def png(self) -> bytes:
        """Return the image as PNG, unchanged if it is one."""
        return self.data if self.mime == "image/png" else encode_png(self.decoded)


def _opened(data: bytes, max_bytes: int, max_pixels: int) -> tuple[ImageFile.ImageFile, str]:
    """Open an image and check its header; return it with its actual MIME type."""
    if not data:
        raise ImageError("the image is empty (0 bytes)")
    if len(data) > max_bytes:
        raise ImageError(f"the image has {len(data):,} bytes; the limit is {max_bytes:,}")
    if _count_parts(data) > MAX_PARTS:
        raise ImageError(f"the image file has more than {MAX_PARTS:,} parts")
    with _translated_errors():
        image = Image.open(io.BytesIO(data), formats=FORMATS)
        # Checked before decoding, because a small file may decode to gigabytes.
        if image.width * image.height > max_pixels:
            raise ImageError(
                f"the image is {image.width} x {image.height} pixels; "
                f"the limit is {max_pixels / 1e6:g} megapixels"
            )
        # Phones store two images in a JPEG (MPO); only the first is used, as in viewers.
        kind = "JPEG" if image.format == "MPO" else image.format
        if kind != "JPEG" and getattr(image, "n_frames", 1) > 1:
            raise ImageError("animated images are not accepted; send a single frame")
        if kind == "JPEG" and data.count(b"\xff\xda") > MAX_SCANS:
            raise ImageError(f"the JPEG has more than {MAX_SCANS} scans")
        return image, Image.MIME[kind or ""]


def _count_parts(data: bytes) -> int:
    """Count the chunks or segments of an image file, up to just above MAX_PARTS."""
    if data.startswith(b"\xff\xd8"):
        return sum(1 for _ in islice(_JPEG_SEGMENT.finditer(data), MAX_PARTS + 1))
    is_png = data.startswith(_PNG_MAGIC)
    at, end = (8, len(data)) if is_png else (12, 8 + int.from_bytes(data[4:8], "little"))
    count = 0
    while at + 8 <= min(end, len(data)) and count <= MAX_PARTS:
        if is_png:
            length, kind = _PNG_CHUNK.unpack_from(data, at)
            at += 12 + length
            if kind == b"IEND":
                break
        else:
            (length,) = _WEBP_CHUNK.unpack_from(data, at)
            at += 8 + length + length % 2
        count += 1
    return count


def _decode(
    data: bytes, max_bytes: int, max_pixels: int
) -> tuple[Image.Image, str, tuple[str, ...]]:
    """Return the canonical image, its MIME type, and notes on conversions."""
    with _translated_errors():
        return _canonical(_opened(data, max_bytes, max_pixels), data)


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Turn every exception of a decoder into an ImageError."""
    try:
        yield
    except ImageError:
        raise
    except UnidentifiedImageError:
        raise ImageError("not a PNG, JPEG or WebP image") from None
    except BROKEN as error:
        raise ImageError(f"the image cannot be decoded: {error}") from error


def _canonical(
    opened: tuple[ImageFile.ImageFile, str], data: bytes
) -> tuple[Image.Image, str, tuple[str, ...]]:
    """Return the canonical image, its MIME type, and notes on conversions."""
    image, mime = opened
    notes: list[str] = []
    profile, mode = image.info.get("icc_profile"), image.mode
    deep = bool(image.tile) and "16" in str(image.tile[0].args)
    image.load()  # open() does not notice a truncated file
    turn = _TURNS.get(_orientation(image, notes))
    colour, alpha = _without_alpha(_eight_bit(image, data) if deep else image)
    del image, opened  # free memory: a large image exists in several copies
    if deep:
        notes.append("16 bit scaled to 8 bit")
    if profile:
        colour = _to_srgb(colour, profile, notes)
    if not deep and mode not in ("RGB", "RGBA"):
        notes.append(f"converted from {mode}")
    if colour.mode != "RGB" or isinstance(colour, ImageFile.ImageFile):
        colour = colour.convert("RGB")
    if alpha is not None and alpha.getextrema() != (255, 255):
        colour = Image.composite(colour, Image.new("RGB", colour.size, MID_GREY), alpha)
        notes.append("transparency composited over mid grey")
    if turn is not None:
        colour = colour.transpose(turn)
        notes.append("turned upright by its EXIF orientation")
    colour.info = {}  # else a saved copy would be converted and rotated again
    return colour, mime, tuple(notes)


def _eight_bit(image: Image.Image, data: bytes) -> Image.Image:
    """Convert a 16-bit PNG to 8 bits: divide by 257, which maps 65535 to 255 exactly.

    Pillow decodes grey in 16 bits, but keeps only the high byte of colours. Decoding again in
    the opposite byte order gives the low byte.
    """
    other = Image.open(io.BytesIO(data), formats=("PNG",))
    tile = other.tile[0]
    grey_alpha = tile.args == "LA;16B"
    if grey_alpha:  # read its four bytes as RGBA: grey high, grey low, alpha high, alpha low
        other.tile = [tile._replace(args="RGBA")]
    elif image.mode != "I;16":
        other.tile = [tile._replace(args=str(tile.args).replace("16B", "16L"))]
    key = image.info.get("transparency")
    eight: NDArray[Any] | None = None
    # In strips: the 16-bit copies of a whole image would take many times its size.
    for top in range(0, image.height, STRIP_ROWS):
        box = (0, top, image.width, min(top + STRIP_ROWS, image.height))
        values: NDArray[Any]
        if image.mode == "I;16":
            values = np.asarray(image.crop(box))[..., None]
        elif grey_alpha:
            part = np.asarray(other.crop(box))
            values = part.reshape(*part.shape[:2], 4).view(">u2")
        else:
            high = np.asarray(image.crop(box)).astype(np.uint16)
            values = high * 256 + np.asarray(other.crop(box))
        strip = np.rint(values / 257).astype(np.uint8)
        if key is not None:  # one 16-bit colour means "transparent"
            alpha = np.where((values == np.array(key)).all(axis=-1, keepdims=True), 0, 255)
            strip = np.concatenate([strip, alpha.astype(np.uint8)], axis=-1)
        if eight is None:
            eight = np.empty((image.height, *strip.shape[1:]), dtype=np.uint8)
        eight[top : top + len(strip)] = strip
    assert eight is not None  # noqa: S101 -- an image has rows
    del other, values, strip
    return Image.fromarray(eight.squeeze(-1) if eight.shape[-1] == 1 else eight)


def _without_alpha(image: Image.Image) -> tuple[Image.Image, Image.Image | None]:
    """Return the image without alpha, and its alpha channel or None."""
    if image.mode == "LA":
        return image.getchannel("L"), image.getchannel("A")
    if image.mode in ("RGBA", "PA") or "transparency" in image.info:
        rgba = image if image.mode == "RGBA" else image.convert("RGBA")
        return rgba.convert("RGB"), rgba.getchannel("A")
    return (image if image.mode in ("RGB", "L", "CMYK") else image.convert("RGB")), None


def _to_srgb(image: Image.Image, profile: bytes, notes: list[str]) -> Image.Image:
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        transform = ImageCms.buildTransform(source, _SRGB, image.mode, "RGB")
        # If the profile is equivalent to sRGB, as many are, the pixels are not changed.
        if image.mode != "CMYK":
            probe = Image.fromarray(_PROBE).convert(image.mode)
            moved = np.asarray(ImageCms.applyTransform(probe, transform), dtype=np.int16)
            if np.abs(moved - np.asarray(probe.convert("RGB"))).max() <= 1:
                return image
        converted = ImageCms.applyTransform(image, transform)
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
        notes.append("unreadable colour profile ignored")
        return image
    notes.append("colour profile converted to sRGB")
    return converted or image


def _orientation(image: Image.Image, notes: list[str]) -> int:
    try:
        return int(image.getexif().get(0x0112, 1))
    except BROKEN:
        notes.append("unreadable EXIF ignored")
        return 1


class CleanImage(EncodedImage):
    """An image that `clean_wire` has already cleaned."""


def clean_wire(image: EncodedImage) -> CleanImage:
    """Return the image as it is sent to an editor: a plain PNG without the two low bits.

    So data that an answer hides in its file or in its low bits cannot reach the next edit. Each
    channel is rounded to a multiple of 4 by ordered dither, which is unbiased, causes no banding,
    and changes no pixel a second time, even after a shift. The PNG has only the chunks IHDR, IDAT
    and IEND. A clean image is returned unchanged.
    """
    if isinstance(image, CleanImage):
        return image
    return CleanImage.from_image(without_low_bits(image.decoded))


def without_low_bits(image: Image.Image) -> Image.Image:
    """Return the pixels that `clean_wire` sends."""
    pixels = np.asarray(image)
    rounded = np.minimum(pixels, 252)
    for first, row in enumerate(_thresholds(image.width)):
        rounded[first::4] += row
    rounded &= 252
    return Image.fromarray(rounded)


@lru_cache(maxsize=16)
def _thresholds(width: int) -> NDArray[np.uint8]:
    """Return the dither thresholds of four rows of `width` pixels, to repeat downwards."""
    return np.repeat(np.tile(_BAYER, -(-width // 4))[:, :width, None], 3, axis=2)


def fit(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Resize the image to `size` with the benchmark's filter (Pillow's LANCZOS)."""
    return image if image.size == size else image.resize(size, Image.Resampling.LANCZOS)


def is_reframed(answered: tuple[int, int], source: tuple[int, int]) -> bool:
    """Return True if the aspect ratios differ by more than 2 %."""
    ratio = (answered[0] / answered[1]) / (source[0] / source[1])
    return max(ratio, 1 / ratio) > REFRAMED_RATIO


def is_blank(image: Image.Image) -> bool:
    """Return True for an image of a single colour, which some safety filters return."""
    channels: Any = image.getextrema()
    return all(lightest - darkest <= BLANK_SPREAD for darkest, lightest in channels)


def blank_card(image: Image.Image) -> Image.Image:
    """Return an image of the same size, filled with the mean colour."""
    mean = np.asarray(image).reshape(-1, 3).mean(axis=0, dtype=np.float64)
    red, green, blue = (int(v) for v in np.rint(mean))
    return Image.new("RGB", image.size, (red, green, blue))


def encode_png(image: Image.Image) -> bytes:
    """Encode an image as PNG; a colour image gets only the required chunks.

    Every edit sends a colour image, so colour images are encoded here with a fixed row filter.
    Pillow would try five filters for each row: this takes more than twice as long and saves two or
    three per cent of the bytes.
    """
    if image.mode != "RGB" or not all(image.size):
        buffer = io.BytesIO()
        image.save(buffer, "PNG", compress_level=1)
        return buffer.getvalue()
    pixels = np.asarray(image).reshape(image.height, -1)
    rows = np.empty((image.height, 1 + 3 * image.width), np.uint8)
    rows[:, 0] = _UP
    rows[0, 1:] = pixels[0]
    np.subtract(pixels[1:], pixels[:-1], out=rows[1:, 1:])
    head = struct.pack(">IIBBBBB", image.width, image.height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows.data, 1)), (b"IEND", b""))
    return _PNG_MAGIC + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def encode_webp(image: Image.Image, *, lossless: bool = True, quality: int = 80) -> bytes:
    """Encode as WebP. Lossless WebP with method 0 is much faster than PNG."""
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", lossless=lossless, quality=quality, method=0 if lossless else 2)
    return buffer.getvalue()


def encode_jpeg(image: Image.Image, quality: int) -> bytes:
    """Encode as JPEG, with Pillow's default chroma subsampling."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def thumbnail(image: Image.Image, side: int = 256) -> bytes:
    """Return a lossy WebP with a longer side of at most `side` pixels."""
    small = image.copy()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    return encode_webp(small, lossless=False)
