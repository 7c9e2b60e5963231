"""A report of one or several runs of a suite: one self-contained HTML page."""

from __future__ import annotations

import base64
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from evaluation import __version__
from evaluation.analysis.dynamics import dynamics, summarise_dynamics
from evaluation.analysis.events import COMPLETED, event
from evaluation.analysis.half_life import Summary, breakdown, case_summaries, shown_half_life
from evaluation.analysis.ranking import Placing
from evaluation.analysis.survival import Survival
from evaluation.analysis.thresholds import life, named
from evaluation.cli.report import charts
from evaluation.cli.results import compare_runs, interval_text
from evaluation.content.suites import Suite, ticks
from evaluation.errors import UserFacingError
from evaluation.images import EncodedImage, thumbnail
from evaluation.measuring.calibration import jpeg_equivalent
from evaluation.metrics import in_order, metric_class, semantic_metrics
from evaluation.play.run_scores import ChainScores, RunScores

THUMBNAIL = 208
STRIPS = 6


@dataclass(frozen=True)
class ReportedRun:
    """One run of the report, with functions that return its images."""

    name: str
    scores: RunScores
    header: Mapping[str, Any]
    source: Any  # (chain slug) -> EncodedImage
    trip: Any  # (chain slug, number) -> (Image | None, Image)


class Report:
    """The report page; `write` puts it into a folder."""

    def __init__(
        self,
        suite: Suite,
        runs: Sequence[ReportedRun],
        experiment: Mapping[str, Any] | None = None,
    ) -> None:
        """Prepare the report; `experiment` is given if the runs are its arms."""
        self.suite, self.runs, self.experiment = suite, _with_unique_names(runs), experiment

    def write(self, folder: Path) -> Path:
        """Write index.html and the charts as PNG; return the page's path."""
        from jinja2 import Environment, PackageLoader, StrictUndefined

        folder.mkdir(parents=True, exist_ok=True)
        for name, chart in self.chart_by_name.items():
            (folder / f"{name}.png").write_bytes(chart.png)
        environment = Environment(
            loader=PackageLoader("evaluation.cli.report", "."),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters |= {"number": _number, "percent": _percent, "lasts": self._lasts}
        page = environment.get_template("page.html").render(self.context())
        (folder / "index.html").write_text(page, encoding="utf-8")
        return folder / "index.html"

    # The parts of the page.

    def context(self) -> dict[str, Any]:
        return {
            "version": __version__,
            "life": life(),
            "damaged": named(),
            "report": self,
            "suite": self.suite,
            "runs": self.runs,
            "experiment": self.experiment,
            "metric": metric_class(self.metric),
            "ticks": ticks(self.suite.trips),
        }

    @property
    def title(self) -> str:
        if self.experiment:
            return str(self.experiment["title"])
        names = [run.name for run in self.runs]
        what = names[0] if len(names) == 1 else f"{len(names)} editors"
        return f"{what} on {self.suite.title}"

    @cached_property
    def metrics(self) -> list[str]:
        """The metrics that every run has, the headline metric first."""
        shared = set.intersection(*(set(run.scores.metrics) for run in self.runs))
        return in_order(shared)

    @property
    def metric(self) -> str:
        """The first metric with results for every run."""
        if not self.placings:
            raise UserFacingError(
                "there is nothing to report: no metric could be computed for these chains "
                "(is a source image a single colour?)"
            )
        return next(iter(self.placings))

    @cached_property
    def placings(self) -> dict[str, list[Placing]]:
        """The placings of all runs by each shared metric, in the board's order."""
        scores = {run.name: run.scores for run in self.runs}
        by_metric = {metric: compare_runs(self.suite, scores, metric) for metric in self.metrics}
        return {metric: placings for metric, placings in by_metric.items() if placings}

    def placing(self, metric: str, run: ReportedRun) -> Placing:
        """Return the placing of a run by a metric."""
        return next(placing for placing in self.placings[metric] if placing.run == run.name)

    @property
    def semantic(self) -> str | None:
        """The first semantic metric (of contents, not pixels) with results for every run."""
        return next((name for name in semantic_metrics() if name in self.placings), None)

    @property
    def board(self) -> list[tuple[ReportedRun, Placing]]:
        """The runs in the board's order."""
        by_name = {run.name: run for run in self.runs}
        return [(by_name[placing.run], placing) for placing in self.placings[self.metric]]

    def label(self, metric: str) -> str:
        return metric_class(metric).label

    def interval(self, placing: Placing) -> str:
        return interval_text(placing.bounds.half_life, self.suite.trips)

    def outcomes(self, placing: Placing) -> str:
        """Count the chains that did not complete, by outcome."""
        outcomes = placing.summary.outcomes.items()
        broken = [f"{count} {name}" for name, count in outcomes if count and name != COMPLETED]
        return ", ".join(broken) or ("all completed" if placing.complete else "incomplete")

    def colour(self, run: ReportedRun) -> str:
        return charts.COLOURS[self.runs.index(run) % len(charts.COLOURS)]

    def _lasts(self, half_life: float | None) -> str:
        return shown_half_life(half_life, self.suite.trips)

    @cached_property
    def chart_by_name(self) -> dict[str, charts.Chart]:
        chart_by_name = {
            "retention": charts.retention(
                self._lines(self.metric), metric_class(self.metric).label
            ),
            "survival": charts.survival(self._lines(self.metric)),
        }
        if len(self.placings) > 1:  # small multiples of a single metric would repeat the chart
            lines = [(metric_class(name).label, self._lines(name)) for name in self.placings]
            chart_by_name["metrics"] = charts.by_metric(lines)
        return chart_by_name

    def parts(self) -> list[tuple[str, str, str, Summary]]:
        """Return (grouping, group, run, summary) for each category, kind of image and origin."""
        rows = []
        for run in self.runs:
            chains = run.scores.results(self.suite, self.metric)
            for scope, summary in breakdown(chains, self.suite.trips).items():
                kind, _, value = scope.partition(":")
                if kind not in ("all", "pair"):
                    rows.append((kind, value, run.name, summary))
        return sorted(rows, key=lambda row: row[:3])

    # Strips.

    def strips(self) -> Iterator[dict[str, Any]]:
        """Yield images of some cases, from the first run's worst case to its best."""
        chains = self.runs[0].scores.results(self.suite, self.metric)
        cases = case_summaries(chains, self.suite.trips)
        count = min(STRIPS if len(self.runs) == 1 else STRIPS // 2, len(cases))
        spread = {round(i * (len(cases) - 1) / max(1, count - 1)) for i in range(count)}
        for index in sorted(spread):
            case = cases[index]
            slug = f"{case.image}--{case.pair}"
            pair = self.suite.pair_by_slug[case.pair]
            yield {
                "title": self.suite.image_by_slug[case.image].title,
                "forward": pair.forward,
                "backward": pair.backward,
                "shape": [s.prompt for trip in pair.cycle for s in trip.steps]
                if pair.shape
                else [],
                "rows": [row for run in self.runs if (row := self._strip(run, slug))],
            }

    def _strip(self, run: ReportedRun, slug: str) -> dict[str, Any] | None:
        chain = run.scores.chains.get(slug)
        if chain is None:
            return None
        retention = run.scores.retention(chain, self.metric) or ()
        cells = [_cell("source", run.source(slug), "")]
        for number in (n for n in ticks(self.suite.trips) if n <= len(chain.trips)):
            edited, *between, restored = run.trip(slug, number)
            if number == 1 and edited is not None:
                cells.append(_cell("edited", edited, _change_note(chain, 1)))
                cells += [_cell(f"step {k}", p, "") for k, p in enumerate(between, start=2) if p]
            cells.append(_cell(f"after {number}", restored, _number(retention[number - 1], 2)))
        ending = "" if chain.outcome in (COMPLETED, "") else f"{chain.outcome} at the next edit"
        return {"run": run.name, "cells": cells, "ending": ending}

    # Facts.

    def signs(self, run: ReportedRun) -> list[str]:
        """Return the first signs that answers are not honest edits."""
        chains = run.scores.chains.items()
        return [f"{slug}: {sign}" for slug, chain in chains for sign in chain.signs[:2]][:12]

    def _lines(self, metric: str) -> list[charts.Line]:
        """Return the runs in the given order, so that colours stay the same."""
        by_run = {placing.run: placing for placing in self.placings[metric]}
        return [
            charts.Line(
                run.name,
                by_run[run.name].summary,
                by_run[run.name].bounds,
                self._survival(run, metric).steps(),
            )
            for run in self.runs
        ]

    def _survival(self, run: ReportedRun, metric: str) -> Survival:
        trips = self.suite.trips
        chains = [c for c in run.scores.results(self.suite, metric) if c.played]
        return Survival.of(chains, [event(chain, trips) for chain in chains], trips)

    def regime(self, run: ReportedRun) -> str:
        """Return the most frequent regime of the run's chains, such as a fixed point."""
        scores = run.scores
        by_chain = []
        for chain in scores.chains.values():
            if chain.trips:
                retention = scores.retention(chain, self.metric)
                last = retention[-1] if retention else None
                by_chain.append(dynamics(*chain.steps_and_end, last))
        if not by_chain:
            return "–"
        regimes = summarise_dynamics(by_chain).regimes
        return max(regimes, key=lambda regime: regimes[regime])

    def jpeg_quality(self, run: ReportedRun, metric: str, number: int) -> str:
        """Return the JPEG quality that loses as much, as the median over chains."""
        qualities = []
        for chain in run.scores.chains.values():
            distances = chain.distances.get(metric)
            calibration = run.scores.images[chain.image].get(metric)
            if distances and calibration and len(distances) >= number:
                quality = jpeg_equivalent(distances[number - 1], calibration.ladder)
                if quality is not None:
                    qualities.append(quality)
        if not qualities:
            return "–"
        median = statistics.median(qualities)
        return "< 1" if median < 1 else f"{median:.0f}"


def _with_unique_names(runs: Sequence[ReportedRun]) -> list[ReportedRun]:
    """Append a number to the names of runs that have the same name."""
    names: dict[str, int] = {}
    renamed = []
    for run in runs:
        names[run.name] = names.get(run.name, 0) + 1
        number = names[run.name]
        name = run.name if number == 1 else f"{run.name} ({number})"
        renamed.append(ReportedRun(name, run.scores, run.header, run.source, run.trip))
    return renamed


def _cell(label: str, image: EncodedImage, note: str) -> dict[str, str]:
    data = base64.b64encode(thumbnail(image.decoded, THUMBNAIL)).decode()
    return {"label": label, "note": note, "src": f"data:image/webp;base64,{data}"}


def _change_note(chain: ChainScores, number: int) -> str:
    verdict = chain.trips[number - 1].change_seen
    return "" if verdict is None else ("change seen" if verdict else "no change")


def _number(value: float | None, digits: int) -> str:
    # Adding 0 turns a rounded -0.0 into 0.
    return "–" if value is None else f"{round(value, digits) + 0.0:.{digits}f}"


def _percent(value: float | None) -> str:
    return "not judged" if value is None else f"{value:.0%}"
