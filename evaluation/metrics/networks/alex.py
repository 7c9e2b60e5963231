"""The network of LPIPS v0.1: AlexNet's convolutions, and a head for each of their five stages.

The same modules under the same names as in the `lpips` package, whose weights they take; a test
compares the two. Built here because importing that package brings torchvision along, which takes
a worker 100 MB and five seconds of its processor.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

CHANNELS = (64, 192, 384, 256, 256)
# Zhang et al. bring inputs in [-1, 1] to what AlexNet was trained on.
SHIFT, SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)


@cache
def _network_class() -> Any:
    """The class, made when torch is first needed."""
    import torch
    from torch import nn

    def stage(**modules: nn.Module) -> nn.Sequential:
        found = nn.Sequential()
        for name, module in modules.items():
            found.add_module(name[1:], module)
        return found

    class Scaling(nn.Module):
        shift: Tensor
        scale: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("shift", torch.tensor(SHIFT)[None, :, None, None])
            self.register_buffer("scale", torch.tensor(SCALE)[None, :, None, None])

        def forward(self, inputs: Tensor) -> Tensor:
            return (inputs - self.shift).div_(self.scale)

    class Trunk(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            first, second, third, fourth, fifth = CHANNELS

            def convolution(*sizes: int, padding: int, stride: int = 1) -> nn.Conv2d:
                taken, given, side = sizes
                return nn.Conv2d(taken, given, side, stride=stride, padding=padding)

            self.slice1 = stage(_0=convolution(3, first, 11, padding=2, stride=4), _1=nn.ReLU(True))
            self.slice2 = stage(
                _2=nn.MaxPool2d(3, 2), _3=convolution(first, second, 5, padding=2), _4=nn.ReLU(True)
            )
            self.slice3 = stage(
                _5=nn.MaxPool2d(3, 2), _6=convolution(second, third, 3, padding=1), _7=nn.ReLU(True)
            )
            self.slice4 = stage(_8=convolution(third, fourth, 3, padding=1), _9=nn.ReLU(True))
            self.slice5 = stage(_10=convolution(fourth, fifth, 3, padding=1), _11=nn.ReLU(True))

        def forward(self, values: Tensor) -> list[Tensor]:
            layers = []
            for part in (self.slice1, self.slice2, self.slice3, self.slice4, self.slice5):
                values = part(values)
                layers.append(values)
            return layers

    class Head(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.model = stage(_1=nn.Conv2d(channels, 1, 1, bias=False))

        def forward(self, difference: Tensor) -> Any:
            return self.model(difference)

    class Alex(nn.Module):
        """`net` gives the five stages of an input that `scaling_layer` prepared."""

        def __init__(self) -> None:
            super().__init__()
            self.scaling_layer = Scaling()
            self.net = Trunk()
            self.lin0, self.lin1, self.lin2, self.lin3, self.lin4 = map(Head, CHANNELS)

        @property
        def lins(self) -> list[nn.Module]:
            return [self.lin0, self.lin1, self.lin2, self.lin3, self.lin4]

        def forward(self, one: Tensor, other: Tensor) -> Tensor:
            """LPIPS of two batches in [-1, 1]; gradients flow."""
            total: Any = 0
            stages = (self.net(self.scaling_layer(values)) for values in (one, other))
            for a, b, head in zip(*stages, self.lins, strict=True):
                a, b = (v / (v.square().sum(1, keepdim=True).sqrt() + 1e-10) for v in (a, b))
                total = total + head((a - b).square()).mean((2, 3), keepdim=True)
            return total

    return Alex


def alex(state: dict[str, Any]) -> Any:
    """The network with these weights; what they lack or have too much is an error."""
    import torch

    kind = _network_class()
    scaling = kind().scaling_layer.state_dict(prefix="scaling_layer.")
    # A network on "meta" has no values at all, so none can stay random:
    # what the file does not bring makes load_state_dict fail.
    with torch.device("meta"):
        network = kind()
    network.load_state_dict(state | scaling, strict=True, assign=True)
    return network
