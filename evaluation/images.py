"""Images, decoded safely and converted to one canonical form.

Every image from a file, an upload or an endpoint's answer is decoded here; every resize and
every image that is sent to an editor is made here.
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
# Pillow only warns below 179 MP; a benchmark image is about 1 MP.
MAX_PIXELS = 40_000_000
# A progressive JPEG has about ten scans. One of a million empty ones, eleven bytes
# each, would keep a processor busy for a day.
MAX_SCANS = 500
# Chunks of a PNG or WebP, segments of a JPEG: Pillow keeps each in a hundred bytes or more,
# although a file has them from 4 bytes on. Large images have some thousands.
MAX_PARTS = 20_000
# Characters of all texts of a PNG, each up to 4 bytes, unpacked from a thousandth.
PngImagePlugin.MAX_TEXT_MEMORY = 2**20
# One line for each of 65,535 broken entries of an EXIF.
warnings.filterwarnings("ignore", module=r"PIL\.")
STRIP_ROWS = 64
MID_GREY = (128, 128, 128)
REFRAMED_RATIO = 1.02
# The largest range of a channel in an image of one colour, even after a JPEG save.
BLANK_SPREAD = 6

# The thresholds 0..3 of a 4 x 4 Bayer pattern, by which the wire is dithered.
_BAYER = np.array([[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]], np.uint8) // 4

# The exceptions of decoders on broken bytes. Not Exception: that would also swallow the
# time-out of the job that decodes.
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
# The markers of segments that Pillow keeps; pixels never look like one.
_JPEG_SEGMENT = re.compile(rb"\xff[\xc0-\xcf\xe0-\xef\xfe]")
_UP = 2  # PNG's filter that stores a row as its difference from the row above

_SRGB = ImageCms.createProfile("sRGB")
# Every combination of four levels per channel.
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
    """An encoded image exactly as it arrived, with its type and size."""

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
        """Return the image by its header, without decoding a pixel.

        Its `decoded` may still fail, and be turned by its EXIF orientation.
        """
        image, mime = _opened(data, max_bytes, max_pixels)
        return cls(data, mime, image.width, image.height)

    @classmethod
    def from_image(cls, image: Image.Image) -> Self:
        """Return an image of our own code, encoded as PNG."""
        encoded = cls(encode_png(image), "image/png", image.width, image.height)
        if image.mode == "RGB":
            encoded.__dict__["decoded"] = image
        return encoded

    @computed_once
    def decoded(self) -> Image.Image:
        """The canonical form: upright sRGB, 8 bit, no alpha, at the answered size."""
        return _decode(self.data, MAX_BYTES, MAX_PIXELS)[0]

    @computed_once
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def size(self) -> tuple[int, int]:
        return self.width, self.height

    def png(self) -> bytes:
        """Return the image as PNG; a PNG is returned unchanged."""
        return self.data if self.mime == "image/png" else encode_png(self.decoded)


def _opened(data: bytes, max_bytes: int, max_pixels: int) -> tuple[ImageFile.ImageFile, str]:
    """Open an image by its header; return it and its MIME type by magic bytes."""
    if not data:
        raise ImageError("the image is empty (0 bytes)")
    if len(data) > max_bytes:
        raise ImageError(f"the image has {len(data):,} bytes; the limit is {max_bytes:,}")
    if _count_parts(data) > MAX_PARTS:
        raise ImageError(f"the image file has more than {MAX_PARTS:,} parts")
    with _readable():
        image = Image.open(io.BytesIO(data), formats=FORMATS)
        # The header holds the size: a bomb is refused before a pixel is decoded.
        if image.width * image.height > max_pixels:
            raise ImageError(
                f"the image is {image.width} x {image.height} pixels; "
                f"the limit is {max_pixels / 1e6:g} megapixels"
            )
        # Viewers show only the first image of a phone's JPEG with two (MPO).
        kind = "JPEG" if image.format == "MPO" else image.format
        if kind != "JPEG" and getattr(image, "n_frames", 1) > 1:
            raise ImageError("animated images are not accepted; send a single frame")
        if kind == "JPEG" and data.count(b"\xff\xda") > MAX_SCANS:
            raise ImageError(f"the JPEG has more than {MAX_SCANS} scans")
        return image, Image.MIME[kind or ""]


def _count_parts(data: bytes) -> int:
    """Return the number of chunks or segments of an image file, counted until it is too large."""
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
    with _readable():
        return _canonical(_opened(data, max_bytes, max_pixels), data)


@contextmanager
def _readable() -> Iterator[None]:
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
    """Return the image upright, sRGB, 8 bit, without alpha; its MIME type and notes."""
    image, mime = opened
    notes: list[str] = []
    profile, mode = image.info.get("icc_profile"), image.mode
    deep = bool(image.tile) and "16" in str(image.tile[0].args)
    image.load()  # open() does not notice a truncated file
    turn = _TURNS.get(_orientation(image, notes))
    colour, alpha = _without_alpha(_eight_bit(image, data) if deep else image)
    del image, opened  # a large image is in memory several times already
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
    colour.info = {}  # or a copy saved of it would be converted and turned again
    return colour, mime, tuple(notes)


def _eight_bit(image: Image.Image, data: bytes) -> Image.Image:
    """Divide a 16-bit PNG by 257, which maps 65535 to 255 exactly.

    Pillow leaves grey unchanged but cuts colours to their high byte. Read in
    the other byte order it gives the low byte, and the two make the whole.
    """
    other = Image.open(io.BytesIO(data), formats=("PNG",))
    tile = other.tile[0]
    grey_alpha = tile.args == "LA;16B"
    if grey_alpha:  # four bytes, as RGBA has them: grey high, low, alpha high, low
        other.tile = [tile._replace(args="RGBA")]
    elif image.mode != "I;16":
        other.tile = [tile._replace(args=str(tile.args).replace("16B", "16L"))]
    key = image.info.get("transparency")
    eight: NDArray[Any] | None = None
    # The whole image in 16 bits and its parts would be many times its size.
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
        if key is not None:  # one colour that stands for "transparent", in 16 bits too
            seen = np.where((values == np.array(key)).all(axis=-1, keepdims=True), 0, 255)
            strip = np.concatenate([strip, seen.astype(np.uint8)], axis=-1)
        if eight is None:
            eight = np.empty((image.height, *strip.shape[1:]), dtype=np.uint8)
        eight[top : top + len(strip)] = strip
    assert eight is not None  # noqa: S101 -- an image has rows
    del other, values, strip
    return Image.fromarray(eight.squeeze(-1) if eight.shape[-1] == 1 else eight)


def _without_alpha(image: Image.Image) -> tuple[Image.Image, Image.Image | None]:
    """Return the colours, also under transparency, and the alpha channel or None."""
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
        # Many profiles are equivalent to sRGB: then the pixels stay unchanged.
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
    """An image that went through `clean_wire`."""


def clean_wire(image: EncodedImage) -> CleanImage:
    """Return the image as it is sent to an editor: pixels without their two low bits.

    Each channel is rounded to a multiple of 4 by ordered dither, which is unbiased, causes no
    banding and does not change a pixel a second time, even after the image has moved. The PNG
    has no chunk but IHDR, IDAT and IEND. So data that an answer hides in its file or in its
    low bits cannot reach the next edit. A clean image is returned unchanged.
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
    """Return the dither of four rows of `width` pixels, which repeats downwards."""
    return np.repeat(np.tile(_BAYER, -(-width // 4))[:, :width, None], 3, axis=2)


def fit(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Return the image at the source's size, by the fixed filter (Pillow LANCZOS)."""
    return image if image.size == size else image.resize(size, Image.Resampling.LANCZOS)


def is_reframed(answered: tuple[int, int], source: tuple[int, int]) -> bool:
    """Return True if the answer's aspect ratio is more than 2 % off the source's."""
    ratio = (answered[0] / answered[1]) / (source[0] / source[1])
    return max(ratio, 1 / ratio) > REFRAMED_RATIO


def is_blank(image: Image.Image) -> bool:
    """Return True for an image of one colour, the answer of some safety filters."""
    channels: Any = image.getextrema()
    return all(lightest - darkest <= BLANK_SPREAD for darkest, lightest in channels)


def blank_card(image: Image.Image) -> Image.Image:
    """Return an image of the source's mean colour, in which everything is lost."""
    mean = np.asarray(image).reshape(-1, 3).mean(axis=0, dtype=np.float64)
    red, green, blue = (int(v) for v in np.rint(mean))
    return Image.new("RGB", image.size, (red, green, blue))


def encode_png(image: Image.Image) -> bytes:
    """Return PNG bytes with the required chunks only.

    Colour images, which are sent with every edit, are written here: Pillow takes more than
    twice as long, since it tries five filters on each row, which saves two or three percent.
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
    """Return WebP bytes; lossless with method 0 encodes much faster than PNG."""
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", lossless=lossless, quality=quality, method=0 if lossless else 2)
    return buffer.getvalue()


def encode_jpeg(image: Image.Image, quality: int) -> bytes:
    """Return JPEG bytes with Pillow's default chroma subsampling."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def thumbnail(image: Image.Image, side: int = 256) -> bytes:
    """Return a small lossy WebP, the longer side at most `side` pixels."""
    small = image.copy()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    return encode_webp(small, lossless=False)
