"""The metrics by name: dotted paths, not classes, so that nothing heavy loads early."""

from __future__ import annotations

import pkgutil
from functools import cache

from evaluation.metrics.base import Features, Metric, MetricError

__all__ = ["METRICS", "Features", "Metric", "MetricError", "load_metric", "metric_class"]

METRICS: dict[str, str] = {
    "psnr": "evaluation.metrics.psnr:Psnr",
    "ssim": "evaluation.metrics.ssim:Ssim",
    "ms_ssim": "evaluation.metrics.ms_ssim:MsSsim",
    "lpips": "evaluation.metrics.lpips:Lpips",
    "clip": "evaluation.metrics.clip:Clip",
    "imagenet": "evaluation.metrics.imagenet:ImageNet",
    "place": "evaluation.metrics.place:Place",
    "colour": "evaluation.metrics.colour:Colour",
    "identity": "evaluation.metrics.identity:Identity",
    "picture": "evaluation.metrics.picture:WholePicture",
}


@cache
def metric_class(name: str) -> type[Metric]:
    """The metric's class: its label, version, unit and direction, without loading torch."""
    try:
        path = METRICS[name]
    except KeyError:
        known = ", ".join(METRICS)
        raise MetricError(f"there is no metric called {name!r}; known are {known}") from None
    found: type[Metric] = pkgutil.resolve_name(path)
    return found


def load_metric(name: str) -> Metric:
    """The metric registered under `name`; its weights load when it is first used."""
    return metric_class(name)()
