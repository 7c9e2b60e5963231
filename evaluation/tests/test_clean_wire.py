"""Images sent to an editor: only pixels without their low bits, in a valid PNG."""

import io
import struct
from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

from evaluation.images import EncodedImage, clean_wire, encode_png

PIXELS = st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**32 - 1)).map(
    lambda drawn: np.random.default_rng(drawn[2]).integers(
        0, 256, (drawn[0], drawn[1], 3), dtype=np.uint8
    )
)
TURNS = [None, *Image.Transpose]


@given(PIXELS)
def test_other_programs_read_the_pixels_that_we_write(drawn):
    data = encode_png(Image.fromarray(drawn))
    assert np.array_equal(EncodedImage.from_bytes(data).decoded, drawn)
    assert np.array_equal(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB), drawn)


@given(PIXELS, st.sampled_from(TURNS))
def test_a_clean_image_is_not_changed_again_even_after_a_turn(pixels, turn):
    sent = clean_wire(EncodedImage.from_image(Image.fromarray(pixels))).decoded
    moved = sent if turn is None else sent.transpose(turn)
    again = clean_wire(EncodedImage.from_image(moved)).decoded
    assert again.tobytes() == moved.tobytes()


@given(PIXELS)
def test_the_wire_has_no_low_bits_and_changes_no_channel_by_a_whole_step(pixels):
    sent = np.asarray(clean_wire(EncodedImage.from_image(Image.fromarray(pixels))).decoded)
    assert sent.shape == pixels.shape
    assert not (sent & 3).any()
    assert np.abs(sent.astype(int) - pixels).max() <= 3


def test_the_wire_is_unbiased_at_every_level():
    for level in range(253):
        flat = EncodedImage.from_image(Image.new("RGB", (8, 8), (level, level, level)))
        assert np.asarray(clean_wire(flat).decoded).mean() == level


def chunk_names(data):
    names, at = [], 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        names.append(data[at + 4 : at + 8])
        at += 12 + length
    return names


@given(st.sampled_from(["PNG", "JPEG", "WEBP"]), st.binary(min_size=1, max_size=50))
def test_only_the_pixels_of_a_file_are_sent(kind, hidden):
    info, exif = PngImagePlugin.PngInfo(), Image.Exif()
    info.add_text("note", hidden.hex(), zip=True)
    info.add(b"prVt", hidden)
    exif[0x010E] = hidden.hex()
    options = {"pnginfo": info} if kind == "PNG" else {"exif": exif}
    file = io.BytesIO()
    Image.linear_gradient("L").resize((48, 32)).convert("RGB").save(file, kind, **options)
    image = EncodedImage.from_bytes(file.getvalue() + hidden)
    sent = clean_wire(image)
    names = chunk_names(sent.data)
    assert (names[0], set(names[1:-1]), names[-1]) == (b"IHDR", {b"IDAT"}, b"IEND")
    # The same pixels from a file without hidden data give the same bytes.
    assert sent.data == clean_wire(EncodedImage.from_image(image.decoded)).data
    assert EncodedImage.from_bytes(sent.data).decoded.tobytes() == sent.decoded.tobytes()


def test_a_clean_image_stays_the_same_object():
    sent = clean_wire(EncodedImage.from_image(Image.linear_gradient("L").convert("RGB")))
    assert clean_wire(sent) is sent


@pytest.mark.parametrize("side", [16, 300])
def test_many_threads_get_the_same_result_as_one(side):
    random = np.random.default_rng(7)
    shapes = [(side, side + n, 3) for n in range(8)]
    made = [Image.fromarray(random.integers(0, 256, shape, np.uint8)) for shape in shapes]
    expected = [clean_wire(EncodedImage.from_image(image)).data for image in made]
    files = [encode_png(image) for image in made] * 4
    with ThreadPoolExecutor(8) as pool:
        sent = list(pool.map(lambda file: clean_wire(EncodedImage.from_bytes(file)).data, files))
    assert sent == expected * 4
