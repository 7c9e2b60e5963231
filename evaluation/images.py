"""Pictures: decoded safely and brought to one canonical form.

Everything that enters, from a file, an upload or an endpoint's answer, passes
here; so does every resize.
"""

from __future__ import annotations

import hashlib
import io
import warnings
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from PIL import Image, ImageCms, ImageOps, UnidentifiedImageError

FORMATS = ("PNG", "JPEG", "WEBP")
MAX_BYTES = 64 * 2**20
# Pillow only warns below 179 MP; a benchmark picture is about 1 MP.
MAX_PIXELS = 40_000_000
MID_GREY = (128, 128, 128)
REFRAMED_RATIO = 1.02

_SRGB = ImageCms.createProfile("sRGB")


class ImageError(ValueError):
    """A picture that cannot be used; the message is written for people."""


@dataclass(frozen=True)
class Picture:
    """An encoded picture exactly as it arrived, and what its bytes say of it."""

    data: bytes = field(repr=False)
    mime: str
    width: int
    height: int
    notes: tuple[str, ...] = ()

    @classmethod
    def from_bytes(
        cls, data: bytes, *, max_bytes: int = MAX_BYTES, max_pixels: int = MAX_PIXELS
    ) -> Picture:
        """The checked and fully decoded picture; ImageError says what is wrong with it."""
        image, mime, notes = _decode(data, max_bytes, max_pixels)
        picture = cls(data, mime, image.width, image.height, notes)
        picture.__dict__["image"] = image
        return picture

    @classmethod
    def from_image(cls, image: Image.Image) -> Picture:
        """The picture of an image made by our own code, as PNG."""
        picture = cls(encode_png(image), "image/png", image.width, image.height)
        if image.mode == "RGB":
            picture.__dict__["image"] = image
        return picture

    @cached_property
    def image(self) -> Image.Image:
        """The canonical form: upright sRGB, 8 bit, no alpha, at the answered size."""
        return _decode(self.data, MAX_BYTES, MAX_PIXELS)[0]

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def size(self) -> tuple[int, int]:
        return self.width, self.height

    def png(self) -> bytes:
        """The bytes to send to an editor that wants PNG: the answer itself where it is one."""
        return self.data if self.mime == "image/png" else encode_png(self.image)


def _decode(
    data: bytes, max_bytes: int, max_pixels: int
) -> tuple[Image.Image, str, tuple[str, ...]]:
    """The canonical image, its MIME type by magic bytes, and what was converted on the way."""
    if not data:
        raise ImageError("the picture is empty (0 bytes)")
    if len(data) > max_bytes:
        raise ImageError(f"the picture has {len(data):,} bytes; the limit is {max_bytes:,}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data), formats=FORMATS)
            # The header alone tells the size: a bomb is refused before a pixel is decoded.
            if image.width * image.height > max_pixels:
                raise ImageError(
                    f"the picture is {image.width} x {image.height} pixels; "
                    f"the limit is {max_pixels / 1e6:g} megapixels"
                )
            if getattr(image, "n_frames", 1) > 1:
                raise ImageError("animated pictures are not accepted; send a single frame")
            mime = Image.MIME[image.format or ""]
            image.load()  # open() does not notice a truncated file
            return (*_canonical(image, mime),)
    except ImageError:
        raise
    except UnidentifiedImageError:
        raise ImageError("not a PNG, JPEG or WebP picture") from None
    # Broken files surface as OSError, SyntaxError (PNG), ValueError (zTXt bomb), ...
    except (
        OSError,
        SyntaxError,
        ValueError,
        EOFError,
        KeyError,
        Image.DecompressionBombError,
    ) as error:
        raise ImageError(f"the picture cannot be decoded: {error}") from error


def _canonical(image: Image.Image, mime: str) -> tuple[Image.Image, str, tuple[str, ...]]:
    notes = []
    profile = image.info.get("icc_profile")
    if image.getexif().get(0x0112, 1) != 1:
        image = ImageOps.exif_transpose(image)
        notes.append("turned upright by its EXIF orientation")
    if image.mode.startswith("I;16") or image.mode in ("I", "F"):
        # convert("RGB") would clip 16 bit; /257 maps 65535 to 255 exactly.
        values = np.asarray(image, dtype=np.float64) / 257
        image = Image.fromarray(np.clip(np.rint(values), 0, 255).astype(np.uint8), "L")
        notes.append("16 bit scaled to 8 bit")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        if rgba.getextrema()[3] != (255, 255):
            notes.append("transparency composited over mid grey")
        image = Image.alpha_composite(Image.new("RGBA", rgba.size, (*MID_GREY, 255)), rgba)
    if profile and image.mode in ("RGB", "RGBA", "L", "CMYK"):
        image = _to_srgb(image, profile, notes)
    if image.mode != "RGB":
        if image.mode != "RGBA":
            notes.append(f"converted from {image.mode}")
        image = image.convert("RGB")
    return image, mime, tuple(notes)


def _to_srgb(image: Image.Image, profile: bytes, notes: list[str]) -> Image.Image:
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        if "srgb" in ImageCms.getProfileDescription(source).lower() and image.mode == "RGB":
            return image
        base = image.convert("RGB") if image.mode == "RGBA" else image
        converted = ImageCms.profileToProfile(base, source, _SRGB, outputMode="RGB")
    except (ImageCms.PyCMSError, OSError, ValueError):
        notes.append("unreadable colour profile ignored")
        return image
    notes.append("colour profile converted to sRGB")
    return converted if converted is not None else image


def fit(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """The image at the source's size, by the one frozen filter (method: Pillow LANCZOS)."""
    return image if image.size == size else image.resize(size, Image.Resampling.LANCZOS)


def is_reframed(answered: tuple[int, int], source: tuple[int, int]) -> bool:
    """True when the answer's aspect ratio is more than 2 % off the source's."""
    ratio = (answered[0] / answered[1]) / (source[0] / source[1])
    return max(ratio, 1 / ratio) > REFRAMED_RATIO


def blank_card(image: Image.Image) -> Image.Image:
    """The source's mean colour everywhere: the picture with everything lost."""
    mean = np.asarray(image, dtype=np.float64).reshape(-1, 3).mean(axis=0)
    red, green, blue = (int(v) for v in np.rint(mean))
    return Image.new("RGB", image.size, (red, green, blue))


def encode_png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def encode_webp(image: Image.Image, *, lossless: bool = True, quality: int = 80) -> bytes:
    """WebP bytes; lossless with method 0 encodes several times faster than PNG."""
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", lossless=lossless, quality=quality, method=0 if lossless else 4)
    return buffer.getvalue()


def encode_jpeg(image: Image.Image, quality: int) -> bytes:
    """JPEG bytes with Pillow's default chroma subsampling, the common 'save as'."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def thumbnail(image: Image.Image, side: int = 256) -> bytes:
    """A small lossy WebP, the longer side at most `side` pixels."""
    small = image.copy()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    return encode_webp(small, lossless=False)
