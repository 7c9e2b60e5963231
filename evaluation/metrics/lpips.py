"""LPIPS, AlexNet v0.1 (Zhang et al., CVPR 2018), on inputs in [-1, 1] at the source's size."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image

from evaluation import weights
from evaluation.metrics.base import CELLS, Cells, Features, finite
from evaluation.metrics.networks.base import NetworkMetric, as_tensor, moved
from evaluation.torch_compat import ready_torchvision


@dataclass(frozen=True)
class Loss:
    """LPIPS of one picture, and where in the picture it comes from."""

    distance: float
    #: The layers' maps before their spatial means, brought to 48 x 48 and summed.
    cells: Cells


class Lpips(NetworkMetric):
    """The network of the `lpips` package; the source goes through its trunk only once."""

    name, label, version = "lpips", "LPIPS", "alex-0.1"
    looks_at = "perceived quality"
    higher_is_better = False
    # AlexNet's last pooling has nothing left of a smaller picture.
    smallest = 31
    modules = {"torch": "torch", "lpips": "lpips", "safetensors": "safetensors"}
    weights = "lpips-alex"

    def load(self) -> Any:
        import torch
        from safetensors.torch import load_file

        ready_torchvision()
        import lpips

        file, _ = weights.locate(self.weights)
        state = load_file(file)
        # lpips holds its heads under two names.
        state |= {f"lins.{n}.model.1.weight": state[f"lin{n}.model.1.weight"] for n in range(5)}
        scaling = lpips.lpips.ScalingLayer().state_dict(prefix="scaling_layer.")
        # A network on "meta" has no values at all, so none can stay random:
        # what the file does not bring makes load_state_dict fail.
        with torch.device("meta"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of lpips' way of asking torchvision for AlexNet
            network = lpips.LPIPS(net="alex", pnet_rand=True, pretrained=False, verbose=False)
        network.load_state_dict(state | scaling, strict=True, assign=True)
        return network

    def shown(self, distance: float | None) -> float | None:
        return distance

    def features(self, images: Sequence[Image.Image]) -> Features:
        """The unit-length activations of the five layers."""
        return [layer.div_(_length(layer)) for layer in self._layers(images)]

    def losses(self, source: Features, restored: Sequence[Image.Image]) -> list[Loss]:
        """Distance and map of each restored picture, by one run of the network."""

        def compare(images: Sequence[Image.Image]) -> list[Loss]:
            return self._losses(moved(source, self.device), images)

        found: list[Loss] = self.in_batches(restored, compare)
        finite(self, [loss.distance for loss in found])
        return found

    def compare(self, source: Features, images: Sequence[Image.Image]) -> list[float]:
        return [loss.distance for loss in self._losses(source, images)]

    def _losses(self, source: Features, images: Sequence[Image.Image]) -> list[Loss]:
        from torch.nn.functional import interpolate

        distances: Any = 0
        cells: Any = 0
        for layer, wanted, head in zip(
            self._layers(images), source, self.network.lins, strict=True
        ):
            difference = layer.div_(_length(layer)).sub_(wanted).square_()
            loss = head(difference)
            distances = distances + loss.mean((1, 2, 3))
            cells = cells + interpolate(loss, (CELLS, CELLS), mode="bilinear").squeeze(1)
        return [
            Loss(distance, map_.numpy())
            for distance, map_ in zip(distances.tolist(), cells.cpu(), strict=True)
        ]

    def _layers(self, images: Sequence[Image.Image]) -> Any:
        inputs = as_tensor(images, self.device).div_(127.5).sub_(1)
        return self.network.net(self.network.scaling_layer(inputs))


def _length(layer: Any) -> Any:
    return layer.square().sum(1, keepdim=True).sqrt_().add_(1e-10)
