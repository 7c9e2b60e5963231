"""Results in the format of github.com/Qianli-ion/edit-converge-bench, with that table's faults."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

#: The models that played every case.
WHOLE = ("nano_banana", "qwen", "grok")
PARTIAL = ("flux", "gemini", "seedream")
TRIPS = 10
#: The mean SSIM of a blank card.
BLANK_SSIM = 0.59
_PAIRS = {
    "portrait": {"hat_add_remove": "accessories", "glasses_add_remove": "accessories"},
    "scene": {"bird_add_remove": "scene_objects", "car_add_remove": "scene_objects"},
}
_CASES = [
    (f"{kind}_{number:02}.jpg", pair, kind, category)
    for kind, pairs in _PAIRS.items()
    for number in (1, 2, 3)
    for pair, category in {**pairs, "horizontal_flip": "geometry"}.items()
]
#: Cases of the other models; the last one was played by none of the models in WHOLE.
_FEW_CASES = [*_CASES[:2], ("portrait_01.jpg", "earrings_add_remove", "portrait", "accessories")]
_CHAINS_TWICE, _CHAINS_AGAIN = 4, 2


@dataclass(frozen=True)
class PublishedTable:
    """A file results.csv, with the counts that an import should report."""

    path: Path
    rows: int
    #: Rows without exact duplicates.
    distinct: int
    #: Cases that all models in WHOLE played.
    common: int


def real(shared: Path) -> PublishedTable:
    """Return the published table, from the folder of shared data."""
    return PublishedTable(shared / "ecb/results.csv", rows=4631, distinct=2741, common=57)


def drawn(folder: Path) -> PublishedTable:
    """Generate a small table: three complete models, three with a few short chains.

    As in the published table, LPIPS was never run and is 0.0. Some chains are listed twice, some
    were played again with other results, and some stop without a reason.
    """
    random = np.random.default_rng(7)
    once = [row for model in WHOLE for case in _CASES for row in _chain(model, case, random)]
    del once[TRIPS * len(_CASES) + TRIPS - 1]  # the end of qwen's first chain
    twice = [row for row in once if row["model"] == "grok"][: TRIPS * _CHAINS_TWICE]
    for case in _CASES[:_CHAINS_AGAIN]:
        once += _chain("grok", case, random)
    for model in PARTIAL:
        for case in _FEW_CASES:
            once += list(_chain(model, case, random))[:4]
    rows = once + twice
    path = folder / "results.csv"
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return PublishedTable(path, len(rows), len(once), len(_CASES))


def _chain(
    model: str, case: tuple[str, str, str, str], random: np.random.Generator
) -> Iterator[dict[str, Any]]:
    image, pair, kind, category = case
    loss = random.normal(0.22, 0.04)
    for number in range(1, TRIPS + 1):
        retention = 1.15 * (1 - loss) ** number - 0.15 + random.normal(0, 0.005)
        yield {
            "model": model,
            "image": image,
            "edit_pair": pair,
            "image_type": kind,
            "edit_category": category,
            "round": number,
            "psnr": 14 + 18 * retention,
            "ssim": BLANK_SSIM + (1 - BLANK_SSIM) * retention,
            "lpips": 0.0,
            "clip_similarity": 0.7 + 0.3 * retention,
        }
