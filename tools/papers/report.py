"""Write a suite's results as a paper: LaTeX, HTML, figures, CSV, and a PDF by TeX."""

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
#: Compilers that are tried, the first that is installed. None may run a program.
COMPILERS = {
    "pdflatex": ("-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error", TEX),
    "tectonic": ("--untrusted", "--only-cached", TEX),
}
#: References settle in the second run.
PASSES = {"pdflatex": 2, "tectonic": 1}
SECONDS = 180
#: What TeX leaves beside the paper.
LEFT_OVER = (".aux", ".log", ".out")
#: An order of two says too little to compare it with another.
FEWEST_TO_ORDER = 3


class Board:
    """A suite's public results, the longest-lasting model first."""

    def __init__(self, source: Source, name: str) -> None:
        """Raises DocumentError if nothing was measured on the suite."""
        self._source = source
        self.suite = source.suite(name)
        self.trips: int = self.suite["trips"]
        if self.suite.get("elsewhere"):
            raise DocumentError(f"{self.title} was published elsewhere: nothing was measured here")
        self.answer = source.board(self.suite["key"])
        rows = [row for row in self.answer["rows"] if row["standing"]]
        if not rows:
            raise DocumentError(f"there are no results on {self.title} yet: play a run first")
        self.definition = source.definition(self.suite["key"])
        if not self.definition:
            raise DocumentError(f"the file of {self.title} is not public")
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
        """Return the rows that the results are about: the reference editors if there is no model."""
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
        """Yield usable trips by run for every other metric and threshold."""
        by_metric = {
            row["run"]: tables.usable_trips(self.standings[row["run"]]) for row in self.shown
        }
        headline = self.shown[0]["standing"]["metric"]
        for name in in_order({name for metrics in by_metric.values() for name in metrics}):
            if name != headline:
                usable = {run: found[name] for run, found in by_metric.items() if name in found}
                yield f"By another metric: {formatting.metric_label(name)}", usable
        for threshold in THRESHOLDS:
            if threshold != DEFAULT_THRESHOLD:
                at_threshold = {
                    row["run"]: tables.usable_trips(self._source.standings(row["run"], threshold))
                    for row in self.shown
                }
                usable = {
                    run: found[headline] for run, found in at_threshold.items() if headline in found
                }
                yield f"By another threshold: until {named(threshold)}", usable


def write(source: Source, suite: str, folder: Path) -> str:
    """Write the paper of a suite's board; return what was written, in words."""
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
            Section("How to cite and to check", _citation(board)),
        ],
    )


def _abstract(board: Board) -> str:
    cases = formatting.count(len(board.definition["cases"]), "case")
    text = (
        "An image-editing model is asked for an edit and then for its inverse, again and again. "
        f"On {board.title}, {cases} of {board.trips} round trips "
        "each, we measure after how many of them an image can no longer be used. "
        f"{formatting.count(len(board.ranked), 'ranked model')} "
        f"and {formatting.count(len(board.references), 'reference editor')} were measured."
    )
    if not board.ranked:
        return text
    best = board.ranked[0]
    around = tables.interval(best["standing"])
    text += (
        f" The longest-lasting, {best['model']['name']}, keeps an image usable for "
        f"{best['standing']['usable_trips']:.1f} trips"
        f"{f' (95 % interval {around})' if around else ''}."
    )
    leaders = [row for row in board.ranked if row["standing"]["rank"] == 1]
    if len(leaders) > 1:
        text += f" {len(leaders)} models share the first rank: the cases cannot tell them apart."
    return text


def _introduction() -> list[Block]:
    return [
        Paragraph(
            "People do not edit once: they try, look, and take back. An editing system in which "
            "every step costs a little of the image cannot be steered for long, however good a "
            "single edit looks. A round trip, an edit and its inverse, has the source itself "
            "as its "
            "reference, so what is lost can be measured without asking people. An edit that is "
            "not made, or not taken back, ends a chain as much as wear does."
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
            f"{formatting.count(board.trips, 'round trip')}. It is frozen; its content hash is"
        ),
        Verbatim(board.suite["content_hash"]),
        tables.suite_table(definition),
    ]


def _methods(board: Board) -> list[Block]:
    label = formatting.metric_label(HEADLINE)
    lost = named(DEFAULT_THRESHOLD)
    return [
        Paragraph(f"This is method version {METHOD_VERSION}; numbers of other versions never mix."),
        Points(
            [
                "Chain: the source is sent with the forward prompt, the answer with the backward "
                "prompt, and so on. What is sent on is never the answer's own bytes but its "
                "pixels, "
                "rounded to multiples of four by ordered dither, without any other data.",
                "Retention of a plain metric: Q = 1 - d(source, restored) / d(source, blank "
                "card), where "
                "the blank card is the source's mean colour. 1 is identical, 0 no better than "
                "the card.",
                f"{label}, the headline: Q = 1 / (1 + the sum of (d / D)^2) over nine parts: "
                "objects, "
                "shapes, colours of a region and of the whole, sharpness, grain, framing, and face "
                "and text where there are any. D is the distance at which half is lost.",
                "Change seen: every forward edit is checked for having been made, by pixels and, "
                "where a witness with a known error can see it, by meaning. An edit that was not "
                "made, or was not undone, ends the chain before that trip.",
                f"Event: the first trip at which {lost}, the edit fails, or the model breaks the "
                "chain (refusal, blank image, no answer).",
                "Usable trips: the area under the survival curve up to the suite's last trip. "
                "Half-life: of the exponential decay with as many usable trips; never extrapolated "
                "past the last trip.",
                "Means are taken over repeats, then cases of a category, then categories, each "
                "category the same.",
                "Intervals speak of other images and of other edits: the covariance of all "
                "models is the sum of two cluster-robust ones, by image and by pair, with "
                "Student's t. Ranks are sets from simultaneous intervals of all differences.",
                "Audits: extra backward calls on touched answers show an editor that keeps the "
                "source aside or hides it in its answer.",
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
            tables.besides_table(board.models),
        ]
    else:
        blocks.append(Paragraph("No model is on this board yet; its reference editors are."))
    blocks += [
        Figure(
            "lasting", f"Usable trips of {trips} with 95 % intervals; reference editors in grey."
        ),
        Figure(
            "curves",
            "Image kept after each round trip, mean over cases with 95 % bands. 0 is a blank "
            "card of the image's mean colour.",
        ),
        tables.retention_table(shown, trips),
        tables.category_table(shown, board.standings),
        tables.causes_table(shown),
        Figure("causes", "Share of the chains that each cause ended."),
        tables.metrics_table(shown, board.standings),
    ]
    if board.references:
        blocks.append(tables.reference_editors_table(board.references, trips))
    audits = tables.audits_table(board.rows, board.runs)
    blocks.append(audits or Paragraph("No audit was played in these runs."))
    return blocks


def _robustness(board: Board) -> list[Block]:
    order = {str(row["run"]): row["standing"]["usable_trips"] for row in board.shown}
    lines = []
    for choice, usable in board.orders():
        tau = kendall_tau(order, {str(run): trips for run, trips in usable.items()})
        if tau is not None and len(order.keys() & map(str, usable)) >= FEWEST_TO_ORDER:
            lines.append((choice, tau))
    if not lines:
        return [Paragraph("Too few results to say how robust the order is.")]
    compared = "models" if board.models else "reference editors"
    return [
        Paragraph(
            f"The order of {len(order)} {compared} by usable trips, and the orders that our other "
            "choices would have given."
        ),
        tables.robustness_table(lines),
    ]


def _people(board: Board) -> list[Block]:
    people = tables.people_tables(board.rows, board.agreement)
    return list(people) or [
        Paragraph("There are not enough votes yet to say how far these numbers agree with people.")
    ]


def _limits() -> list[Block]:
    return [
        Points(
            [
                "A round trip measures what survives, not how good an edit looks: a cautious "
                "editor with small edits is favoured over a bold one.",
                "Not every undoing is well defined: what stood behind an added chair can only be "
                "guessed. The place of the edit is left out of what ends a chain.",
                "Hosted models change behind their name: a run is a date, and it is printed.",
                "Images come from open collections that models may have been trained on.",
                "Metrics were made for single distortions: half-lives by different metrics are "
                "not comparable with each other.",
                "Where no witness can see what was asked for, only pixels say that an edit was "
                "made.",
            ]
        )
    ]


def _citation(board: Board) -> list[Block]:
    return [
        Paragraph(
            "Every run can be downloaded as a bundle with its images, scores and secret; "
            "“convergebench verify” computes each number again. Cite the suite by its hash and "
            "the numbers by their date:"
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
    """Make paper.pdf if a TeX is installed; return the outcome in words."""
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
            output = done.stdout.decode(errors="replace")
            first = next((line for line in output.splitlines() if line.startswith("!")), "")
            return f"{name} could not set {TEX}: {first or 'see paper.log'}"
    for ending in LEFT_OVER:
        (folder / TEX).with_suffix(ending).unlink(missing_ok=True)
    return f"{PDF} by {name}"
