"""Compare the tables of a published paper (fixtures/papers) with a site's runs."""

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
    """A model of a paper, and its run on our suite if there is one."""

    #: The paper's name of the model; empty for a model that is not in the paper.
    paper_name: str
    model: Json
    run: Json | None
    #: The model's runs in experiments on the suite, each with other settings.
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
        """Return the mean value of a metric after `trip` trips, in the metric's usual unit."""
        standing = self.standing(metric)
        shown = (standing["curve"].get("shown") or []) if standing else []
        return shown[trip] if trip < len(shown) else None


@dataclass(frozen=True)
class Comparison:
    """The facts of a paper, and our results for its models."""

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
    """Write the comparison; return a message about runs and files."""
    check_folder(folder, TEXT)
    comparison = compare(source, read_facts(paper), list(models), suite)
    document(comparison, TABLES[paper](comparison)).write(folder, TEXT)
    lines = [
        f"{entry.paper_name or entry.name}: {entry.status}"
        + ("." if entry.run else f"; a run would take {entry.estimate}.")
        for entry in comparison.entries
    ]
    return "\n".join([*lines, f"{folder}: {TEXT}, index.html, tables/*.csv."])


def compare(source: Source, facts: Json, models: Sequence[str] = (), suite: str = "") -> Comparison:
    """Find the run of every model of the paper, or of `models` by slug."""
    key = source.suite(suite or facts["suite"])["key"]
    core = Suite.from_dict(source.definition(key))
    names = {slug: name for name, slug in facts["models"].items()}
    entries = [
        _entry(source, core, slug, names.get(slug, ""), required=bool(models))
        for slug in models or names
    ]
    return Comparison(facts, core, [entry for entry in entries if entry], source)


def _entry(
    source: Source, suite: Suite, slug: str, paper_name: str, *, required: bool
) -> Entry | None:
    model = source.model(slug)
    if model is None:
        if required:
            raise DocumentError(f"the site has no editing model {slug}")
        model = {"slug": slug, "name": paper_name, "price_per_edit": None}
    runs = [run for run in source.runs(slug, suite.key) if run["state"] == "finished"]
    plain = sorted((run for run in runs if not run["arm"]), key=lambda r: (r["current"], r["id"]))
    price = model["price_per_edit"]
    return Entry(
        paper_name,
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
        title=f"{facts['title']}, compared with ConvergeBench",
        abstract=f"The results of {cited}, compared with results on {suite.key} by method version "
        f"{METHOD_VERSION}. {len(comparison.measured)} of {len(entries)} models were measured.",
        sections=[
            Section(
                "Settings",
                [
                    Table(
                        "settings",
                        "Settings of the paper and of this benchmark",
                        ["Setting", "Paper", "Here"],
                        [list(map(str, row)) for row in facts["settings"]],
                    )
                ],
            ),
            Section(
                "Runs",
                [
                    Table(
                        "runs",
                        "Runs on this site, and the estimated effort of a run",
                        ["Model", "Name in the paper", "Here", "Estimate"],
                        [
                            [
                                entry.name,
                                entry.paper_name or NOTHING,
                                entry.status,
                                str(entry.estimate),
                            ]
                            for entry in entries
                        ],
                    )
                ],
            ),
            Section("Tables", list(tables)),
            Section(
                "Reproduction",
                [
                    Paragraph("The suite is frozen; its content hash is"),
                    Verbatim(suite.content_hash),
                ],
            ),
        ],
    )


def forerunner(comparison: Comparison) -> list[Table]:
    """Compare mean scores after each round trip."""
    published: dict[tuple[str, str, int], float] = {
        (figure["model"], figure["metric"], figure["trip"]): figure["value"]
        for figure in comparison.source.published_figures()
        if figure["source"] == comparison.facts["figures"]
    }
    ours = {entry.paper_name: entry for entry in comparison.measured if entry.paper_name}
    lines = []
    for (model, metric, trip), value in sorted(published.items()):
        here = ours[model].own_value(metric, trip) if model in ours else None
        lines.append(
            [_scored(model, metric, trip), f"{value:.3f}", _number(here), _difference(here, value)]
        )
    for entry in comparison.measured:
        if not entry.paper_name:
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
            "Mean score after each number of round trips, published and measured here",
            ["Model, metric", "Published", "Here", "Difference"],
            lines,
            note="Images and edits differ, and the paper does not check if edits were made. So a "
            "difference does not mean that one of the two results is wrong.",
        ),
        _usable_by_ssim(comparison),
    ]


def _scored(model: str, metric: str, trip: int) -> str:
    return f"{model}, {formatting.metric_label(metric)}, {formatting.after_trips(trip)}"


def _usable_by_ssim(comparison: Comparison) -> Table:
    """Compare usable trips by SSIM: of the paper's scores, if imported, and of our runs."""
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
        "Usable trips by SSIM: the paper's scores by our method, and our runs",
        ["Model", "Paper's scores", "Our run"],
        [*theirs, *ours],
        note=""
        if theirs
        else "The paper's scores are not on this site: run manage.py import_results "
        "edit-converge-bench.",
    )


def banana100(comparison: Comparison) -> list[Table]:
    """Compare the paper's verdict on each no-reference metric with the cases counted here."""
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
        [
            f"{entry.name}, {metric_numbers.get('label', name)}",
            *(_gap(metric_numbers, n) for n in BANANA_TRIPS),
        ]
        for entry, numbers in quality
        for name, metric_numbers in numbers.items()
    ]
    published = facts["brisque"]
    brisque = [
        [
            "As published (one image)",
            f"{published['first']:g}",
            f"{published['then']:g}",
            f"{published['then'] - published['first']:+.1f}",
        ],
        *(
            [entry.name, *_change(numbers["brisque"], published["after"])]
            for entry, numbers in quality
            if "brisque" in numbers
        ),
    ]
    return [
        Table(
            "metrics",
            "Which metrics rate images after 5, 10 and 20 steps as worse in every case",
            ["Metric", "Usual range", "Better", "Paper", *(entry.name for entry, _ in quality)],
            verdicts,
            note="The last columns count the cases that the metric rates, after each of these "
            "trips, as worse than the first restored image. BRISQUE, NIQE and PIQE run here; other "
            "metrics need a score file (convergebench score --import).",
        ),
        Table(
            "gaps",
            "Mean change of a metric since the first restored image, in points of its usual range",
            ["Model, metric", *(f"Step {n}" for n in BANANA_TRIPS)],
            gaps,
            note="Above 0 the metric rates the damaged image as better. In the paper this happens "
            "for each of its 21 metrics.",
        ),
        Table(
            "brisque",
            f"BRISQUE of the source and after {published['after']} steps (lower should be better)",
            ["Model", "Source", f"Step {published['after']}", "Change"],
            brisque,
            note=f"In the paper: {published['where']}.",
        ),
    ]


def _quality(entry: Entry, trips: int) -> Mapping[str, Any]:
    """Return the statistics of the no-reference metrics on a run."""
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
            {
                name: [values.get(n) for n in range(max(values) + 1)]
                for name, values in by_metric.items()
            },
            [],
        )
        for (case, _), by_metric in chains.items()
    ]
    return no_reference_numbers(by_chain, trips, pinned)


def _noticed(numbers: Mapping[str, Any] | None, trips: int) -> str:
    """Format cases rated worse than the first restored image: "at 5: 3 of 12, at 10: 4 of 12"."""
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


def _change(numbers: Mapping[str, Any], trip: int) -> list[str]:
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
    """Compare the share of good edits by type, published and measured here."""
    pairs = {pair.slug: pair.type for pair in comparison.suite.pairs}
    measured = [(entry, _made_by_type(entry, pairs)) for entry in comparison.measured]
    lines = []
    for kind in sorted(TYPES.values(), key=lambda kind: -(kind.success or 0)):
        if kind.success is None and kind.key not in pairs.values():
            continue
        cells = [
            kind.title,
            NOTHING if kind.success is None else f"{kind.success:.4f}",
            str(sum(key == kind.key for key in pairs.values())),
        ]
        for _, made in measured:
            here = made.get(kind.key)
            cells += [_number(here), _difference(here, kind.success)]
        lines.append(cells)
    heads = [head for entry, _ in measured for head in (entry.name, "Difference")]
    return [
        Table(
            "types",
            "Share of good edits by type: published for Nano Banana, and measured here",
            ["Type of edit", "Published", "Pairs here", *heads],
            lines,
            note="Measured here: the share of forward edits that were made, as a mean over the "
            "pairs of the type. Witnesses (programs such as an object detector) decide if they can "
            "recognise the edit, otherwise pixels decide. The paper publishes nine of its 35 types.",
        ),
        Table(
            "composition",
            "Composition of the data set",
            ["Part", "Size", "Share"],
            [list(map(str, row)) for row in comparison.facts["composition"]],
            note="This cannot be measured here. manage.py export_results dataset exports our "
            "chains as preferences and sequences.",
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


def _difference(here: float | None, published: float | None) -> str:
    if here is None or published is None:
        return NOTHING
    return f"{here - published:+.3f}".replace("-", "−")


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
