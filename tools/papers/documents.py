"""Render documents of plain text as LaTeX, HTML, Markdown and CSV.

Texts such as names of models are untrusted, so every text is escaped when a template is rendered.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from evaluation.errors import UserFacingError
from leaderboard.text import safe_cell

AUTHOR = "The ConvergeBench contributors"
#: The content of a table's cell without a number.
NOTHING = "–"
#: Longer tables are split into several LaTeX tables, each with a head.
ROWS_PER_PAGE = 40
#: A row's name with more letters is broken into lines.
LONG_NAME = 40
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"{\ttfamily\char34}",
    "`": r"{\ttfamily\char96}",
    # These can begin an argument after a line break, or form ligatures.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    ",": ",{}",
    "'": "'{}",
    "-": "-{}",
    "?": "?{}",
    "!": "!{}",
    "\u00a0": "~",
    "–": "--",
    "—": "---",
    "−": "$-$",
    "‘": "`",
    "’": "'",
    "“": "``",
    "”": "''",
    "…": r"\ldots{}",
    "×": r"$\times$",
    "±": r"$\pm$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "→": r"$\rightarrow$",
    "Δ": r"$\Delta$",
    "σ": r"$\sigma$",
    "τ": r"$\tau$",
    "χ": r"$\chi$",
    "µ": r"$\mu$",
    "²": r"$^2$",
    "½": r"$\frac12$",
    "°": r"$^\circ$",
    "·": r"$\cdot$",
    "§": r"\S{}",
    "ß": r"\ss{}",
    "æ": r"\ae{}",
    "Æ": r"\AE{}",
    "œ": r"\oe{}",
    "Œ": r"\OE{}",
    "ø": r"\o{}",
    "Ø": r"\O{}",
    "ł": r"\l{}",
    "Ł": r"\L{}",
    "ı": r"\i{}",
}
#: Combining marks that every TeX font can put on a letter.
_ACCENTS = {
    "\u0300": "`",
    "\u0301": "'",
    "\u0302": "^",
    "\u0303": "~",
    "\u0304": "=",
    "\u0306": "u",
    "\u0307": ".",
    "\u0308": '"',
    "\u030a": "r",
    "\u030b": "H",
    "\u030c": "v",
    "\u0327": "c",
}
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~$!&])")


class DocumentError(UserFacingError):
    """A document cannot be written."""


@dataclass(frozen=True)
class Paragraph:
    kind: ClassVar[str] = "paragraph"
    text: str


@dataclass(frozen=True)
class Points:
    """A list of items."""

    kind: ClassVar[str] = "points"
    items: Sequence[str]


@dataclass(frozen=True)
class Verbatim:
    """Text shown line by line, unchanged, such as a hash or a citation."""

    kind: ClassVar[str] = "verbatim"
    text: str

    @property
    def lines(self) -> list[str]:
        return self.text.strip().splitlines()


@dataclass(frozen=True)
class Table:
    """Rows under a head; the first column names the row."""

    kind: ClassVar[str] = "table"
    name: str  # names the CSV file, and the table in references
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.head):
                raise ValueError(f"table {self.name}: {len(row)} cells under {len(self.head)}")

    @property
    def pages(self) -> list[Sequence[Sequence[str]]]:
        starts = range(0, max(1, len(self.rows)), ROWS_PER_PAGE)
        return [self.rows[start : start + ROWS_PER_PAGE] for start in starts]

    @property
    def has_long_names(self) -> bool:
        return any(len(row[0]) > LONG_NAME for row in self.rows)

    def csv(self) -> str:
        """Return the table as CSV; spreadsheets will not run cells as formulas."""
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow([safe_cell(cell) for cell in self.head])
        writer.writerows([safe_cell(cell) for cell in row] for row in self.rows)
        return text.getvalue()


@dataclass(frozen=True)
class Figure:
    """A figure, in the files figures/NAME.pdf and figures/NAME.svg."""

    kind: ClassVar[str] = "figure"
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
    abstract: str
    sections: Sequence[Section]
    author: str = AUTHOR

    @property
    def date(self) -> str:
        return f"{datetime.now(UTC):%-d %B %Y}"

    @property
    def tables(self) -> list[Table]:
        return [b for section in self.sections for b in section.blocks if isinstance(b, Table)]

    def latex(self) -> str:
        # The template has other delimiters, because LaTeX uses braces.
        environment = _environment(
            finalize=_escape_latex,
            block_start_string="<%",
            block_end_string="%>",
            variable_start_string="<<",
            variable_end_string=">>",
            comment_start_string="<#",
            comment_end_string="#>",
        )
        environment.filters["breakable"] = _breakable
        return environment.get_template("document.tex").render(document=self)

    def html(self) -> str:
        return _environment(autoescape=True).get_template("document.html").render(document=self)

    def markdown(self) -> str:
        environment = _environment(finalize=_escape_markdown)
        environment.filters["raw"] = Escaped
        return environment.get_template("document.md").render(document=self)

    def write(self, folder: Path, main: str) -> None:
        """Write `main` (.tex or .md), index.html and every table as CSV."""
        (folder / "tables").mkdir(parents=True, exist_ok=True)
        text = self.latex() if main.endswith(".tex") else self.markdown()
        (folder / main).write_text(text, encoding="utf-8")
        (folder / "index.html").write_text(self.html(), encoding="utf-8")
        for table in self.tables:
            path = folder / "tables" / f"{table.name}.csv"
            path.write_text(table.csv(), encoding="utf-8", newline="")


def check_folder(folder: Path, main: str) -> None:
    """Raise DocumentError if the folder has other files than those of a document."""
    if folder.exists() and any(folder.iterdir()) and not (folder / main).exists():
        raise DocumentError(f"{folder} contains other files; choose a new folder")


class Escaped(str):
    """Text that is already escaped."""

    __slots__ = ()


def escape_latex(text: str) -> str:
    """Escape a text for LaTeX; a letter that TeX fonts lack becomes its code, [U+XXXX]."""
    return "".join(_escape_letter(letter) for letter in _without_controls(text))


def escape_markdown(text: str) -> str:
    """Escape a text for Markdown, on one line."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def _environment(**options: Any) -> Environment:
    return Environment(  # noqa: S701 (each kind of document escapes in its own way)
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **options,
    )


def _escape_latex(value: Any) -> str:
    return value if isinstance(value, Escaped) else escape_latex(str(value))


def _escape_markdown(value: Any) -> str:
    return value if isinstance(value, Escaped) else escape_markdown(str(value))


def _breakable(line: str) -> Escaped:
    """Escape a line that may be broken anywhere, such as a hash without spaces."""
    indent = len(line) - len(line.lstrip())
    letters = [r"\ " if letter == " " else escape_latex(letter) for letter in line.strip()]
    return Escaped("~" * indent + r"\allowbreak{}".join(letters))


def _without_controls(text: str) -> str:
    """Remove line breaks and control characters, because TeX interprets them."""
    shown = "".join(
        " "
        if unicodedata.category(c) in ("Cc", "Zl", "Zp") or (c.isspace() and c != "\u00a0")
        else c
        for c in text
        if unicodedata.category(c) not in ("Cf", "Cs", "Co")
    )
    return " ".join(part for part in shown.split(" ") if part)


def _escape_letter(letter: str) -> str:
    if letter in _SPECIAL:
        return _SPECIAL[letter]
    if " " <= letter <= "~":
        return letter
    base, *marks = list(unicodedata.normalize("NFKD", letter))
    if base.isascii() and base.isalnum() and all(mark in _ACCENTS for mark in marks):
        for mark in marks:
            base = f"\\{_ACCENTS[mark]}{{{base}}}"
        return base
    return f"{{[}}U+{ord(letter):04X}{{]}}"
