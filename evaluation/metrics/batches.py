"""Batches: images of one or several chains, decoded and measured a batch at a time."""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

from PIL import Image

from evaluation.images import EncodedImage, fit
from evaluation.metrics.base import Metric, MetricError, is_large
from evaluation.metrics.networks.base import NetworkMetric

AnyImage: TypeAlias = Image.Image | EncodedImage
#: Whatever identifies an image's chain and trip.
Owner = TypeVar("Owner")

# The number of images in one batch. Unless images are large, the next batch is decoded while this
# one is measured. A GPU gets larger batches, because a network processes a batch in one pass.
BATCH, GPU_BATCH, LARGE_BATCH = 8, 16, 4
#: Options of glibc. They set the size above which freed blocks go back to the system, and the size
#: above which the free end of the heap does.
M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -3, -1
BLOCK = 2 * 2**20


def batch_size(metrics: Iterable[Metric], size: tuple[int, int]) -> int:
    """Return the number of images of this size to measure at a time."""
    if is_large(size):
        return LARGE_BATCH
    networks = (metric for metric in metrics if isinstance(metric, NetworkMetric))
    return BATCH if all(metric.device == "cpu" for metric in networks) else GPU_BATCH


@contextmanager
def threads(metrics: Iterable[Metric], size: tuple[int, int]) -> Iterator[ThreadPoolExecutor]:
    """Provide one thread per processor; each image is processed by one thread.

    Threads that share one convolution wait for each other, most of all on a busy machine. Threads
    with separate images do not.
    """
    count = 1 if is_large(size) else min(_processors(), BATCH)
    if not any(isinstance(metric, NetworkMetric) for metric in metrics):
        with ThreadPoolExecutor(count) as pool:
            yield pool
        return
    import torch

    before = torch.get_num_threads()
    share = max(1, before // count)
    pool = ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(share,))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(before)  # new threads of other code inherit the last setting


def batches(
    images: Iterable[tuple[Owner, AnyImage]],
    size: tuple[int, int],
    count: int,
    pool: ThreadPoolExecutor,
) -> Iterator[list[tuple[Owner, Image.Image]]]:
    """Yield batches of images, decoded at the source's size; prepare the next batch meanwhile."""
    remaining = iter(images)

    def decode(item: tuple[Owner, AnyImage]) -> tuple[Owner, Image.Image]:
        return item[0], fit(rgb(item[1]), size)

    if is_large(size):
        while part := [decode(item) for item in itertools.islice(remaining, count)]:
            yield part
            del part
        return

    def start() -> Iterator[tuple[Owner, Image.Image]] | None:
        part = list(itertools.islice(remaining, count))
        return pool.map(decode, part) if part else None

    following = start()
    while following is not None:
        batch, following = following, start()
        yield list(batch)


def rgb(image: AnyImage) -> Image.Image:
    decoded = image.decoded if isinstance(image, EncodedImage) else image
    if decoded.mode != "RGB":
        raise MetricError(
            f"an image of mode {decoded.mode} is not in canonical form: "
            "read it with evaluation.images.EncodedImage"
        )
    return decoded


def _processors() -> int:
    """Return the number of usable processors, at most OMP_NUM_THREADS."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(count, int(limit)) if limit.isdecimal() and int(limit) else count


def return_freed_memory() -> bool:
    """Return freed memory to the system now, and large blocks as soon as they are freed.

    Returns False if the C library cannot do this. Without this call, glibc keeps freed blocks
    between small blocks still in use, so a process that measured one large image would stay at its
    peak size. This setting costs a few per cent of time, so only processes that meet large images
    make the call.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        glibc = ctypes.CDLL(None)
        glibc.malloc_trim(0)
        options = (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD)
        return all(glibc.mallopt(option, BLOCK) for option in options)
    except (OSError, AttributeError):  # another C library
        return False
