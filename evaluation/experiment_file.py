"""The file of an experiment: a suite, models, and the arms (settings) to compare. For example:

title: Does the wording matter?
question: Do longer prompts keep more of the image?
suite: lite
models: [gemini-3.1-flash-image]
repeats: 2
arms:                          # the first is the baseline
  plain: {}
  short-fidelity: {wording: SF}
  long: {wording: long}
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from evaluation.arms import MAX_REPEATS, Arm
from evaluation.content import catalog
from evaluation.content.catalog import Variant
from evaluation.content.suites import plain_slug
from evaluation.errors import UserFacingError, first_error
from evaluation.untrusted_json import can_be_stored

MAX_BYTES = 100_000
MAX_ARMS = 12
MAX_MODELS = 12
#: The name of an arm is also the name of its folder.
ArmName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$")]
ModelName = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class ExperimentError(UserFacingError):
    """An experiment that cannot be read; the message names the field."""


class ExperimentFile(BaseModel):
    """An experiment; its first arm is the baseline.

    `trips`, `cases` and `limit` select a part of the suite, as for `convergebench run`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, str_strip_whitespace=True)

    title: str = Field(min_length=1, max_length=120)
    suite: str = Field(min_length=1, max_length=300)
    models: list[ModelName] = Field(min_length=1, max_length=MAX_MODELS)
    arms: dict[ArmName, Arm] = Field(min_length=2, max_length=MAX_ARMS)
    slug: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,59}$")
    question: str = Field(default="", max_length=2_000)
    repeats: int = Field(default=0, ge=1, le=MAX_REPEATS)
    trips: int | None = Field(default=None, ge=1, le=100)
    cases: str | None = Field(default=None, max_length=1_000)
    limit: int | None = Field(default=None, ge=1, le=10_000)

    @field_validator("models", mode="before")
    @classmethod
    def _accept_one_model(cls, models: Any) -> Any:
        return [models] if isinstance(models, str) else models

    @field_validator("models")
    @classmethod
    def _reject_repeated_models(cls, models: list[str]) -> list[str]:
        if len(set(models)) < len(models):
            raise ValueError("a name occurs twice")
        return models

    @field_validator("arms", mode="before")
    @classmethod
    def _accept_empty_arms(cls, arms: Any) -> Any:
        """Read `plain:` as an arm without settings."""
        if not isinstance(arms, Mapping):
            return arms
        return {name: {} if settings is None else settings for name, settings in arms.items()}

    @model_validator(mode="after")
    def _repeat_all_arms(self) -> Self:
        for name, arm in self.arms.items():
            if arm.repeats or arm.prompts or arm.cleanup_version:
                raise ValueError(
                    f"arm {name}: repeats, prompts and cleanup_version cannot be set for an arm; "
                    "set repeats for the whole experiment"
                )
            self.arms[name] = arm.model_copy(update={"repeats": self.repeats})
        check_arms_differ(self.arms)
        return self

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read an experiment. Raises ExperimentError naming the file and the field."""
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
        """Read an experiment from YAML. Raises ExperimentError naming the field."""
        try:
            data = yaml.load(text, _Loader)  # noqa: S506 (a SafeLoader with more restrictions)
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            problem = " ".join(str(error).split())[:300]
            raise ExperimentError(f"the experiment is not valid YAML: {problem}") from None
        if not can_be_stored(data):
            raise ExperimentError("a string contains a NUL byte or a lone surrogate")
        if not isinstance(data, dict):
            raise ExperimentError(
                "an experiment must have the fields title, suite, models and arms"
            )
        slug = plain_slug(default_slug, 60)
        try:
            return cls.model_validate({"slug": slug, **data})
        except ValidationError as error:
            raise ExperimentError(first_error(error)) from None


def catalogue_variants() -> dict[str, tuple[Variant, ...]]:
    """Return the catalogue's further wordings of each pair."""
    return {pair.slug: pair.variants for pair in catalog.edit_pairs()}


def check_arms_differ(arms: Mapping[str, Arm]) -> None:
    """Raise ExperimentError if two arms have the same settings."""
    names = {arm.digest: name for name, arm in reversed(list(arms.items()))}
    for name, arm in arms.items():
        if names[arm.digest] != name:
            raise ExperimentError(f"the arms {names[arm.digest]} and {name} have the same settings")


class _Loader(yaml.SafeLoader):
    """A YAML loader that refuses repeated keys, tags and references.

    References can expand to gigabytes.
    """

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("YAML references (*name) are not supported: write the value out")
        if getattr(event := self.peek_event(), "tag", None):
            raise yaml.YAMLError(f"YAML tags ({event.tag[:40]}) are not supported")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if (name := str(key.value)) in seen:
                raise yaml.YAMLError(f"{name[:60]!r} occurs twice")
            seen.add(name)
        return super().construct_mapping(node, deep)
