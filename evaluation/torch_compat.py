"""Workarounds for torch: importing a mismatched torchvision, and running in one thread.

PyPI's torchvision is linked against CUDA. With a CPU build of torch, torchvision's library does not
load, and even `import torchvision` fails: "operator torchvision::nms does not exist". lpips,
open_clip and timm import torchvision but use none of its compiled operators, so it is enough to
declare these operators.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
# A torch Library removes its operators when it is garbage-collected.
_libraries: list[Any] = []


@cache
def fix_torchvision() -> None:
    """Make `import torchvision` work; call before importing lpips, open_clip or timm."""
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
    else:
        return
    import torch

    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]  # only partly imported
    library = torch.library.Library("torchvision", "DEF")
    for operator in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, operator):
            library.define(operator + _SCHEMA)
    _libraries.append(library)
    importlib.import_module("torchvision")


@contextmanager
def one_thread() -> Iterator[None]:
    """Make torch, if it is loaded, compute in one thread.

    One thread is fastest for small networks, and gives the same bits for the same input. Several
    threads would add the terms of a sum in varying order.
    """
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else 1
    if torch is None or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
