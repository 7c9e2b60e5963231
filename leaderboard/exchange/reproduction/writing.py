"""A paper beside ours as a folder: comparison.md, index.html, and every table as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from django.utils import timezone

from evaluation.analysis.half_life import METHOD_VERSION
from leaderboard.exchange.documents import html, markdown
from leaderboard.exchange.documents.blocks import Document, Paragraph, Section, Table, Verbatim
from leaderboard.exchange.reproduction.facts import Facts, ReproductionError
from leaderboard.exchange.reproduction.needs import Need, needs_table
from leaderboard.models import Suite

TEXT, PAGE = "comparison.md", "index.html"


def write(
    facts: Facts, suite: Suite, found: Sequence[Need], tables: Sequence[Table], folder: Path
) -> Document:
    """Write all files; what was written before is written anew, as runs come in."""
    if folder.exists() and any(folder.iterdir()) and not (folder / TEXT).exists():
        raise ReproductionError(f"{folder} holds something else; name a new folder")
    document = _document(facts, suite, found, tables)
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    (folder / TEXT).write_text(markdown.printed(document), encoding="utf-8")
    (folder / PAGE).write_text(html.printed(document), encoding="utf-8")
    for table in document.tables:
        path = folder / "tables" / f"{table.name}.csv"
        path.write_text(markdown.as_csv(table), encoding="utf-8", newline="")
    return document


def _document(
    facts: Facts, suite: Suite, found: Sequence[Need], tables: Sequence[Table]
) -> Document:
    done = sum(need.done for need in found)
    return Document(
        title=f"{facts.title}, beside ConvergeBench",
        author="The ConvergeBench contributors",
        date=f"{timezone.localdate():%-d %B %Y}",
        abstract=f"What {facts.cited} published, beside what was measured here on {suite}, method "
        f"version {METHOD_VERSION}. Of {len(found)} models {done} are measured.",
        sections=[
            Section("Settings", [facts.settings_table]),
            Section("Runs", [needs_table(found)]),
            Section("Tables", list(tables)),
            Section(
                "To do it again",
                [
                    Paragraph("The suite is frozen; its content hash is"),
                    Verbatim(suite.content_hash),
                ],
            ),
        ],
    )
