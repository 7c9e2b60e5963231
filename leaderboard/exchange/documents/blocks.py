"""What a document is made of. All text is plain: each printer escapes it in its own way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Paragraph:
    text: str


@dataclass(frozen=True)
class Points:
    """A list, an item a line."""

    items: Sequence[str]


@dataclass(frozen=True)
class Verbatim:
    """Text that is shown as it is, line by line: a hash, a citation."""

    text: str


@dataclass(frozen=True)
class Table:
    """Rows under a head; the first column names the row, all others are numbers or short words."""

    name: str  # a word for files and references
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.head):
                raise ValueError(f"table {self.name}: {len(row)} cells under {len(self.head)}")


@dataclass(frozen=True)
class Figure:
    """A drawing that stands beside the document as figures/NAME.pdf and figures/NAME.svg."""

    name: str
    caption: str


Block = Paragraph | Points | Verbatim | Table | Figure


@dataclass(frozen=True)
class Section:
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Document:
    title: str
    author: str
    date: str
    abstract: str
    sections: Sequence[Section]

    @property
    def tables(self) -> list[Table]:
        return [b for section in self.sections for b in section.blocks if isinstance(b, Table)]
