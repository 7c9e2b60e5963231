"""Images: which are refused, and how the others are converted."""

import io
import struct
import subprocess
import sys
import time
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms, PngImagePlugin

from evaluation import images
from evaluation.images import (
    EncodedImage,
    ImageError,
    blank_card,
    fit,
    is_blank,
    is_reframed,
)
from evaluation.testing.image_bombs import broken_exif, many_parts, many_texts

RNG = np.random.default_rng(0)


def noise(width=24, height=16, channels=3):
    shape = (height, width, channels) if channels > 1 else (height, width)
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def smooth(width=48, height=32):
    x, y = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    return Image.fromarray(np.stack([x, y, (x + y) / 2], -1).astype(np.uint8))


def encoded(image, kind="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def raw_png(values, colour_type, *, bits=16, before=b"", size=None, interlaced=False):
    """Encode a PNG by hand, because Pillow cannot write most 16-bit kinds."""
    height, width = size or values.shape[:2]
    header = struct.pack(">IIBBBBB", width, height, bits, colour_type, 0, 0, interlaced)
    rows = b"".join(b"\0" + row.astype(f">u{bits // 8}").tobytes() for row in values)
    body = chunk(b"IHDR", header) + before + chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + body + chunk(b"IEND", b"")


def pixels(data):
    return np.asarray(EncodedImage.from_bytes(data).decoded)


# Refused images


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty"),
        (b"<html>log in</html>", "not a PNG, JPEG or WebP"),
        (b"\x89PNG\r\n\x1a\n", "not a PNG, JPEG or WebP|cannot be decoded"),
        (encoded(smooth(), "GIF"), "not a PNG, JPEG or WebP"),
        (encoded(smooth(), "TIFF"), "not a PNG, JPEG or WebP"),
        (encoded(smooth(), "BMP"), "not a PNG, JPEG or WebP"),
    ],
)
def test_files_that_are_no_accepted_image_are_refused_with_the_reason(data, said):
    with pytest.raises(ImageError, match=said):
        EncodedImage.from_bytes(data)


def test_a_gigapixel_header_is_refused_before_decoding():
    bomb = raw_png(np.zeros((1, 1)), 2, bits=8, size=(30_000, 30_000))
    with pytest.raises(ImageError, match=r"30000|bomb"):
        EncodedImage.from_bytes(bomb)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("side", [6_400, 9_700, 12_000])
def test_images_above_our_limit_are_refused_although_pillow_accepts_them(side):
    header = raw_png(np.zeros((1, 1)), 2, bits=8, size=(side, side))
    with pytest.raises(ImageError, match=r"limit|bomb"):
        EncodedImage.from_bytes(header)


def test_the_limit_of_pixels_is_inclusive_and_can_be_set():
    data = encoded(smooth(48, 32))
    assert EncodedImage.from_bytes(data, max_pixels=48 * 32).size == (48, 32)
    with pytest.raises(ImageError, match="48 x 32 pixels"):
        EncodedImage.from_bytes(data, max_pixels=48 * 32 - 1)


def test_too_many_bytes_are_refused():
    data = encoded(smooth())
    with pytest.raises(ImageError, match="the limit is 10"):
        EncodedImage.from_bytes(data, max_bytes=10)


def test_a_text_chunk_that_inflates_to_a_bomb_is_refused():
    text = b"Comment\0\0" + zlib.compress(b"a" * (PngImagePlugin.MAX_TEXT_CHUNK + 10))
    with pytest.raises(ImageError, match="cannot be decoded"):
        EncodedImage.from_bytes(raw_png(noise(4, 4), 2, bits=8, before=chunk(b"zTXt", text)))


def test_texts_that_inflate_to_a_bomb_together_are_refused():
    assert EncodedImage.from_bytes(many_texts(1)).size == (128, 128)
    with pytest.raises(ImageError, match="Too much memory used in text"):
        EncodedImage.from_head(many_texts(2))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_an_image_of_endless_parts_is_refused_before_they_are_read(kind):
    # Bytes after the last part are not read.
    whole = many_parts(kind, 10_000) + bytes(2**20)
    assert EncodedImage.from_bytes(whole).size == (128, 128)
    start = time.monotonic()
    with pytest.raises(ImageError, match="more than 20,000 parts"):
        EncodedImage.from_head(many_parts(kind, 1_000_000))
    assert time.monotonic() - start < 1


def test_a_broken_exif_writes_no_line_for_each_of_its_entries():
    code = (
        "from evaluation.images import EncodedImage;"
        "from evaluation.testing.image_bombs import broken_exif;"
        "EncodedImage.from_bytes(broken_exif(1_000))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stderr == b""
    assert EncodedImage.from_bytes(broken_exif(1_000)).size == (128, 128)


def test_a_jpeg_of_endless_scans_is_refused_at_once():
    data = encoded(Image.new("L", (3000, 3000)), "JPEG", progressive=True)
    scan = data[data.rindex(b"\xff\xda") : -2][:10] + b"\0"
    assert EncodedImage.from_bytes(data[:-2] + scan * 20 + data[-2:]).size == (3000, 3000)
    start = time.monotonic()
    with pytest.raises(ImageError, match="scans"):
        EncodedImage.from_bytes(data[:-2] + scan * 100_000 + data[-2:])
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_animated_images_are_refused(kind):
    frames = [Image.fromarray(noise()) for _ in range(3)]
    data = encoded(frames[0], kind, save_all=True, append_images=frames[1:], duration=50)
    with pytest.raises(ImageError, match="animated"):
        EncodedImage.from_bytes(data)


def test_the_second_image_in_a_phones_jpeg_does_not_matter():
    first, second = smooth(), Image.fromarray(noise(48, 32))
    data = encoded(first, "MPO", save_all=True, append_images=[second], quality=95)
    image = EncodedImage.from_bytes(data)
    assert image.mime == "image/jpeg"
    assert np.abs(np.asarray(image.decoded).astype(int) - np.asarray(first)).mean() < 3


# Truncated and random files


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("PNG", {}),
        ("PNG", {"compress_level": 0}),
        ("JPEG", {"quality": 80}),
        ("JPEG", {"quality": 80, "progressive": True}),
        ("WEBP", {"quality": 80}),
        ("WEBP", {"lossless": True}),
    ],
)
def test_a_truncated_file_is_refused_unless_it_decodes_completely(kind, options):
    data = encoded(smooth(64, 48), kind, **options)
    whole = pixels(data)
    refused = 0
    for length in range(len(data)):
        try:
            assert np.array_equal(pixels(data[:length]), whole)
        except ImageError:
            refused += 1
    # Only the last few bytes of a file may be missing without a loss.
    assert refused >= len(data) - 24


@given(st.binary(max_size=300))
@settings(max_examples=300, deadline=None)
def test_random_bytes_raise_nothing_but_an_image_error(data):
    with pytest.raises(ImageError):
        EncodedImage.from_bytes(data)


PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
EXIF = Image.Exif()
EXIF[0x0112] = 6
SEEDS = [
    encoded(smooth(), "PNG", icc_profile=PROFILE, exif=EXIF),
    encoded(smooth().convert("P"), "PNG", transparency=3),
    raw_png(RNG.integers(0, 65536, (6, 5, 4)), 6),
    encoded(smooth(), "JPEG", icc_profile=PROFILE, exif=EXIF),
    encoded(smooth().convert("CMYK"), "JPEG"),
    encoded(smooth(), "WEBP", icc_profile=PROFILE, exif=EXIF.tobytes()),
]


@given(
    seed=st.sampled_from(SEEDS),
    edits=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=12),
    cut=st.floats(0.3, 1),
    head=st.booleans(),
)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_damaged_images_decode_or_raise_an_image_error(seed, edits, cut, head):
    data = bytearray(seed)
    span = min(len(data), 200) if head else len(data)  # headers are where parsers break
    for place, value in edits:
        data[int(place * (span - 1))] = value
    damaged = bytes(data[: max(1, int(cut * len(data)))])
    try:
        image = EncodedImage.from_bytes(damaged, max_pixels=100_000)
    except ImageError:
        return
    assert image.decoded.mode == "RGB"
    assert image.decoded.size == image.size


# Conversions


def test_the_bytes_are_kept_as_answered():
    data = encoded(smooth(), "WEBP", lossless=True)
    image = EncodedImage.from_bytes(data)
    assert (image.data, image.mime, image.size) == (data, "image/webp", (48, 32))
    assert len(image.sha256) == 64
    assert image.notes == ()
    assert pixels(image.png()).tolist() == np.asarray(image.decoded).tolist()


def test_a_png_is_passed_on_unchanged():
    data = encoded(smooth(), "PNG")
    assert EncodedImage.from_bytes(data).png() is data


@pytest.mark.parametrize(("colour_type", "channels"), [(0, 1), (2, 3)])
def test_16_bit_is_divided_by_257_never_cut_or_clipped(colour_type, channels):
    values = RNG.integers(0, 65536, (9, 11, channels))
    values[0, :4, 0] = [0, 255, 65535, 300]
    expected = np.broadcast_to(np.rint(values / 257), (9, 11, 3))
    image = EncodedImage.from_bytes(raw_png(values, colour_type))
    assert np.array_equal(np.asarray(image.decoded), expected)
    assert "16 bit scaled to 8 bit" in image.notes


@pytest.mark.parametrize(("colour_type", "channels"), [(4, 2), (6, 4)])
def test_16_bit_with_alpha_is_composited_over_mid_grey(colour_type, channels):
    values = RNG.integers(0, 65536, (9, 11, channels))
    alpha = np.rint(values[..., -1:] / 257) / 255
    colour = np.broadcast_to(np.rint(values[..., :-1] / 257), (9, 11, 3))
    expected = colour * alpha + 128 * (1 - alpha)
    found = pixels(raw_png(values, colour_type))
    assert np.abs(found - expected).max() <= 1


@pytest.mark.parametrize(("colour_type", "channels"), [(0, 1), (2, 3)])
def test_the_transparent_colour_of_a_16_bit_png_is_exact(colour_type, channels):
    values = np.full((4, 4, channels), 40_000)
    values[1, 1] = 40_001  # the same in 8 bit, and not transparent
    key = chunk(b"tRNS", struct.pack(">H", 40_000) * channels)
    found = pixels(raw_png(values, colour_type, before=key))
    assert found[0, 0].tolist() == [128, 128, 128]
    assert found[1, 1].tolist() == [156, 156, 156]


def test_hidden_colours_under_transparency_do_not_show():
    rgba = np.zeros((4, 4, 4), np.uint8)
    rgba[..., :3] = 250
    rgba[0, 0] = 10, 20, 30, 255
    for kind, options in (("PNG", {}), ("WEBP", {"lossless": True, "exact": True})):
        found = pixels(encoded(Image.fromarray(rgba), kind, **options))
        assert found[1, 1].tolist() == [128, 128, 128]
        assert found[0, 0].tolist() == [10, 20, 30]


def test_a_palette_with_a_transparent_entry_is_composited():
    drawn = Image.new("P", (2, 1))
    drawn.putpalette([200, 10, 10, 10, 200, 10])
    drawn.putpixel((1, 0), 1)
    image = EncodedImage.from_bytes(encoded(drawn, "PNG", transparency=0))
    assert np.asarray(image.decoded)[0].tolist() == [[128, 128, 128], [10, 200, 10]]
    assert "transparency composited over mid grey" in image.notes


def test_a_palette_with_half_transparent_entries_is_composited():
    drawn = Image.new("P", (1, 1))
    drawn.putpalette([200, 10, 10])
    found = pixels(encoded(drawn, "PNG", transparency=bytes([128])))
    assert np.abs(found[0, 0] - [164, 69, 69]).max() <= 1


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA"])
def test_grey_palette_and_one_bit_become_rgb_with_a_note(mode):
    drawn = smooth().convert("L").convert(mode)
    image = EncodedImage.from_bytes(encoded(drawn))
    assert image.decoded.mode == "RGB"
    assert np.array_equal(np.asarray(image.decoded), np.asarray(drawn.convert("RGB")))
    assert any("converted from" in note for note in image.notes)


def test_a_cmyk_jpeg_comes_out_in_its_colours():
    source = smooth()
    image = EncodedImage.from_bytes(encoded(source.convert("CMYK"), "JPEG", quality=95))
    assert np.abs(np.asarray(image.decoded).astype(int) - np.asarray(source)).mean() < 4
    assert "converted from CMYK" in image.notes


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(kind, orientation):
    from PIL import ImageOps

    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"lossless": True} if kind == "WEBP" else {}
    data = encoded(smooth(), kind, exif=exif, **options)
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    image = EncodedImage.from_bytes(data)
    assert image.size == upright.size
    assert np.array_equal(np.asarray(image.decoded), np.asarray(upright))
    assert bool(image.notes) == (orientation > 1)


def test_a_16_bit_png_is_turned_upright_too():
    exif = Image.Exif()
    exif[0x0112] = 6
    values = RNG.integers(0, 65536, (4, 6, 3))
    turned = pixels(raw_png(values, 2, before=chunk(b"eXIf", exif.tobytes()[6:])))
    assert np.array_equal(turned, np.rot90(np.rint(values / 257), -1))


def test_unreadable_exif_does_not_invalidate_the_image():
    data = raw_png(noise(4, 4), 2, bits=8, before=chunk(b"eXIf", b"II*\0\xff\xff\xff\xff"))
    assert EncodedImage.from_bytes(data).size == (4, 4)


def linear_profile():
    """Return a linear profile with sRGB's primaries and name."""
    profile = bytearray(PROFILE)
    tags = struct.unpack(">I", profile[128:132])[0]
    for n in range(tags):
        start = 132 + 12 * n
        name, place, _ = struct.unpack(">4sII", profile[start : start + 12])
        if name in (b"rTRC", b"gTRC", b"bTRC"):
            # A parametric curve of type 0 with gamma 1 in place of sRGB's.
            profile[place : place + 16] = b"para" + bytes(8) + struct.pack(">i", 65536)
    return bytes(profile)


def test_a_profile_is_converted_even_if_its_name_says_srgb():
    grey = Image.new("RGB", (8, 8), (55, 55, 55))
    image = EncodedImage.from_bytes(encoded(grey, "PNG", icc_profile=linear_profile()))
    # 55/255 of light is about 128 in sRGB.
    assert np.abs(np.asarray(image.decoded).astype(int) - 128).max() <= 2
    assert "colour profile converted to sRGB" in image.notes


def test_transparency_is_composited_after_the_profile_is_converted():
    clear = Image.new("RGBA", (8, 8), (55, 55, 55, 0))
    found = pixels(encoded(clear, "PNG", icc_profile=linear_profile()))
    assert (found == 128).all()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_a_copy_of_the_canonical_form_is_not_converted_or_turned_again(kind):
    exif = Image.Exif()
    exif[0x0112] = 6
    image = EncodedImage.from_bytes(
        encoded(smooth(), kind, exif=exif, icc_profile=linear_profile())
    )
    assert len(image.notes) == 2
    for copy in (images.encode_png(image.decoded), images.encode_webp(image.decoded)):
        again = EncodedImage.from_bytes(copy)
        assert again.notes == ()
        assert np.array_equal(np.asarray(again.decoded), np.asarray(image.decoded))
        assert b"lcms" not in copy


def test_an_srgb_profile_changes_no_pixel():
    drawn = Image.fromarray(noise())
    image = EncodedImage.from_bytes(encoded(drawn, "PNG", icc_profile=PROFILE))
    assert np.array_equal(np.asarray(image.decoded), np.asarray(drawn))
    assert image.notes == ()


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "LA", "P"])
def test_an_invalid_profile_is_ignored(mode):
    drawn = smooth().convert("L").convert(mode)
    for profile in (b"rubbish", PROFILE[:200], PROFILE):
        image = EncodedImage.from_bytes(encoded(drawn, "PNG", icc_profile=profile))
        assert np.array_equal(np.asarray(image.decoded), np.asarray(drawn.convert("RGB")))


def test_html_behind_an_image_changes_nothing():
    data = encoded(smooth())
    assert np.array_equal(pixels(data + b"<script>alert(1)</script>"), np.asarray(smooth()))


# Sizes, blanks, encoders


def test_another_size_is_resized_by_lanczos_and_the_same_size_is_not_touched():
    drawn = smooth()
    assert fit(drawn, drawn.size) is drawn
    assert fit(drawn, (10, 12)) == drawn.resize((10, 12), Image.Resampling.LANCZOS)


@pytest.mark.parametrize(
    ("answered", "flagged"),
    [
        ((100, 100), False),
        ((50, 50), False),
        ((102, 100), False),
        ((103, 100), True),
        ((97, 100), True),
    ],
)
def test_an_aspect_ratio_more_than_two_percent_off_is_reframed(answered, flagged):
    assert is_reframed(answered, (100, 100)) is flagged


def test_the_blank_card_is_the_mean_colour():
    card = blank_card(Image.fromarray(np.array([[[0, 10, 255], [1, 20, 255]]], dtype=np.uint8)))
    assert np.unique(np.asarray(card).reshape(-1, 3), axis=0).tolist() in (
        [[0, 15, 255]],
        [[1, 15, 255]],
    )


def test_one_colour_is_blank_even_after_jpeg_and_a_dark_image_is_not():
    black = Image.new("RGB", (64, 64), (3, 0, 0))
    assert is_blank(black)
    assert is_blank(EncodedImage.from_bytes(images.encode_jpeg(black, 60)).decoded)
    dark = np.zeros((64, 64, 3), np.uint8)
    dark[10, 10] = 30
    assert not is_blank(Image.fromarray(dark))


@pytest.mark.parametrize(("sigma", "blank"), [(0.5, True), (8, False)])
def test_a_card_with_a_trace_of_noise_is_still_blank(sigma, blank):
    noise = np.random.default_rng(3).normal(128, sigma, (64, 64, 3))
    assert is_blank(Image.fromarray(np.rint(noise).astype(np.uint8))) is blank


def test_our_encoders_round_trip():
    drawn = smooth()
    for data in (images.encode_png(drawn), images.encode_webp(drawn)):
        assert np.array_equal(pixels(data), np.asarray(drawn))
    assert EncodedImage.from_bytes(images.thumbnail(drawn, 16)).size == (16, 11)
    assert EncodedImage.from_image(drawn).decoded is drawn
