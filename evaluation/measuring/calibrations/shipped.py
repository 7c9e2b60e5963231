"""Calibrations that come with the project: of the suite that everybody meets first.

A source's blank card and JPEG ladder are the same on every machine, and those of `smoke` take
40 s of a processor, while a fresh board waits for its first row. They count where metric, version,
weights, pixels and face are those they were computed with, else they are computed. They are a CPU's,
in full precision, whatever device measures what is held against them.
`python -m evaluation.measuring.calibrations.shipped smoke` writes them anew, and a test computes
one of them again. Verification never looks here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from tqdm import tqdm

from evaluation.content import catalog, sources
from evaluation.images import Picture
from evaluation.measuring.calibrations import jpeg
from evaluation.measuring.scoring import Calibration, Scorer
from evaluation.measuring.subject import chain_subject
from evaluation.metrics import full_reference_metrics
from evaluation.metrics.base import MetricError, Subject

FOLDER = "calibrations"


def shipped(
    pixels_sha256: str, subject: Subject, versions: Mapping[str, tuple[str, str]]
) -> dict[str, Calibration | None]:
    """What is known of a source, by metric; `versions` are its version and its weights' hash.

    None for a metric that says nothing of this source; those that are not known are left out.
    """
    found: dict[str, Calibration | None] = {}
    for file in _files():
        picture = file["pictures"].get(pixels_sha256)
        if picture is None or picture["face"] != _face(subject):
            continue
        for name, (version, weights) in versions.items():
            made_with = file["metrics"].get(name)
            if made_with == {"version": version, "weights_sha256": weights}:
                found[name] = _calibration(picture["distances"][name])
    return found


def versions_of(scorer: Scorer) -> dict[str, tuple[str, str]]:
    """Of each metric that runs here its version, and the hash of its weights where it has any."""
    made_with = scorer.provenance()["metrics"]
    return {name: (m["version"], m["weights_sha256"] or "") for name, m in made_with.items()}


@cache
def _files() -> list[dict[str, Any]]:
    folder = catalog.folder() / FOLDER
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]


def _face(subject: Subject) -> list[float] | None:
    return None if subject.face is None else list(subject.face)


def _calibration(distances: list[float] | None) -> Calibration | None:
    if distances is None:
        return None
    blank, *ladder = distances
    return Calibration(blank, dict(zip(jpeg.QUALITIES, ladder, strict=True)))


def compute(slug: str) -> dict[str, Any]:
    """The contents of a suite's file, by the metrics that run here."""
    # All but CLIP, whose weights few machines have: what lacks one that everybody has is of no use.
    suite = catalog.suite(slug)
    scorer = Scorer([n for n in full_reference_metrics() if n != "clip"], witnesses=())
    if scorer.not_run:
        raise MetricError(f"not all metrics run here: {scorer.not_run}")
    pictures: dict[str, Any] = {}
    for picture in tqdm(suite.pictures, unit="picture"):
        source = Picture.from_image(sources.prepared(picture, suite.size))
        subject = chain_subject(picture)
        found = scorer.calibrate(source, subject)
        distances = {
            name: made and [made.blank, *made.ladder.values()] for name, made in found.items()
        }
        pictures[picture.sha256] = {"face": _face(subject), "distances": distances}
    metrics = {
        name: {"version": version, "weights_sha256": weights}
        for name, (version, weights) in versions_of(scorer).items()
    }
    return {"metrics": metrics, "pictures": pictures}


def write(slugs: Iterable[str]) -> None:
    """Write the files of these suites."""
    folder = catalog.folder() / FOLDER
    folder.mkdir(exist_ok=True)
    for slug in slugs:
        text = json.dumps(compute(slug), indent=1)
        (folder / f"{slug}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(sys.argv[1:])
