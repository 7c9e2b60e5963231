"""Scenes of meshes and lights, rendered and developed to images."""

from __future__ import annotations

import ctypes
import importlib.util
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tools.scenes import materials
from tools.scenes.materials import Material
from tools.scenes.meshes import Array, Mesh, Point, grid

# The scalar variant needs no system package. Its threads make a few noisy pixels vary from run to
# run, so the rendered images are committed.
VARIANT = "scalar_rgb"
DEPTH = 7


@dataclass
class Camera:
    """A camera; an aperture above 0 blurs everything out of focus."""

    position: Point
    target: Point
    degrees: float = 40.0
    aperture: float = 0.0
    focus: Point | None = None


@dataclass
class Scene:
    """Meshes, lights and a camera; `exposure` is a number of stops added to the automatic value."""

    camera: Camera
    width: int = 1024
    height: int = 768
    exposure: float = 0.0
    parts: list[tuple[Mesh, Material, Material | None]] = field(default_factory=list)
    lights: list[dict[str, Any]] = field(default_factory=list)

    def add(self, mesh: Mesh, material: Material, emits: Material | None = None) -> None:
        self.parts.append((mesh, material, emits))

    def softbox(
        self, position: Point, target: Point, size: float, radiance: Sequence[float]
    ) -> None:
        """Add a square lamp that faces the target."""
        import mitsuba

        up = (
            [0, 1, 0]
            if abs(position[2] - target[2]) > 5 * math.dist(position[:2], target[:2])
            else [0, 0, 1]
        )
        placed = mitsuba.ScalarTransform4f().look_at(
            origin=list(position), target=list(target), up=up
        ) @ mitsuba.ScalarTransform4f().scale([size / 2, size / 2, 1])
        self.lights.append(
            {"type": "rectangle", "to_world": placed, "emitter": materials.glowing(radiance)}
        )

    def surroundings(self, radiance: Sequence[float]) -> None:
        """Add ambient light, equal from all directions."""
        self.lights.append(
            {"type": "constant", "radiance": {"type": "rgb", "value": list(radiance)}}
        )

    def sky(self, sun: Point, turbidity: float = 3.0, sun_scale: float = 1.0) -> None:
        """Add daylight with the sun in the given direction."""
        self.lights.append(
            {
                "type": "sunsky",
                "sun_direction": list(sun),
                "turbidity": turbidity,
                "sun_scale": sun_scale,
                "sun_aperture": 2.0,  # four times the true sun's, for softer edges of shadows
            }
        )

    def gradient_sky(self, zenith: Sequence[float], horizon: Sequence[float]) -> None:
        """Add a plain sky, with linear colours for horizon and zenith."""
        import mitsuba

        rows = np.linspace(1, -1, 128)  # from straight up to straight down
        amount = np.clip(rows, 0, 1)[:, None] ** 0.6
        column = np.array(horizon) * (1 - amount) + np.array(zenith) * amount
        pixels = np.repeat(column[:, None, :], 8, axis=1).astype(np.float32)
        turned = mitsuba.ScalarTransform4f().rotate([1, 0, 0], 90)
        self.lights.append({"type": "envmap", "bitmap": mitsuba.Bitmap(pixels), "to_world": turned})

    def backdrop(self, paint: materials.Paint, depth: float = 3.0, tall: float = 4.0) -> None:
        """Add a photographer's backdrop: a floor that bends up into a wall behind the origin."""
        radius = 1.2
        angle = np.linspace(0, np.pi / 2, 24)
        profile = [(-8.0, 0.0), (depth - radius, 0.0)]
        profile += [
            (depth - radius + radius * math.sin(a), radius - radius * math.cos(a)) for a in angle
        ]
        profile += [(depth, radius + tall)]
        lines = np.array([[[x, y, z] for x in (-9.0, 9.0)] for y, z in profile])
        # Slightly below the ground plane, which table tops may share.
        self.add(grid(lines).moved(z=-0.01), materials.matte(paint))

    def image(self, samples: int, scale: float = 1.0) -> Image.Image:
        """Return the rendered, denoised and tone-mapped image."""
        width, height = round(self.width * scale), round(self.height * scale)
        channels = self._radiance(width, height, samples)
        shown = _developed(channels[..., :3], self.exposure)
        albedo, normals = np.clip(channels[..., 3:6], 0, 1), channels[..., 6:9]
        linear = _denoised(shown, albedo, normals)
        encoded = np.where(
            linear <= 0.0031308,
            linear * 12.92,
            1.055 * np.maximum(linear, 1e-9) ** (1 / 2.4) - 0.055,
        )
        return Image.fromarray(np.rint(np.clip(encoded, 0, 1) * 255).astype(np.uint8), "RGB")

    def _radiance(self, width: int, height: int, samples: int) -> Array:
        import mitsuba

        with tempfile.TemporaryDirectory() as folder:
            content: dict[str, Any] = {"type": "scene", "integrator": _INTEGRATOR}
            content["sensor"] = self._sensor(width, height)
            for number, light in enumerate(self.lights):
                content[f"light_{number}"] = light
            for number, (mesh, material, emits) in enumerate(self.parts):
                path = Path(folder) / f"{number}.ply"
                mesh.write(path)
                shape = {"type": "ply", "filename": str(path), "bsdf": material}
                if emits is not None:
                    shape["emitter"] = emits
                content[f"part_{number}"] = shape
            scene = mitsuba.load_dict(content)
            return np.array(mitsuba.render(scene, spp=samples), dtype=np.float64)

    def _sensor(self, width: int, height: int) -> dict[str, Any]:
        import mitsuba

        camera = self.camera
        focus = camera.focus if camera.focus is not None else camera.target
        sensor: dict[str, Any] = {
            "type": "thinlens" if camera.aperture else "perspective",
            "fov": camera.degrees,
            "fov_axis": "x",
            "to_world": mitsuba.ScalarTransform4f().look_at(
                origin=list(camera.position), target=list(camera.target), up=[0, 0, 1]
            ),
            "film": {
                "type": "hdrfilm",
                "width": width,
                "height": height,
                # The denoiser expects pixels whose noise is independent.
                "rfilter": {"type": "box"},
                "pixel_format": "rgb",
            },
            "sampler": {"type": "multijitter"},
        }
        if camera.aperture:
            ahead = np.array(camera.target, dtype=np.float64) - camera.position
            ahead /= np.linalg.norm(ahead)
            sensor["aperture_radius"] = camera.aperture
            sensor["focus_distance"] = float((np.array(focus) - camera.position) @ ahead)
        return sensor


_INTEGRATOR = {
    "type": "aov",
    "aovs": "albedo:albedo,normals:sh_normal",
    "image": {"type": "path", "max_depth": DEPTH, "rr_depth": 5},
}


def use_mitsuba() -> None:
    """Choose mitsuba's variant; call before any scene is made."""
    import mitsuba

    mitsuba.set_variant(VARIANT)
    # Silence warnings about vertices without a face, at the poles of lathed shapes.
    mitsuba.set_log_level(mitsuba.LogLevel.Error)


def _developed(radiance: Array, stops: float) -> Array:
    """Map radiance to linear 0..1 with automatic exposure and a film-like shoulder."""
    luminance = radiance @ np.array([0.2126, 0.7152, 0.0722])
    middle = float(np.exp(np.mean(np.log(np.maximum(luminance, 1e-4)))))
    x = radiance * (0.19 / middle) * 2**stops
    # Narkowicz's fit of the ACES curve, which preserves middle grey approximately.
    x = 0.8 * x
    return np.clip(x * (2.51 * x + 0.03) / (x * (2.43 * x + 0.59) + 0.14), 0, 1)


def _denoised(shown: Array, albedo: Array, normals: Array) -> Array:
    spec = importlib.util.find_spec("oidn")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("the scenes need Intel's denoiser: pip install oidn")
    # The wheel contains its own libtbb but does not find it.
    for library in Path(spec.submodule_search_locations[0]).glob("lib.*/libtbb*"):
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    import oidn

    height, width = shown.shape[:2]
    images = {
        name: np.ascontiguousarray(values, dtype=np.float32)
        for name, values in (("color", shown), ("albedo", albedo), ("normal", normals))
    }
    result = np.zeros((height, width, 3), dtype=np.float32)
    device = oidn.NewDevice()
    oidn.CommitDevice(device)
    denoiser = oidn.NewFilter(device, "RT")
    for name, values in images.items():
        oidn.SetSharedFilterImage(denoiser, name, values, oidn.FORMAT_FLOAT3, width, height)
    oidn.SetSharedFilterImage(denoiser, "output", result, oidn.FORMAT_FLOAT3, width, height)
    oidn.CommitFilter(denoiser)
    oidn.ExecuteFilter(denoiser)
    oidn.ReleaseFilter(denoiser)
    oidn.ReleaseDevice(device)
    return result.astype(np.float64)
