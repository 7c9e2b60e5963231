"""Write the shipped calibrations of a suite: python -m tools.calibrations SUITE ...

A calibration has the distances, by one metric, of an image to its blank card and to JPEG saves.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from tqdm import tqdm

from evaluation.content import catalog, sources
from evaluation.images import EncodedImage
from evaluation.measuring.calibration import FOLDER, face_shares
from evaluation.measuring.scoring import Scorer
from evaluation.measuring.subject import chain_subject
from evaluation.metrics import MetricError, full_reference_metrics


def compute(slug: str) -> dict[str, Any]:
    """Return the calibrations of a suite. Raises MetricError if a metric cannot run here."""
    # Without CLIP, because most machines do not have its weights.
    suite = catalog.suite(slug)
    scorer = Scorer([n for n in full_reference_metrics() if n != "clip"], witnesses=())
    if scorer.not_run:
        raise MetricError(f"not all metrics run here: {scorer.not_run}")
    images: dict[str, Any] = {}
    for image in tqdm(suite.images, unit="image"):
        source = EncodedImage.from_image(sources.load_prepared(image, suite.size))
        subject = chain_subject(image)
        calibrations = scorer.calibrate(source, subject)
        distances = {
            name: row and [row.blank, *row.ladder.values()] for name, row in calibrations.items()
        }
        stored = {name: row.stored for name, row in calibrations.items() if row and row.stored}
        images[image.sha256] = {
            "face": face_shares(subject),
            "distances": distances,
            "stored": stored,
        }
    metrics = {
        name: {"version": version, "weights_sha256": weights}
        for name, (version, weights) in scorer.versions().items()
    }
    return {"metrics": metrics, "images": images}


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools.calibrations", description=__doc__)
    parser.add_argument("suites", nargs="+", metavar="SUITE", help="the slug of a suite")
    folder = catalog.folder() / FOLDER
    folder.mkdir(exist_ok=True)
    for slug in parser.parse_args().suites:
        text = json.dumps(compute(slug), indent=1)
        (folder / f"{slug}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
