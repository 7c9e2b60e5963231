"""Chart of edit quality against usable trips; marks the models that no other beats in both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evaluation.analysis.edit_quality import EditQuality
from leaderboard import formatting
from leaderboard.board.row import BoardFilters, BoardRow
from leaderboard.pages.charts import Chart, Figure, Table, axis_ticks, layout, plain, trace


@dataclass(frozen=True)
class RatedModel:
    """A model with rated edits; `best` is True if no other model beats it (Pareto-optimal)."""

    row: BoardRow
    quality: EditQuality
    best: bool

    @property
    def name(self) -> str:
        return self.row.model.name

    @property
    def usable(self) -> float:
        return self.row.usable_trips or 0.0


def rated_models(rows: Iterable[BoardRow]) -> list[RatedModel]:
    """Return the models whose edits were rated, the best rated first."""
    rated = [(row, quality) for row in rows if (quality := row.edit_quality)]
    points = [(quality.score, row.usable_trips or 0.0) for row, quality in rated]
    models = [
        RatedModel(row, quality, best=not any(_beats(other, point) for other in points))
        for (row, quality), point in zip(rated, points, strict=True)
    ]
    return sorted(models, key=lambda model: (-model.quality.score, -model.usable))


def _beats(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one != other and one[0] >= other[0] and one[1] >= other[1]


def quality_chart(rows: Sequence[BoardRow], filters: BoardFilters) -> Chart | None:
    """Return the chart of these rows; None if no edits were rated."""
    models = rated_models(rows)
    if not models:
        return None
    left_out = len(rows) - len(models)
    missing = f" Not judged: {formatting.count(left_out, 'model')}." if left_out else ""
    metric = formatting.metric_label(filters.metric)
    return Chart(
        id="quality",
        title=_finding(models),
        subtitle="Edit quality, as a judge (a vision-language model) rates first edits, against usable "
        f"trips by {metric}. Up and to the right is better: no model both edits better and lasts "
        f"longer than those on the line.{missing}",
        figure=_figure(models, filters.suite.trips),
        table=_table(models),
        about=f"{filters.suite}, by {metric}",
        file_name=f"{filters.suite.key}-{filters.metric}-edit-quality",
    )


def _finding(models: Sequence[RatedModel]) -> str:
    best = [model.name for model in models if model.best]
    if len(best) == 1:
        return f"{best[0]} edits best and lasts longest"
    return f"{formatting.listed(best, 4)} are unbeaten on edit quality and durability"


def _figure(models: Sequence[RatedModel], trips: int) -> Figure:
    best = [model for model in models if model.best]
    traces = [
        _marks("unbeaten", best, "--series-2", "diamond"),
        _marks("others", [model for model in models if not model.best], "--series-1", "circle"),
    ]
    traces[0] |= {"mode": "lines+markers"}
    traces[0]["line"] |= {"width": 2, "shape": "vh"}
    return {
        "data": [part for part in traces if part["x"]],
        "layout": layout(
            xaxis={"title": {"text": "edit quality"}, "tickformat": ".0%", "range": [0, 1.03]},
            yaxis={
                "title": {"text": "usable trips"},
                "tickvals": axis_ticks(trips),
                "range": [-0.03 * trips, 1.08 * trips],
            },
            annotations=[_label(model) for model in best[:6]],
        ),
    }


def _marks(name: str, models: Sequence[RatedModel], colour: str, symbol: str) -> Figure:
    ends = [(model.quality.score, model.quality.low, model.quality.high) for model in models]
    return trace(
        name,
        mode="markers",
        x=[round(score, 4) for score, _, _ in ends],
        y=[round(model.usable, 3) for model in models],
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [round(high - score, 4) if high is not None else 0 for score, _, high in ends],
            "arrayminus": [
                round(score - low, 4) if low is not None else 0 for score, low, _ in ends
            ],
            "color": f"var({colour})",
            "thickness": 1,
            "width": 0,
        },
        text=[
            f"<b>{plain(model.name)}</b><br>edit quality {_rated(model.quality)}, "
            f"{model.usable:.1f} usable trips"
            for model in models
        ],
        hovertemplate="%{text}<extra></extra>",
        line={"color": f"var({colour})"},
        marker={"color": f"var({colour})", "symbol": symbol, "size": 10},
    )


def _rated(quality: EditQuality) -> str:
    around = formatting.interval(quality.low, quality.high, 100, 0)
    return formatting.percent(quality.score) + (f" ({around})" if around else "")


def _label(model: RatedModel) -> Figure:
    right = model.quality.score > 0.75
    return {
        "text": plain(model.name),
        "x": model.quality.score,
        "y": model.usable,
        "xanchor": "right" if right else "left",
        "yanchor": "bottom",
        "xshift": -6 if right else 6,
        "yshift": 3,
        "showarrow": False,
        "font": {"size": 12, "color": "var(--ink-2)"},
    }


def _table(models: Sequence[RatedModel]) -> Table:
    rows = [
        [
            model.name,
            _rated(model.quality),
            f"{model.usable:.1f}",
            "yes" if model.best else "–",
        ]
        for model in models
    ]
    return Table(["Model", "Edit quality", "Usable trips", "Unbeaten"], rows)
