"""The report's charts, as PNG files and as SVG inside the page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.analysis.half_life import Summary
from evaluation.analysis.ranking import Bounds
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD

# Okabe and Ito's palette for colour-blind readers; markers and dashes differ too.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f6a3f", "#5e6a6e")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)))
INK = "#1b2326"
SIZE = (5.6, 3.6)  # inches
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.12,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.fonttype": "none",
    "svg.hashsalt": "convergebench",
}


@dataclass(frozen=True)
class Line:
    """One run in a chart."""

    name: str
    summary: Summary
    bounds: Bounds
    #: Trip numbers, and the share of cases that are still usable after each trip.
    survival: tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True)
class Chart:
    """A chart in two file formats."""

    png: bytes
    svg: str


def retention(lines: Sequence[Line], metric: str) -> Chart:
    """Draw the mean retention after each trip, with its interval."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        _retention(axes, lines)
        axes.set_ylabel(f"retention ({metric})")
        axes.set_xlabel("round trips")
        _legend(axes, lines)

    return _chart(draw, SIZE)


def survival(lines: Sequence[Line]) -> Chart:
    """Draw the share of cases that are still usable after each trip."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        trips = lines[0].summary.trips
        for index, line in enumerate(lines):
            axes.plot(*line.survival, label=line.name, drawstyle="steps-post", **_line_style(index))
        _frame(axes, trips, marked=0.5)
        axes.set_ylim(-0.02, 1.04)
        axes.set_ylabel("share of cases still usable")
        axes.set_xlabel("round trips")
        _legend(axes, lines)

    return _chart(draw, SIZE)


def by_metric(lines_by_metric: Sequence[tuple[str, Sequence[Line]]]) -> Chart:
    """Draw the retention by every metric as small multiples."""
    columns = 3
    rows = -(-len(lines_by_metric) // columns)

    def draw(figure: Any) -> None:
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
        for axes, (metric, lines) in zip(grid, lines_by_metric, strict=False):
            _retention(axes, lines, small=True)
            axes.set_title(metric)
        for axes in grid[len(lines_by_metric) :]:
            axes.set_visible(False)
        if len(lines_by_metric[0][1]) > 1:
            handles, names = grid[0].get_legend_handles_labels()
            figure.legend(handles, names, loc="outside lower center", ncols=4)

    return _chart(draw, (9.6, 2.3 * rows + 0.4))


def _retention(axes: Any, lines: Sequence[Line], small: bool = False) -> None:
    trips = lines[0].summary.trips
    lowest = 0.0
    for index, line in enumerate(lines):
        numbers, values = zip(
            *((n, q) for n, q in enumerate(line.summary.curve) if q is not None), strict=True
        )
        style = _line_style(index)
        axes.plot(
            numbers,
            values,
            label=line.name,
            marker=MARKERS[index % len(MARKERS)],
            markersize=2.5 if small else 4,
            **style,
        )
        lowest = min(lowest, *values)
        band = [(n, b.low, b.high) for n, b in enumerate(line.bounds.curve or ()) if b]
        if band:
            axes.fill_between(
                [n for n, _, _ in band],
                [low if low is not None else float("nan") for _, low, _ in band],
                [high if high is not None else float("nan") for _, _, high in band],
                color=style["color"],
                alpha=0.13,
                linewidth=0,
            )
    _frame(axes, trips, marked=DEFAULT_THRESHOLD)
    # Values far below 0 carry no information, and would compress the scale.
    axes.set_ylim(max(lowest, -0.5) - 0.05, 1.04)


def _frame(axes: Any, trips: int, marked: float) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlim(0, trips)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=10))
    axes.grid(axis="y")
    axes.axhline(marked, color=INK, linewidth=0.9, linestyle=(0, (2, 2)), alpha=0.55)


def _line_style(index: int) -> dict[str, Any]:
    return {
        "color": COLOURS[index % len(COLOURS)],
        "linestyle": DASHES[(index // len(COLOURS)) % len(DASHES)],
        "linewidth": 1.8,
    }


def _legend(axes: Any, lines: Sequence[Line]) -> None:
    if len(lines) > 1:
        handles, names = axes.get_legend_handles_labels()
        axes.figure.legend(handles, names, loc="outside lower center", ncols=3)


def _chart(draw: Callable[[Any], None], size: tuple[float, float]) -> Chart:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    png, svg = io.BytesIO(), io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        figure.savefig(png, format="png", dpi=160, facecolor="white")
        figure.savefig(
            svg,
            format="svg",
            transparent=True,
            metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")),
        )
    return Chart(png.getvalue(), _inline(svg.getvalue()))


def _inline(svg: str) -> str:
    """Make the SVG scalable, with the page's text colour as ink."""
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    return re.sub(r'(<svg[^>]*?) width="[^"]*"', r'\1 role="img"', svg, count=1).replace(
        ' height="', ' data-height="', 1
    )
