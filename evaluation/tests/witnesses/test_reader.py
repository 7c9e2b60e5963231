"""The reading witness: words were added and removed."""

from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont
from skimage import data

from evaluation.images import EncodedImage, encode_jpeg
from evaluation.metrics.networks.text_reader import text_reader
from evaluation.testing.reference_images import as_image
from evaluation.witnesses import TripToJudge, load_witness
from evaluation.witnesses.reader import likeness

SOURCE = as_image(data.coffee())


@pytest.fixture(scope="module")
def reader():
    witness = load_witness("reader")
    if missing := witness.missing():
        pytest.skip("; ".join(missing))
    return witness


def written(image, words, size=60):
    image = image.copy()
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(words.split("\n")):
        font = ImageFont.load_default(size)
        draw.text(
            (40, 30 + 90 * number), line, (255, 255, 255), font, stroke_width=3, stroke_fill=0
        )
    return image


def judged(witness, words, edited, restored):
    images = [EncodedImage.from_image(image) for image in (SOURCE, SOURCE, edited, restored)]
    pair = SimpleNamespace(witness=f"reader:{words}", object="lettering")
    return witness.examine(TripToJudge(*images, pair))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("SUMMER", "SUMMER"),
        ("THANK YOU", "THANK\nYOU"),
        ("potato", "Potato"),
        ("12 05 1998", "12 05 1998"),
    ],
)
def test_words_are_detected_as_added_removed_or_left(reader, asked, words):
    edited = written(SOURCE, words)
    found = judged(reader, asked, edited, SOURCE)
    assert (found.thing, found.made, found.undone, found.gates) == (asked, True, True, False)
    assert judged(reader, asked, edited, edited).undone is False


def test_words_are_read_despite_wear(reader):
    values = np.asarray(written(SOURCE, "LIBRARY")) + np.random.default_rng(0).normal(
        0, 15, (*SOURCE.size[::-1], 3)
    )
    noisy = as_image(np.clip(values, 0, 255).astype(np.uint8))
    saved = EncodedImage.from_bytes(encode_jpeg(noisy, 40)).decoded
    assert judged(reader, "LIBRARY", saved, SOURCE).made is True


def test_other_words_and_a_red_ball_are_not_the_words(reader):
    assert judged(reader, "SUMMER", written(SOURCE, "LIBRARY"), SOURCE).made is False
    ball = SOURCE.copy()
    ImageDraw.Draw(ball).ellipse((60, 60, 160, 160), fill=(200, 20, 20))
    assert judged(reader, "SUMMER", ball, SOURCE).made is False
    assert judged(reader, "SUMMER", SOURCE, SOURCE).made is False


def test_an_empty_image_has_no_lines(reader):
    assert text_reader().lines(Image.new("RGB", (64, 40), (200, 200, 200))) == []


def test_likeness_searches_within_lines_and_across_lines():
    assert likeness("THANK YOU", ["Thank", "you!"]) == 1
    assert likeness("OPEN", ["we are open today"]) == 1
    assert 0.4 < likeness("SAMPLE", ["SAMP2E"]) < 1
    assert likeness("SUMMER", []) == 0
    assert likeness("LIBRARY", ["BAKERY"]) < 0.1
    assert likeness("GOOD EVENING", ["GOOD", "MORNING"]) < 0.4
