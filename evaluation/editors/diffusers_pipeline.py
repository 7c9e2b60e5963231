"""Models that run on this machine with diffusers."""

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
from evaluation.editors.failures import misconfigured, shorten
from evaluation.editors.latent import autoencode, load_autoencoder
from evaluation.editors.sizes import SizeRule
from evaluation.errors import EditorError, Fault
from evaluation.images import EncodedImage
from evaluation.packages import package_version
from evaluation.torch_compat import fix_torchvision

Placement = Literal["cpu", "cuda", "model offload", "sequential offload"]
PACKAGES = ("torch", "diffusers", "transformers", "accelerate")
# Approximate bytes that a 1 MP edit needs besides the weights.
WORKING_MEMORY = 3 * 2**30


class _Stopped(Exception):
    """Raised inside a pipeline to end it: the editor was closed, or the time is up."""


@dataclass
class _Loaded:
    pipe: Any
    dtype: str
    placement: Placement
    # One edit at a time: the pipeline's scheduler has state.
    lock: threading.Lock = field(default_factory=threading.Lock)


class _PipelineCache:
    """The one loaded pipeline of this process; two rarely fit into memory."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.key: tuple[str, ...] = ()
        self.loaded: _Loaded | None = None
        #: Placements that ran out of memory, by pipeline.
        self.excluded: dict[tuple[str, ...], set[Placement]] = {}

    def drop(self) -> None:
        self.key, self.loaded = (), None
        gc.collect()
        import torch

        if torch.cuda.is_available():
            torch.cuda.empty_cache()


_cache = _PipelineCache()


@dataclass(kw_only=True, eq=False)
class DiffusersPipeline(Editor):
    """A diffusers pipeline.

    The fields are the options of its row in fixtures/editing_models.json. `params` are passed to
    the pipeline's call, `loading` to `from_pretrained`.
    """

    pipeline: str  # the name of a diffusers class
    checkpoint: str  # an id on the hub, or a folder
    revision: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    loading: Mapping[str, Any] = field(default_factory=dict)
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
            raise misconfigured(f"{self.checkpoint}: " + "; ".join(missing))
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

    def edit_with(
        self, image: EncodedImage, prompt: str, seed: int | None, settings: EditSettings
    ) -> Answer:
        """Pass the image through the autoencoder; `floor` is the only supported setting."""
        if missing := self.missing():
            raise misconfigured(f"{self.checkpoint}: " + "; ".join(missing))
        with self._floor_lock:
            started = time.monotonic()
            decoded = autoencode(self._autoencoder, image.decoded)
        notes = {"autoencoder": type(self._autoencoder).__name__, "model": self.checkpoint}
        return Answer(EncodedImage.from_image(decoded), time.monotonic() - started, 0.0, notes)

    @cached_property
    def _autoencoder(self) -> Any:
        """The pipeline's autoencoder, loaded alone: the whole pipeline may not fit into memory."""
        folder = self._folder()
        if folder is None or not (folder / "vae").is_dir():
            raise misconfigured(f"{self.checkpoint} has no autoencoder: the folder vae is missing")
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
                return [f"{self.checkpoint} contains no pipeline: model_index.json is missing"]
            revision = f" --revision {self.revision}" if self.revision else ""
            return [f"get the weights: hf download {self.checkpoint}{revision}"]
        absent = [name for name in _components(folder) if not (folder / name).is_dir()]
        if absent:
            return [f"the weights in {folder} are incomplete: {', '.join(absent)} missing"]
        return []

    def describe(self) -> dict[str, Any]:
        folder = self._folder() if not self.missing() else None
        loaded = _cache.loaded if _cache.key == self._key else None
        return {
            "pipeline": self.pipeline,
            "checkpoint": self.checkpoint,
            # The hub's cache names the folder of a snapshot by its commit.
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
        """Return the local folder of the weights; None if they are missing."""
        local = Path(self.checkpoint)
        if (local / "model_index.json").is_file():
            return local
        if local.is_absolute():
            return None
        from huggingface_hub import try_to_load_from_cache

        index = try_to_load_from_cache(self.checkpoint, "model_index.json", revision=self.revision)
        return Path(index).parent if isinstance(index, str) else None

    def _load(self) -> _Loaded:
        with _cache.lock:
            if self._closed.is_set():
                raise _cancelled()
            if _cache.loaded is None or _cache.key != self._key:
                _cache.drop()
                _cache.loaded = self._load_from_disk(_cache.excluded.get(self._key, set()))
                _cache.key = self._key
            return _cache.loaded

    def _load_from_disk(self, excluded: set[Placement]) -> _Loaded:
        # Imported here: pages must not load torch, and a CUDA context opened
        # before the worker forks would be unusable in the child.
        fix_torchvision()
        import diffusers
        import torch
        import transformers

        diffusers.utils.logging.disable_progress_bar()
        transformers.utils.logging.disable_progress_bar()
        folder = self._folder()
        kind: Any = getattr(diffusers, self.pipeline, None)
        if folder is None or kind is None:
            version = package_version("diffusers")
            raise misconfigured(f"diffusers {version} has no pipeline called {self.pipeline}")
        dtype = _dtype(torch)
        _check_memory(folder, dtype.itemsize)
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.deterministic = True
        options = {"use_safetensors": True, **self.loading}
        try:
            pipe = kind.from_pretrained(folder, dtype=dtype, local_files_only=True, **options)
        # The files may be missing, or of another class or version.
        except (OSError, ValueError, TypeError, KeyError, AttributeError, ImportError) as error:
            raise misconfigured(
                f"{self.checkpoint} cannot be loaded as {self.pipeline}: {shorten(str(error))}"
            ) from error
        pipe.set_progress_bar_config(disable=True)
        placement = _place(torch, pipe, excluded)
        return _Loaded(pipe, str(dtype).removeprefix("torch."), placement)

    def _arguments(
        self, pipe: Any, image: EncodedImage, prompt: str, seed: int, started: float
    ) -> dict[str, Any]:
        """Return the arguments of the pipeline's call."""
        import torch

        accepted = inspect.signature(pipe.__call__).parameters
        arguments: dict[str, Any] = {
            "prompt": self.prompt_template.replace("{prompt}", prompt),
            self.image_argument: [image.decoded] if self.image_list else image.decoded,
            # On the CPU, so that the noise is the same for every GPU.
            "generator": torch.Generator("cpu").manual_seed(seed),
        }
        if "height" in accepted and "width" in accepted:
            arguments["width"], arguments["height"] = self.size_rule.nearest(image.size)

        def check_cancelled(*step: Any) -> dict[str, Any]:
            if self._closed.is_set() or time.monotonic() - started > self.timeout:
                raise _Stopped
            return step[3] if len(step) == 4 else {}

        for name in ("callback_on_step_end", "callback"):
            if name in accepted:
                arguments[name] = check_cancelled
                break
        arguments |= self.params
        if unknown := set(arguments) - set(accepted):
            names = ", ".join(sorted(unknown))
            raise misconfigured(
                f"{self.pipeline} does not accept {names}; check the model's params"
            )
        return arguments

    @contextmanager
    def _translated_errors(self, loaded: _Loaded, image: EncodedImage) -> Iterator[None]:
        """Translate the pipeline's errors.

        If GPU memory runs out, the next attempt keeps less of the model on the GPU.
        """
        import torch

        try:
            yield
        except _Stopped:
            if self._closed.is_set():
                raise _cancelled() from None
            raise EditorError(
                f"{self.pipeline} took longer than {self.timeout:g} s", fault=Fault.TIMEOUT
            ) from None
        except (torch.OutOfMemoryError, MemoryError) as error:
            where = f"{image.width} x {image.height}, {loaded.placement}"
            with _cache.lock:
                _cache.excluded.setdefault(self._key, set()).add(loaded.placement)
                _cache.drop()
            if loaded.placement in ("cpu", "sequential offload"):
                raise misconfigured(f"{self.checkpoint} runs out of memory ({where})") from error
            raise EditorError(
                f"out of GPU memory ({where}); the next attempt keeps less of the model on the GPU",
                fault=Fault.SERVER_ERROR,
            ) from error
        except (ValueError, TypeError, RuntimeError) as error:
            raise misconfigured(f"{self.pipeline}: {shorten(str(error))}") from error


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed torch's global generator, which some pipelines use too."""
    import torch

    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


def placement(total: int, largest: int, free: int, excluded: set[Placement]) -> Placement:
    """Choose the placement of a model on a GPU with `free` bytes.

    `total` and `largest` are the bytes of the model and of its largest component; `excluded`
    placements have run out of memory before.
    """
    choices: list[tuple[Placement, int]] = [
        ("cuda", total),
        ("model offload", largest),
        ("sequential offload", 0),
    ]
    fitting = (name for name, weights in choices if weights + WORKING_MEMORY <= free)
    return next((name for name in fitting if name not in excluded), "sequential offload")


def _place(torch: Any, pipe: Any, excluded: set[Placement]) -> Placement:
    if not torch.cuda.is_available():
        pipe.to("cpu")
        return "cpu"
    sizes = [
        sum(weight.numel() * weight.element_size() for weight in part.parameters())
        for part in pipe.components.values()
        if isinstance(part, torch.nn.Module)
    ]
    chosen = placement(sum(sizes), max(sizes), torch.cuda.mem_get_info()[0], excluded)
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
    """Raise EditorError if the model is larger than the free memory.

    Otherwise the kernel would kill the worker.
    """
    import psutil

    on_disk = sum(file.stat().st_size for file in folder.rglob("*.safetensors"))
    # Files of large models have 16 bits per weight, those of small models perhaps 32.
    needed = on_disk * bytes_per_weight // 2 if on_disk > 8 * 2**30 else on_disk
    free = psutil.virtual_memory().available
    if needed > free:
        raise misconfigured(
            f"{folder.name} needs about {needed / 2**30:.0f} GB of memory; "
            f"{free / 2**30:.0f} GB are free"
        )


def _components(folder: Path) -> list[str]:
    """Return the names of the pipeline's components from model_index.json."""
    try:
        index = json.loads((folder / "model_index.json").read_text(encoding="utf-8"))
        return [
            name
            for name, value in index.items()
            if not name.startswith("_") and isinstance(value, list) and value[0]
        ]
    except (OSError, ValueError, AttributeError):
        return []


def _cancelled() -> EditorError:
    return EditorError("we cancelled the edit", fault=Fault.UNREACHABLE, permanent=True)
