"""Render scenes: python -m tools.scenes [NAME ...] [--preview] [--to FOLDER]."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from evaluation.content import catalog
from tools.scenes.studio import Scene, use_mitsuba
from tools.scenes.subjects import (
    faces,
    figures,
    food,
    games,
    gardens,
    keepsakes,
    kitchen,
    lettering,
    plants,
    rooms,
    town,
    waterside,
)

MODULES = (
    *(food, plants, games, keepsakes, lettering, rooms, kitchen),
    *(town, gardens, waterside, figures, faces),
)
SCENES: dict[str, Callable[[], Scene]] = {
    name: scene for module in MODULES for name, scene in module.SCENES.items()
}
SAMPLES, PREVIEW_SAMPLES = 9, 6
PREVIEW_SCALE = 0.4
QUALITY = 92


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.scenes", description=__doc__)
    parser.add_argument("names", nargs="*", help="names of scenes (default: all)")
    parser.add_argument(
        "--preview", action="store_true", help="render small and grainy images fast"
    )
    parser.add_argument("--samples", type=int, help="rays per pixel")
    parser.add_argument(
        "--scale", type=int, default=1, help="2 renders the files NAME-2k, 4 the files NAME-4k"
    )
    parser.add_argument("--to", type=Path, help="output folder (default: fixtures/pictures)")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(SCENES))
    if unknown:
        parser.error(f"unknown scene {', '.join(unknown)}; choose from {', '.join(SCENES)}")
    folder = options.to or catalog.folder() / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    use_mitsuba()
    for name in options.names or SCENES:
        began = time.monotonic()
        samples = options.samples or (PREVIEW_SAMPLES if options.preview else SAMPLES)
        scale = PREVIEW_SCALE if options.preview else float(options.scale)
        image = SCENES[name]().image(samples, scale)
        path = folder / (f"{name}.webp" if options.scale == 1 else f"{name}-{options.scale}k.webp")
        image.save(path, "WEBP", quality=QUALITY, method=6)
        size = path.stat().st_size / 1024
        sys.stdout.write(f"{path}: {size:.0f} KB, {time.monotonic() - began:.0f} s\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
