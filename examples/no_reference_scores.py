"""Score the images of a run with no-reference metrics (which rate single images) of pyiqa.

    pip install pyiqa
    python no_reference_scores.py RUN_OR_BUNDLE.zip --metrics musiq,topiq_nr > scores.csv
    convergebench score RUN --import scores.csv

pyiqa has the PolyForm Noncommercial licence and downloads its own weights. You decide whether you
may use it: ConvergeBench neither needs nor installs pyiqa. On a site, an administrator imports the
same file with `manage.py import_results scores scores.csv NUMBER`, where NUMBER is the run's.
"""

import argparse
import csv
import hashlib
import io
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")


def images(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the SHA-256 and the bytes of every image of a run folder or bundle."""
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.suffix.lower() in SUFFIXES:
                data = file.read_bytes()
                yield hashlib.sha256(data).hexdigest(), data
        return
    with zipfile.ZipFile(path) as bundle:
        for name in bundle.namelist():
            if name.startswith("images/"):
                yield Path(name).stem, bundle.read(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path, help="a run folder, or a bundle with its images")
    parser.add_argument(
        "--metrics", default="musiq", help="names of pyiqa metrics, separated by commas"
    )
    parser.add_argument("--device", default=None, help="such as cuda or cpu")
    args = parser.parse_args()
    import pyiqa
    import torch
    from torchvision.transforms.functional import to_tensor

    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    names = [name.strip() for name in args.metrics.split(",")]
    metrics = {name: pyiqa.create_metric(name, device=device) for name in names}
    version = f"pyiqa {pyiqa.__version__}"
    rows = csv.writer(sys.stdout)
    rows.writerow(["sha256", "metric", "value", "version", "higher_is_better"])
    seen = set()
    for sha256, data in images(args.run):
        if sha256 in seen:
            continue
        seen.add(sha256)
        image = to_tensor(Image.open(io.BytesIO(data)).convert("RGB")).unsqueeze(0)
        for name, metric in metrics.items():
            # ConvergeBench itself has brisque, niqe and piqe, so those of pyiqa get other names.
            label = f"{name}-pyiqa" if name in ("brisque", "niqe", "piqe") else name
            value = float(metric(image.to(device)))
            better = "no" if metric.lower_better else "yes"
            rows.writerow([sha256, label.replace("+", "-plus"), f"{value:.6g}", version, better])


if __name__ == "__main__":
    main()
