"""Charts as plotly figures in plain dicts, and small inline SVG drawings.

Colours are written as `var(--name)` or `var(--name / 0.2)`. static/js/chart.js
replaces them by the stylesheet's colours, so that one figure serves the light
and the dark theme. Names are untrusted: `plain` escapes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape, unescape
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString

from evaluation.analysis.comparison import Difference
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD, named
from evaluation.content.suites import ticks
from leaderboard import formatting
from leaderboard.models import Standing

Figure = dict[str, Any]

COLOURS = 8
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
REFERENCE_DASHES = ("dot", "longdash", "dashdot", "dash")
#: The name of the annotations that chart.js moves into the plot if the chart is narrow.
END_NAME = "end name"
#: Height of a name, and the distance of a name from the line below it, in units of retention.
NAME_HEIGHT, ABOVE = 0.05, 0.025
NAME_AND_TEXT = "<b>%{fullData.name}</b><br>%{text}<extra></extra>"
MARKERS = ("circle", "square", "diamond", "triangle-up", "x", "triangle-down", "cross")


@dataclass(frozen=True)
class Table:
    """The numbers of a chart as a table, for screen readers and copying."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Source:
    """The source of published numbers."""

    text: str
    url: str


@dataclass(frozen=True)
class Chart:
    """A figure whose title is its finding, with its numbers as a table; see _chart.html."""

    id: str
    title: str
    figure: Figure
    table: Table
    subtitle: str = ""
    height: str = field(default="tall")  # "tall" or "short": space reserved for the figure
    sources: Sequence[Source] = ()
    #: Caption of a downloaded image: suite, metric and date.
    about: str = ""
    #: File name of a downloaded image; the id if empty.
    file_name: str = ""


@dataclass(frozen=True)
class Curve:
    """Mean retention of a model at n = 0..N, with its band."""

    name: str
    mean: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    reference: bool = False
    hidden: bool = False

    @classmethod
    def from_json(cls, name: str, curve: dict[str, Any], **flags: bool) -> Curve:
        """Build a curve from the JSON of `Standing.curve`."""
        low, high = curve.get("low", ()), curve.get("high", ())
        return cls(name, curve.get("mean", ()), low, high, **flags)

    @property
    def visibility(self) -> Figure:
        return {"visible": "legendonly"} if self.hidden else {}

    def bounds(self, number: int) -> tuple[float | None, float | None]:
        return value_after(self.low, number), value_after(self.high, number)


def retention_chart(
    curves: Sequence[Curve], trips: int, *, first: str = "Model", **about: Any
) -> Chart:
    """Return the curves as a chart. Without a given title, the title is their finding.

    `first` is the head of the table's first column.
    """
    return Chart(
        **{"id": "curves", "title": retention_finding(curves, trips), **about},
        figure=retention_curves(curves, trips),
        table=retention_table(curves, trips, first),
    )


def retention_curves(curves: Sequence[Curve], trips: int) -> Figure:
    """Return retention by trip: a line and band per curve; those of reference editors are grey."""
    traces: list[Figure] = []
    series = references = 0
    for curve in curves:
        if curve.reference:
            # The lines of reference editors are all grey; only their dashes differ.
            dash = REFERENCE_DASHES[references % len(REFERENCE_DASHES)]
            traces.append(_line(curve, "var(--ink-3)", dash, MARKERS[0], 1.6))
            references += 1
            continue
        colour = series_colour(series)
        # Hues repeat after 8 curves, dashes after 5, markers after 7: no two of 280 look alike.
        dash, marker = DASHES[series % len(DASHES)], MARKERS[series % len(MARKERS)]
        band = _band(curve, series_colour(series, 0.14))
        traces += [band] if band else []
        traces.append(_line(curve, colour, dash, marker, 2.2))
        series += 1
    lowest = min((value for c in curves for value in c.mean if value is not None), default=0)
    return {
        "data": traces,
        "layout": layout(
            # Space at the right for the names at the ends of lines.
            xaxis=trips_axis(trips, 1.16),
            yaxis={
                "title": {"text": "image kept (higher is better)"},
                "tickformat": ".0%",
                # A blank card has a retention of 0, and a worse image is below 0. The axis shows that a
                # value is below 0, but not how far.
                "range": [max(-0.25, min(0, lowest)) - 0.03, 1.03],
            },
            meta={"narrowEnd": trips * 1.02},
            shapes=[threshold_line(0, "solid"), threshold_line(DEFAULT_THRESHOLD, "dot")],
            annotations=_end_names(
                [
                    # These names are above their lines, which continue to the right edge.
                    (ABOVE, "a blank card"),
                    (DEFAULT_THRESHOLD + ABOVE, named()),
                    *((value_after(c.mean, trips) or 0, c.name) for c in curves if c.reference),
                ],
                trips,
            ),
        ),
    }


def series_colour(index: int, opacity: float | None = None) -> str:
    """Return the colour of the curve with this index, in the form that chart.js reads."""
    return f"var(--series-{index % COLOURS + 1}{f' / {opacity:g}' if opacity else ''})"


def retention_finding(curves: Sequence[Curve], trips: int) -> str:
    """Return a title: retention of the best and the worst model at the trip where they differ most."""
    measured = [curve for curve in curves if any(value is not None for value in curve.mean[1:])]
    if not measured:
        return "How much of the image is kept, trip by trip"

    def kept(curve: Curve, number: int) -> float:
        return max(0, value_after(curve.mean, number) or 0)

    numbers = ticks(trips)
    measured.sort(key=lambda curve: -sum(kept(curve, number) for number in range(trips + 1)))
    best, worst = measured[0], measured[-1]
    if best is worst:
        number, compared = numbers[-1], ""
    else:
        number = max(numbers, key=lambda number: kept(best, number) - kept(worst, number))
        compared = f" and {worst.name} {formatting.percent(kept(worst, number))}"
    share = formatting.percent(kept(best, number))
    start = formatting.after_round_trips(number).capitalize()
    return f"{start}, {best.name} keeps {share} of the image{compared}"


def retention_table(curves: Sequence[Curve], trips: int, first: str = "Model") -> Table:
    """Return the retention of each curve at the trips that tables show (`ticks`)."""
    numbers = ticks(trips)
    rows = [[curve.name, *(_cell(curve, number) for number in numbers)] for curve in curves]
    return trips_table(first, numbers, rows)


def trips_table(first: str, numbers: Iterable[int], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table with the column `first` and a column for each of these trips."""
    return Table([first, *(formatting.after_round_trips(number) for number in numbers)], rows)


@dataclass(frozen=True)
class LegendItem:
    """A button that shows or hides the traces of a group, with their style."""

    group: str
    name: str
    colour: str
    dash: str
    marker: str
    shown: bool


def trips_axis(trips: int, stretch: float = 1.0) -> Figure:
    """Return an axis of round trips: labels at each of up to ten trips, or else at `ticks`."""
    numbers = list(range(trips + 1)) if trips <= 10 else [0, *ticks(trips)]
    return {"title": {"text": "round trips"}, "tickvals": numbers, "range": [0, trips * stretch]}


def trace(name: str, **parts: Any) -> Figure:
    """Return a plotly trace. All traces with one name share a button of the legend."""
    labels = {"name": plain(name), "legendgroup": plain(name)}
    return {"type": "scatter", "mode": "lines", **labels, **parts}


def legend(figure: Figure) -> list[LegendItem]:
    """Return the legend of a figure; empty if it would have only one entry."""
    items = [
        LegendItem(
            group=trace["legendgroup"],
            name=unescape(trace["name"]),
            colour=trace["line"]["color"],
            dash=trace["line"].get("dash", "solid"),
            marker=trace.get("marker", {}).get("symbol", ""),
            shown=trace.get("visible") != "legendonly",
        )
        for trace in figure["data"]
        if trace.get("legendgroup") and trace.get("showlegend", True)
    ]
    return items if len(items) > 1 else []


def layout(**parts: Any) -> Figure:
    """Return the shared layout of every figure, updated by these parts."""
    axis = {
        "fixedrange": True,
        "zeroline": False,
        "gridcolor": "var(--line)",
        "linecolor": "var(--line-2)",
        "tickcolor": "var(--line-2)",
    }
    shared: Figure = {
        "paper_bgcolor": "var(--panel)",
        "plot_bgcolor": "var(--panel)",
        "font": {"color": "var(--ink-2)", "size": 13},
        "margin": {"l": 72, "r": 16, "t": 12, "b": 60},
        "hovermode": "closest",
        "dragmode": False,
        "hoverlabel": {
            "bgcolor": "var(--panel)",
            "bordercolor": "var(--line-2)",
            "font": {"color": "var(--ink)"},
            "align": "left",
        },
        # The page has its own legend, with buttons; a downloaded image has plotly's.
        "showlegend": False,
    }
    for name, value in parts.items():
        if name.startswith(("xaxis", "yaxis")):
            shared[name] = axis | value
        elif isinstance(value, dict) and isinstance(shared.get(name), dict):
            shared[name] = shared[name] | value
        else:
            shared[name] = value
    return shared


def plain(text: str) -> str:
    """Return text escaped for plotly, which interprets a few tags."""
    return escape(text, quote=False)


def rounded(values: Iterable[float | None]) -> list[float | None]:
    """Return the values rounded to four decimals, to save bytes."""
    return [None if value is None else round(value, 4) for value in values]


def _line(curve: Curve, colour: str, dash: str, marker: str, width: float) -> Figure:
    marks = {"mode": "lines+markers", "marker": {"color": colour, "symbol": marker, "size": 6}}
    return trace(
        curve.name,
        y=rounded(curve.mean),
        text=[_hover_text(curve, number) for number in range(len(curve.mean))],
        hovertemplate=NAME_AND_TEXT,
        line={"color": colour, "dash": dash, "width": width},
        **({} if curve.reference else marks),
        **curve.visibility,
    )


def _band(curve: Curve, colour: str) -> Figure | None:
    """Return the band as one outline: the upper bound, then the lower bound reversed."""
    ends = [(n, *curve.bounds(n)) for n in range(len(curve.mean))]
    points = [(n, low, high) for n, low, high in ends if low is not None and high is not None]
    if not points:
        return None
    return trace(
        curve.name,
        showlegend=False,
        hoverinfo="skip",
        x=[n for n, _, _ in points] + [n for n, _, _ in reversed(points)],
        y=rounded([high for _, _, high in points] + [low for _, low, _ in reversed(points)]),
        fill="toself",
        fillcolor=colour,
        line={"width": 0},
        **curve.visibility,
    )


def _hover_text(curve: Curve, number: int) -> str:
    value = curve.mean[number]
    if value is None:
        return formatting.NOT_RUN
    if number == 0:
        return "the source itself"
    return f"{formatting.after_round_trips(number)} {formatting.kept(value, *curve.bounds(number))}"


def _cell(curve: Curve, number: int) -> str:
    value = value_after(curve.mean, number)
    if value is None:
        return formatting.NOT_RUN
    around = formatting.interval(*curve.bounds(number), 100, 0)
    return f"{formatting.percent(value)} ({around})" if around else formatting.percent(value)


def value_after(values: Sequence[float | None], number: int) -> float | None:
    """Return the value after this trip; None if the list ends before it."""
    return values[number] if number < len(values) else None


def threshold_line(y: float, dash: str) -> Figure:
    """Return a thin horizontal line across the whole figure."""
    line = {"color": "var(--ink-3)", "width": 1, "dash": dash}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line}


def _end_names(ends: Iterable[tuple[float, str]], trips: int) -> list[Figure]:
    """Return the names at the ends of lines. Names that would overlap are moved up."""
    names: list[Figure] = []
    lowest = -1.0
    for y, name in sorted(ends):
        y = max(y, lowest)
        lowest = y + NAME_HEIGHT
        names.append(
            {
                "name": END_NAME,
                "text": plain(name),
                "x": trips,
                "xanchor": "left",
                "xshift": 6,
                "y": y,
                "yanchor": "middle",
                "showarrow": False,
                "font": {"size": 12, "color": "var(--ink-3)"},
            }
        )
    return names


WIDTH, HEIGHT = 64, 22


def half_life_bar(standing: Standing, trips: int) -> SafeString:
    """Return the half-life and its interval as a bar on an axis from 0 to N trips.

    If the half-life was not reached, the bar extends to N.
    """

    def position(value: float | None) -> str:
        return _number(100 if value is None else 100 * min(value, trips) / trips)

    end, open_end = position(standing.half_life), " open" if standing.half_life is None else ""
    whisker = ""
    if standing.has_interval:
        low, high = position(standing.half_life_low), position(standing.half_life_high)
        whisker = f"M{low} 5H{high}M{low} 2v6"
        whisker += "" if standing.half_life_high is None else f"M{high} 2v6"
    return format_html(
        '<svg class="bar{}" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        '<path d="M0 1H{}V9H0z"/><path d="{}"/></svg>',
        open_end,
        end,
        whisker,
    )


def sparkline(curve: dict[str, Sequence[float | None]], trips: int) -> SafeString:
    """Return a small curve of retention with its band, with points at the trips of `ticks`."""
    numbers = [0, *ticks(trips)]

    def points(values: Sequence[float | None]) -> list[str]:
        return [
            f"{_number(WIDTH * n / trips)} {_number(HEIGHT * (1 - min(1, max(0, values[n] or 0))))}"
            for n in numbers
            if n < len(values) and values[n] is not None
        ]

    line, low, high = (points(curve.get(name, ())) for name in ("mean", "low", "high"))
    band = f"M{'L'.join([*high, *reversed(low)])}z" if low and high else ""
    mean = {number: kept for number, kept in enumerate(curve.get("mean", ())) if kept is not None}
    last = max(mean, default=0)
    return format_html(
        '<svg class="spark" viewBox="0 0 {} {}" role="img" aria-label="{}">'
        '<path d="{}"/><path d="{}"/></svg>',
        WIDTH,
        HEIGHT,
        f"{formatting.percent(mean[last])} {formatting.after_round_trips(last)}"
        if last
        else "not measured",
        band,
        f"M{'L'.join(line)}" if line else "",
    )


def difference_bar(difference: Difference, span: float) -> SafeString:
    """Return a difference and its interval as a mark on an axis from -span to span."""
    bounds = difference.interval
    low, high = (bounds.low, bounds.high) if bounds else (None, None)

    def position(value: float) -> str:
        return _number(50 + 50 * max(-1, min(1, value / (span or 1))))

    whisker = "" if low is None or high is None else f"M{position(low)} 5H{position(high)}"
    return format_html(
        '<svg class="difference" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        '<path d="M50 0V10"/><path d="{}"/><path d="M{} 1v8"/></svg>',
        whisker,
        position(difference.estimate),
    )


def axis_ticks(trips: int) -> list[int]:
    """Return a few round numbers from 0 to N, for the head of a column of bars."""
    step = next(s for s in (1, 2, 5, 10, 20, 25, 50) if trips / s <= 5)
    return list(range(0, trips + 1, step))


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
