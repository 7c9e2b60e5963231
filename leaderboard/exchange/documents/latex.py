r"""A document as LaTeX that plain pdfTeX sets with the packages of any distribution.

Names come from strangers, so every text is escaped: whatever a name contains, it is printed
and never obeyed.
"""

from __future__ import annotations

import unicodedata

from leaderboard.exchange.documents.blocks import (
    Block,
    Document,
    Figure,
    Paragraph,
    Points,
    Table,
    Verbatim,
)

#: A page holds about so many rows; a longer table goes on below another head.
ROWS_A_PAGE = 40
#: Letters of a row's name from which on it is broken into lines.
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
    # After a line's end these begin an argument, and two of some melt into another sign.
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
_PREAMBLE = r"""\documentclass[11pt]{article}
\IfFileExists{lmodern.sty}{\usepackage[T1]{fontenc}\usepackage{lmodern}}{}
\usepackage[margin=2.5cm]{geometry}
\usepackage{graphicx}
\usepackage[hidelinks]{hyperref}
\newsavebox{\tablebox}
% A table that is wider than the text is made smaller.
\newcommand{\fitted}[1]{\sbox{\tablebox}{#1}%
  \ifdim\wd\tablebox>\linewidth\resizebox{\linewidth}{!}{\usebox{\tablebox}}%
  \else\usebox{\tablebox}\fi}
"""


def escaped(text: str) -> str:
    """The text as LaTeX prints it; a letter that its fonts lack is named by its number."""
    return "".join(map(_escaped, _folded(text)))


def _folded(text: str) -> str:
    """Without line ends and control characters, which mean something to TeX."""
    kept = "".join(
        " "
        if unicodedata.category(c) in ("Cc", "Zl", "Zp") or (c.isspace() and c != "\u00a0")
        else c
        for c in text
        if unicodedata.category(c) not in ("Cf", "Cs", "Co")
    )
    return " ".join(part for part in kept.split(" ") if part)


def _escaped(letter: str) -> str:
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


def printed(document: Document) -> str:
    """The whole file."""
    lines = [
        _PREAMBLE,
        rf"\title{{{escaped(document.title)}}}",
        rf"\author{{{escaped(document.author)}}}",
        rf"\date{{{escaped(document.date)}}}",
        r"\begin{document}",
        r"\maketitle",
        r"\begin{abstract}",
        escaped(document.abstract),
        r"\end{abstract}",
    ]
    for section in document.sections:
        lines += ["", rf"\section{{{escaped(section.title)}}}"]
        lines += [_block(block) for block in section.blocks]
    return "\n".join([*lines, r"\end{document}", ""])


def _block(block: Block) -> str:
    match block:
        case Paragraph(text):
            return f"{escaped(text)}\n"
        case Points(items):
            points = "\n".join(rf"  \item {escaped(item)}" for item in items)
            return f"\\begin{{itemize}}\n{points}\n\\end{{itemize}}\n"
        case Verbatim(text):
            lines = [
                rf"\noindent\texttt{{{_breakable(line)}}}\\" for line in text.strip().splitlines()
            ]
            return "\\begin{quote}\\small\n" + "\n".join(lines) + "\n\\end{quote}\n"
        case Figure():
            return _figure(block)
        case Table():
            return "\n".join(table(block))


def _breakable(line: str) -> str:
    """A line of code that may be broken anywhere: a hash has no spaces."""
    indent = len(line) - len(line.lstrip())
    return "~" * indent + r"\allowbreak{}".join(map(escaped_letter, line.strip()))


def escaped_letter(letter: str) -> str:
    return r"\ " if letter == " " else escaped(letter)


def _figure(figure: Figure) -> str:
    return "\n".join(
        [
            r"\begin{figure}[htbp]",
            r"\centering",
            rf"\includegraphics[width=\linewidth]{{figures/{figure.name}.pdf}}",
            rf"\caption{{{escaped(figure.caption)}}}",
            rf"\label{{fig:{figure.name}}}",
            r"\end{figure}",
            "",
        ]
    )


def table(block: Table) -> list[str]:
    """One table, or several of a page each."""
    parts = [
        block.rows[start : start + ROWS_A_PAGE]
        for start in range(0, max(1, len(block.rows)), ROWS_A_PAGE)
    ]
    long = any(len(row[0]) > LONG_NAME for row in block.rows)
    columns = (r"p{0.4\textwidth}" if long else "l") + "r" * (len(block.head) - 1)
    found = []
    for place, rows in enumerate(parts):
        caption = escaped(block.caption) + (" (continued)" if place else "")
        label = "" if place else rf"\label{{tab:{block.name}}}"
        note = [rf"\par\smallskip\footnotesize {escaped(block.note)}"] if block.note else []
        found += [
            r"\begin{table}[htbp]",
            r"\centering\small",
            rf"\caption{{{caption}}}{label}",
            rf"\fitted{{\begin{{tabular}}{{{columns}}}",
            r"\hline",
            " & ".join(rf"\textbf{{{escaped(cell)}}}" for cell in block.head) + r" \\",
            r"\hline",
            *(" & ".join(map(escaped, row)) + r" \\" for row in rows),
            r"\hline",
            r"\end{tabular}}",
            *note,
            r"\end{table}",
            "",
        ]
    return found
