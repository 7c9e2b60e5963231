"""An experiment as a file: which suite is played in which ways, by which models.

title: Does the wording matter?
question: Do longer prompts keep more of the picture?
suite: lite
models: [gemini-3.1-flash-image]
repeats: 2
arms:                          # the first is what the others are compared with
  plain: {}
  short-fidelity: {wording: SF}
  long: {wording: long}
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

import yaml

from evaluation.arms import Arm, ArmError, Worded
from evaluation.content import catalog
from evaluation.content.suites import EditPair
from evaluation.errors import UserFacingError
from evaluation.untrusted_json import can_be_stored

MAX_BYTES = 100_000
MAX_ARMS = 12
MAX_MODELS = 12
#: Names of arms are names of folders too.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


class ExperimentError(UserFacingError):
    """An experiment that cannot be read; the message names the field."""


@dataclass(frozen=True)
class ExperimentFile:
    """What somebody wants to know, and how it is to be played; the first arm is the baseline.

    `trips`, `cases` and `limit` take a part of the suite, as `convergebench play` does.
    """

    title: str
    suite: str
    models: tuple[str, ...]
    arms: Mapping[str, Arm]
    slug: str = ""
    question: str = ""
    repeats: int = 0
    trips: int | None = None
    cases: str | None = None
    limit: int | None = None

    @classmethod
    def read(cls, path: Path) -> Self:
        """The experiment in this file; ExperimentError says what is wrong with it."""
        try:
            if path.stat().st_size > MAX_BYTES:
                raise ExperimentError(f"{path} is larger than {MAX_BYTES:,} bytes")
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ExperimentError(f"{path}: {error}") from None
        try:
            return cls.parse(text, default_slug=path.stem)
        except ExperimentError as error:
            raise ExperimentError(f"{path}: {error}") from None

    @classmethod
    def parse(cls, text: str, default_slug: str = "") -> Self:
        """The experiment in this YAML."""
        try:
            data = yaml.load(text, _Loader)  # noqa: S506 (a SafeLoader that takes still less)
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            problem = " ".join(str(error).split())[:300]
            raise ExperimentError(f"this is not YAML as experiments have it: {problem}") from None
        if not can_be_stored(data):
            raise ExperimentError("a text in it holds a zero byte or half of a character")
        if not isinstance(data, dict):
            raise ExperimentError("an experiment is a list of fields: title, suite, models, arms")
        known = [one.name for one in fields(cls)]
        if unknown := sorted(str(name)[:40] for name in data.keys() - set(known)):
            raise ExperimentError(
                f"there is no field {', '.join(unknown)}; there are {', '.join(known)}"
            )
        repeats = _whole(data, "repeats", 20) or 0
        found = cls(
            title=_text(data, "title", 120),
            suite=_text(data, "suite", 300),
            models=_models(data.get("models")),
            arms=_arms(data.get("arms"), repeats),
            slug=_text(data, "slug", 60, _plain(default_slug)),
            question=_text(data, "question", 2_000, ""),
            repeats=repeats,
            trips=_whole(data, "trips", 100),
            cases=_text(data, "cases", 1_000, "") or None,
            limit=_whole(data, "limit", 10_000),
        )
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,59}", found.slug):
            raise ExperimentError("slug is a word of small letters, digits and hyphens")
        return found


def worded(pairs: Iterable[EditPair]) -> list[Worded]:
    """The pairs of a suite with the wordings that the catalogue has for them."""
    variants = {pair.slug: pair.variants for pair in catalog.edit_pairs()}
    return [
        Worded(pair.slug, pair.forward, pair.backward, variants.get(pair.slug, ()), pair.shape)
        for pair in pairs
    ]


class _Loader(yaml.SafeLoader):
    """Plain YAML: no key twice, no references, which can be made to stand for gigabytes, and no
    kinds (!!int), of which PyYAML believes that they fit what follows.
    """

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("references (*name) are not taken: write it out")
        if getattr(event := self.peek_event(), "tag", None):
            raise yaml.YAMLError(f"kinds ({event.tag[:40]}) are not taken")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if (name := str(key.value)) in seen:
                raise yaml.YAMLError(f"{name[:60]!r} stands twice")
            seen.add(name)
        return super().construct_mapping(node, deep)


def _text(data: Mapping[str, Any], name: str, most: int, usual: str | None = None) -> str:
    value = data.get(name, usual)
    if isinstance(value, str) and (value.strip() or usual is not None) and len(value) <= most:
        return value.strip()
    raise ExperimentError(f"{name} is a text of at most {most} letters")


def _whole(data: Mapping[str, Any], name: str, most: int) -> int | None:
    value = data.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ExperimentError(f"{name} is a whole number from 1 to {most:,}")
    return value


def _models(stated: Any) -> tuple[str, ...]:
    named = [stated] if isinstance(stated, str) else stated
    if (
        not isinstance(named, list)
        or not 1 <= len(named) <= MAX_MODELS
        or not all(isinstance(name, str) and 0 < len(name) <= 200 for name in named)
    ):
        raise ExperimentError(f"models is a list of 1 to {MAX_MODELS} editing models")
    if len(set(named)) < len(named):
        raise ExperimentError("models names one twice")
    return tuple(named)


def _arms(stated: Any, repeats: int) -> dict[str, Arm]:
    if not isinstance(stated, dict) or not 2 <= len(stated) <= MAX_ARMS:
        raise ExperimentError(f"arms names 2 to {MAX_ARMS} arms, the first to compare with")
    found: dict[str, Arm] = {}
    for name, settings in stated.items():
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ExperimentError(
                f"an arm is called {str(name)[:60]!r}: take letters, digits, _ and -"
            )
        try:
            arm = Arm.from_dict(settings or {})
        except ArmError as error:
            raise ExperimentError(f"arm {name}: {error}") from None
        if arm.repeats or arm.prompts or arm.cleanup_version:
            raise ExperimentError(f"arm {name}: repeats are for all arms, beside them")
        found[name] = replace(arm, repeats=repeats)
    check_apart(found)
    return found


def check_apart(arms: Mapping[str, Arm]) -> None:
    """ExperimentError where two arms are the same."""
    names = {arm.digest: name for name, arm in reversed(list(arms.items()))}
    for name, arm in arms.items():
        if names[arm.digest] != name:
            raise ExperimentError(f"the arms {names[arm.digest]} and {name} are the same")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60]
