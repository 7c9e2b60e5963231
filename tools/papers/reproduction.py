"""Lay published tables beside ours: a paper's facts (fixtures/papers), and a site's runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from evaluation.analysis.half_life import METHOD_VERSION
from evaluation.analysis.no_reference import QualityChain, no_reference_numbers
from evaluation.content import catalog
from evaluation.content.edit_types import TYPES
from evaluation.content.suites import Suite
from evaluation.estimate import Estimate, estimate
from evaluation.metrics import HEADLINE
from leaderboard import formatting
from tools.papers.documents import (
    NOTHING,
    Document,
    DocumentError,
    Paragraph,
    Section,
    Table,
    Verbatim,
    check_folder,
)
from tools.papers.restoration import restoration
from tools.papers.source import Json, Source

PAPERS = ("forerunner", "banana100", "restoration", "pico")
TEXT = "comparison.md"
#: The trips at which Banana100 applies its metrics.
BANANA_TRIPS = (5, 10, 20)


@dataclass(frozen=True)
class Entry:
    """One model of a paper, and its run on our suite if there is one."""

    #: As the paper calls it; empty for a model that the paper did not play.
    called: str
    model: Json
    run: Json | None
    #: Runs of experiments, each of which plays the suite in another way.
    arms: Sequence[Json]
    estimate: Estimate
    source: Source = field(repr=False)

    @property
    def name(self) -> str:
        return str(self.model["name"])

    @property
    def status(self) -> str:
        return f"finished, run {self.run['id']}" if self.run else "not played yet"

    @cached_property
    def standings(self) -> list[Json]:
        return self.source.standings(self.run["id"]) if self.run else []

    def standing(self, metric: str) -> Json | None:
        """Return the standing over all cases by this metric."""
        rows = (row for row in self.standings if row["metric"] == metric)
        return next((row for row in rows if row["scope"] == "all"), None)

    def own_value(self, metric: str, trip: int) -> float | None:
        """Return the metric's own value after so many trips, mean over cases."""
        standing = self.standing(metric)
        shown = (standing["curve"].get("shown") or []) if standing else []
        return shown[trip] if trip < len(shown) else None


@dataclass(frozen=True)
class Comparison:
    """A paper's facts with the entries of our suite."""

    facts: Json
    suite: Suite
    entries: Sequence[Entry]
    source: Source

    @property
    def measured(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.run]


def read_facts(paper: str) -> dict[str, Any]:
    path = catalog.folder() / "papers" / f"{paper}.yaml"
    return dict(yaml.safe_load(path.read_text(encoding="utf-8")))


def write(source: Source, paper: str, folder: Path, models: Iterable[str], suite: str) -> str:
    """Write the comparison; return what was written, in words."""
    check_folder(folder, TEXT)
    comparison = compare(source, read_facts(paper), list(models), suite)
    document(comparison, TABLES[paper](comparison)).write(folder, TEXT)
    lines = [
        f"{entry.called or entry.name}: {entry.status}"
        + ("." if entry.run else f"; it would take {entry.estimate}.")
        for entry in comparison.entries
    ]
    return "\n".join([*lines, f"{folder}: {TEXT}, index.html, tables/*.csv."])


def compare(source: Source, facts: Json, models: Sequence[str] = (), suite: str = "") -> Comparison:
    """Find the run of every model of the paper, or of `models` by slug."""
    key = source.suite(suite or facts["suite"])["key"]
    core = Suite.from_dict(source.definition(key))
    names = {slug: called for called, slug in facts["models"].items()}
    entries = [
        _entry(source, core, slug, names.get(slug, ""), named=bool(models))
        for slug in models or names
    ]
    return Comparison(facts, core, [entry for entry in entries if entry], source)


def _entry(source: Source, suite: Suite, slug: str, called: str, *, named: bool) -> Entry | None:
    model = source.model(slug)
    if model is None:
        if named:
            raise DocumentError(f"there is no editing model {slug} here")
        model = {"slug": slug, "name": called, "price_per_edit": None}
    runs = [run for run in source.runs(slug, suite.key) if run["state"] == "finished"]
    plain = sorted((run for run in runs if not run["arm"]), key=lambda r: (r["current"], r["id"]))
    price = model["price_per_edit"]
    return Entry(
        called,
        model,
        plain[-1] if plain else None,
        sorted((run for run in runs if run["arm"]), key=lambda run: int(run["id"])),
        estimate(suite.edits, None if price is None else float(price)),
        source,
    )


def document(comparison: Comparison, tables: Sequence[Table]) -> Document:
    facts, suite, entries = comparison.facts, comparison.suite, comparison.entries
    url = f", {facts['url']}" if facts.get("url") else ""
    cited = f"{facts['title']} ({facts['authors']}, {facts['published']}{url})"
    return Document(
        title=f"{facts['title']}, beside ConvergeBench",
        abstract=f"What {cited} published, beside what was measured here on {suite.key}, method "
        f"version {METHOD_VERSION}. Of {len(entries)} models {len(comparison.measured)} are "
        "measured.",
        sections=[
            Section(
                "Settings",
                [
                    Table(
                        "settings",
                        "What was done there, and what is done here",
                        ["Setting", "There", "Here"],
                        [list(map(str, row)) for row in facts["settings"]],
                    )
                ],
            ),
            Section(
                "Runs",
                [
                    Table(
                        "runs",
                        "What was played here, and what it takes",
                        ["Model", "There", "Here", "Takes"],
                        [
                            [one.name, one.called or NOTHING, one.status, str(one.estimate)]
                            for one in entries
                        ],
                    )
                ],
            ),
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


def forerunner(comparison: Comparison) -> list[Table]:
    """Mean scores after each round, as published and as measured here."""
    published: dict[tuple[str, str, int], float] = {
        (figure["model"], figure["metric"], figure["trip"]): figure["value"]
        for figure in comparison.source.published_figures()
        if figure["source"] == comparison.facts["figures"]
    }
    ours = {entry.called: entry for entry in comparison.measured if entry.called}
    lines = []
    for (model, metric, trip), value in sorted(published.items()):
        here = ours[model].own_value(metric, trip) if model in ours else None
        lines.append(
            [_scored(model, metric, trip), f"{value:.3f}", _number(here), _difference(here, value)]
        )
    for entry in comparison.measured:
        if not entry.called:
            lines += [
                [
                    _scored(entry.name, metric, trip),
                    NOTHING,
                    _number(entry.own_value(metric, trip)),
                    NOTHING,
                ]
                for metric, trip in sorted({(metric, trip) for _, metric, trip in published})
            ]
    return [
        Table(
            "scores",
            "Mean score after so many round trips, as published and as measured here",
            ["Model, metric", "Published", "Here", "Difference"],
            lines,
            note="Other images, other edits, and there no check that an edit was made: a "
            "difference is no error of either.",
        ),
        _usable_by_ssim(comparison),
    ]


def _scored(model: str, metric: str, trip: int) -> str:
    return f"{model}, {formatting.metric_label(metric)}, {formatting.after_trips(trip)}"


def _usable_by_ssim(comparison: Comparison) -> Table:
    """Usable trips by SSIM: of their rows, if these were imported, and of our runs."""
    source, figures = comparison.source, comparison.facts["figures"]
    theirs: list[list[str]] = []
    for suite in source.suites:
        if suite["slug"] == figures and suite["elsewhere"]:
            board = source.board(source.suite(figures)["key"])
            theirs = [
                [
                    row["model"]["name"],
                    f"{row['standing']['usable_trips']:.1f} of {suite['trips']}",
                    NOTHING,
                ]
                for row in board["rows"]
                if row["standing"] and row["standing"]["metric"] == "ssim"
            ]
    ours = [
        [entry.name, NOTHING, f"{standing['usable_trips']:.1f} of {comparison.suite.trips}"]
        for entry in comparison.measured
        if (standing := entry.standing("ssim"))
    ]
    return Table(
        "usable",
        "Usable trips by SSIM: their rows by our method, and our runs",
        ["Model", "Their rows", "Our run"],
        [*theirs, *ours],
        note=""
        if theirs
        else "Their rows are not on this site: manage.py import_results edit-converge-bench brings them.",
    )


def banana100(comparison: Comparison) -> list[Table]:
    """Compare the paper's verdict on each no-reference metric with our counts."""
    facts, trips = comparison.facts, comparison.suite.trips
    quality = [(entry, _quality(entry, trips)) for entry in comparison.measured]
    verdicts = []
    for metric in facts["metrics"]:
        key = metric.get("ours") or metric["name"].lower()
        verdicts.append(
            [
                metric["name"],
                metric["range"],
                "higher" if metric["higher_is_better"] else "lower",
                "notices every one" if metric["succeeds"] else "fails on some",
                *(_noticed(numbers.get(key), trips) for _, numbers in quality),
            ]
        )
    gaps = [
        [f"{entry.name}, {one.get('label', name)}", *(_gap(one, n) for n in BANANA_TRIPS)]
        for entry, numbers in quality
        for name, one in numbers.items()
    ]
    stated = facts["brisque"]
    brisque = [
        [
            "As published (one image)",
            f"{stated['first']:g}",
            f"{stated['then']:g}",
            f"{stated['then'] - stated['first']:+.1f}",
        ],
        *(
            [entry.name, *_fall(numbers["brisque"], stated["after"])]
            for entry, numbers in quality
            if "brisque" in numbers
        ),
    ]
    return [
        Table(
            "metrics",
            "Which metrics call the image worse after 5, 10 and 20 steps in every case",
            ["Metric", "Usual range", "Better", "There", *(entry.name for entry, _ in quality)],
            verdicts,
            note="Here: cases called worse than the first restored image at each of these trips, of "
            "all. A metric that was not run says so: BRISQUE, NIQE and PIQE run here, others come "
            "by a score file (convergebench score --import).",
        ),
        Table(
            "gaps",
            "Mean change of a metric since the first restored image, in points of its usual range",
            ["Model, metric", *(f"Step {n}" for n in BANANA_TRIPS)],
            gaps,
            note="Above 0: the metric praises the damage. There: positive somewhere for every one "
            "of 21 metrics.",
        ),
        Table(
            "brisque",
            f"BRISQUE of the source and after {stated['after']} steps (lower is meant to be better)",
            ["Model", "Source", f"Step {stated['after']}", "Change"],
            brisque,
            note=f"There: {stated['where']}.",
        ),
    ]


def _quality(entry: Entry, trips: int) -> Mapping[str, Any]:
    """Count what the no-reference metrics say of a run's images."""
    chains: dict[tuple[str, str], dict[str, dict[int, float | None]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    pinned: dict[str, dict[str, Any]] = {}
    for row in entry.source.no_reference(entry.run["id"]) if entry.run else ():
        value = float(row["value"]) if row["value"] else None
        chains[row["case"], row["repeat"]][row["metric"]][int(row["trip"])] = value
        higher = {"True": True, "False": False}.get(row["higher_is_better"])
        pinned[row["metric"]] = {"version": row["version"], "higher_is_better": higher}
    by_chain = [
        QualityChain(
            case,
            {name: [values.get(n) for n in range(max(values) + 1)] for name, values in one.items()},
            [],
        )
        for (case, _), one in chains.items()
    ]
    return no_reference_numbers(by_chain, trips, pinned)


def _noticed(numbers: Mapping[str, Any] | None, trips: int) -> str:
    """ "at 5: 3 of 12, at 10: 4 of 12": cases called worse than the first restored image."""
    if not numbers:
        return formatting.NOT_RUN
    parts = []
    for trip in (n for n in BANANA_TRIPS if n <= trips):
        counts = (numbers["trips"].get(str(trip)) or {}).get("first")
        if counts:
            parts.append(f"at {trip}: {counts['worse']} of {counts['restored']}")
    return ", ".join(parts) or NOTHING


def _gap(numbers: Mapping[str, Any], trip: int) -> str:
    counts = (numbers["trips"].get(str(trip)) or {}).get("first")
    gap = counts and counts.get("gap")
    return NOTHING if gap is None else f"{gap:+.1f}".replace("-", "−")


def _fall(numbers: Mapping[str, Any], trip: int) -> list[str]:
    values = numbers.get("value") or []
    first = values[0] if values else None
    then = values[trip] if len(values) > trip else None
    change = None if first is None or then is None else then - first
    return [
        NOTHING if first is None else f"{first:.1f}",
        NOTHING if then is None else f"{then:.1f}",
        NOTHING if change is None else f"{change:+.1f}".replace("-", "−"),
    ]


def pico(comparison: Comparison) -> list[Table]:
    """Compare the share of good edits by type: published, and seen made here."""
    pairs = {pair.slug: pair.type for pair in comparison.suite.pairs}
    measured = [(entry, _made_by_type(entry, pairs)) for entry in comparison.measured]
    lines = []
    for kind in sorted(TYPES.values(), key=lambda kind: -(kind.success or 0)):
        if kind.success is None and kind.key not in pairs.values():
            continue
        cells = [
            kind.title,
            NOTHING if kind.success is None else f"{kind.success:.4f}",
            str(sum(one == kind.key for one in pairs.values())),
        ]
        for _, made in measured:
            here = made.get(kind.key)
            cells += [_number(here), _difference(here, kind.success)]
        lines.append(cells)
    heads = [head for entry, _ in measured for head in (entry.name, "Difference")]
    return [
        Table(
            "types",
            "Share of good edits by type: published for Nano Banana, and here",
            ["Type of edit", "Published", "Pairs here", *heads],
            lines,
            note="Here: the share of forward edits that were made, as witnesses saw it, else by "
            "pixels; mean over the pairs of the type. The paper publishes nine of its 35 types.",
        ),
        Table(
            "composition",
            "What the data set is made of",
            ["Part", "Size", "Share"],
            [list(map(str, row)) for row in comparison.facts["composition"]],
            note="A fact of the data set: there is nothing to measure of it here. Our own chains "
            "leave as preferences and sequences by manage.py export_results dataset.",
        ),
    ]


def _made_by_type(entry: Entry, pairs: Mapping[str, str]) -> dict[str, float]:
    shares: dict[str, list[float]] = defaultdict(list)
    metrics = {row["metric"] for row in entry.standings}
    metric = HEADLINE if HEADLINE in metrics else min(metrics, default="")
    for row in entry.standings:
        if row["metric"] != metric or not row["scope"].startswith("pair:"):
            continue
        made = row["counts"].get("edits_made")
        made = row["counts"].get("change_seen") if made is None else made
        kind = pairs.get(row["scope"].removeprefix("pair:"))
        if made is not None and kind:
            shares[kind].append(made)
    return {kind: fmean(values) for kind, values in shares.items()}


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}"


def _difference(here: float | None, there: float | None) -> str:
    if here is None or there is None:
        return NOTHING
    return f"{here - there:+.3f}".replace("-", "−")


def _restoration(comparison: Comparison) -> list[Table]:
    entries = comparison.entries
    runs = [(entry.name, entry.run) for entry in entries if entry.run]
    arms = [(entry.name, run) for entry in entries for run in entry.arms]
    return restoration(comparison.facts, comparison.suite, comparison.source, runs, arms)


TABLES: Mapping[str, Callable[[Comparison], list[Table]]] = {
    "forerunner": forerunner,
    "banana100": banana100,
    "restoration": _restoration,
    "pico": pico,
}
