"""Base classes of metrics that run a network: device, batches, lack of memory.

On a GPU, convolutions run in half precision and everything after them in float32. Retentions then
differ from a CPU's by at most HALF_TOLERANCE. CONVERGEBENCH_PRECISION=float32 runs convolutions in
float32 too.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, cached_property, partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from PIL import Image

from evaluation.metrics.base import DirectMetric, Features, Loss, MetricError, finite

if TYPE_CHECKING:
    import torch


#: Half precision changes a retention by at most this, so CPU and GPU differ by no more. The
#: thresholds of the board are 0.25 apart.
HALF_TOLERANCE = 0.005
PRECISIONS = ("float16", "float32")


class NetworkMetric(DirectMetric):
    """A metric that runs a network, on a CUDA device if available, else on the CPU."""

    #: Images in one pass, by device. On a CPU a single image stays in the cache.
    batch: ClassVar[dict[str, int]] = {"cuda": 16, "cpu": 1}
    uses_network = True

    @abstractmethod
    def load(self) -> Any:
        """Return the network with its verified weights, on the CPU."""

    @cached_property
    def device(self) -> str:
        """Return the device, chosen at first use because a CUDA context does not survive a fork."""
        import torch

        return "cuda" if torch.cuda.is_available() else "cpu"

    @cached_property
    def precision(self) -> str:
        """Return the precision of convolutions; half precision is faster only on a GPU."""
        precision = os.environ.get("CONVERGEBENCH_PRECISION") or PRECISIONS[0]
        if precision not in PRECISIONS:
            raise MetricError(
                f"CONVERGEBENCH_PRECISION is {precision!r}: it should be {' or '.join(PRECISIONS)}"
            )
        return precision if self.device == "cuda" else "float32"

    @property
    def dtype(self) -> torch.dtype:
        import torch

        dtype: torch.dtype = getattr(torch, self.precision)
        return dtype

    @cached_property
    def network(self) -> Any:
        import torch

        network = self.load().eval().requires_grad_(False)
        network = network.to(self.device, memory_format=torch.channels_last)
        self.trunk(network).to(self.dtype)
        is_plain_cpu = self.device == "cpu" and self.precision == "float32"
        return optimise_for_cpu(network) if is_plain_cpu else network

    def trunk(self, network: Any) -> Any:
        """Return the part of the network that may run in half precision."""
        return network

    def in_batches(
        self, images: Sequence[Image.Image], work: Callable[[slice], list[Any]]
    ) -> list[Any]:
        """Run `work` on slices of the images and return all results.

        If memory is short, batches are halved. If one image is too much for a GPU, the network
        moves to the CPU. Raises MetricError if a single image does not fit into the CPU's memory.
        """
        results: list[Any] = []
        size = self.batch[self.device]
        while len(results) < len(images):
            part = slice(len(results), min(len(results) + size, len(images)))
            try:
                with _exact(self.device):
                    results += work(part)
                continue
            except (MemoryError, RuntimeError) as error:
                if not _out_of_memory(error):
                    raise
            # After the except block, so that the failed batch's tensors are freed.
            if part.stop - part.start > 1:
                size = (part.stop - part.start) // 2
            elif self.device == "cuda":
                self._leave_gpu()
                size = self.batch[self.device]
            else:
                width, height = images[part.start].size
                raise MetricError(
                    f"not enough memory for {self.label} on an image of {width} x {height} pixels"
                )
        return results

    def unload(self) -> None:
        """Free the network's memory on a CPU; the next use loads the network again."""
        if self.device == "cpu":
            vars(self).pop("network", None)

    def _leave_gpu(self) -> None:
        import torch

        self.device = "cpu"
        # The next use loads the network again, because its weights were rounded for the GPU.
        for name in ("network", "precision"):
            self.__dict__.pop(name, None)
        torch.cuda.empty_cache()


class FeatureMetric(NetworkMetric):
    """A network metric that compares the features of two images."""

    @abstractmethod
    def features(self, images: Sequence[Image.Image]) -> Features:
        """Return a source's features for `compare`: a tensor or a list of tensors."""

    @abstractmethod
    def compare(self, sources: Sequence[Features], images: Sequence[Image.Image]) -> list[float]:
        """Return the distance of each image of a batch to its own source."""

    def prepare(self, source: Image.Image) -> Features:
        features: Features = self.in_batches([source], lambda part: [self.features([source])])[0]
        return features

    def losses(
        self, sources: Sequence[Features], restored: Sequence[Image.Image]
    ) -> Sequence[Loss]:
        """Return the loss of each image against its own source; all have the same size."""

        def compare(part: slice) -> list[float]:
            return self.compare(moved(sources[part], self.device), restored[part])

        return finite(self, self.in_batches(restored, compare))


@contextmanager
def _exact(device: str) -> Iterator[None]:
    """Disable gradients, and on a GPU use the same float32 arithmetic as on a CPU."""
    import torch

    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode())
        if device == "cuda":  # process-wide settings, which a CPU does not need
            flags = torch.backends.cudnn.flags(
                enabled=True, benchmark=False, deterministic=True, allow_tf32=False
            )
            stack.enter_context(flags)
        yield


def _out_of_memory(error: Exception) -> bool:
    import torch

    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return "can't allocate memory" in str(error)  # a RuntimeError of the CPU's allocator


def moved(sources: Sequence[Features], device: str) -> list[Features]:
    """Move source features to this device; repeated objects are moved once."""
    by_id = {id(source): _moved(source, device) for source in sources}
    return [by_id[id(source)] for source in sources]


def _moved(features: Features, device: str) -> Features:
    if isinstance(features, Image.Image):
        return features
    if isinstance(features, (list, tuple)):
        return [_moved(feature, device) for feature in features]
    return features.to(device)


def in_spans(sources: Sequence[Features]) -> Iterator[tuple[slice, Features]]:
    """Yield each sequence of identical sources as a slice of the batch, with the source."""
    end = 0
    for _, same in groupby(sources, key=id):
        group = list(same)
        begin, end = end, end + len(group)
        yield slice(begin, end), group[0]


def as_tensor(images: Sequence[Image.Image], device: str) -> torch.Tensor:
    """Return images of one size as float32 from 0 to 255: batch, channel, height, width."""
    import torch

    stacked = np.stack([np.asarray(image) for image in images])
    # Channels stay last in memory, as in the images, because pooling is then faster.
    return torch.from_numpy(stacked).to(device).permute(0, 3, 1, 2).float()


def cosine_distances(sources: Sequence[torch.Tensor], others: torch.Tensor) -> list[float]:
    """Return 1 - the cosine of each row with its source's row.

    Cosines are computed in float64, so that equal rows have distance 0.
    """
    import torch

    source_rows = torch.cat(list(sources))
    similarity = torch.nn.functional.cosine_similarity(source_rows.double(), others.double())
    distances: list[float] = (1 - similarity).tolist()
    return distances


# Faster layers for a CPU, whose results differ from torch's by at most five millionths. Measured on
# an AVX2 core for AlexNet at 1024 x 1024 pixels: convolutions take 110 ms with NNPACK (FFT and
# Winograd) and 330 ms with oneDNN (direct). Pooling takes 5 ms with channels last in memory and 70
# ms with channels first. Linear layers use oneDNN, because MKL ignores AVX-512 on processors that
# Intel did not make: on these, oneDNN reaches 230 GFLOP/s a core and MKL 100.


def optimise_for_cpu(network: Any) -> Any:
    """Replace a CPU network's convolutions, poolings and linear layers by faster ones."""
    import torch

    for module in network.modules():
        if type(module) is torch.nn.Linear and onednn_works():
            packed = torch.ops.mkldnn._reorder_linear_weight(module.weight.data.clone())
            module.forward = partial(multiply, weight=packed, bias=module.bias)
            # Otherwise the weights would be in memory twice.
            module.weight.data = module.weight.data.new_empty(0)
        elif type(module) is torch.nn.MaxPool2d:
            module.forward = partial(_pool, module)
        elif type(module) is torch.nn.Conv2d and _suits_nnpack(module) and _nnpack_works():
            module.weight.data = module.weight.data.contiguous()
            module.forward = partial(_convolve, module)
    return network


def _suits_nnpack(convolution: Any) -> bool:
    """Return True for a dense, unit-stride convolution of 3 to 8 pixels square."""
    height, width = convolution.kernel_size
    return (
        height == width
        and 3 <= height <= 8
        and convolution.stride == (1, 1)
        and convolution.dilation == (1, 1)
        and convolution.groups == 1
        and convolution.bias is not None
        and convolution.padding_mode == "zeros"
        and convolution.padding in {(p, p) for p in range(height)}
    )


@cache
def _nnpack_works() -> bool:
    """Return True if this torch has NNPACK and this processor supports it.

    At its first call, NNPACK creates as many threads as torch has. We leave torch one thread during
    this call: images are already spread over threads, and NNPACK's threads would busy-wait.
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


@cache
def onednn_works() -> bool:
    """Return True if this torch can multiply with oneDNN."""
    import torch

    try:
        weight = torch.ops.mkldnn._reorder_linear_weight(torch.ones(8, 8))
        multiply(torch.ones(1, 8), weight)
    except (AttributeError, RuntimeError):  # NotImplementedError is a RuntimeError
        return False
    return True


def multiply(values: Any, weight: Any, bias: Any = None) -> Any:
    """Apply a linear layer with oneDNN."""
    import torch

    return torch.ops.mkldnn._linear_pointwise(values, weight, bias, "none", [], "")


def _convolve(convolution: Any, values: Any) -> Any:
    import torch

    return torch._nnpack_spatial_convolution(
        values.contiguous(), convolution.weight, convolution.bias, list(convolution.padding)
    )


def _pool(pool: Any, values: Any) -> Any:
    import torch

    channels_last = values.contiguous(memory_format=torch.channels_last)
    return torch.nn.MaxPool2d.forward(pool, channels_last)
