"""Draw the report's figures as vector graphics: PDF for LaTeX, SVG for HTML."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluation.analysis.events import CAUSES
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD
from evaluation.cli.report.charts import COLOURS, DASHES, INK, MARKERS, STYLE
from evaluation.errors import UserFacingError
from tools.papers.source import Json

GREY = "#8a9396"
#: How many curves of models, curves of reference editors, and bars remain readable in one figure.
MAX_CURVES, MAX_REFERENCES, MAX_BARS = 8, 4, 30
WIDTH = 6.4  # inches
#: How many letters of a name fit next to a figure.
LONGEST_NAME = 36


class DrawingError(UserFacingError):
    """Figures cannot be drawn on this machine."""


def curves(rows: Sequence[Json], references: Sequence[Json], trips: int) -> Any:
    """Draw the retention after each round trip with its interval; reference editors in thin grey."""
    figure, axes = _axes(3.8)
    handles, names = [], []
    for place, row in enumerate(rows[:MAX_CURVES]):
        colour = COLOURS[place % len(COLOURS)]
        curve = row["standing"]["curve"]
        numbers, mean = _points(curve.get("mean"))
        (line,) = axes.plot(
            numbers,
            mean,
            color=colour,
            linestyle=DASHES[place % len(DASHES)],
            marker=MARKERS[place % len(MARKERS)],
            markersize=4,
            linewidth=1.6,
            markevery=max(1, trips // 5),
        )
        low, high = _points(curve.get("low")), _points(curve.get("high"))
        if low[0] == high[0] == numbers:
            axes.fill_between(numbers, low[1], high[1], color=colour, alpha=0.14, linewidth=0)
        handles.append(line)
        names.append(row["model"]["name"])
    for place, row in enumerate(references[:MAX_REFERENCES]):
        numbers, mean = _points(row["standing"]["curve"].get("mean"))
        dash = DASHES[place % len(DASHES)]
        (line,) = axes.plot(numbers, mean, color=GREY, linestyle=dash, linewidth=1)
        handles.append(line)
        names.append(f"{row['model']['name']} (reference editor)")
    axes.axhline(DEFAULT_THRESHOLD, color=INK, linewidth=0.7, linestyle=":")
    axes.set(xlim=(0, trips), ylim=(-0.1, 1.03), xlabel="round trips", ylabel="retention")
    axes.grid(visible=True)
    _legend(figure, handles, names)
    return figure


def lasting(rows: Sequence[Json], trips: int) -> Any:
    """Draw the usable trips of each row with their interval."""
    shown = rows[:MAX_BARS]
    figure, axes = _axes(0.9 + 0.26 * len(shown))
    for place, row in enumerate(shown):
        standing = row["standing"]
        colour = GREY if row["model"]["is_reference"] else COLOURS[0]
        if standing["has_interval"]:
            ends = [standing["usable_trips_low"], standing["usable_trips_high"]]
            axes.plot(ends, [place, place], color=colour, linewidth=1.6)
        axes.plot([standing["usable_trips"]], [place], marker="o", color=colour, markersize=5)
    axes.set(xlim=(0, trips), ylim=(len(shown) - 0.4, -0.6), xlabel=f"usable trips of {trips}")
    _named(axes, shown)
    axes.grid(visible=True, axis="x")
    return figure


def causes(rows: Sequence[Json]) -> Any:
    """Draw the share of chains ended by each cause."""
    shown = [row for row in rows if row["standing"]["counts"].get("chains")][:MAX_BARS]
    figure, axes = _axes(1.2 + 0.26 * len(shown))
    left = [0.0] * len(shown)
    handles, names = [], []
    for place, (name, words) in enumerate(CAUSES.items()):
        shares = [
            (counts.get("causes") or {}).get(name, 0) / counts["chains"]
            for row in shown
            for counts in [row["standing"]["counts"]]
        ]
        if not any(shares):
            continue
        bars = axes.barh(
            range(len(shown)), shares, left=left, color=COLOURS[place % len(COLOURS)], height=0.7
        )
        left = [before + share for before, share in zip(left, shares, strict=True)]
        handles.append(bars)
        names.append(words)
    axes.set(xlim=(0, 1), ylim=(len(shown) - 0.4, -0.6), xlabel="share of chains ended")
    _named(axes, shown)
    _legend(figure, handles, names)
    return figure


def save(figure: Any, folder: Path, name: str) -> None:
    """Save a figure reproducibly as NAME.pdf and NAME.svg."""
    import matplotlib as mpl

    for text in figure.findobj(mpl.text.Text):
        text.set_parse_math(False)  # names are untrusted
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        figure.savefig(folder / f"{name}.svg", bbox_inches="tight", metadata={"Date": None})
    with mpl.rc_context(STYLE | {"pdf.fonttype": 42}):
        figure.savefig(folder / f"{name}.pdf", bbox_inches="tight", metadata={"CreationDate": None})


def _axes(height: float) -> tuple[Any, Any]:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise DrawingError(
            "the figures need matplotlib: pip install 'convergebench[worker]'"
        ) from None
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        return figure, figure.subplots()


def _points(values: Sequence[float | None] | None) -> tuple[list[int], list[float]]:
    points = [(n, value) for n, value in enumerate(values or ()) if value is not None]
    return [n for n, _ in points], [value for _, value in points]


def _named(axes: Any, rows: Sequence[Json]) -> None:
    axes.set_yticks(range(len(rows)), [_short(row["model"]["name"]) for row in rows])


def _legend(figure: Any, handles: Sequence[Any], names: Sequence[str]) -> None:
    """Write names below the figure, as texts: matplotlib leaves out labels that begin with _."""
    if not handles:
        return
    legend = figure.legend(
        handles, ["-"] * len(handles), loc="outside lower center", ncols=2, frameon=False
    )
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_text(_short(name))
        text.set_parse_math(False)


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
