"""What the metrics that run a network share: a device, batches, and running out of memory."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from PIL import Image

from evaluation import weights
from evaluation.metrics.base import DirectMetric, Features, MetricError, finite
from evaluation.metrics.networks.quick import quicken

if TYPE_CHECKING:
    import torch


class NetworkMetric(DirectMetric):
    """A metric that runs a network: on a CUDA device where there is one, else on the CPU."""

    #: The name of its weights in evaluation.weights.
    weights: ClassVar[str]
    #: Pictures in one pass, by device. One at a time stays in a CPU's cache.
    batch: ClassVar[dict[str, int]] = {"cuda": 16, "cpu": 1}

    @abstractmethod
    def load(self) -> Any:
        """The network with its verified weights, on the CPU."""

    @abstractmethod
    def features(self, images: Sequence[Image.Image]) -> Features:
        """What `compare` needs of a source; a tensor or a list of tensors."""

    @abstractmethod
    def compare(self, source: Features, images: Sequence[Image.Image]) -> list[float]:
        """The distances of a batch small enough for the device's memory."""

    @cached_property
    def device(self) -> str:
        """Chosen at first use, never at import: a CUDA context does not survive a fork."""
        import torch

        return "cuda" if torch.cuda.is_available() else "cpu"

    @cached_property
    def network(self) -> Any:
        import torch

        network = self.load().eval().requires_grad_(False)
        network = network.to(self.device, memory_format=torch.channels_last)
        return quicken(network) if self.device == "cpu" else network

    @property
    def weights_sha256(self) -> str | None:
        try:
            return weights.locate(self.weights)[1]
        except weights.WeightsError:
            return None

    def missing(self) -> list[str]:
        problem = weights.WEIGHTS[self.weights].status().problem
        return super().missing() + ([problem] if problem else [])

    def prepare(self, source: Image.Image) -> Features:
        return self.in_batches([source], lambda images: [self.features(images)])[0]

    def distances(self, source: Features, restored: Sequence[Image.Image]) -> list[float]:
        def compare(images: Sequence[Image.Image]) -> list[float]:
            return self.compare(moved(source, self.device), images)

        return finite(self, self.in_batches(restored, compare))

    def in_batches(
        self, images: Sequence[Image.Image], work: Callable[[Sequence[Image.Image]], list[Any]]
    ) -> list[Any]:
        """The results of all images; out of memory halves the batch, then leaves the GPU."""
        results: list[Any] = []
        size = self.batch[self.device]
        while len(results) < len(images):
            batch = images[len(results) : len(results) + size]
            try:
                with _exact(self.device):
                    results += work(batch)
                continue
            except (MemoryError, RuntimeError) as error:
                if not _out_of_memory(error):
                    raise
            # Out of the except block, so that the failed batch's tensors are let go.
            if len(batch) > 1:
                size = len(batch) // 2
            elif self.device == "cuda":
                self._leave_gpu()
                size = self.batch[self.device]
            else:
                wide, high = batch[0].size
                raise MetricError(f"not enough memory for {self.label} of {wide} x {high} pixels")
        return results

    def _leave_gpu(self) -> None:
        import torch

        self.device = "cpu"
        if "network" in self.__dict__:
            quicken(self.network.to("cpu"))
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


def moved(features: Features, device: str) -> Features:
    if isinstance(features, (list, tuple)):
        return [moved(feature, device) for feature in features]
    return features.to(device)


def as_tensor(images: Sequence[Image.Image], device: str) -> torch.Tensor:
    """Pictures of one size as float32 in [0, 255]: batch, channel, height, width."""
    import torch

    stacked = np.stack([np.asarray(image) for image in images])
    # The channels stay last in memory, as the pictures have them; pooling is quicker so.
    return torch.from_numpy(stacked).to(device).permute(0, 3, 1, 2).float()


def cosine_distances(source: torch.Tensor, others: torch.Tensor) -> list[float]:
    """1 - cosine of each row to the one source row, in float64 so that equal rows give 0."""
    import torch

    similarity = torch.nn.functional.cosine_similarity(source.double(), others.double())
    distances: list[float] = (1 - similarity).tolist()
    return distances
