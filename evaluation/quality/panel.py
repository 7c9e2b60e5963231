"""All no-reference metrics that can run here, on one picture after another."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from PIL import Image

from evaluation.quality import QUALITY, QualityMetric, load_quality
from evaluation.quality.base import luma_of


class QualityPanel:
    """The metrics that can run here; `not_run` says why the others cannot."""

    def __init__(self, names: Iterable[str] | None = None) -> None:
        self.metrics: dict[str, QualityMetric] = {}
        self.not_run: dict[str, str] = {}
        for name in QUALITY if names is None else names:
            metric = load_quality(name)
            if reasons := metric.missing():
                self.not_run[name] = "; ".join(reasons)
            else:
                self.metrics[name] = metric

    def keep(self, names: Collection[str]) -> None:
        """Run these alone."""
        self.metrics = {name: metric for name, metric in self.metrics.items() if name in names}

    def values(self, image: Image.Image) -> dict[str, float | None]:
        """What each says of a picture; None where it is too small for it, or has no contrast."""
        if not self.metrics:
            return {}
        luma = luma_of(image)
        return {
            name: None if min(image.size) < metric.smallest else _short(metric.value(luma))
            for name, metric in self.metrics.items()
        }

    def provenance(self) -> dict[str, Any]:
        """What the values depend on, and why the others were not run."""
        return {
            name: {"version": metric.version, "weights_sha256": metric.weights_sha256}
            for name, metric in self.metrics.items()
        } | {name: {"missing": why} for name, why in self.not_run.items()}


def _short(value: float | None) -> float | None:
    """More digits say nothing: the metrics differ by far more between two implementations."""
    return None if value is None else round(value, 4)
