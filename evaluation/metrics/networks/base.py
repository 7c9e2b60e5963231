"""What the metrics that run a network share: a device, batches, and running out of memory.

On a GPU the convolutions are done in half precision, everything after them in float32; the
numbers then differ from a CPU's by at most HALF_TOLERANCE. CONVERGEBENCH_PRECISION=float32
has them done in full there too.
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


#: How far half precision may move what a metric keeps of a picture (retention, 1 is all): the
#: most by which CPU and GPU disagree. Between two levels of the board lie .15 and more.
HALF_TOLERANCE = 0.005
PRECISIONS = ("float16", "float32")


class NetworkMetric(DirectMetric):
    """A metric that runs a network: on a CUDA device where there is one, else on the CPU."""

    #: Pictures in one pass, by device. One at a time stays in a CPU's cache.
    batch: ClassVar[dict[str, int]] = {"cuda": 16, "cpu": 1}
    uses_network = True

    @abstractmethod
    def load(self) -> Any:
        """The network with its verified weights, on the CPU."""

    @abstractmethod
    def features(self, images: Sequence[Image.Image]) -> Features:
        """What `compare` needs of a source; a tensor or a list of tensors."""

    @abstractmethod
    def compare(self, sources: Sequence[Features], images: Sequence[Image.Image]) -> list[float]:
        """The distances of a batch small enough for the device's memory, each to its own source."""

    @cached_property
    def device(self) -> str:
        """Chosen at first use, never at import: a CUDA context does not survive a fork."""
        import torch

        return "cuda" if torch.cuda.is_available() else "cpu"

    @cached_property
    def precision(self) -> str:
        """What convolutions are done in: half precision pays on a GPU alone."""
        wanted = os.environ.get("CONVERGEBENCH_PRECISION") or PRECISIONS[0]
        if wanted not in PRECISIONS:
            raise MetricError(
                f"CONVERGEBENCH_PRECISION is {wanted!r}: it should be {' or '.join(PRECISIONS)}"
            )
        return wanted if self.device == "cuda" else "float32"

    @property
    def dtype(self) -> torch.dtype:
        import torch

        found: torch.dtype = getattr(torch, self.precision)
        return found

    @cached_property
    def network(self) -> Any:
        import torch

        network = self.load().eval().requires_grad_(False)
        network = network.to(self.device, memory_format=torch.channels_last)
        self.trunk(network).to(self.dtype)
        ours = self.device == "cpu" and self.precision == "float32"
        return quicken(network) if ours else network

    def trunk(self, network: Any) -> Any:
        """The part of the network that may be run in half precision."""
        return network

    def prepare(self, source: Image.Image) -> Features:
        found: Features = self.in_batches([source], lambda part: [self.features([source])])[0]
        return found

    def distances(self, source: Features, restored: Sequence[Image.Image]) -> list[float]:
        return self.distances_each([source] * len(restored), restored)

    def losses(
        self, sources: Sequence[Features], restored: Sequence[Image.Image]
    ) -> Sequence[Loss]:
        return [Loss(distance) for distance in self.distances_each(sources, restored)]

    def distances_each(
        self, sources: Sequence[Features], restored: Sequence[Image.Image]
    ) -> list[float]:
        """The distance of each picture to its own source; all have one size."""

        def compare(part: slice) -> list[float]:
            return self.compare(moved(sources[part], self.device), restored[part])

        return finite(self, self.in_batches(restored, compare))

    def in_batches(
        self, images: Sequence[Image.Image], work: Callable[[slice], list[Any]]
    ) -> list[Any]:
        """The results of all images, `work` being told which ones it is to do now.

        Out of memory halves the batch, then leaves the GPU.
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
            # Out of the except block, so that the failed batch's tensors are let go.
            if part.stop - part.start > 1:
                size = (part.stop - part.start) // 2
            elif self.device == "cuda":
                self._leave_gpu()
                size = self.batch[self.device]
            else:
                wide, high = images[part.start].size
                raise MetricError(f"not enough memory for {self.label} of {wide} x {high} pixels")
        return results

    def _leave_gpu(self) -> None:
        import torch

        self.device = "cpu"
        # Loaded anew when it is next used: what was rounded to half precision stays rounded.
        for made in ("network", "precision"):
            self.__dict__.pop(made, None)
        torch.cuda.empty_cache()


@contextmanager
def _exact(device: str) -> Iterator[None]:
    """No gradients, and on a GPU the same float32 arithmetic as on a CPU."""
    import torch

    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode())
        if device == "cuda":  # settings of the process: on a CPU, threads share them
            flags = torch.backends.cudnn.flags(
                enabled=True, benchmark=False, deterministic=True, allow_tf32=False
            )
            stack.enter_context(flags)
        yield


def _out_of_memory(error: Exception) -> bool:
    import torch

    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return "can't allocate memory" in str(error)  # the CPU's allocator has no type of its own


def moved(sources: Sequence[Features], device: str) -> list[Features]:
    """What was made of the sources, on this device; what is one object stays one."""
    there = {id(source): _moved(source, device) for source in sources}
    return [there[id(source)] for source in sources]


def _moved(features: Features, device: str) -> Features:
    if isinstance(features, (list, tuple)):
        return [_moved(feature, device) for feature in features]
    return features.to(device)


def in_spans(sources: Sequence[Features]) -> Iterator[tuple[slice, Features]]:
    """The sources, and for which pictures of a batch each serves: neighbours share one."""
    end = 0
    for _, same in groupby(sources, key=id):
        few = list(same)
        begin, end = end, end + len(few)
        yield slice(begin, end), few[0]


def as_tensor(images: Sequence[Image.Image], device: str) -> torch.Tensor:
    """Pictures of one size as float32 in [0, 255]: batch, channel, height, width."""
    import torch

    stacked = np.stack([np.asarray(image) for image in images])
    # The channels stay last in memory, as the pictures have them; pooling is quicker so.
    return torch.from_numpy(stacked).to(device).permute(0, 3, 1, 2).float()


def cosine_distances(sources: Sequence[torch.Tensor], others: torch.Tensor) -> list[float]:
    """1 - cosine of each row to its own source's, in float64 so that equal rows give 0."""
    import torch

    wanted = torch.cat(list(sources))
    similarity = torch.nn.functional.cosine_similarity(wanted.double(), others.double())
    distances: list[float] = (1 - similarity).tolist()
    return distances


# Convolutions on a CPU, quicker with the same numbers. Measured on AlexNet at 1024 x 1024 pixels,
# one AVX2 core: NNPACK's FFT and Winograd convolutions take 110 ms where oneDNN's direct ones take
# 330 ms, equal to five parts in a million; pooling takes 5 ms with the channels last in memory and
# 70 ms with them first.


def quicken(network: Any) -> Any:
    """Return the network, which lies on the CPU, with quicker convolutions and poolings."""
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
