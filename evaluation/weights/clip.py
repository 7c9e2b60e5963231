"""CLIP's weights: the user's file, or the hub's."""

from __future__ import annotations

import os
from pathlib import Path

from evaluation.weights.base import Weights, WeightsError, digest, folder, written
from evaluation.weights.download import Progress, Unusable, download


class Clip(Weights):
    """CLIP ViT-L/14: a file of the user's ($CLIP_WEIGHTS), or the hub's where it can be reached.

    It exists in several file formats, so no one hash is fixed here: the hash of
    the file in use travels with every score instead.
    """

    name, label, needed_by = "clip", "CLIP ViT-L/14 (OpenAI)", "clip"
    hub, hub_file = "timm/vit_large_patch14_clip_224.openai", "open_clip_model.safetensors"
    ways = (
        f"Set CLIP_WEIGHTS to a file of it (OpenAI's ViT-L-14.pt, or {hub_file} of {hub}), "
        "or run `convergebench weights clip` where the hub can be reached"
    )

    @property
    def file(self) -> Path:
        chosen = os.environ.get("CLIP_WEIGHTS")
        return Path(chosen).expanduser() if chosen else folder() / "clip-vit-l-14.safetensors"

    def locate(self) -> tuple[Path, str]:
        if not self.file.is_file():
            raise WeightsError(f"{self.file} is missing. {self.ways}")
        return self.file, digest(self.file)

    def fetch(self, file: Path | None, progress: Progress) -> Path:
        if file or os.environ.get("CLIP_WEIGHTS"):
            # 1.7 GB that are already on this machine need no second copy.
            raise WeightsError(f"CLIP_WEIGHTS should name the file of {self.label}. {self.ways}")
        if not self.file.is_file():
            with written(self.file) as unfinished:
                self._download(unfinished, progress)
        return self.locate()[0]

    def _download(self, target: Path, progress: Progress) -> None:
        try:
            import httpx2
            from huggingface_hub import get_hf_file_metadata, hf_hub_url
        except ImportError as error:
            raise WeightsError(f"huggingface_hub is not installed. {self.ways}") from error
        try:
            url = hf_hub_url(self.hub, self.hub_file)
            stated = get_hf_file_metadata(url).etag  # the SHA-256 of a large file
            download(url, target, stage="the hub", limit=4 * 2**30, progress=progress)
        except (httpx2.HTTPError, OSError, ValueError, Unusable) as error:
            raise WeightsError(f"{self.hub} is not reachable: {error}. {self.ways}") from error
        if digest(target) != stated:
            raise WeightsError(f"{self.hub_file} arrived damaged: its SHA-256 is not the hub's")
