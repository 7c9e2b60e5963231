"""LPIPS, AlexNet v0.1 (Zhang et al., CVPR 2018).

Inputs are in [-1, 1] at the source's size.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image

from evaluation import weights
from evaluation.metrics.base import Features, is_large
from evaluation.metrics.networks.base import FeatureMetric, as_tensor, in_spans
from evaluation.torch_compat import fix_torchvision

# The network processes a large image in bands of rows, because all its layers would fill the
# memory. Layers have strides of 4, 8 and 16 pixels. A border affects 80 pixels, so a halo of 96 is
# enough.
BAND, STRIDES, HALO = 256, (4, 8, 16, 16, 16), 96


@dataclass(frozen=True)
class Band:
    """Rows `begin` to `end` of an image of this height, read with a halo of further rows."""

    begin: int
    end: int
    height: int

    @classmethod
    def split(cls, height: int, rows: int = BAND) -> Iterator[Band]:
        """Split an image of this height into bands, from its top."""
        for begin in range(0, height, rows):
            # A short remainder joins this band: as a band of its own, it could be empty in
            # the last layers.
            last = height - begin - rows < HALO
            yield cls(begin, height if last else begin + rows, height)
            if last:
                return

    @property
    def first(self) -> int:
        """Return the first row that is read."""
        return max(0, self.begin - HALO)

    @property
    def last(self) -> int:
        return min(self.height, self.end + HALO)

    def inner(self, stride: int) -> slice:
        """Return which rows of a layer with this stride belong to the band, not to its halo."""
        end = None if self.end == self.height else (self.end - self.first) // stride
        return slice((self.begin - self.first) // stride, end)


class Lpips(FeatureMetric):
    """LPIPS with the network of the `lpips` package; features of a source are computed once."""

    name, label, version = "lpips", "LPIPS", "alex-0.1"
    looks_at = "perceived quality"
    higher_is_better = False
    # AlexNet's last pooling layer has no output for smaller images.
    smallest = 31
    modules = {"torch": "torch", "lpips": "lpips", "safetensors": "safetensors"}
    weights = "lpips-alex"

    def load(self) -> Any:
        import torch
        from safetensors.torch import load_file

        fix_torchvision()
        from lpips.lpips import LPIPS, ScalingLayer

        # A network on torch's device "meta" has no values, so none can stay random: load_state_dict
        # fails if the file lacks any. The ignored warnings are torchvision's, about how lpips calls
        # it.
        with torch.device("meta"), warnings.catch_warnings(action="ignore"):
            network = LPIPS(net="alex", pretrained=False, pnet_rand=True, verbose=False)
        state = load_file(weights.locate(self.weights)[0])
        heads = {f"lins.{name[3:]}": value for name, value in state.items() if name[:3] == "lin"}
        scaling = ScalingLayer().state_dict(prefix="scaling_layer.")
        network.load_state_dict(state | heads | scaling, strict=True, assign=True)
        return network

    def shown(self, distance: float | None) -> float | None:
        return distance

    def prepare(self, source: Image.Image) -> Features:
        """Return the layers of a source, or a large source itself, to save memory."""
        if self.device == "cpu" and is_large(source.size):
            return source
        return super().prepare(source)

    def trunk(self, network: Any) -> Any:
        """Return only the convolutions: squares of their outputs would overflow half precision."""
        return network.net

    def features(self, images: Sequence[Image.Image]) -> Features:
        return list(self._layers(images))

    def compare(self, sources: Sequence[Features], images: Sequence[Image.Image]) -> list[float]:
        if isinstance(sources[0], Image.Image):
            return [self._by_bands(*pair) for pair in zip(sources, images, strict=True)]
        distances: Any = 0
        for loss in self._maps(sources, images):
            distances = distances + loss.mean((1, 2, 3))
        result: list[float] = distances.tolist()
        return result

    def _by_bands(self, source: Image.Image, image: Image.Image) -> float:
        """Return the distance of a large image, computed in bands of rows."""
        sums, counts = [0.0] * len(STRIDES), [0] * len(STRIDES)
        for band in Band.split(source.height):
            box = (0, band.first, source.width, band.last)
            features = self.features([source.crop(box)])
            maps = self._maps([features], [image.crop(box)])
            for index, (loss, stride) in enumerate(zip(maps, STRIDES, strict=True)):
                inner = loss[:, :, band.inner(stride)]
                sums[index] += float(inner.sum())
                counts[index] += inner.numel()
        return sum(total / count for total, count in zip(sums, counts, strict=True))

    def _maps(self, sources: Sequence[Features], images: Sequence[Image.Image]) -> Iterator[Any]:
        """Yield each layer's map of differences between images and sources."""
        spans = list(in_spans(sources))
        for index, (layer, head) in enumerate(
            zip(self._layers(images), self.network.lins, strict=True)
        ):
            for span, source in spans:
                layer[span].sub_(source[index])
            yield head(layer.square_())

    def _layers(self, images: Sequence[Image.Image]) -> Iterator[Any]:
        """Yield the unit-length activations of the five layers, in float32."""
        from torch.linalg import vector_norm

        trunk = self.network.net
        inputs = as_tensor(images, self.device).div_(127.5).sub_(1)
        values = trunk.slice1(self.network.scaling_layer(inputs).to(self.dtype))
        del inputs
        for part in (trunk.slice2, trunk.slice3, trunk.slice4, trunk.slice5, None):
            # Compute the next layer first, so that this one can be changed in place.
            following = part(values) if part else None
            layer = values.float()
            yield layer.div_(vector_norm(layer, dim=1, keepdim=True).add_(1e-10))
            values = following
