"""What four documents asked, and where the answer is: data in, links out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml
from django.urls import reverse

from evaluation.content import catalog

#: How far an answer goes, in words.
BUILT = {"yes": "Built", "partly": "Partly", "no": "Not built"}
KINDS = {"table": "Table", "setting": "Setting", "question": "Question"}
#: What the pages are called, where a link needs a name.
PAGES = {
    "about": "About",
    "agreement": "Agreement with people",
    "board": "The board",
    "categories": "Categories",
    "experiments": "Experiments",
    "gallery": "Gallery",
    "methodology": "How it is measured",
    "no_reference": "No-reference metrics",
    "robustness": "Robustness",
    "submit": "Submit a model",
    "suites": "Suites",
    "vote": "Vote",
}


@dataclass(frozen=True)
class Place:
    """Where an answer is: a page of the site, or a command or file to look for."""

    words: str
    url: str = ""


@dataclass(frozen=True)
class Item:
    kind: str
    asked: str
    answer: str
    built: str
    where: Sequence[Place]

    @property
    def kind_words(self) -> str:
        return KINDS[self.kind]

    @property
    def built_words(self) -> str:
        return BUILT[self.built]


@dataclass(frozen=True)
class Document:
    title: str
    items: Sequence[Item]


@cache
def documents() -> list[Document]:
    """Every document with what it asked, in the order of the file."""
    path = catalog.folder() / "papers" / "questions.yaml"
    rows: list[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [Document(row["document"], [_item(item) for item in row["items"]]) for row in rows]


def _item(row: dict[str, Any]) -> Item:
    return Item(
        row["kind"],
        row["asked"],
        row["answer"],
        row["built"],
        [place(where) for where in row["where"]],
    )


def place(where: str) -> Place:
    """`page#part`, `suites/SLUG`, `command:NAME`, `shell:NAME` or `file:PATH`."""
    kind, _, name = where.partition(":")
    if name:
        before = {"command": "manage.py ", "shell": "convergebench ", "file": ""}[kind]
        return Place(f"{before}{name}")
    page, _, part = where.partition("#")
    if page.startswith("suites/"):
        slug = page.removeprefix("suites/")
        return Place(f"The suite {slug}", reverse("suite_latest", args=[slug]))
    return Place(PAGES[page], reverse(page) + (f"#{part}" if part else ""))
