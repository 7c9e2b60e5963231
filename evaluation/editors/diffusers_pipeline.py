"""Models on this machine, by diffusers: the row has the pipeline and its weights."""

from __future__ import annotations

import gc
import inspect
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

from evaluation.editors.base import Answer, Editor, EditSettings, Refused
from evaluation.editors.failures import configuration, shorten
from evaluation.editors.latent import load_autoencoder, passed
from evaluation.editors.sizes import SizeRule
from evaluation.errors import EditorError, Fault
from evaluation.images import EncodedImage
from evaluation.packages import package_version
from evaluation.torch_compat import ready_torchvision

Placement = Literal["cpu", "cuda", "model offload", "sequential offload"]
PACKAGES = ("torch", "diffusers", "transformers", "accelerate")
# Rough size of the activations of a 1 MP edit beside the weights, in bytes.
WORKING_MEMORY = 3 * 2**30


class _Stopped(Exception):
    """Raised inside a pipeline to end it: closed, or out of time."""


@dataclass
class _Loaded:
    pipe: Any
    dtype: str
    placement: Placement
    # A pipeline has the state of its scheduler: one edit at a time.
    lock: threading.Lock = field(default_factory=threading.Lock)


class _Shelf:
    """The one pipeline of this process; the weights of two rarely fit."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.key: tuple[str, ...] = ()
        self.loaded: _Loaded | None = None
        #: Placements that ran out of memory, by key.
        self.too_much: dict[tuple[str, ...], set[Placement]] = {}

    def drop(self) -> None:
        self.key, self.loaded = (), None
        gc.collect()
        import torch

        if torch.cuda.is_available():
            torch.cuda.empty_cache()


_shelf = _Shelf()


@dataclass(kw_only=True, eq=False)
class DiffusersPipeline(Editor):
    """The fields are the options of its row; `params` go to the pipeline's call."""

    pipeline: str  # a class of diffusers
    checkpoint: str  # an id on the hub, or a folder
    revision: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    loading: Mapping[str, Any] = field(default_factory=dict)  # for from_pretrained
    image_argument: str = "image"
    image_list: bool = False
    prompt_template: str = "{prompt}"
    size: Mapping[str, Any] | None = None
    timeout: float = 3600.0

    queue: ClassVar[str] = "gpu"
    has_floor: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.size_rule = SizeRule.from_row(self.size) or SizeRule()
        self._closed = threading.Event()
        self._floor_lock = threading.Lock()

    def edit(self, image: EncodedImage, prompt: str, seed: int | None = None) -> Answer:
        if missing := self.missing():
            raise configuration(f"{self.checkpoint}: " + "; ".join(missing))
        loaded = self._load()
        with loaded.lock:
            started = time.monotonic()
            arguments = self._arguments(loaded.pipe, image, prompt, seed or 0, started)
            with self._translated_errors(loaded, image), _seeded(seed or 0):
                output = loaded.pipe(**arguments)
            seconds = time.monotonic() - started
        notes = {"dtype": loaded.dtype, "placement": loaded.placement, "model": self.checkpoint}
        if any(getattr(output, "nsfw_content_detected", None) or ()):
            raise Refused("the pipeline's safety checker blanked the image", notes=notes)
        return Answer(EncodedImage.from_image(output.images[0].convert("RGB")), seconds, 0.0, notes)

    def edit_so(
        self, image: EncodedImage, prompt: str, seed: int | None, settings: EditSettings
    ) -> Answer:
        """Pass the image through the autoencoder: `floor` is the only supported setting."""
        if missing := self.missing():
            raise configuration(f"{self.checkpoint}: " + "; ".join(missing))
        with self._floor_lock:
            started = time.monotonic()
            decoded = passed(self._autoencoder, image.decoded)
        notes = {"autoencoder": type(self._autoencoder).__name__, "model": self.checkpoint}
        return Answer(EncodedImage.from_image(decoded), time.monotonic() - started, 0.0, notes)

    @cached_property
    def _autoencoder(self) -> Any:
        """Load the pipeline's autoencoder alone: the rest need not fit into memory."""
        folder = self._folder()
        if folder is None or not (folder / "vae").is_dir():
            raise configuration(f"{self.checkpoint} has no folder vae with its autoencoder")
        return load_autoencoder(str(folder), subfolder="vae", local_files_only=True)

    def missing(self) -> list[str]:
        absent = [name for name in PACKAGES if not package_version(name)]
        if absent:
            return [f"install {', '.join(absent)} (pip install 'convergebench[worker]')"]
        try:
            folder = self._folder()
        except (OSError, ValueError) as error:
            return [f"the weights cannot be found: {shorten(str(error))}"]
        if folder is None:
            if Path(self.checkpoint).is_absolute():
                return [f"there is no pipeline (model_index.json) in {self.checkpoint}"]
            revision = f" --revision {self.revision}" if self.revision else ""
            return [f"get the weights: hf download {self.checkpoint}{revision}"]
        absent = [name for name in _components(folder) if not (folder / name).is_dir()]
        if absent:
            return [f"the weights in {folder} are not complete: {', '.join(absent)} missing"]
        return []

    def describe(self) -> dict[str, Any]:
        folder = self._folder() if not self.missing() else None
        loaded = _shelf.loaded if _shelf.key == self._key else None
        return {
            "pipeline": self.pipeline,
            "checkpoint": self.checkpoint,
            # In the hub's cache a snapshot's folder has the name of its commit.
            "revision": folder.name if folder and folder.parent.name == "snapshots" else None,
            "params": dict(self.params),
            "size": dict(self.size) if self.size else None,
            "dtype": loaded.dtype if loaded else None,
            "placement": loaded.placement if loaded else None,
            "versions": {name: package_version(name) for name in PACKAGES},
        }

    def close(self) -> None:
        self._closed.set()

    @property
    def _key(self) -> tuple[str, ...]:
        loading = json.dumps(dict(self.loading), sort_keys=True)
        return self.pipeline, self.checkpoint, self.revision or "", loading

    def _folder(self) -> Path | None:
        """Return the folder of the weights on this machine; None if they are missing."""
        local = Path(self.checkpoint)
        if (local / "model_index.json").is_file():
            return local
        if local.is_absolute():
            return None
        from huggingface_hub import try_to_load_from_cache

        index = try_to_load_from_cache(self.checkpoint, "model_index.json", revision=self.revision)
        return Path(index).parent if isinstance(index, str) else None

    def _load(self) -> _Loaded:
        with _shelf.lock:
            if self._closed.is_set():
                raise _ended()
            if _shelf.loaded is None or _shelf.key != self._key:
                _shelf.drop()
                _shelf.loaded = self._from_disk(_shelf.too_much.get(self._key, set()))
                _shelf.key = self._key
            return _shelf.loaded

    def _from_disk(self, too_much: set[Placement]) -> _Loaded:
        # Imported here: pages must not load torch, and a CUDA context opened
        # before the worker forks would be unusable in the child.
        ready_torchvision()
        import diffusers
        import torch
        import transformers

        diffusers.utils.logging.disable_progress_bar()
        transformers.utils.logging.disable_progress_bar()
        folder = self._folder()
        kind: Any = getattr(diffusers, self.pipeline, None)
        if folder is None or kind is None:
            version = package_version("diffusers")
            raise configuration(f"diffusers {version} has no pipeline called {self.pipeline}")
        dtype = _dtype(torch)
        _check_memory(folder, dtype.itemsize)
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.deterministic = True
        options = {"use_safetensors": True, **self.loading}
        try:
            pipe = kind.from_pretrained(folder, dtype=dtype, local_files_only=True, **options)
        # Any fault of the files: missing, of another class, of another version.
        except (OSError, ValueError, TypeError, KeyError, AttributeError, ImportError) as error:
            raise configuration(
                f"{self.checkpoint} cannot be loaded as {self.pipeline}: {shorten(str(error))}"
            ) from error
        pipe.set_progress_bar_config(disable=True)
        placement = _place(torch, pipe, too_much)
        return _Loaded(pipe, str(dtype).removeprefix("torch."), placement)

    def _arguments(
        self, pipe: Any, image: EncodedImage, prompt: str, seed: int, started: float
    ) -> dict[str, Any]:
        """Return image, prompt, seed, size and callback as this pipeline's arguments."""
        import torch

        accepted = inspect.signature(pipe.__call__).parameters
        arguments: dict[str, Any] = {
            "prompt": self.prompt_template.replace("{prompt}", prompt),
            self.image_argument: [image.decoded] if self.image_list else image.decoded,
            # On the CPU: the same noise for every GPU.
            "generator": torch.Generator("cpu").manual_seed(seed),
        }
        if "height" in accepted and "width" in accepted:
            arguments["width"], arguments["height"] = self.size_rule.nearest(image.size)

        def look(*step: Any) -> dict[str, Any]:
            if self._closed.is_set() or time.monotonic() - started > self.timeout:
                raise _Stopped
            return step[3] if len(step) == 4 else {}

        for name in ("callback_on_step_end", "callback"):
            if name in accepted:
                arguments[name] = look
                break
        arguments |= self.params
        if unknown := set(arguments) - set(accepted):
            names = ", ".join(sorted(unknown))
            raise configuration(f"{self.pipeline} takes no {names}; see the row's params")
        return arguments

    @contextmanager
    def _translated_errors(self, loaded: _Loaded, image: EncodedImage) -> Iterator[None]:
        """Translate the errors of a pipeline; after a lack of GPU memory allow a retry."""
        import torch

        try:
            yield
        except _Stopped:
            if self._closed.is_set():
                raise _ended() from None
            raise EditorError(
                f"{self.pipeline} took longer than {self.timeout:g} s", fault=Fault.TIMEOUT
            ) from None
        except (torch.OutOfMemoryError, MemoryError) as error:
            where = f"{image.width} x {image.height}, {loaded.placement}"
            with _shelf.lock:
                _shelf.too_much.setdefault(self._key, set()).add(loaded.placement)
                _shelf.drop()
            if loaded.placement in ("cpu", "sequential offload"):
                raise configuration(f"{self.checkpoint} runs out of memory ({where})") from error
            raise EditorError(
                f"out of GPU memory ({where}); the next attempt keeps less of the model on the GPU",
                fault=Fault.SERVER_ERROR,
            ) from error
        except (ValueError, TypeError, RuntimeError) as error:
            raise configuration(f"{self.pipeline}: {shorten(str(error))}") from error


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed torch's global generator: some pipelines draw from it too."""
    import torch

    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


def placement(total: int, largest: int, free: int, too_much: set[Placement]) -> Placement:
    """Choose the placement of a model on a GPU with `free` bytes.

    The model has `total` bytes, its largest part `largest`.
    """
    choices: list[tuple[Placement, int]] = [
        ("cuda", total),
        ("model offload", largest),
        ("sequential offload", 0),
    ]
    fitting = (name for name, weights in choices if weights + WORKING_MEMORY <= free)
    return next((name for name in fitting if name not in too_much), "sequential offload")


def _place(torch: Any, pipe: Any, too_much: set[Placement]) -> Placement:
    if not torch.cuda.is_available():
        pipe.to("cpu")
        return "cpu"
    sizes = [
        sum(weight.numel() * weight.element_size() for weight in part.parameters())
        for part in pipe.components.values()
        if isinstance(part, torch.nn.Module)
    ]
    chosen = placement(sum(sizes), max(sizes), torch.cuda.mem_get_info()[0], too_much)
    if chosen == "cuda":
        pipe.to("cuda")
    elif chosen == "model offload":
        pipe.enable_model_cpu_offload()
    else:
        pipe.enable_sequential_cpu_offload()
    return chosen


def _dtype(torch: Any) -> Any:
    if not torch.cuda.is_available():
        return torch.float32
    return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16


def _check_memory(folder: Path, bytes_per_weight: int) -> None:
    """Raise if the model cannot fit, before the kernel kills the worker."""
    import psutil

    stored = sum(file.stat().st_size for file in folder.rglob("*.safetensors"))
    # Large models are stored in 16 bits.
    needed = stored * bytes_per_weight // 2 if stored > 8 * 2**30 else stored
    free = psutil.virtual_memory().available
    if needed > free:
        raise configuration(
            f"{folder.name} needs about {needed / 2**30:.0f} GB of memory; "
            f"{free / 2**30:.0f} GB are free"
        )


def _components(folder: Path) -> list[str]:
    """Return the parts of the pipeline from model_index.json."""
    try:
        index = json.loads((folder / "model_index.json").read_text(encoding="utf-8"))
        return [
            name
            for name, value in index.items()
            if not name.startswith("_") and isinstance(value, list) and value[0]
        ]
    except (OSError, ValueError, AttributeError):
        return []


def _ended() -> EditorError:
    return EditorError("we cancelled the edit", fault=Fault.UNREACHABLE, permanent=True)
