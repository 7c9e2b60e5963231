"""Charts of a model's page, one function for each.

The template tag `{% chart "endings_chart" results %}` draws `endings_chart(results)`, or nothing
if the function returns None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evaluation.analysis.events import CAUSES
from evaluation.arms import FLOOR
from evaluation.content.suites import ticks
from evaluation.metrics import HEADLINE, METRICS, headline_parts
from leaderboard import formatting
from leaderboard.models import EditingModel, Run, Standing
from leaderboard.models.runs import RunState
from leaderboard.models.standings import BoardRecord
from leaderboard.pages.charts import (
    Chart,
    Curve,
    Figure,
    Table,
    layout,
    retention_chart,
    rounded,
    series_colour,
    trace,
    trips_axis,
    trips_table,
)
from leaderboard.pages.model_page import RunResults
from leaderboard.pages.reported import published_chart as published_chart

# Retention by every metric


def curves_chart(results: RunResults) -> Chart | None:
    """Return a chart of retention by every metric; only the chosen metric has a band."""
    if not results.names:
        return None
    trips, standings = results.trips, results.standings
    curves = []
    for name in sorted(results.names, key=lambda name: name != results.metric):
        curve = standings[name].curve
        band = curve if name == results.metric else {"mean": curve.get("mean", ())}
        curves.append(Curve.from_json(formatting.metric_label(name), band))
    return retention_chart(
        curves,
        trips,
        title=_curves_title(standings, trips),
        subtitle="Share of the image kept after each round trip by each metric, averaged over the "
        "cases. "
        f"The band is the 95\u00a0% interval of {formatting.metric_label(results.metric)}. "
        "A blank card of the image’s mean colour would keep about 0\u00a0%.",
        about=results.about,
        file_name=f"{results.run.editing_model.slug}-{results.run.suite.key}-{results.metric}-curves",
        first="Metric",
    )


def _curves_title(standings: Mapping[str, Standing], trips: int) -> str:
    """Return a title: retention by the most lenient metric, and by the headline or strictest."""
    kept = {
        name: max(0, mean[trips] or 0)
        for name in METRICS
        if name in standings
        and name not in headline_parts()  # a part such as text is absent from most images
        and len(mean := standings[name].curve.get("mean", ())) > trips
    }
    if not kept:
        return "How much of the image is kept, trip by trip"
    most, least = max(kept, key=lambda n: kept[n]), min(kept, key=lambda n: kept[n])
    start = (
        f"{formatting.after_round_trips(trips).capitalize()}, "
        f"{formatting.percent(kept[most])} is kept"
    )
    if formatting.percent(kept[most]) == formatting.percent(kept[least]):
        return f"{start} according to every metric"
    start = f"{start} by"
    if HEADLINE in kept and formatting.percent(kept[HEADLINE]) != formatting.percent(kept[most]):
        share = formatting.percent(kept[HEADLINE])
        return (
            f"{start} {formatting.metric_label(most)}, the most lenient metric, and {share} "
            f"by {formatting.metric_label(HEADLINE)}"
        )
    share, label = formatting.percent(kept[least]), formatting.metric_label(least)
    return f"{start} {formatting.metric_label(most)} and {share} by {label}, the strictest metric"


# How chains end


def endings_chart(results: RunResults) -> Chart | None:
    """Return a chart of the share of chains ended by each cause; None if none ended."""
    standing, trips = results.standing, results.trips
    incidence: dict[str, Sequence[float | None]] = {
        name: shares for name in CAUSES if any(shares := standing.incidence.get(name) or ())
    }
    if not incidence:
        return None
    numbers = ticks(trips)
    return Chart(
        id="endings",
        title=_endings_title(incidence, trips),
        subtitle="Share of the chains ended so far, by cause. Every category of edits weighs the "
        "same. Above the coloured areas is the share still usable.",
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


def _endings_title(incidence: Mapping[str, Sequence[float | None]], trips: int) -> str:
    ended = {name: shares[-1] or 0.0 for name, shares in incidence.items()}
    most = max(ended, key=lambda name: ended[name])
    share = formatting.percent(min(1.0, sum(ended.values())))
    return (
        f"{share} of the chains end within {formatting.count(trips, 'round trip')}, "
        f"most often because {CAUSES[most]}"
    )


def _stacked(incidence: Mapping[str, Sequence[float | None]], trips: int) -> Figure:
    # A cause has the same colour on every page.
    indices = {name: index for index, name in enumerate(CAUSES)}
    return {
        "data": [
            trace(
                CAUSES[name],
                stackgroup="ended",
                y=rounded(shares),
                hovertemplate="<b>%{fullData.name}</b><br>%{y:.0%} after %{x}<extra></extra>",
                line={"color": series_colour(indices[name]), "width": 1.5},
                fillcolor=series_colour(indices[name], 0.45),
            )
            for name, shares in incidence.items()
        ],
        "layout": layout(
            xaxis=trips_axis(trips),
            yaxis={"title": {"text": "chains ended"}, "tickformat": ".0%", "range": [0, 1]},
        ),
    }


# History on the board


def past_chart(results: RunResults) -> Chart | None:
    """Return a chart of half-life and rank over time; None if they never changed."""
    model, suite = results.run.editing_model, results.run.suite
    rows = BoardRecord.objects.public().filter(run__editing_model=model, run__suite=suite)
    records = [row for row in rows.order_by("at", "pk") if row.kind != BoardRecord.Kind.LEFT]
    if len(records) < 2:
        return None
    trips = suite.trips
    return Chart(
        id="past",
        title=_past_title(records, model, suite),
        subtitle=f"Half-life on {suite}. The number at each mark is the model’s rank from that day on.",
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
                    "hovertemplate": "%{x|%-d %b %Y}: half-life %{y:.1f}, "
                    "%{customdata}<extra></extra>",
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


def _past_title(records: Sequence[BoardRecord], name: Any, suite: Any) -> str:
    first, last = records[0], records[-1]
    since = f"since {first.at:%-d %B %Y}"
    if first.rank and last.rank and first.rank != last.rank:
        verb = "rose" if last.rank < first.rank else "fell"
        return f"{name} {verb} from rank {first.rank} to {last.rank} {since}"
    return f"{name} on {suite} {since}"


# The floor of a local model: a run in which every step only encodes and decodes the image with the
# model's autoencoder, without any edit

#: Only models that run here have an autoencoder to measure.
ACCESS_WITH_FLOOR = (EditingModel.Access.LOCAL, EditingModel.Access.REFERENCE)


def floor_standing(results: RunResults, user: Any) -> Standing | None:
    """Return the standing of the model's newest floor run on this suite and metric."""
    run, standing = results.run, results.standing
    if run.editing_model.access not in ACCESS_WITH_FLOOR:
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
    """Compare how long an image lasts with edits and with the autoencoder alone."""
    edited, alone = results.standing.usable_trips, floor.usable_trips
    return (
        f"The model’s autoencoder alone, without any edit, keeps an image usable for {alone:.1f} of "
        f"{formatting.count(results.trips, 'round trip')}; with edits, the model keeps it usable for "
        f"{edited:.1f}. "
        + (
            "No prompt can make an image last longer than the autoencoder does."
            if edited <= alone
            else "The edits do less damage than the autoencoder: they change less of the image."
        )
    )


def floor_chart(results: RunResults, floor: Standing) -> Chart:
    """Return a chart of retention of the model and of its autoencoder alone."""
    run, standing, trips = results.run, results.standing, results.trips
    name = run.editing_model.name
    curves = [
        Curve.from_json(name, standing.curve),
        Curve.from_json(f"{name}, autoencoder alone", floor.curve),
    ]
    return retention_chart(
        curves,
        trips,
        id="floor",
        title=_floor_title(name, standing.curve, floor.curve, trips),
        subtitle=f"Share kept ({formatting.metric_label(standing.metric.name)}). In the run of the "
        "autoencoder alone, every step only encodes and decodes the image. This run is "
        "never ranked.",
        height="short",
        about=f"{run.suite}, {name}",
        file_name=f"{run.editing_model.slug}-{run.suite.key}-floor",
    )


def _floor_title(name: str, edited: Mapping[str, Any], floor: Mapping[str, Any], trips: int) -> str:
    ends = [curve.get("mean", ())[trips : trips + 1] for curve in (edited, floor)]
    if not all(ends) or None in (ends[0][0], ends[1][0]):
        return f"Loss caused by the autoencoder of {name} alone"
    lost = [1 - max(0.0, end[0]) for end in ends]
    if lost[0] <= 0:
        return f"{name} loses nothing"
    share = formatting.percent(min(1.0, lost[1] / lost[0]))
    return (
        f"The autoencoder alone causes {share} of the loss of {name} "
        f"{formatting.after_round_trips(trips)}"
    )
