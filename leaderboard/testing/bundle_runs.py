"""Bundles (runs packed into one file) of small runs, unchanged and altered."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evaluation.bundle import document as bundles
from evaluation.content.suites import EditPair
from leaderboard.exports import bundles as site_bundles
from leaderboard.models import Run, Suite
from leaderboard.testing import factories

WINTER = EditPair(
    slug="winter",
    category="light",
    forward="Make it winter.",
    backward="Make it summer.",
    change="global",
)
PAIRS = (factories.FLIP, factories.REPLICA)


def bundled_suite() -> Suite:
    """Create a suite of six images, which are enough for intervals."""
    return factories.tiny_suite(6, PAIRS, trips=2)


def bundle_of(run: Run, folder: Path, *, images: bool = True) -> Path:
    path = folder / f"run-{run.pk}{'' if images else '-numbers'}.zip"
    site_bundles.write(run, path, images=images)
    return path


def altered(path: Path, change: Callable[[dict[str, Any]], Any], *, sealed: bool = False) -> Path:
    """Return a copy of the bundle with a changed document; `sealed` updates its digests too."""
    with bundles.read(path) as bundle:
        document = bundle.raw
        change(document)
        if sealed:
            document = bundles.sealed(document)
    return rewritten(path, {bundles.DOCUMENT: json.dumps(document).encode()})


def rewritten(path: Path, contents: dict[str, bytes]) -> Path:
    """Return a copy of the zip with some entries replaced."""
    other = path.with_name(f"altered-{path.name}")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w") as new:
        for info in old.infolist():
            new.writestr(info, contents.get(info.filename, old.read(info)))
    return other
