"""Score images of four megapixels as a score job does, and print the memory used.

`manage.py shell -c "from leaderboard.testing import large_chain; large_chain.main()"` prints the
peak in MB after each step.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
from PIL import Image

from evaluation.content import catalog, sources
from evaluation.content.suites import EditPair
from evaluation.images import EncodedImage, encode_jpeg, encode_png
from evaluation.measuring.scoring import Scorer
from evaluation.measuring.subject import chain_subject
from evaluation.measuring.trip_measures import measure_trip
from evaluation.play.score import TRIPS_PIXELS
from leaderboard import job_queue
from leaderboard.jobs.worker import preload

SIZE = (2400, 1600)


def peak() -> int:
    """Return the peak memory of this process in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024


def measure() -> dict[str, int]:
    """Return the peak memory after each step, with all metrics and witnesses (checks of edits).

    The source has a face. There are as many trips as a score job scores together.
    """
    preload(job_queue.GPU)
    peaks = {"imports": peak()}
    suite = catalog.suite("smoke")
    face = suite.image_by_slug["woman-with-buns"]
    large = sources.load_prepared(face, suite.size).resize(SIZE, Image.Resampling.BICUBIC)
    grain = np.random.default_rng(0).integers(-6, 7, (*SIZE[::-1], 1), dtype=np.int16)
    noisy = np.clip(np.asarray(large) + grain, 0, 255).astype(np.uint8)
    source = EncodedImage.from_bytes(encode_png(Image.fromarray(noisy)))
    edited = source.decoded.copy()
    edited.paste((205, 25, 30), (900, 200, 1500, 600))
    data = encode_png(edited), encode_jpeg(source.decoded, 90)
    del large, grain, noisy, edited
    peaks["source"] = peak()
    scorer = Scorer()
    trips = [
        tuple(map(EncodedImage.from_bytes, data)) for _ in range(TRIPS_PIXELS // math.prod(SIZE))
    ]
    edited_image, restored = trips[0]
    # These steps load all networks, so that the last step shows the memory of everything.
    for name, pair in {
        "local": EditPair("hat", "accessories", "Add a hat.", "Remove it.", "local", object="hat"),
        "text": EditPair("sign", "text", "Write it.", "Remove it.", "local", witness="reader:HI"),
        "exact": EditPair("f", "geometry", "Flip.", "Back.", "exact", operator="flip_horizontal"),
    }.items():
        subject = chain_subject(face, source, edited_image, pair)
        measure_trip(source, source, edited_image, restored, pair, scorer.panel, subject)
        peaks[name] = peak()
    scorer.score(source, [restored for _, restored in trips], subject)
    peaks["score"] = peak()
    return peaks


def main() -> None:
    print(json.dumps(measure()))  # noqa: T201
