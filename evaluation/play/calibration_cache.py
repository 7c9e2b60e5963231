"""Calibrations kept on disk: a source's blank card and JPEG ladder are the same in every run.

They lie in $CONVERGEBENCH_CALIBRATIONS, else in ~/.cache/convergebench/calibrations, a file
for each source and set of metrics. Another version of a metric, its weights, its device or a
package is another file. Verification never looks here: it computes anew.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from evaluation.content.sources import pixel_sha256
from evaluation.images import Picture
from evaluation.measuring.calibrations.shipped import shipped, versions_of
from evaluation.measuring.scoring import Calibration, Scorer
from evaluation.metrics.base import Subject

#: A calibration takes 5 kB; those that were not used for longest go first.
MOST = 4000
FORMAT = 1


def calibrated(
    scorer: Scorer, source: Picture, subject: Subject
) -> Mapping[str, Calibration | None]:
    """The scorer's calibrations of a source: as kept, else computed and kept."""
    file = folder() / f"{_key(scorer, source, subject)}.json"
    if found := _read(file, scorer):
        return found
    computed = shipped(pixel_sha256(source.image), subject, versions_of(scorer))
    if unknown := [name for name in scorer.names if name not in computed]:
        computed |= scorer.only(unknown).calibrate(source, subject)
    with suppress(OSError):  # a cache that cannot be written costs time, nothing else
        _write(file, computed)
    return computed


def folder() -> Path:
    """Where calibrations are kept."""
    chosen = os.environ.get("CONVERGEBENCH_CALIBRATIONS")
    return (
        Path(chosen).expanduser() if chosen else Path.home() / ".cache/convergebench/calibrations"
    )


def _key(scorer: Scorer, source: Picture, subject: Subject) -> str:
    depends = scorer.provenance()
    about = {
        "format": FORMAT,
        "source": pixel_sha256(source.image),
        "size": source.size,
        "face": repr(subject.face),
        "names": scorer.full_reference,
        "metrics": {name: depends["metrics"].get(name) for name in scorer.full_reference},
        "packages": depends["packages"],
    }
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def _read(file: Path, scorer: Scorer) -> dict[str, Calibration | None] | None:
    """What the file holds; None where it is not there or not whole."""
    try:
        data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        found = {name: data[name] and _calibration(data[name]) for name in scorer.full_reference}
        os.utime(file)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return found


def _calibration(row: Mapping[str, Any]) -> Calibration:
    ladder = {int(quality): float(distance) for quality, distance in row["ladder"].items()}
    found = Calibration(float(row["blank"]), ladder)
    if not all(map(math.isfinite, (found.blank, *ladder.values()))):
        raise ValueError("not a number")
    return found


def _write(file: Path, computed: Mapping[str, Calibration | None]) -> None:
    """Aside, then renamed: another process sees all of it or nothing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = {
        name: found and {"blank": found.blank, "ladder": dict(found.ladder)}
        for name, found in computed.items()
    }
    handle, aside = tempfile.mkstemp(dir=file.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(rows, stream)
        Path(aside).replace(file)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
    _forget(file.parent)


def _forget(kept: Path) -> None:
    used: list[tuple[float, Path]] = []
    for file in kept.glob("*.json"):
        with suppress(OSError):  # another process may have taken it
            used.append((file.stat().st_mtime, file))
    for _, file in sorted(used)[: max(0, len(used) - MOST)]:
        file.unlink(missing_ok=True)
