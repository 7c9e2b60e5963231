"""An arm of an experiment: the same suite, played another way.

The default arm is how a suite is played for the board. Any other is a result of its own: its
settings belong to the run, go into its record and its bundle, and keep it out of the ranks.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from evaluation.content.catalog import FIDELITY, PLAIN, CatalogPair, Variant, variant_prompts
from evaluation.content.suites import EditPair
from evaluation.editors.base import Editor, EditSettings
from evaluation.editors.sizes import TIERS
from evaluation.errors import UserFacingError
from evaluation.images import Picture
from evaluation.run_secret import SEED_MODES, SeedMode

#: The wordings by the letters of the study of Nano Banana 2: short or long, with fidelity or not.
CODES = {
    f"{letter}{clause}": (name, bool(clause))
    for letter, name in (("P", PLAIN), ("S", "short"), ("L", "long"), ("C", "colloquial"))
    for clause in ("", "F")
}
ALONE, CONVERSATION = "alone", "conversation"
SESSIONS = {ALONE: "each edit alone", CONVERSATION: "one conversation with all its history"}
DENOISE = "denoise"
CLEANUPS = {DENOISE: "denoised between trips"}
SEED_WORDS = {"per-edit": "a seed for each edit", "fixed": "one seed", "none": "no seed"}
#: Strength of the filter, the same for light and colour, as OpenCV's own example has it for grain.
DENOISE_STRENGTH = 5
MAX_TEMPERATURE = 2.0
MAX_REPEATS = 20
MAX_SIZES = 8
MAX_SENTENCE = 300
MAX_PROMPT = 2_000
_NAME = re.compile(r"[a-z0-9][a-z0-9 ,+-]{0,39}")


class ArmError(UserFacingError):
    """An arm that cannot be played; the message names the setting."""


def _one_of(name: str, value: Any, allowed: Iterable[str]) -> None:
    known = list(allowed)
    if value not in known:
        raise ArmError(f"{name} is {value!r}, not one of {', '.join(known)}")


def _number(name: str, value: Any, most: float) -> None:
    if value is None and name == "temperature":
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise ArmError(f"{name} is {value!r}; it is a number from 0 to {most:g}")


@dataclass(frozen=True)
class Arm:
    """How a run is played; what is as it was made here is the suite's own way.

    `wording` names one of the wordings that the pairs carry, `fidelity` says FIDELITY after it,
    `also` any other sentence. `sizes` are asked for in turn, one for each trip. `cleanup` is done
    to a return before the next trip begins, never to what is scored. `repeats` is how often each
    case is played, 0 as the suite says. `floor` makes no edit: each is one pass through the
    model's autoencoder, which no prompt can do without. `prompts` (pair → forward, backward) and
    `cleanup_version` are what the settings meant when the run began: see `settled`.
    """

    wording: str = PLAIN
    fidelity: bool = False
    also: str = ""
    seeds: SeedMode = "per-edit"
    temperature: float | None = None
    sizes: tuple[str, ...] = ()
    session: str = ALONE
    cleanup: str = ""
    repeats: int = 0
    floor: bool = False
    prompts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    cleanup_version: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.wording, str) or not _NAME.fullmatch(self.wording):
            raise ArmError("wording is the name of a wording, such as plain, short or long")
        _one_of("seeds", self.seeds, SEED_MODES)
        _one_of("session", self.session, SESSIONS)
        if self.cleanup:
            _one_of("cleanup", self.cleanup, CLEANUPS)
        for size in self.sizes:
            _one_of("size", size, TIERS)
        if len(self.sizes) > MAX_SIZES:
            raise ArmError(f"size takes at most {MAX_SIZES} sizes in turn")
        if not isinstance(self.fidelity, bool):
            raise ArmError("fidelity is yes or no")
        if not isinstance(self.floor, bool):
            raise ArmError("floor is yes or no")
        if self.floor and (self.rewords or self.temperature is not None or self.sizes):
            raise ArmError("floor makes no edit: it has no wording, temperature or size")
        if self.floor and self.session != ALONE:
            raise ArmError("floor makes no edit: there is nothing to talk about")
        if not isinstance(self.also, str) or len(self.also) > MAX_SENTENCE:
            raise ArmError(f"also is a sentence of at most {MAX_SENTENCE} letters")
        _number("temperature", self.temperature, MAX_TEMPERATURE)
        _number("repeats", self.repeats, MAX_REPEATS)
        if int(self.repeats) != self.repeats:
            raise ArmError(f"repeats is {self.repeats}: cases are played a whole number of times")

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """The arm that `to_dict` wrote, or that somebody wrote by hand; ArmError names what is wrong.

        By hand a wording may be one of CODES, and `size` one size, several, or "interleaved".
        """
        if not isinstance(data, Mapping):
            raise ArmError("an arm is a list of settings with their values")
        values = dict(data)
        if isinstance(values.get("wording"), str) and values["wording"] in CODES:
            name, fidelity = CODES[values["wording"]]
            values |= {"wording": name, "fidelity": fidelity or values.get("fidelity", False)}
        if "size" in values:
            values["sizes"] = _sizes(values.pop("size"))
        known = {one.name for one in fields(cls)}
        if unknown := sorted(str(name) for name in values.keys() - known):
            settings = ", ".join(sorted((known | {"size"}) - {"sizes"} - _SETTLED))
            raise ArmError(f"there is no setting {', '.join(unknown)}; there are {settings}")
        try:
            values["sizes"] = tuple(str(size) for size in values.get("sizes", ()))
            values["prompts"] = _prompts(values.get("prompts", {}))
            return cls(**values)
        except TypeError as error:
            raise ArmError(f"the arm does not fit: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """What differs from the default arm, as JSON has it; {} for the default arm."""
        found: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if value != getattr(DEFAULT, one.name):
                found[one.name] = value
        if "sizes" in found:
            found["sizes"] = list(self.sizes)
        if "prompts" in found:
            found["prompts"] = {pair: list(both) for pair, both in sorted(self.prompts.items())}
        return found

    @property
    def is_default(self) -> bool:
        return not self.to_dict()

    @property
    def digest(self) -> str:
        """What tells one arm from another, SHA-256; empty for the default arm."""
        told = self.to_dict()
        if not told:
            return ""
        text = json.dumps(told, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def __str__(self) -> str:
        """In words: "long wording, keep the rest; temperature 0"."""
        said = [] if self.wording == PLAIN and not self.fidelity else [f"{self.wording} wording"]
        if self.fidelity:
            said[-1] += ", keep the rest"
        if self.also:
            said.append(f"also “{self.also}”")
        if self.seeds != DEFAULT.seeds:
            said.append(SEED_WORDS[self.seeds])
        if self.temperature is not None:
            said.append(f"temperature {self.temperature:g}")
        if self.sizes:
            said.append("asked for at " + ", ".join(self.sizes) + self._in_turn)
        if self.session != ALONE:
            said.append(SESSIONS[self.session])
        if self.cleanup:
            said.append(CLEANUPS[self.cleanup])
        if self.floor:
            said.append("no edit, only through the model’s autoencoder")
        return "; ".join(said) or "as the suite is played"

    @property
    def _in_turn(self) -> str:
        return " in turn" if len(self.sizes) > 1 else ""

    # Before it is played.

    @property
    def rewords(self) -> bool:
        """Whether it says anything in other words than the suite."""
        return self.wording != PLAIN or self.fidelity or bool(self.also)

    def settled(self, pairs: Iterable[CatalogPair | Worded]) -> Self:
        """The arm with every prompt and version that it means here and now, before it is played.

        `pairs` are those of the suite with the wordings that they carry. ArmError where a pair
        lacks the wording, or the clean-up cannot run here.
        """
        pairs = list(pairs)
        if self.floor and (shape := next((p.slug for p in pairs if p.shape), None)):
            raise ArmError(f"the pair {shape} is a chain shape, which has no floor")
        prompts = {pair.slug: self._prompts(pair) for pair in pairs} if self.rewords else {}
        version = cleanup_version(self.cleanup) if self.cleanup else ""
        return replace(self, prompts=prompts, cleanup_version=version)

    def _prompts(self, pair: CatalogPair | Worded) -> tuple[str, str]:
        if pair.shape:
            raise ArmError(f"the pair {pair.slug} is a chain shape, which has one wording")
        found = variant_prompts(pair, self.wording)
        if found is None:
            raise ArmError(f"the pair {pair.slug} has no {self.wording} wording: give it one first")
        after = " ".join(filter(None, (FIDELITY if self.fidelity else "", self.also.strip())))
        forward, backward = (f"{prompt} {after}".strip() for prompt in found)
        return forward, backward

    def unable(self, editor: Editor) -> list[str]:
        """What of this arm the editor cannot do, in words; empty where it can play it."""
        asked = [self.settings(number) for number in range(1, max(1, len(self.sizes)) + 1)]
        if self.session == CONVERSATION:
            asked.append(EditSettings(history=()))
        return list(dict.fromkeys(word for one in asked for word in editor.unable(one)))

    # While it is played.

    def prompts_of(self, pair: str, forward: str, backward: str) -> tuple[str, str]:
        """The prompts of a pair, given those of the suite."""
        return self.prompts.get(pair, (forward, backward))

    def measured(self, pair: EditPair) -> EditPair:
        """The pair as its pictures are measured: without an edit there is none to look for."""
        return replace(pair, change="none", operator="", object="") if self.floor else pair

    def worded(self, pair: EditPair) -> EditPair:
        """The pair in the words of this arm; a chain shape has one wording."""
        pair = self.measured(pair)
        if pair.shape or pair.slug not in self.prompts:
            return pair
        forward, backward = self.prompts[pair.slug]
        return replace(pair, forward=forward, backward=backward)

    def settings(self, number: int) -> EditSettings:
        """What the edits of this trip are asked with."""
        size = self.sizes[(number - 1) % len(self.sizes)] if self.sizes else ""
        return EditSettings(self.temperature, size, floor=self.floor)

    def repeats_of(self, usual: int) -> int:
        """How often a case is played, given how often the suite plays it."""
        return self.repeats or usual

    def cleaned(self, picture: Picture) -> Picture:
        """A return as the next trip begins with it; ArmError where another filter was begun with."""
        if not self.cleanup:
            return picture
        here = cleanup_version(self.cleanup)
        if here != self.cleanup_version:
            raise ArmError(
                f"this run was begun with {self.cleanup_version}, but here is {here}: "
                "go on with that version, or begin a new run"
            )
        return _FILTERS[self.cleanup](picture)


@dataclass(frozen=True)
class Worded:
    """A pair by its slug, with its wordings."""

    slug: str
    forward: str
    backward: str
    variants: tuple[Variant, ...] = ()
    shape: str = ""

    @classmethod
    def of(cls, pair: EditPair) -> Self:
        """The pair as its suite words it."""
        return cls(pair.slug, pair.forward, pair.backward, shape=pair.shape)


DEFAULT = Arm()
FLOOR = Arm(floor=True)
#: What an arm means, rather than what somebody sets.
_SETTLED = {"prompts", "cleanup_version"}


def cleanup_version(name: str) -> str:
    """The filter as it is here, with the version of what computes it."""
    _one_of("cleanup", name, CLEANUPS)
    try:
        import cv2
    except ImportError:
        raise ArmError(
            "a clean-up step needs opencv-python-headless: pip install 'convergebench[worker]'"
        ) from None
    strength = DENOISE_STRENGTH
    return f"non-local means, strength {strength}, windows 7 and 21, OpenCV {cv2.__version__}"


def _denoised(picture: Picture) -> Picture:
    import cv2
    import numpy as np
    from PIL import Image

    # OpenCV's colours are the other way round, and the filter weighs light and colour apart.
    pixels = np.ascontiguousarray(np.asarray(picture.image)[:, :, ::-1])
    strength = DENOISE_STRENGTH
    clean = cv2.fastNlMeansDenoisingColored(pixels, None, strength, strength, 7, 21)
    return Picture.from_image(Image.fromarray(np.ascontiguousarray(clean[:, :, ::-1])))


_FILTERS: Mapping[str, Callable[[Picture], Picture]] = {DENOISE: _denoised}


def _sizes(stated: Any) -> tuple[str, ...]:
    if stated == "interleaved":
        return ("1K", "2K", "4K")
    if isinstance(stated, str | int):
        return (str(stated),)
    if isinstance(stated, list | tuple):
        return tuple(str(size) for size in stated)
    raise ArmError(f"size is {stated!r}; it is one of {', '.join(TIERS)}, a list, or interleaved")


def _prompts(stated: Any) -> dict[str, tuple[str, str]]:
    if not isinstance(stated, Mapping):
        raise ArmError("prompts names the two prompts of each pair")
    found = {}
    for pair, both in stated.items():
        texts = list(both) if isinstance(both, list | tuple) else []
        if len(texts) != 2 or not all(
            isinstance(t, str) and 0 < len(t) <= MAX_PROMPT for t in texts
        ):
            raise ArmError(f"prompts of {str(pair)[:80]}: give a forward and a backward prompt")
        found[str(pair)] = (texts[0], texts[1])
    return found
