"""LPIPS, AlexNet v0.1 (Zhang et al., CVPR 2018), on inputs in [-1, 1] at the source's size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image

from evaluation import weights
from evaluation.metrics.base import CELLS, Cells, Features, finite
from evaluation.metrics.networks.alex import alex
from evaluation.metrics.networks.base import NetworkMetric, as_tensor, in_spans, moved
from evaluation.metrics.networks.memory import is_large

# A large picture goes through the network by strips of about so many pixels. The layers see
# every 4th, 8th and 16th row; what a strip's border spoils lies within 80 rows of it.
STRIP_PIXELS, STRIDES, STEP, HALO = 600_000, (4, 8, 16, 16, 16), 16, 96


@dataclass(frozen=True)
class Strip:
    """Rows `top` to `bottom` of a picture, seen with the rows around them."""

    top: int
    bottom: int
    height: int

    @classmethod
    def of(cls, size: tuple[int, int], pixels: int = STRIP_PIXELS) -> Iterator[Strip]:
        """The strips of a picture of this size, from the top."""
        width, height = size
        rows = max(HALO, pixels // width // STEP * STEP)
        for top in range(0, height, rows):
            # A few rows below are no strip of their own: the last layers may have nothing of them.
            last = height - top - rows < HALO
            yield cls(top, height if last else top + rows, height)
            if last:
                return

    def seen(self, image: Image.Image) -> Image.Image:
        """The strip with its halo."""
        return image.crop((0, self._first, image.width, min(self.height, self.bottom + HALO)))

    def inner(self, layer: Any, stride: int) -> Any:
        """The rows of a layer of what was seen that belong to the strip."""
        begin = (self.top - self._first) // stride
        end = None if self.bottom == self.height else (self.bottom - self._first) // stride
        return layer[:, :, begin:end]

    @property
    def _first(self) -> int:
        return max(0, self.top - HALO)


@dataclass(frozen=True)
class Loss:
    """LPIPS of one picture, and where in the picture it comes from."""

    distance: float
    #: The layers' maps before their spatial means, brought to 48 x 48 and summed.
    cells: Cells


class Lpips(NetworkMetric):
    """The numbers of the `lpips` package; the source goes through the trunk only once."""

    name, label, version = "lpips", "LPIPS", "alex-0.1"
    looks_at = "perceived quality"
    higher_is_better = False
    # AlexNet's last pooling has nothing left of a smaller picture.
    smallest = 31
    modules = {"torch": "torch", "safetensors": "safetensors"}
    weights = "lpips-alex"

    def load(self) -> Any:
        from safetensors.torch import load_file

        return alex(load_file(weights.locate(self.weights)[0]))

    def shown(self, distance: float | None) -> float | None:
        return distance

    def prepare(self, source: Image.Image) -> Features:
        """The layers of a source; of a large one itself, whose layers would be too much to hold."""
        if self.device == "cpu" and is_large(source.size):
            return source
        return super().prepare(source)

    def trunk(self, network: Any) -> Any:
        """The convolutions: squares of what they give do not fit into half precision."""
        return network.net

    def features(self, images: Sequence[Image.Image]) -> Features:
        """The unit-length activations of the five layers."""
        return [layer.div_(_length(layer)) for layer in self._layers(images)]

    def distances_each(
        self, sources: Sequence[Features], restored: Sequence[Image.Image]
    ) -> list[float]:
        return [loss.distance for loss in self.losses(sources, restored)]

    def losses(self, sources: Sequence[Features], restored: Sequence[Image.Image]) -> list[Loss]:
        """Distance and map of each picture to its own source, by one run of the network."""

        def compare(part: slice) -> list[Loss]:
            return _losses(self._maps(moved(sources[part], self.device), restored[part]))

        if sources and isinstance(sources[0], Image.Image):
            found = [
                loss
                for span, source in in_spans(sources)
                for loss in self._by_strips(source, restored[span])
            ]
        else:
            found = self.in_batches(restored, compare)
        finite(self, [loss.distance for loss in found])
        return found

    def compare(self, sources: Sequence[Features], images: Sequence[Image.Image]) -> list[float]:
        return [loss.distance for loss in _losses(self._maps(sources, images))]

    def _by_strips(self, source: Image.Image, restored: Sequence[Image.Image]) -> list[Loss]:
        """The same of large pictures, strip by strip."""
        import torch

        found: list[list[Any]] = [[] for _ in restored]
        for strip in Strip.of(source.size):
            wanted = super().prepare(strip.seen(source))

            for parts, image in zip(found, restored, strict=True):
                seen = [strip.seen(image)]

                def maps(_: slice, seen: Any = seen, wanted: Any = wanted, s: Strip = strip) -> Any:
                    layers = zip(self._maps([wanted], seen), STRIDES, strict=True)
                    return [[s.inner(layer, stride) for layer, stride in layers]]

                parts += self.in_batches(seen, maps)
        return [
            loss
            for parts in found
            for loss in _losses([torch.cat(rows, 2) for rows in zip(*parts, strict=True)])
        ]

    def _maps(self, sources: Sequence[Features], images: Sequence[Image.Image]) -> list[Any]:
        """Of each layer, where the pictures differ from their sources and how much."""
        found = []
        spans = list(in_spans(sources))
        for index, (layer, head) in enumerate(
            zip(self._layers(images), self.network.lins, strict=True)
        ):
            layer.div_(_length(layer))
            for span, source in spans:
                layer[span].sub_(source[index])
            found.append(head(layer.square_()))
        return found

    def _layers(self, images: Sequence[Image.Image]) -> Any:
        """In float32, whatever they were found in."""
        inputs = as_tensor(images, self.device).div_(127.5).sub_(1)
        inputs = self.network.scaling_layer(inputs).to(self.dtype)
        return [layer.float() for layer in self.network.net(inputs)]


def _losses(maps: Sequence[Any]) -> list[Loss]:
    """The mean over all layers' maps, and the maps in cells."""
    from torch.nn.functional import interpolate

    distances: Any = 0
    cells: Any = 0
    for loss in maps:
        distances = distances + loss.mean((1, 2, 3))
        cells = cells + interpolate(loss, (CELLS, CELLS), mode="bilinear").squeeze(1)
    return [
        Loss(distance, map_.numpy())
        for distance, map_ in zip(distances.tolist(), cells.cpu(), strict=True)
    ]


def _length(layer: Any) -> Any:
    return layer.square().sum(1, keepdim=True).sqrt_().add_(1e-10)
