"""Who is on the portraits of a suite, in numbers: so that nobody takes them for everybody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

#: Labels of pictures that show a person, by what they tell. Skin and age are as they look.
GROUPS = {
    "sex": ("woman", "man"),
    "age": ("child", "young adult", "middle-aged", "old"),
    "skin": ("light skin", "medium skin", "dark skin"),
    "background": ("plain background", "dark background", "indoors", "outdoors"),
    "made": ("real", "generated", "rendered", "painted"),
}
UNSAID = "not said"


class Pictured(Protocol):
    """A source image or a picture of a suite."""

    @property
    def kind(self) -> str: ...
    @property
    def made(self) -> str: ...
    @property
    def contains(self) -> tuple[str, ...]: ...


def is_portrait(picture: Pictured) -> bool:
    """Whether a picture is of one person's face."""
    return picture.kind == "face" and "person" in picture.contains


def distribution(pictures: Iterable[Pictured]) -> dict[str, dict[str, int]]:
    """How many portraits each label of each group has; each portrait counts once per group."""
    found: dict[str, Counter[str]] = {group: Counter() for group in GROUPS}
    for picture in pictures:
        if is_portrait(picture):
            labels = {*picture.contains, _made(picture)}
            for group, names in GROUPS.items():
                found[group][next((name for name in names if name in labels), UNSAID)] += 1
    return {
        group: {name: counts[name] for name in (*GROUPS[group], UNSAID) if counts[name]}
        for group, counts in found.items()
    }


def _made(picture: Pictured) -> str:
    return "painted" if "painting" in picture.contains else picture.made
