"""Arms of an experiment: settings for playing one suite in different ways.

The default arm plays a suite as for the board. A run with another arm is not ranked; the run's
record and bundle contain the arm's settings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError, model_validator

from evaluation.content.catalog import FIDELITY, PLAIN, Variant
from evaluation.content.suites import EditPair
from evaluation.editors.base import Editor, EditSettings
from evaluation.errors import UserFacingError, first_error
from evaluation.images import EncodedImage
from evaluation.run_secret import SeedMode

#: Short codes of wordings, as in the paper on Nano Banana 2 (docs/papers.md): a letter, then F if
#: the sentence FIDELITY is added to every prompt.
CODES = {
    f"{letter}{clause}": (name, bool(clause))
    for letter, name in (("P", PLAIN), ("S", "short"), ("L", "long"), ("C", "colloquial"))
    for clause in ("", "F")
}
ALONE, CONVERSATION = "alone", "conversation"
SESSIONS = {ALONE: "each edit alone", CONVERSATION: "one conversation with all its history"}
CLEANUPS = {"denoise": "denoised between trips"}
SEED_WORDS = {"per-edit": "a seed for each edit", "fixed": "one seed", "none": "no seed"}
#: Strength of the denoising filter, for brightness and colour alike, as in OpenCV's example.
DENOISE_STRENGTH = 5
MAX_TEMPERATURE = 2.0
MAX_REPEATS = 20
MAX_SENTENCE = 300
CHAIN_SHAPE = "is a chain shape (its trips are not one forward and one backward edit)"
Prompt = Annotated[str, Field(min_length=1, max_length=2_000)]


class ArmError(UserFacingError):
    """An arm that cannot be read or played; the message names the setting."""


class Arm(BaseModel):
    """The settings of a run that differ from the suite's; none by default.

    `resolved` fills in `prompts` (forward and backward by pair) and `cleanup_version` when the run
    begins. A file written by hand may give one of CODES as `wording`. Instead of `sizes`, it may
    give `size`: one size, a list, or "interleaved" (1K, 2K, 4K).
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    wording: str = Field(
        default=PLAIN,
        pattern=r"^[a-z0-9][a-z0-9 ,+-]{0,39}$",
        description="The name of a wording that all pairs have.",
    )
    fidelity: bool = Field(default=False, description=f"Add “{FIDELITY}” to every prompt.")
    also: str = Field(
        default="",
        max_length=MAX_SENTENCE,
        description="A further sentence to add to every prompt.",
    )
    seeds: SeedMode = "per-edit"
    temperature: float | None = Field(default=None, ge=0, le=MAX_TEMPERATURE, allow_inf_nan=False)
    sizes: Annotated[tuple[Literal["512", "1K", "2K", "4K"], ...], Strict(False)] = Field(
        default=(), max_length=8, description="Sizes to request in turn, one for each trip."
    )
    session: Literal["alone", "conversation"] = "alone"
    cleanup: Literal["", "denoise"] = Field(
        default="",
        description="Applied to a restored image before the next trip, never to the scored image.",
    )
    repeats: int = Field(
        default=0,
        ge=0,
        le=MAX_REPEATS,
        description="How often each case is played; 0: as set by the suite.",
    )
    floor: bool = Field(
        default=False, description="Replace each edit by one pass through the model's autoencoder."
    )
    prompts: dict[str, Annotated[tuple[Prompt, Prompt], Strict(False)]] = {}
    cleanup_version: str = ""

    @model_validator(mode="before")
    @classmethod
    def _expand_short_forms(cls, data: Any) -> Any:
        """Expand the short forms of a file written by hand."""
        if not isinstance(data, Mapping):
            return data
        values = dict(data)
        if isinstance(values.get("wording"), str) and values["wording"] in CODES:
            name, fidelity = CODES[values["wording"]]
            values |= {"wording": name, "fidelity": fidelity or values.get("fidelity", False)}
        if "size" in values:
            size = values.pop("size")
            size = ["1K", "2K", "4K"] if size == "interleaved" else size
            values["sizes"] = size if isinstance(size, list) else [str(size)]
        return values

    @model_validator(mode="after")
    def _floor_makes_no_edit(self) -> Self:
        has_prompt_settings = (
            self.rewords or self.temperature is not None or self.sizes or self.session != ALONE
        )
        if self.floor and has_prompt_settings:
            raise ValueError(
                "floor makes no edit, so it cannot have a wording, temperature, size or session"
            )
        return self

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Read an arm from JSON or YAML. Raises ArmError naming the setting."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise ArmError(first_error(error)) from None

    def to_dict(self) -> dict[str, Any]:
        """Return the settings that differ from the default arm, as JSON."""
        return self.model_dump(mode="json", exclude_defaults=True)

    @property
    def is_default(self) -> bool:
        return self == DEFAULT

    @property
    def digest(self) -> str:
        """The SHA-256 of the settings, which identifies the arm; "" for the default arm."""
        if self.is_default:
            return ""
        settings = self.to_dict()
        text = json.dumps(settings, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def __str__(self) -> str:
        """Describe the arm: "long wording, keep the rest; temperature 0"."""
        words = [] if self.wording == PLAIN and not self.fidelity else [f"{self.wording} wording"]
        if self.fidelity:
            words[-1] += ", keep the rest"
        if self.also:
            words.append(f"also “{self.also}”")
        if self.seeds != "per-edit":
            words.append(SEED_WORDS[self.seeds])
        if self.temperature is not None:
            words.append(f"temperature {self.temperature:g}")
        if self.sizes:
            in_turn = " in turn" if len(self.sizes) > 1 else ""
            words.append(f"requested at {', '.join(self.sizes)}{in_turn}")
        if self.session != ALONE:
            words.append(SESSIONS[self.session])
        if self.cleanup:
            words.append(CLEANUPS[self.cleanup])
        if self.floor:
            words.append("no edit, only a pass through the model’s autoencoder")
        return "; ".join(words) or "default settings"

    # Before the run.

    @property
    def rewords(self) -> bool:
        """Return True if the arm changes the prompts."""
        return self.wording != PLAIN or self.fidelity or bool(self.also)

    def resolved(
        self, pairs: Iterable[EditPair], variants: Mapping[str, Sequence[Variant]] | None = None
    ) -> Self:
        """Return the arm with its prompts and the version of its clean-up filled in.

        `variants` are further wordings of the pairs, by slug. Raises ArmError if a pair lacks the
        wording or cannot be played with `floor`, or if the clean-up cannot run here.
        """
        pairs = list(pairs)
        if self.floor and (shape := next((p.slug for p in pairs if p.shape), None)):
            raise ArmError(f"the pair {shape} {CHAIN_SHAPE}, so it cannot be played with floor")
        prompts = {}
        if self.rewords:
            by_slug = variants or {}
            prompts = {pair.slug: self._prompts(pair, by_slug.get(pair.slug, ())) for pair in pairs}
        version = cleanup_version() if self.cleanup else ""
        return self.model_copy(update={"prompts": prompts, "cleanup_version": version})

    def _prompts(self, pair: EditPair, variants: Sequence[Variant]) -> tuple[str, str]:
        if pair.shape:
            raise ArmError(f"the pair {pair.slug} {CHAIN_SHAPE}, so it has only one wording")
        wordings = [Variant(PLAIN, pair.forward, pair.backward), *variants]
        chosen = next((variant for variant in wordings if variant.name == self.wording), None)
        if chosen is None:
            raise ArmError(f"the pair {pair.slug} has no {self.wording} wording: add one first")
        suffix = " ".join(filter(None, (FIDELITY if self.fidelity else "", self.also.strip())))
        return f"{chosen.forward} {suffix}".strip(), f"{chosen.backward} {suffix}".strip()

    def unable(self, editor: Editor) -> list[str]:
        """Return the reasons why the editor cannot play the arm; empty if it can."""
        needed = [self.settings(number) for number in range(1, max(1, len(self.sizes)) + 1)]
        if self.session == CONVERSATION:
            needed.append(EditSettings(history=()))
        reasons = (reason for settings in needed for reason in editor.unable(settings))
        return list(dict.fromkeys(reasons))

    # During the run.

    def pair_prompts(self, pair: str, forward: str, backward: str) -> tuple[str, str]:
        """Return the prompts for a pair; the suite's unless the arm changes them."""
        return self.prompts.get(pair, (forward, backward))

    def measured_pair(self, pair: EditPair) -> EditPair:
        """Return the pair that the measures use: with `floor`, a pair without an edit."""
        return replace(pair, change="none", operator="", object="") if self.floor else pair

    def reworded(self, pair: EditPair) -> EditPair:
        """Return the pair in the arm's wording; a pair with a chain shape has only one wording."""
        pair = self.measured_pair(pair)
        if pair.shape or pair.slug not in self.prompts:
            return pair
        forward, backward = self.prompts[pair.slug]
        return replace(pair, forward=forward, backward=backward)

    def settings(self, number: int) -> EditSettings:
        """Return the settings of the edits of trip `number`."""
        size = self.sizes[(number - 1) % len(self.sizes)] if self.sizes else ""
        return EditSettings(self.temperature, size, floor=self.floor)

    def repeats_of(self, usual: int) -> int:
        """Return how often each case is played; the suite's number unless the arm sets it."""
        return self.repeats or usual

    def cleaned(self, image: EncodedImage) -> EncodedImage:
        """Clean up a restored image before the next trip.

        Raises ArmError if the version of the filter has changed since the run began.
        """
        if not self.cleanup:
            return image
        installed = cleanup_version()
        if installed != self.cleanup_version:
            raise ArmError(
                f"this run began with {self.cleanup_version}, but {installed} is installed: "
                "install that version to continue, or begin a new run"
            )
        return _denoised(image)


DEFAULT = Arm()
FLOOR = Arm(floor=True)


def cleanup_version() -> str:
    """Return the parameters and the package version of the denoising filter."""
    try:
        import cv2
    except ImportError:
        raise ArmError(
            "a clean-up step needs opencv-python-headless: pip install 'convergebench[worker]'"
        ) from None
    strength = DENOISE_STRENGTH
    return f"non-local means, strength {strength}, windows 7 and 21, OpenCV {cv2.__version__}"


def _denoised(image: EncodedImage) -> EncodedImage:
    import cv2
    import numpy as np
    from PIL import Image

    # The filter expects BGR, from which it separates brightness and colour.
    pixels = np.ascontiguousarray(np.asarray(image.decoded)[:, :, ::-1])
    strength = DENOISE_STRENGTH
    clean = cv2.fastNlMeansDenoisingColored(pixels, None, strength, strength, 7, 21)
    return EncodedImage.from_image(Image.fromarray(np.ascontiguousarray(clean[:, :, ::-1])))
