"""Registry of the metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from evaluation.metrics.base import Features, Metric, MetricError
from evaluation.registry import Registry

__all__ = [
    "HEADLINE",
    "METRICS",
    "Features",
    "Metric",
    "MetricError",
    "full_reference_metrics",
    "headline_parts",
    "in_order",
    "load_metric",
    "metric_class",
    "no_reference_metrics",
    "scored_metrics",
    "semantic_metrics",
]

#: The metrics in display order; a board opens with the first metric that was run.
METRICS: Registry[Metric] = Registry(
    "metric",
    MetricError,
    {
        "overall": "evaluation.metrics.overall:Overall",
        "object": "evaluation.metrics.parts:Object",
        "shape": "evaluation.metrics.parts:Shape",
        "local_colour": "evaluation.metrics.parts:LocalColour",
        "colour": "evaluation.metrics.parts:Colour",
        "sharpness": "evaluation.metrics.parts:Sharpness",
        "grain": "evaluation.metrics.parts:Grain",
        "face": "evaluation.metrics.parts:Face",
        "text": "evaluation.metrics.parts:Text",
        "framing": "evaluation.metrics.parts:Framing",
        "lpips": "evaluation.metrics.lpips:Lpips",
        "clip": "evaluation.metrics.semantic:Clip",
        "imagenet": "evaluation.metrics.semantic:ImageNet",
        "ms_ssim": "evaluation.metrics.ssim:MsSsim",
        "ssim": "evaluation.metrics.ssim:Ssim",
        "psnr": "evaluation.metrics.psnr:Psnr",
        "brisque": "evaluation.metrics.no_reference:Brisque",
        "niqe": "evaluation.metrics.no_reference:Niqe",
        "piqe": "evaluation.metrics.no_reference:Piqe",
    },
)
HEADLINE = next(iter(METRICS))
#: Return a metric's class with its label, version, unit and direction, without loading torch.
metric_class = METRICS.find
#: Return a metric; its weights are loaded at its first use.
load_metric = METRICS.load


def in_order(names: Iterable[str]) -> list[str]:
    """Return these metrics in the order of METRICS, then unregistered ones by name."""
    given = set(names)
    return [name for name in METRICS if name in given] + sorted(given - set(METRICS))


def scored_metrics(pinned: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the metrics by which a run is ranked, in order, given all metrics that it recorded."""
    ran = {name for name, pin in pinned.items() if "missing" not in pin}
    return in_order(ran.difference(no_reference_metrics()))


@cache
def full_reference_metrics() -> tuple[str, ...]:
    """Return the metrics that compare an image with its source, in order."""
    return tuple(name for name in METRICS if metric_class(name).reference)


@cache
def no_reference_metrics() -> tuple[str, ...]:
    """Return the metrics that measure one image without its source and never rank models."""
    return tuple(name for name in METRICS if not metric_class(name).reference)


@cache
def headline_parts() -> tuple[str, ...]:
    """Return the metrics that are parts of the headline, in order."""
    return tuple(name for name in METRICS if metric_class(name).part_of == HEADLINE)


@cache
def semantic_metrics() -> tuple[str, ...]:
    """Return the metrics that compare meaning, in order."""
    return tuple(name for name in METRICS if metric_class(name).semantic)
