"""The paper as a folder: paper.tex, index.html, figures, tables as CSV, and a PDF by TeX."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from leaderboard.exchange.documents import html, latex, markdown
from leaderboard.exchange.paper import figures
from leaderboard.exchange.paper.contents import Board, PaperError, paper
from leaderboard.models import Suite

TEX, PAGE, PDF = "paper.tex", "index.html", "paper.pdf"
#: Compilers that are tried, the first that is there. None may run a program (-no-shell-escape).
COMPILERS = {
    "pdflatex": ("-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error", TEX),
    "tectonic": ("--untrusted", "--only-cached", TEX),
}
#: References settle in the second run.
PASSES = {"pdflatex": 2, "tectonic": 1}
SECONDS = 180
#: What TeX leaves beside the paper.
LEFT_OVER = (".aux", ".log", ".out")


@dataclass(frozen=True)
class Written:
    """What was written, and what became of the PDF, in words."""

    folder: Path
    tables: int
    pdf: str


def write(suite: Suite, folder: Path) -> Written:
    """The paper of this suite's board; PaperError where `folder` holds something else."""
    if folder.exists() and any(folder.iterdir()) and not (folder / TEX).exists():
        raise PaperError(f"{folder} holds something else; name a new folder")
    board = Board.of(suite)
    document = paper(board)
    drawings = folder / "figures"
    shown = board.shown
    figures.save(
        figures.lasting([*board.models, *board.yardsticks], suite.trips), drawings, "lasting"
    )
    yardsticks = board.yardsticks if board.models else ()
    figures.save(figures.curves(shown, yardsticks, suite.trips), drawings, "curves")
    figures.save(figures.causes(shown), drawings, "causes")
    (folder / TEX).write_text(latex.printed(document), encoding="ascii")
    (folder / PAGE).write_text(html.printed(document), encoding="utf-8")
    (folder / "tables").mkdir(exist_ok=True)
    for table in document.tables:
        path = folder / "tables" / f"{table.name}.csv"
        path.write_text(markdown.as_csv(table), encoding="utf-8", newline="")
    return Written(folder, len(document.tables), compiled(folder))


def compiled(folder: Path) -> str:
    """Make paper.pdf where a TeX is there; what became of it, in words."""
    name = next((name for name in COMPILERS if shutil.which(name)), None)
    (folder / PDF).unlink(missing_ok=True)
    if name is None:
        return f"no TeX is here ({' or '.join(COMPILERS)}), so no {PDF}: compile {TEX} elsewhere"
    for _ in range(PASSES[name]):
        try:
            done = subprocess.run(  # noqa: S603 (a fixed command, found on this machine)
                [str(shutil.which(name)), *COMPILERS[name]],
                cwd=folder,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{name} did not end: {error}"
        if done.returncode:
            said = done.stdout.decode(errors="replace")
            first = next((line for line in said.splitlines() if line.startswith("!")), "")
            return f"{name} could not set {TEX}: {first or 'see paper.log'}"
    for ending in LEFT_OVER:
        (folder / TEX).with_suffix(ending).unlink(missing_ok=True)
    return f"{PDF} by {name}"
