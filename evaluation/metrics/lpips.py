"""LPIPS, AlexNet v0.1 (Zhang et al., CVPR 2018).

Inputs are in [-1, 1] at the source's size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image

from evaluation import weights
from evaluation.metrics.base import CELLS, Cells, Features, Loss, LossWords, finite, is_large
from evaluation.metrics.networks.alex import alex
from evaluation.metrics.networks.base import NetworkMetric, as_tensor, in_spans, moved

# A large image goes through the network by tiles of this side. The layers have strides of 4, 8
# and 16 pixels; a tile's border affects values within 80 pixels of it.
TILE, STRIDES, HALO = 768, (4, 8, 16, 16, 16), 96


@dataclass(frozen=True)
class Span:
    """Rows, or columns, `begin` to `end` of an image, read with a halo."""

    begin: int
    end: int
    length: int

    @classmethod
    def of(cls, length: int, step: int = TILE) -> Iterator[Span]:
        """Yield the spans of a side, from its beginning."""
        for begin in range(0, length, step):
            # A short rest is joined to the last span, because its last layers could be empty.
            last = length - begin - step < HALO
            yield cls(begin, length if last else begin + step, length)
            if last:
                return

    @property
    def first(self) -> int:
        """Return the first row or column that is read."""
        return max(0, self.begin - HALO)

    @property
    def last(self) -> int:
        return min(self.length, self.end + HALO)

    def inner(self, stride: int) -> slice:
        """Return the part of a layer that belongs to the span without its halo."""
        end = None if self.end == self.length else (self.end - self.first) // stride
        return slice((self.begin - self.first) // stride, end)


@dataclass(frozen=True)
class LocatedLoss(Loss):
    """LPIPS of one image, with its map over the image."""

    #: The layers' maps before their spatial means, resized to 48 x 48 and summed.
    cells: Cells


class Lpips(NetworkMetric):
    """The numbers of the `lpips` package; the source passes the trunk only once."""

    name, label, version = "lpips", "LPIPS", "alex-0.1"
    looks_at = "perceived quality"
    higher_is_better = False
    # AlexNet's last pooling has no output for a smaller image.
    smallest = 31
    modules = {"torch": "torch", "safetensors": "safetensors"}
    weights = "lpips-alex"
    by_tiles = True
    lost = LossWords(
        cause="whole",
        ended="the whole image is worn",
        crossed="Half of the image is lost",
        because="all over",
        most="the whole image changed",
        level="whole-image",
    )

    def load(self) -> Any:
        from safetensors.torch import load_file

        return alex(load_file(weights.locate(self.weights)[0]))

    def shown(self, distance: float | None) -> float | None:
        return distance

    def prepare(self, source: Image.Image) -> Features:
        """Return the layers of a source, or a large source itself.

        The layers of a large source take too much memory.
        """
        if self.device == "cpu" and is_large(source.size):
            return source
        return super().prepare(source)

    def trunk(self, network: Any) -> Any:
        """Return the convolutions: squares of their outputs overflow half precision."""
        return network.net

    def features(self, images: Sequence[Image.Image]) -> Features:
        """Return the unit-length activations of the five layers."""
        return [layer.div_(_length(layer)) for layer in self._layers(images)]

    def losses(
        self, sources: Sequence[Features], restored: Sequence[Image.Image]
    ) -> list[LocatedLoss]:
        """Return distance and map of each image to its own source, in one pass."""

        def compare(part: slice) -> list[LocatedLoss]:
            return _losses(self._maps(moved(sources[part], self.device), restored[part]))

        if sources and isinstance(sources[0], Image.Image):
            losses = [
                loss
                for span, source in in_spans(sources)
                for loss in self._by_tiles(source, restored[span])
            ]
        else:
            losses = self.in_batches(restored, compare)
        finite(self, [loss.distance for loss in losses])
        return losses

    def compare(self, sources: Sequence[Features], images: Sequence[Image.Image]) -> list[float]:
        return [loss.distance for loss in _losses(self._maps(sources, images))]

    def _by_tiles(self, source: Image.Image, restored: Sequence[Image.Image]) -> list[LocatedLoss]:
        """Return the losses of large images, computed tile by tile."""
        import torch

        bands: list[list[Any]] = [[] for _ in restored]  # by image, then by band: its layers
        for rows in Span.of(source.height):
            parts: list[list[Any]] = [[] for _ in restored]
            for columns in Span.of(source.width):
                box = (columns.first, rows.first, columns.last, rows.last)
                wanted = super().prepare(source.crop(box))
                for tiles, image in zip(parts, restored, strict=True):
                    seen = [image.crop(box)]

                    def maps(
                        _: slice,
                        seen: Sequence[Image.Image] = seen,
                        wanted: Any = wanted,
                        rows: Span = rows,
                        columns: Span = columns,
                    ) -> Any:
                        layers = zip(self._maps([wanted], seen), STRIDES, strict=True)
                        return [
                            [layer[:, :, rows.inner(n), columns.inner(n)] for layer, n in layers]
                        ]

                    tiles += self.in_batches(seen, maps)
            for band, tiles in zip(bands, parts, strict=True):
                band.append([torch.cat(layers, 3) for layers in zip(*tiles, strict=True)])
        return [
            loss
            for band in bands
            for loss in _losses([torch.cat(layers, 2) for layers in zip(*band, strict=True)])
        ]

    def _maps(self, sources: Sequence[Features], images: Sequence[Image.Image]) -> list[Any]:
        """Return each layer's map of differences between images and sources."""
        maps = []
        spans = list(in_spans(sources))
        for index, (layer, head) in enumerate(
            zip(self._layers(images), self.network.lins, strict=True)
        ):
            layer.div_(_length(layer))
            for span, source in spans:
                layer[span].sub_(source[index])
            maps.append(head(layer.square_()))
        return maps

    def _layers(self, images: Sequence[Image.Image]) -> Any:
        """Return the layers in float32, whatever the network's precision."""
        inputs = as_tensor(images, self.device).div_(127.5).sub_(1)
        inputs = self.network.scaling_layer(inputs).to(self.dtype)
        return [layer.float() for layer in self.network.net(inputs)]


def _losses(maps: Sequence[Any]) -> list[LocatedLoss]:
    """Return the mean over all layers' maps, and the maps in cells."""
    from torch.nn.functional import interpolate

    distances: Any = 0
    cells: Any = 0
    for loss in maps:
        distances = distances + loss.mean((1, 2, 3))
        cells = cells + interpolate(loss, (CELLS, CELLS), mode="bilinear").squeeze(1)
    return [
        LocatedLoss(distance, map_.numpy())
        for distance, map_ in zip(distances.tolist(), cells.cpu(), strict=True)
    ]


def _length(layer: Any) -> Any:
    return layer.square().sum(1, keepdim=True).sqrt_().add_(1e-10)
