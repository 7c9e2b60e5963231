"""Cache calibrations on disk, shared by all runs that use a source image.

A calibration has a metric's distances from a source image to a blank card and to JPEG copies. The
cache is in $CONVERGEBENCH_CALIBRATIONS, by default ~/.cache/convergebench/calibrations. Each file
belongs to one source image and one set of metrics with their versions, weights, devices and
packages. Verification never reads the cache.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import FiniteFloat, TypeAdapter

from evaluation.content.sources import pixel_sha256
from evaluation.images import EncodedImage
from evaluation.measuring.calibration import Calibration, shipped
from evaluation.measuring.scoring import Scorer
from evaluation.metrics.base import Subject
from evaluation.play.run_folder import write_json

#: The number of files to keep, about 5 kB each. The least recently used are deleted first.
MAX_FILES = 4000
_FILE = TypeAdapter(
    dict[str, tuple[FiniteFloat, dict[int, FiniteFloat], dict[str, Any] | None] | None]
)


def calibrated(
    scorer: Scorer, source: EncodedImage, subject: Subject
) -> Mapping[str, Calibration | None]:
    """Return the scorer's calibrations of a source image, from the cache if possible."""
    file = folder() / f"{_key(scorer, source, subject)}.json"
    if cached := _read(file, scorer):
        return cached
    computed = shipped(pixel_sha256(source.decoded), subject, scorer.versions())
    if unknown := [name for name in scorer.full_reference if name not in computed]:
        computed |= scorer.only(unknown).calibrate(source, subject)
    with suppress(OSError):  # without a writable cache, scoring is only slower
        rows = {name: row and (row.blank, row.ladder, row.stored) for name, row in computed.items()}
        write_json(file, rows)
        _prune(file.parent)
    return computed


def folder() -> Path:
    """Return the folder of the cache."""
    chosen = os.environ.get("CONVERGEBENCH_CALIBRATIONS")
    return (
        Path(chosen).expanduser() if chosen else Path.home() / ".cache/convergebench/calibrations"
    )


def _key(scorer: Scorer, source: EncodedImage, subject: Subject) -> str:
    provenance = scorer.provenance()
    inputs = {
        "format": 3,
        "source": pixel_sha256(source.decoded),
        "size": source.size,
        "face": repr(subject.face),
        "names": scorer.full_reference,
        "metrics": {name: provenance["metrics"].get(name) for name in scorer.full_reference},
        "packages": provenance["packages"],
    }
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def _read(file: Path, scorer: Scorer) -> dict[str, Calibration | None] | None:
    """Read a file of the cache; None if it is missing or invalid."""
    try:
        rows = _FILE.validate_json(file.read_bytes())
        os.utime(file)
        return {name: (row := rows[name]) and Calibration(*row) for name in scorer.full_reference}
    except (OSError, ValueError, KeyError):
        return None


def _prune(cache: Path) -> None:
    used: list[tuple[float, Path]] = []
    for file in cache.glob("*.json"):
        with suppress(OSError):  # another process may have deleted it
            used.append((file.stat().st_mtime, file))
    for _, file in sorted(used)[: max(0, len(used) - MAX_FILES)]:
        file.unlink(missing_ok=True)
