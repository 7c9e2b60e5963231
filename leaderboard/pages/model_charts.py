"""Charts of a model's page: one function each, called by one template tag.

`{% chart "endings_chart" results %}` calls `endings_chart(results)`; None draws nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from evaluation.analysis.events import CAUSES
from evaluation.arms import FLOOR
from evaluation.content.suites import ticks
from evaluation.metrics import HEADLINE, METRICS, MetricError, in_order, metric_class
from leaderboard import formatting
from leaderboard.models import EditingModel, PublishedFigure, Run, Standing
from leaderboard.models.runs import RunState
from leaderboard.models.standings import BoardRecord
from leaderboard.pages.charts import (
    COLOURS,
    DASHES,
    MARKERS,
    NAME_AND_TEXT,
    Chart,
    Curve,
    Figure,
    Source,
    Table,
    layout,
    plain,
    retention_chart,
    rounded,
    trace,
    trips_axis,
    trips_table,
)
from leaderboard.pages.model_page import RunResults
from leaderboard.text import skeleton

# Retention by every metric


def curves_chart(results: RunResults) -> Chart | None:
    """Return retention by every metric; only the chosen metric has its band."""
    if not results.names:
        return None
    trips, standings = results.trips, results.standings
    curves = []
    for name in sorted(results.names, key=lambda name: name != results.metric):
        curve = standings[name].curve
        band = curve if name == results.metric else {"mean": curve.get("mean", ())}
        curves.append(Curve.of(formatting.metric_label(name), band))
    return retention_chart(
        curves,
        trips,
        title=_wears_out_first(standings, trips),
        subtitle="Share of the image kept after each round trip, by each metric, mean over the cases. "
        f"The band is the 95\u00a0% interval of {formatting.metric_label(results.metric)}. "
        "0\u00a0% is a blank card of the image’s mean colour.",
        about=results.about,
        file_name=f"{results.run.editing_model.slug}-{results.run.suite.key}-{results.metric}-curves",
    )


def _wears_out_first(standings: Mapping[str, Standing], trips: int) -> str:
    """Return the most and the least kept part at the last trip, as a title."""
    left = {
        name: max(0, mean[trips] or 0)
        for name in METRICS
        if name in standings and len(mean := standings[name].curve.get("mean", ())) > trips
    }
    if not left:
        return "How much of the image is kept, trip by trip"
    most, least = max(left, key=lambda n: left[n]), min(left, key=lambda n: left[n])
    start = f"{formatting.after(trips).capitalize()}, {formatting.percent(left[most])} is left of"
    if formatting.percent(left[most]) == formatting.percent(left[least]):
        return f"{start} the image, by every metric"
    lasting, gone = (formatting.looks_at(name) or name for name in (most, least))
    return f"{start} {lasting}, {formatting.percent(left[least])} of {gone}"


# How chains end


def endings_chart(results: RunResults) -> Chart | None:
    """Return the share of cases ended by each cause; None if nothing ended."""
    standing, trips = results.standing, results.trips
    incidence: dict[str, Sequence[float | None]] = {
        name: shares for name in CAUSES if any(shares := standing.incidence.get(name) or ())
    }
    if not incidence:
        return None
    numbers = ticks(trips)
    return Chart(
        id="endings",
        title=_ended_most_often(incidence, trips),
        subtitle="Share of the cases that each cause has ended, up to each round trip; what is "
        "above all of them is still usable.",
        figure=_stacked(incidence, trips),
        table=trips_table(
            "Ended because",
            numbers,
            [
                [CAUSES[name], *(formatting.percent(shares[number]) for number in numbers)]
                for name, shares in incidence.items()
            ],
        ),
    )


def _ended_most_often(incidence: Mapping[str, Sequence[float | None]], trips: int) -> str:
    ended = {name: shares[-1] or 0.0 for name, shares in incidence.items()}
    most = max(ended, key=lambda name: ended[name])
    share = formatting.percent(min(1.0, sum(ended.values())))
    return (
        f"{share} of the cases end within {formatting.count(trips, 'round trip')}, "
        f"most often because {CAUSES[most]}"
    )


def _stacked(incidence: Mapping[str, Sequence[float | None]], trips: int) -> Figure:
    # A cause has the same colour on every page.
    colours = {name: f"--series-{place % COLOURS + 1}" for place, name in enumerate(CAUSES)}
    return {
        "data": [
            trace(
                CAUSES[name],
                stackgroup="ended",
                y=rounded(shares),
                hovertemplate="<b>%{fullData.name}</b><br>%{y:.0%} after %{x}<extra></extra>",
                line={"color": f"var({colours[name]})", "width": 1.5},
                fillcolor=f"var({colours[name]} / 0.45)",
            )
            for name, shares in incidence.items()
        ],
        "layout": layout(
            xaxis=trips_axis(trips),
            yaxis={"title": {"text": "cases ended"}, "tickformat": ".0%", "range": [0, 1]},
        ),
    }


# Its past on the board


def past_chart(results: RunResults) -> Chart | None:
    """Return half-life and rank over time; None before any change."""
    model, suite = results.run.editing_model, results.run.suite
    rows = BoardRecord.objects.public().filter(run__editing_model=model, run__suite=suite)
    records = [row for row in rows.order_by("at", "pk") if row.kind != BoardRecord.Kind.LEFT]
    if len(records) < 2:
        return None
    trips = suite.trips
    return Chart(
        id="past",
        title=_rose_or_fell(records, model, suite),
        subtitle=f"Half-life on {suite} with the rank at each change.",
        figure={
            "data": [
                {
                    "type": "scatter",
                    "mode": "lines+markers+text",
                    "x": [row.at.isoformat(timespec="seconds") for row in records],
                    "y": [
                        trips if row.half_life is None else round(row.half_life, 3)
                        for row in records
                    ],
                    "text": [str(row.rank) if row.rank else "–" for row in records],
                    "textposition": "top center",
                    "customdata": [
                        f"rank {row.rank}" if row.rank else "not ranked" for row in records
                    ],
                    "hovertemplate": "%{x|%-d %b %Y}: half-life %{y:.1f}, %{customdata}<extra></extra>",
                    "line": {"color": "var(--series-1)", "shape": "hv", "width": 2},
                    "marker": {"color": "var(--series-1)", "size": 8},
                }
            ],
            "layout": layout(
                xaxis={"type": "date"},
                yaxis={
                    "title": {"text": "half-life in round trips"},
                    "range": [0, 1.15 * trips],
                },
            ),
        },
        table=Table(
            ["Since", "Half-life", "Rank"],
            [
                [
                    f"{row.at:%-d %B %Y}",
                    formatting.half_life(row.half_life, trips),
                    str(row.rank or "–"),
                ]
                for row in records
            ],
        ),
        height="short",
        about=f"{model.name} on {suite}",
    )


def _rose_or_fell(records: Sequence[BoardRecord], name: Any, suite: Any) -> str:
    first, last = records[0], records[-1]
    since = f"since {first.at:%-d %B %Y}"
    if first.rank and last.rank and first.rank != last.rank:
        way = "rose" if last.rank < first.rank else "fell"
        return f"{name} {way} from rank {first.rank} to {last.rank} {since}"
    return f"{name} on {suite} {since}"


# The floor under a local model: its autoencoder alone, which no prompt can beat

#: Models whose weights are at hand.
HAVE_A_FLOOR = (EditingModel.Access.LOCAL, EditingModel.Access.REFERENCE)


def floor_of(results: RunResults, user: Any) -> Standing | None:
    """Return the newest floor of the run's model on the same suite, by the shown metric."""
    run, standing = results.run, results.standing
    if run.editing_model.access not in HAVE_A_FLOOR:
        return None
    floors = Run.objects.visible_to(user).filter(
        editing_model=run.editing_model_id,
        suite=run.suite_id,
        arm_digest=FLOOR.digest,
        state=RunState.FINISHED,
    )
    return (
        Standing.objects.filter(
            run__in=floors, metric=standing.metric_id, threshold=standing.threshold, scope="all"
        )
        .select_related("run")
        .order_by("-run__finished_at", "-run")
        .first()
    )


def floor_sentence(results: RunResults, floor: Standing) -> str:
    """Return how long the autoencoder alone lasts, beside the edits."""
    edited, alone = results.standing.usable_trips, floor.usable_trips
    return (
        f"Its autoencoder alone, without any edit, keeps an image usable for {alone:.1f} of "
        f"{formatting.count(results.trips, 'round trip')}; with edits it is {edited:.1f}. "
        + (
            "No prompt can beat the first number."
            if edited <= alone
            else "The edits are kinder than the passes: they change less of the image."
        )
    )


def floor_chart(results: RunResults, floor: Standing) -> Chart:
    """Return the model's retention beside that of its autoencoder alone."""
    run, standing, trips = results.run, results.standing, results.trips
    name = run.editing_model.name
    curves = [
        Curve.of(name, standing.curve),
        Curve.of(f"floor of {name}", floor.curve),
    ]
    return retention_chart(
        curves,
        trips,
        id="floor",
        title=_lost_by_floor(name, standing.curve, floor.curve, trips),
        subtitle=f"By {formatting.metric_label(standing.metric.name)}. The floor makes no edit: every "
        "step is one pass through the model’s autoencoder. It is never ranked.",
        height="short",
        about=f"{run.suite}, {name}",
        file_name=f"{run.editing_model.slug}-{run.suite.key}-floor",
    )


def _lost_by_floor(
    name: str, edited: Mapping[str, Any], floor: Mapping[str, Any], trips: int
) -> str:
    ends = [curve.get("mean", ())[trips : trips + 1] for curve in (edited, floor)]
    if not all(ends) or None in (ends[0][0], ends[1][0]):
        return f"What the autoencoder of {name} costs on its own"
    lost = [1 - max(0.0, end[0]) for end in ends]
    if lost[0] <= 0:
        return f"{name} loses nothing"
    part = min(1.0, lost[1] / lost[0])
    return (
        f"{formatting.percent(part)} of what {name} loses after "
        f"{formatting.count(trips, 'round trip')} is lost by its autoencoder alone"
    )


# Values published elsewhere, beside ours: context on a metric's own scale, never a rank.
# They are SSIM, dB, LPIPS of other images and other edits. They cannot be turned into a
# retention, which is calibrated on each of our images, so they have a chart of their own.

ELSEWHERE = "published elsewhere"
#: Lines drawn at once, and those the legend can add.
LINES, MORE_LINES = 4, 4
OPEN_MARKERS = ("circle-open", "square-open", "diamond-open", "triangle-up-open")


@dataclass(frozen=True)
class PublishedLine:
    """Published values of a model from one source, by trip."""

    model: str
    source: str
    url: str
    published_on: date | None
    values: Mapping[int, float]

    @property
    def citation(self) -> str:
        """Source and date: "A paper, 1 February 2026"."""
        day = self.published_on
        return f"{self.source}, {day.day} {day:%B %Y}" if day else self.source

    @property
    def name(self) -> str:
        return f"{self.model} ({ELSEWHERE})"


def published_chart(results: RunResults) -> Chart | None:
    """Return the model's values beside published ones; None without any.

    By the chosen metric. If that is our own headline, by the first metric that others published.
    """
    if results.run.suite.published_elsewhere:  # their values come as a suite, too
        return None
    wanted = list(results.standings) if results.metric == HEADLINE else [results.metric]
    by_metric: dict[str, list[PublishedFigure]] = {}
    for value in PublishedFigure.objects.filter(metric__in=wanted):
        by_metric.setdefault(value.metric, []).append(value)
    metric = next(iter(in_order(by_metric)), "")
    # After 0..N trips; nothing is measured at 0.
    values = results.standings[metric].curve.get("shown") if metric else None
    if not values:
        return None
    name, trips, label = (
        results.run.editing_model.name,
        results.trips,
        formatting.metric_label(metric),
    )
    theirs = _published_lines(by_metric[metric], name)
    last = max(trips, *(number for line in theirs for number in line.values))
    traces = [_our_trace(name, values, metric)]
    traces += [_their_trace(line, place, metric) for place, line in enumerate(theirs)]
    return Chart(
        id="published",
        title=f"{label} after each round trip, beside what others published",
        subtitle=f"On the scale of {label} itself. Dotted lines with open marks were published "
        "elsewhere, on other images and other edits: they are context, take no part in any "
        "rank, and are not our measurements.",
        figure={"data": traces, "layout": _published_layout(metric, last)},
        table=_published_table(name, values, theirs, trips, metric),
        sources=[Source(f"{line.model}: {line.citation}", line.url) for line in theirs],
    )


def _published_lines(values: Sequence[PublishedFigure], model: str) -> list[PublishedLine]:
    """Return the lines of a metric; those of `model` first, then the longest."""
    by_source: dict[tuple[str, str], list[PublishedFigure]] = {}
    for value in values:
        by_source.setdefault((value.model_name, value.source), []).append(value)
    lines = [
        PublishedLine(
            name,
            source,
            rows[0].source_url,
            rows[0].published_on,
            {row.trip: row.value for row in rows},
        )
        for (name, source), rows in by_source.items()
    ]
    same = skeleton(model)
    lines.sort(key=lambda line: (skeleton(line.model) != same, -len(line.values), line.model))
    return lines[: LINES + MORE_LINES]


def _our_trace(name: str, values: Sequence[float | None], metric: str) -> Figure:
    colour = "var(--series-1)"
    texts = [formatting.own_value(value, metric) for value in values]
    return _trace(name, range(len(values)), values, texts) | {
        "line": {"color": colour, "dash": DASHES[0], "width": 2.2},
        "marker": {"color": colour, "symbol": MARKERS[0], "size": 6},
    }


def _their_trace(line: PublishedLine, place: int, metric: str) -> Figure:
    numbers = sorted(line.values)
    values = [line.values[number] for number in numbers]
    texts = [f"{formatting.own_value(value, metric)}<br>{plain(line.citation)}" for value in values]
    colour = "var(--ink-3)"
    symbol = OPEN_MARKERS[place % len(OPEN_MARKERS)]
    return _trace(line.name, numbers, values, texts) | {
        # Two sources may name one model; each has a button of its own.
        "legendgroup": f"{plain(line.name)} {place}",
        "line": {"color": colour, "dash": "dot", "width": 1.4},
        "marker": {"color": colour, "symbol": symbol, "size": 8},
        "visible": "legendonly" if place >= LINES else True,
    }


def _trace(name: str, x: Any, y: Any, texts: Sequence[str]) -> Figure:
    return trace(
        name,
        mode="lines+markers",
        x=list(x),
        y=rounded(y),
        text=[f"{formatting.after(n)}: {words}" for n, words in zip(x, texts, strict=True)],
        hovertemplate=NAME_AND_TEXT,
    )


def _published_layout(metric: str, last: int) -> Figure:
    try:
        scale = metric_class(metric)
        better = "higher is better" if scale.higher_is_better else "lower is better"
        title = f"{scale.label}{f', {scale.unit}' if scale.unit else ''} ({better})"
    except MetricError:
        title = metric
    return layout(
        xaxis=trips_axis(last, 1.02),
        yaxis={"title": {"text": title}},
    )


def _published_table(
    name: str,
    values: Sequence[float | None],
    theirs: Sequence[PublishedLine],
    trips: int,
    metric: str,
) -> Table:
    """Return the values as a table: ours at the usual trips, theirs at all."""
    numbers = sorted({*ticks(trips), *(n for line in theirs for n in line.values)})
    lines: list[tuple[str, Mapping[int, float | None], str]] = [
        (name, dict(enumerate(values)), "measured here")
    ]
    lines += [(line.name, line.values, line.citation) for line in theirs]
    return Table(
        ["Model", *(formatting.after(number) for number in numbers), "Source"],
        [
            [model, *(formatting.own_value(by_trip.get(n), metric) for n in numbers), source]
            for model, by_trip, source in lines
        ],
    )
