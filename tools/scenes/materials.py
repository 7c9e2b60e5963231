"""Surfaces for mitsuba. Colours are sRGB in 0..1, unless a docstring says that they are linear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tools.scenes.meshes import Array

Material = dict[str, Any]
Paint = Sequence[float] | Array  # one colour, or a texture (height, width, 3)


def colour(paint: Paint) -> dict[str, Any]:
    """Return a colour or texture as a mitsuba dictionary."""
    import mitsuba

    values = np.asarray(paint, dtype=np.float64)
    if values.ndim == 1:
        linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
        return {"type": "rgb", "value": [float(v) for v in linear]}
    pixels = np.rint(np.clip(values, 0, 1) * 255).astype(np.uint8)
    return {"type": "bitmap", "bitmap": mitsuba.Bitmap(pixels), "filter_type": "bilinear"}


def matte(paint: Paint) -> Material:
    """Plaster, paper, cloth."""
    return {"type": "twosided", "bsdf": {"type": "diffuse", "reflectance": colour(paint)}}


def satin(paint: Paint, roughness: float = 0.35, specular: float = 0.5, **more: float) -> Material:
    """Painted wood, plastic, glazed clay or fruit; roughness is from 0.05 to 0.8."""
    inner: Material = {
        "type": "principled",
        "base_color": colour(paint),
        "roughness": roughness,
        "specular": specular,
        **more,
    }
    return {"type": "twosided", "bsdf": inner}


def glazed(paint: Paint) -> Material:
    """Porcelain: a clear shiny coat over a matte body."""
    return satin(paint, roughness=0.45, clearcoat=1.0, clearcoat_gloss=0.95)


def velvet(paint: Paint) -> Material:
    """Upholstery: brighter at grazing angles."""
    return satin(paint, roughness=0.9, specular=0.1, sheen=0.8, sheen_tint=0.6)


def metal(name: str = "Al", roughness: float = 0.15) -> Material:
    """Brushed or polished metal: Al, Ag, Au, Cu, Cr or W."""
    return {
        "type": "twosided",
        "bsdf": {
            "type": "roughconductor",
            "material": name,
            "alpha": roughness,
            "distribution": "ggx",
        },
    }


def coloured_metal(paint: Paint, roughness: float = 0.25) -> Material:
    """Coloured metal: car paint, anodised tins, brass."""
    return satin(paint, roughness=roughness, metallic=0.9)


def glass(tint: Sequence[float] = (1.0, 1.0, 1.0), thin: bool = False) -> Material:
    """Clear or tinted glass; use `thin` for panes and for vessels without an inner surface."""
    return {
        "type": "thindielectric" if thin else "dielectric",
        "int_ior": 1.5,
        "specular_transmittance": {"type": "rgb", "value": list(tint)},
    }


def glowing(radiance: Sequence[float]) -> Material:
    """Return an area light's emission, in linear colours, for `Scene.add(..., emits=...)`."""
    return {"type": "area", "radiance": {"type": "rgb", "value": [float(v) for v in radiance]}}
