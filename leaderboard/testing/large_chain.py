"""Measures images of four megapixels as a scoring job does, and prints the memory it took.

`manage.py shell -c "from leaderboard.testing import large_chain; large_chain.main()"`: the peak
in MB after each step.
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
    """The most memory that this process had so far, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024


def measure() -> dict[str, int]:
    """A source with a face, as many trips as a job takes at once, all metrics and witnesses."""
    preload(job_queue.GPU)
    found = {"imports": peak()}
    suite = catalog.suite("smoke")
    face = suite.image_by_slug["woman-with-buns"]
    large = sources.prepared(face, suite.size).resize(SIZE, Image.Resampling.BICUBIC)
    grain = np.random.default_rng(0).integers(-6, 7, (*SIZE[::-1], 1), dtype=np.int16)
    noisy = np.clip(np.asarray(large) + grain, 0, 255).astype(np.uint8)
    source = EncodedImage.from_bytes(encode_png(Image.fromarray(noisy)))
    edited = source.decoded.copy()
    edited.paste((205, 25, 30), (900, 200, 1500, 600))
    data = encode_png(edited), encode_jpeg(source.decoded, 90)
    del large, grain, noisy, edited
    found["source"] = peak()
    scorer = Scorer()
    trips = [
        tuple(map(EncodedImage.from_bytes, data)) for _ in range(TRIPS_PIXELS // math.prod(SIZE))
    ]
    there, back = trips[0]
    # All networks are loaded by then, so that the last step tells what all of it takes.
    for name, pair in {
        "local": EditPair("hat", "accessories", "Add a hat.", "Remove it.", "local", object="hat"),
        "text": EditPair("sign", "text", "Write it.", "Remove it.", "local", witness="reader:HI"),
        "exact": EditPair("f", "geometry", "Flip.", "Back.", "exact", operator="flip_horizontal"),
    }.items():
        subject = chain_subject(face, source, there, pair)
        measure_trip(source, source, there, back, pair, scorer.panel, subject)
        found[name] = peak()
    scorer.score(source, [back for _, back in trips], subject)
    found["score"] = peak()
    return found


def main() -> None:
    print(json.dumps(measure()))  # noqa: T201
