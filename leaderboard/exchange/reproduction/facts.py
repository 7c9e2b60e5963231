"""What the papers state, from one file each in fixtures/papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from evaluation.content import catalog
from evaluation.errors import UserFacingError
from leaderboard.exchange.documents.blocks import Table

PAPERS = ("forerunner", "banana100", "restoration", "pico")


class ReproductionError(UserFacingError):
    """A paper that cannot be laid beside ours; the message says what lacks."""


@dataclass(frozen=True)
class Facts:
    """A paper: who wrote it, what it played, and all it states, by name."""

    name: str
    title: str
    authors: str
    published: str
    suite: str
    #: A model as the paper calls it → the slug of what plays here.
    models: Mapping[str, str]
    #: What, as it is there, as it is here.
    settings: Sequence[Sequence[str]]
    stated: Mapping[str, Any]

    @property
    def cited(self) -> str:
        url = self.stated.get("url")
        return f"{self.title} ({self.authors}, {self.published}{f', {url}' if url else ''})"

    @property
    def settings_table(self) -> Table:
        return Table(
            "settings",
            "What was done there, and what is done here",
            ["Setting", "There", "Here"],
            [list(map(str, row)) for row in self.settings],
        )


def read(name: str) -> Facts:
    """The facts of a paper; ReproductionError where there is no such paper."""
    if name not in PAPERS:
        raise ReproductionError(f"there is no paper {name!r}; there are {', '.join(PAPERS)}")
    path = catalog.folder() / "papers" / f"{name}.yaml"
    data: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return Facts(
        name=name,
        title=data["title"],
        authors=data["authors"],
        published=str(data["published"]),
        suite=data["suite"],
        models=data["models"],
        settings=data["settings"],
        stated=data,
    )
