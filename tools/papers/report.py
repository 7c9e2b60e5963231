"""Write a suite's results as a paper: LaTeX, HTML, figures, CSV, and a PDF if TeX is installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from evaluation.analysis.half_life import METHOD_VERSION
from evaluation.analysis.robustness import kendall_tau
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD, THRESHOLDS, named
from evaluation.metrics import HEADLINE, in_order
from leaderboard import formatting
from tools.papers import figures, tables
from tools.papers.documents import (
    AUTHOR,
    Block,
    Document,
    DocumentError,
    Figure,
    Paragraph,
    Points,
    Section,
    Verbatim,
    check_folder,
)
from tools.papers.source import Json, Source

TEX, PDF = "paper.tex", "paper.pdf"
#: Compilers, the preferred one first. Their options keep a document from running programs.
COMPILERS = {
    "pdflatex": ("-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error", TEX),
    "tectonic": ("--untrusted", "--only-cached", TEX),
}
#: How often each compiler is run: pdflatex resolves references the second time.
PASSES = {"pdflatex": 2, "tectonic": 1}
SECONDS = 180
#: Temporary files of TeX.
LEFT_OVER = (".aux", ".log", ".out")
#: The smallest number of models whose orders are compared.
FEWEST_TO_ORDER = 3


class Board:
    """A suite's public results, the longest-lasting model first."""

    def __init__(self, source: Source, name: str) -> None:
        """Read a board. Raises DocumentError if the suite has no results."""
        self._source = source
        self.suite = source.suite(name)
        self.trips: int = self.suite["trips"]
        if self.suite.get("elsewhere"):
            raise DocumentError(f"{self.title} was imported from a paper and has no runs here")
        self.answer = source.board(self.suite["key"])
        rows = [row for row in self.answer["rows"] if row["standing"]]
        if not rows:
            raise DocumentError(f"{self.title} has no results yet: run a model on this suite first")
        self.definition = source.definition(self.suite["key"])
        if not self.definition:
            raise DocumentError(f"the suite file of {self.title} is not public")
        rows.sort(
            key=lambda row: (-row["standing"]["usable_trips"], -(row["standing"]["auc"] or 0))
        )
        self.models = [row for row in rows if row["group"] != "reference"]
        self.references = [row for row in rows if row["group"] == "reference"]
        self.ranked = [row for row in rows if row["group"] == "ranked"]
        self.rows = [*self.models, *self.references]

    @property
    def title(self) -> str:
        return f"{self.suite['title']}, version {self.suite['version']}"

    @property
    def shown(self) -> list[Json]:
        """The rows to show: the models, or the reference editors if there are no models."""
        return self.models or self.references

    @cached_property
    def runs(self) -> dict[int, Json]:
        return {row["run"]: self._source.run(row["run"]) for row in self.rows}

    @cached_property
    def standings(self) -> dict[int, list[Json]]:
        return {row["run"]: self._source.standings(row["run"]) for row in self.rows}

    @cached_property
    def agreement(self) -> Json:
        return self._source.agreement()

    def orders(self) -> Iterator[tuple[str, dict[int, float]]]:
        """Yield usable trips by run for every metric and threshold except those of the board."""
        by_metric = {
            row["run"]: tables.usable_trips(self.standings[row["run"]]) for row in self.shown
        }
        headline = self.shown[0]["standing"]["metric"]
        for name in in_order({name for metrics in by_metric.values() for name in metrics}):
            if name != headline:
                usable = {run: trips[name] for run, trips in by_metric.items() if name in trips}
                yield f"By another metric: {formatting.metric_label(name)}", usable
        for threshold in THRESHOLDS:
            if threshold != DEFAULT_THRESHOLD:
                at_threshold = {
                    row["run"]: tables.usable_trips(self._source.standings(row["run"], threshold))
                    for row in self.shown
                }
                usable = {
                    run: trips[headline] for run, trips in at_threshold.items() if headline in trips
                }
                yield f"By another threshold: until {named(threshold)}", usable


def write(source: Source, suite: str, folder: Path) -> str:
    """Write the paper on a suite's board; return a message about the files."""
    check_folder(folder, TEX)
    board = Board(source, suite)
    document = paper(board)
    drawings = folder / "figures"
    references = board.references if board.models else ()
    figures.save(figures.lasting(board.rows, board.trips), drawings, "lasting")
    figures.save(figures.curves(board.shown, references, board.trips), drawings, "curves")
    figures.save(figures.causes(board.shown), drawings, "causes")
    document.write(folder, TEX)
    return f"{folder}: {TEX}, index.html, {len(document.tables)} tables; {compile_pdf(folder)}."


def paper(board: Board) -> Document:
    return Document(
        title=f"How many round trips does an image last? Results on {board.title}",
        abstract=_abstract(board),
        sections=[
            Section("Introduction", _introduction()),
            Section("The suite", _suite(board)),
            Section("Methods", _methods(board)),
            Section("Results", _results(board)),
            Section("Robustness", _robustness(board)),
            Section("Agreement with people", _people(board)),
            Section("Limits", _limits()),
            Section("How to cite and verify", _citation(board)),
        ],
    )


def _abstract(board: Board) -> str:
    cases = formatting.count(len(board.definition["cases"]), "case")
    text = (
        "We ask image-editing models for an edit and then for its inverse, again and again, and "
        "measure after how many round trips an image is no longer usable. "
        f"On {board.title} ({cases} of {board.trips} round trips each), we measured "
        f"{formatting.count(len(board.ranked), 'ranked model')} "
        f"and {formatting.count(len(board.references), 'reference editor')}."
    )
    if not board.ranked:
        return text
    best = board.ranked[0]
    around = tables.interval(best["standing"])
    text += (
        f" The best model, {best['model']['name']}, keeps images usable for "
        f"{best['standing']['usable_trips']:.1f} trips on average"
        f"{f' (95 % interval {around})' if around else ''}."
    )
    leaders = [row for row in board.ranked if row["standing"]["rank"] == 1]
    if len(leaders) > 1:
        text += f" {len(leaders)} models share the first rank: their results are indistinguishable."
    return text


def _introduction() -> list[Block]:
    return [
        Paragraph(
            "People edit an image many times: they try an edit, look at it, and undo it. If every "
            "step damages the image a little, an editing system soon becomes unusable, however "
            "good a single edit looks. A round trip consists of an edit and its inverse. The "
            "image should then equal the source image, so the loss can be measured without asking "
            "people. A chain of round trips ends when too much of the image is lost, and also "
            "when an edit is not made or not undone."
        )
    ]


def _suite(board: Board) -> list[Block]:
    definition = board.definition
    cases, images, pairs = (definition[name] for name in ("cases", "images", "pairs"))
    return [
        Paragraph(
            f"{board.title} has {formatting.count(len(cases), 'case')}: "
            f"{formatting.count(len(images), 'source image')} and "
            f"{formatting.count(len(pairs), 'edit pair')}, each played for "
            f"{formatting.count(board.trips, 'round trip')}. It never changes; its hash is"
        ),
        Verbatim(board.suite["content_hash"]),
        tables.suite_table(definition),
    ]


def _methods(board: Board) -> list[Block]:
    label = formatting.metric_label(HEADLINE)
    lost = named(DEFAULT_THRESHOLD)
    return [
        Paragraph(f"All numbers use method version {METHOD_VERSION}; versions are never mixed."),
        Points(
            [
                "Chain: the source is sent with the forward prompt, the answer with the backward "
                "prompt, and so on. Only the pixels of an answer are sent on, rounded to multiples "
                "of four by ordered dither, without metadata.",
                "Retention by a plain metric: Q = 1 - d(source, restored) / d(source, blank "
                "card). The blank card has the source's mean colour. 1 means identical, 0 no "
                "better than the card.",
                f"Retention by the headline metric ({label}): Q = 1 / (1 + the sum of (d / D)^2) "
                "over nine parts: objects, shapes, local and global colours, sharpness, grain, "
                "framing, and face and text if there are any. Each part has a distance d; at "
                "d = D half of the image counts as lost.",
                "Change seen: pixels show whether each forward edit was made. If a witness (a "
                "program such as an object detector) with a known error rate can recognise the "
                "edit, it also checks the content. An edit that was not made or not undone ends "
                "the chain before that trip.",
                f"Event: the first trip at which {lost}, the edit fails, or the model breaks the "
                "chain (refusal, blank image, no answer).",
                "Usable trips: the area under the survival curve up to the suite's last trip. "
                "Half-life: the trip by which half of the cases have ended, never extrapolated "
                "beyond the last trip.",
                "Means are taken over repeats, then over the cases of a category, then over "
                "categories with equal weights.",
                "Intervals generalise to other images and other edits: the covariance of all "
                "models is the sum of two cluster-robust covariances, by image and by pair, with "
                "Student's t. The possible ranks of a model follow from simultaneous intervals of "
                "all differences.",
                "Audits: extra calls with altered answers, or with images that the model has not "
                "seen, expose editors that store the source or hide it in their answers.",
            ]
        ),
        tables.versions_table(list(board.runs.values())),
    ]


def _results(board: Board) -> list[Block]:
    trips, shown = board.trips, board.shown
    blocks: list[Block] = []
    if board.models:
        blocks += [
            tables.standings_table(board.models, trips),
            tables.details_table(board.models),
        ]
    else:
        blocks.append(
            Paragraph("No model is on this board yet. The results are those of reference editors.")
        )
    blocks += [
        Figure(
            "lasting", f"Usable trips of {trips} with 95 % intervals; reference editors in grey."
        ),
        Figure(
            "curves",
            "Retention after each round trip, mean over cases with 95 % bands. 0 is a blank "
            "card of the image's mean colour.",
        ),
        tables.retention_table(shown, trips),
        tables.category_table(shown, board.standings),
        tables.causes_table(shown),
        Figure("causes", "Share of chains ended by each cause."),
        tables.metrics_table(shown, board.standings),
    ]
    if board.references:
        blocks.append(tables.reference_editors_table(board.references, trips))
    audits = tables.audits_table(board.rows, board.runs)
    blocks.append(audits or Paragraph("These runs have no audits."))
    return blocks


def _robustness(board: Board) -> list[Block]:
    order = {str(row["run"]): row["standing"]["usable_trips"] for row in board.shown}
    lines = []
    for choice, usable in board.orders():
        tau = kendall_tau(order, {str(run): trips for run, trips in usable.items()})
        if tau is not None and len(order.keys() & map(str, usable)) >= FEWEST_TO_ORDER:
            lines.append((choice, tau))
    if not lines:
        return [Paragraph("There are too few results to measure how robust the order is.")]
    compared = "models" if board.models else "reference editors"
    return [
        Paragraph(
            f"The order of {len(order)} {compared} by usable trips, compared with their orders by "
            "other metrics and thresholds."
        ),
        tables.robustness_table(lines),
    ]


def _people(board: Board) -> list[Block]:
    people = tables.people_tables(board.rows, board.agreement)
    return list(people) or [
        Paragraph("There are not enough votes yet to compare these numbers with people's votes.")
    ]


def _limits() -> list[Block]:
    return [
        Points(
            [
                "A round trip measures what survives, not how good an edit looks. This favours "
                "cautious editors with small edits.",
                "Not every edit can be undone exactly: the background behind an added chair can "
                "only be guessed. So damage in the place of the edit does not end a chain.",
                "Hosted models change without a new name, so every run is printed with its date.",
                "Images come from open collections that models may have been trained on.",
                "Metrics were made for single distortions and fall at different rates. So "
                "half-lives by different metrics cannot be compared.",
                "If no witness can recognise an edit, only pixels show that the edit was made.",
            ]
        )
    ]


def _citation(board: Board) -> list[Block]:
    return [
        Paragraph(
            "Every run can be downloaded as a bundle with its images and scores, from which "
            "“convergebench verify” recomputes every number. Cite the suite with its hash, and "
            "the numbers with their date:"
        ),
        Verbatim(_bibtex(board)),
    ]


def _bibtex(board: Board) -> str:
    suite, today = board.suite, datetime.now(UTC)
    return (
        f"@misc{{convergebench-{suite['key']}-{today:%Y%m%d},\n"
        "  title        = {ConvergeBench: convergence half-life of image-editing models},\n"
        f"  author       = {{{{{AUTHOR}}}}},\n"
        f"  year         = {{{today:%Y}}},\n"
        f"  howpublished = {{\\url{{{board.answer['page']}}}}},\n"
        f"  note         = {{Suite {suite['slug']}, version {suite['version']}, content hash "
        f"{suite['content_hash'][:12]}; {formatting.metric_label(board.answer['metric'])} at "
        f"threshold {board.answer['threshold']:g}; accessed {today:%Y-%m-%d}}}\n"
        "}\n"
    )


def compile_pdf(folder: Path) -> str:
    """Compile paper.pdf if TeX is installed; return a message about the outcome."""
    name = next((name for name in COMPILERS if shutil.which(name)), None)
    (folder / PDF).unlink(missing_ok=True)
    if name is None:
        return f"no {PDF}, because TeX is not installed ({' or '.join(COMPILERS)})"
    for _ in range(PASSES[name]):
        try:
            done = subprocess.run(  # noqa: S603 (a fixed command)
                [str(shutil.which(name)), *COMPILERS[name]],
                cwd=folder,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{name} failed: {error}"
        if done.returncode:
            output = done.stdout.decode(errors="replace")
            first = next((line for line in output.splitlines() if line.startswith("!")), "")
            return f"{name} failed on {TEX}: {first or 'see paper.log'}"
    for ending in LEFT_OVER:
        (folder / TEX).with_suffix(ending).unlink(missing_ok=True)
    return f"{PDF} by {name}"
