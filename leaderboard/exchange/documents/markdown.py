"""A document as Markdown, and its tables as CSV."""

from __future__ import annotations

import csv
import io
import re

from leaderboard.exchange.documents.blocks import (
    Block,
    Document,
    Figure,
    Paragraph,
    Points,
    Table,
    Verbatim,
)
from leaderboard.text import safe_cell

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$!&])")


def escaped(text: str) -> str:
    """The text on one line, no letter of which is mark-up."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def printed(document: Document) -> str:
    """The whole file."""
    parts = [
        f"# {escaped(document.title)}",
        f"{escaped(document.author)}, {escaped(document.date)}",
        escaped(document.abstract),
    ]
    for section in document.sections:
        parts += [f"## {escaped(section.title)}", *map(_block, section.blocks)]
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> str:
    match block:
        case Paragraph(text):
            return escaped(text)
        case Points(items):
            return "\n".join(f"- {escaped(item)}" for item in items)
        case Verbatim(text):
            return "\n".join(f"    {line}" for line in text.strip().splitlines())
        case Figure(name, caption):
            return f"![{escaped(caption)}](figures/{name}.svg)"
        case Table():
            return table(block)


def table(block: Table) -> str:
    """A table below its caption."""
    lines = [block.head, *block.rows]
    cells = ["| " + " | ".join(map(escaped, line)) + " |" for line in lines]
    rule = "|---|" + "---:|" * (len(block.head) - 1)
    note = f"\n\n{escaped(block.note)}" if block.note else ""
    return f"**{escaped(block.caption)}**\n\n" + "\n".join([cells[0], rule, *cells[1:]]) + note


def as_csv(block: Table) -> str:
    """The table's cells; none is read as a formula."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([safe_cell(cell) for cell in block.head])
    writer.writerows([safe_cell(cell) for cell in row] for row in block.rows)
    return text.getvalue()
