"""A model's past on one board as a line: half-life and rank from when on."""

from __future__ import annotations

from collections.abc import Sequence

from leaderboard import formatting
from leaderboard.models import Suite
from leaderboard.models.standings import BoardRecord
from leaderboard.pages.charts import Chart, Table, layout


def chart(records: Sequence[BoardRecord], name: str, suite: Suite) -> Chart | None:
    """The line of these records; None before there is anything to join."""
    there = [row for row in records if row.kind != BoardRecord.Kind.LEFT]
    if len(there) < 2:
        return None
    trips = suite.trips
    lives = [trips if row.half_life is None else row.half_life for row in there]
    days = [row.at.isoformat(timespec="seconds") for row in there]
    ranks = [f"rank {row.rank}" if row.rank else "not ranked" for row in there]
    return Chart(
        id="past",
        title=_finding(there, name, suite),
        subtitle=f"Half-life on {suite} with the rank at each change.",
        figure={
            "data": [
                {
                    "type": "scatter",
                    "mode": "lines+markers+text",
                    "x": days,
                    "y": [round(life, 3) for life in lives],
                    "text": [str(row.rank) if row.rank else "–" for row in there],
                    "textposition": "top center",
                    "customdata": ranks,
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
                for row in there
            ],
        ),
        height="short",
        about=f"{name} on {suite}",
    )


def _finding(records: Sequence[BoardRecord], name: str, suite: Suite) -> str:
    first, last = records[0], records[-1]
    since = f"since {first.at:%-d %B %Y}"
    if first.rank and last.rank and first.rank != last.rank:
        way = "rose" if last.rank < first.rank else "fell"
        return f"{name} {way} from rank {first.rank} to {last.rank} {since}"
    return f"{name} on {suite} {since}"
