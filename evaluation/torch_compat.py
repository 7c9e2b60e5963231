"""Lets torchvision load beside a torch it was not built for.

The registry's torchvision is linked against CUDA. Beside a CPU build of torch
its library does not load, and then even `import torchvision` fails: "operator
torchvision::nms does not exist". lpips, open_clip and timm import torchvision
but use none of its compiled operators, so naming them is enough.
"""

from __future__ import annotations

import importlib
import sys
from functools import cache
from typing import Any

_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
# A torch Library takes its operators with it when it is collected.
_kept: list[Any] = []


@cache
def ready_torchvision() -> None:
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
        del sys.modules[name]  # half imported
    library = torch.library.Library("torchvision", "DEF")
    for operator in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, operator):
            library.define(operator + _SCHEMA)
    _kept.append(library)
    importlib.import_module("torchvision")
