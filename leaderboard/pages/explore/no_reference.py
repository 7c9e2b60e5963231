"""What no-reference metrics say while pictures wear out, as a page tells it: from stored rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from evaluation.analysis.no_reference import FIRST, SOURCE, asked_trips, share
from evaluation.metrics import metric_class, no_reference_metrics
from evaluation.metrics.no_reference import WORN, no_reference_in_order
from leaderboard import formatting
from leaderboard.board.rows import stamp as board_stamp
from leaderboard.models import Chain, NoReferenceResult, Run, StoredImage, Suite, Trip
from leaderboard.pages.charts import COLOURS, DASHES, MARKERS, Chart, Figure, Table, layout, plain
from leaderboard.text import safe_cell

PARAMETERS = ("suite", "trip", "since", "metric", "model")
SINCE = {SOURCE: "the source", FIRST: "the first return"}
SHADES = 7


@dataclass(frozen=True)
class Line:
    """One model's run, and what each metric says of it."""

    run: Run
    numbers: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.run.editing_model.name

    @property
    def lost(self) -> float:
        """What is lost of its pictures at the end, by the metric that could look last."""
        ends = (told["lost"][-1] for told in self.numbers.values())
        return max((end for end in ends if end is not None), default=0.0)


@dataclass(frozen=True)
class Cell:
    """How often a metric calls one model's returns worse; None: it was not run."""

    metric: str
    line: Line | None
    counted: Mapping[str, Any] | None

    @property
    def worse(self) -> float | None:
        return share(self.counted) if self.counted else None

    @property
    def better(self) -> float | None:
        return share(self.counted, "better") if self.counted else None

    @property
    def shade(self) -> int:
        """The more returns it calls better, the stronger."""
        return min(SHADES - 1, int((self.better or 0.0) * SHADES))

    @property
    def words(self) -> str:
        counted = self.counted
        if not counted or not counted["returns"]:
            return "no return to compare"
        same = counted["returns"] - counted["worse"] - counted["better"]
        parts = [f"{counted['worse']} called worse", f"{counted['better']} better"]
        parts += [f"{same} the same"] if same else []
        return f"of {formatting.count(counted['returns'], 'return')} {', '.join(parts)}"


def stamp() -> str:
    """Changes whenever anything that this page shows changes."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT max(computed_at), count(*) FROM leaderboard_noreferenceresult")
        own = "|".join(str(value) for value in cursor.fetchone())
    return f"{board_stamp()}|{own}"


def lines_of(suite: Suite) -> list[Line]:
    """The models of a suite's board that such metrics were asked about, the best kept first."""
    rows = NoReferenceResult.objects.filter(run__in=Run.objects.on_the_board().filter(suite=suite))
    rows = rows.select_related("run__editing_model").defer(
        "run__provenance", "run__editing_model__options"
    )
    return sorted(
        (Line(row.run, row.numbers) for row in rows), key=lambda one: (one.lost, one.name)
    )


def metrics_of(lines: Sequence[Line]) -> list[str]:
    return no_reference_in_order({name for line in lines for name in line.numbers})


def heat(
    lines: Sequence[Line], metrics: Sequence[str], trip: int, since: str
) -> list[tuple[Line, list[Cell]]]:
    return [
        (line, [Cell(name, line, _counted(line, name, trip, since)) for name in metrics])
        for line in lines
    ]


def totals(lines: Sequence[Line], metrics: Sequence[str], trip: int, since: str) -> list[Cell]:
    """All models together, by metric."""
    found = []
    for name in metrics:
        told = [c for line in lines if (c := _counted(line, name, trip, since))]
        added = {key: sum(c[key] for c in told) for key in ("returns", "worse", "better")}
        found.append(Cell(name, None, added if told else None))
    return found


def _counted(line: Line, metric: str, trip: int, since: str) -> Mapping[str, Any] | None:
    numbers = line.numbers.get(metric)
    found: Mapping[str, Any] | None = (
        numbers["trips"].get(str(trip), {}).get(since) if numbers else None
    )
    return found


def label(metric: str, lines: Sequence[Line]) -> str:
    """A metric's name as people know it."""
    told = (line.numbers[metric] for line in lines if metric in line.numbers)
    return str(next((one["label"] for one in told), metric))


def finding(lines: Sequence[Line], metrics: Sequence[str], trip: int) -> str:
    """The page in one sentence: the metric that praises most, of pictures that lost most."""
    worn = [line for line in lines if line.lost >= 0.1]
    cells = [cell for cell in totals(worn, metrics, trip, SOURCE) if cell.better is not None]
    if not cells:
        return ""
    worst = max(cells, key=lambda cell: cell.better or 0.0)
    name = label(worst.metric, lines)
    lost = [line.numbers[worst.metric]["lost"] for line in worn if worst.metric in line.numbers]
    ends = [curve[trip] for curve in lost if len(curve) > trip and curve[trip] is not None]
    gone = sum(ends) / len(ends) if ends else 0.0
    if not worst.better:
        return (
            f"No metric calls a worn picture better than its source at trip {trip}, "
            f"where {formatting.percent(gone)} of the picture is lost"
        )
    return (
        f"{name} calls {formatting.percent(worst.better)} of pictures better than their source at "
        f"trip {trip}, although {formatting.percent(gone)} of the picture is lost"
    )


def plane(lines: Sequence[Line], metric: str, suite: Suite) -> Chart | None:
    """What is lost of the picture against what the metric says it gained, trip by trip."""
    shown = lines_with(metric, lines)
    if not shown:
        return None
    about = shown[0].numbers[metric]
    name = about["label"]
    unit = f"points of {name}’s range" if about["in_points"] else f"units of {name}"
    return Chart(
        id="plane",
        title=_plane_finding(shown, metric, name),
        subtitle="From the source (at the left, on the dotted line) trip by trip to the last. "
        "Above the line the metric calls returns better than the source; an honest one falls to the right.",
        figure=_plane(shown, metric, unit),
        table=_plane_table(shown, metric, suite.trips),
        about=f"{suite}, {name}",
        file_name=f"{suite.key}-{metric}-plane",
    )


def _plane_finding(shown: Sequence[Line], metric: str, name: str) -> str:
    praised = [
        line
        for line in shown
        if (gained := line.numbers[metric]["gained"][-1]) is not None
        and gained > 0
        and line.lost >= 0.1
    ]
    if not praised:
        return f"{name} falls as pictures wear out, for every model"
    models = formatting.count(len(praised), "model")
    return f"{name} rises while pictures wear out, for {models} of {len(shown)}"


def _plane(shown: Sequence[Line], metric: str, unit: str) -> Figure:
    traces = []
    for place, line in enumerate(shown):
        told = line.numbers[metric]
        points = [
            (n, lost, gained)
            for n, (lost, gained) in enumerate(zip(told["lost"], told["gained"], strict=True))
            if lost is not None and gained is not None
        ]
        reference = line.run.editing_model.is_reference
        colour = "var(--ink-3)" if reference else f"var(--series-{place % COLOURS + 1})"
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": plain(line.name),
                "legendgroup": plain(line.name),
                "x": [lost for _, lost, _ in points],
                "y": [gained for _, _, gained in points],
                "text": [f"<b>{plain(line.name)}</b><br>trip {n}" for n, _, _ in points],
                "hovertemplate": "%{text}<br>%{x:.0%} lost, %{y:+.1f}<extra></extra>",
                "line": {"color": colour, "width": 1.8, "dash": DASHES[place % len(DASHES)]},
                "marker": {"color": colour, "size": 6, "symbol": MARKERS[place % len(MARKERS)]},
            }
        )
    zero = {"color": "var(--ink-3)", "width": 1, "dash": "dot"}
    far = max([0.1, *(x for trace in traces for x in trace["x"])])
    return {
        "data": traces,
        "layout": layout(
            xaxis={
                "title": {"text": "picture lost"},
                "tickformat": ".0%",
                "range": [-0.02 * far, 1.04 * far],
            },
            yaxis={"title": {"text": f"gained, {unit}"}},
            shapes=[
                {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 0, "y1": 0, "line": zero}
            ],
        ),
    }


def _plane_table(shown: Sequence[Line], metric: str, trips: int) -> Table:
    def number(value: float | None, form: str) -> str:
        return "–" if value is None else format(value, form).replace("-", "−")

    asked = asked_trips(trips)
    rows = []
    for line in shown:
        told = line.numbers[metric]
        rows.append(
            [
                line.name,
                *(
                    f"{number(told['lost'][n], '.0%')} lost, {number(told['gained'][n], '+.1f')}"
                    for n in asked
                ),
            ]
        )
    return Table(["Model", *(f"Trip {n}" for n in asked)], rows)


@dataclass(frozen=True)
class Judged:
    """One case that a metric was asked about: its source and its return, each with its value."""

    chain: Chain
    source: StoredImage | None
    returned: StoredImage | None
    before: float | None
    after: float | None
    kept: float | None
    better: bool


def opened(
    lines: Sequence[Line], metrics: Sequence[str], trip: int, model: str, metric: str
) -> tuple[Line, str] | None:
    """The cell whose pictures are shown: the one asked for, else where most is called better."""
    if not lines or not metrics:
        return None
    cells = [
        cell
        for _, row in heat(lines, [metric] if metric in metrics else metrics, trip, SOURCE)
        for cell in row
        if cell.line and cell.counted
    ]
    own = [cell for cell in cells if cell.line and cell.line.run.editing_model.slug == model]
    chosen = max(
        own or [c for c in cells if c.line and c.line.lost >= 0.1] or cells,
        key=lambda cell: cell.better or 0.0,
        default=None,
    )
    return (chosen.line, chosen.metric) if chosen and chosen.line else None


def judged(line: Line, metric: str, trip: int) -> list[Judged]:
    """The returns that the metric praises most, then those it is right about."""
    told = line.numbers[metric]["trips"].get(str(trip), {})
    praised, seen = told.get("better_cases", []), told.get("worse_cases", [])
    order = {case: place for place, case in enumerate([*praised, *seen])}
    chains = Chain.objects.filter(run=line.run, case__in=order, repeat=0)
    chains = chains.select_related("case__picture__stored")
    found = sorted(chains, key=lambda chain: order[chain.case_id])
    trips = Trip.objects.filter(chain__in=found, number=trip).select_related("restored")
    returned = {one.chain_id: one.restored for one in trips}
    return [
        Judged(
            chain,
            chain.case.picture.stored,
            returned.get(chain.pk),
            _at(chain.quality.get(metric), 0),
            _at(chain.quality.get(metric), trip),
            chain.retention_after(chain.headline, trip),
            chain.case_id in praised,
        )
        for chain in found
    ]


def _at(values: Sequence[float | None] | None, place: int) -> float | None:
    return values[place] if values and place < len(values) else None


def about_metrics(lines: Sequence[Line], metrics: Sequence[str]) -> list[dict[str, Any]]:
    """Which metrics these are, in which versions; and those that run here and were not run."""
    rows = []
    for name in metrics:
        told = [line.numbers[name] for line in lines if name in line.numbers]
        rows.append(
            {
                "label": told[0]["label"],
                "better": "higher" if told[0]["higher_is_better"] else "lower",
                "versions": ", ".join(sorted({one["version"] for one in told})),
                "where": _where(name, told[0]),
                "models": len(told),
            }
        )
    absent = [metric_class(n).label for n in no_reference_metrics() if n not in metrics]
    return rows + [{"label": name, "absent": True} for name in absent]


@dataclass(frozen=True)
class Asked:
    """One model's returns, as a judge answered who was asked whether they are worn."""

    line: Line
    #: The share of the sources, which nobody edited, that it calls worn.
    alarms: float
    judge: str
    #: Of returns by what was kept: the share called worn, and of how many.
    cells: list[tuple[float | None, int]]


def asked_outright(lines: Sequence[Line]) -> dict[str, Any]:
    """What a model says that is asked yes or no, against what was measured; {} where none was."""
    rows = []
    for line in lines:
        told = line.numbers.get(WORN)
        if told is None or told["value"][0] is None:
            continue
        cells = [
            (one["worn"] / one["asked"] if one["asked"] else None, one["asked"])
            for one in told["by_kept"]
        ]
        rows.append(Asked(line, told["value"][0], told["version"], cells))
    if not rows:
        return {}
    bands = lines_with(WORN, lines)[0].numbers[WORN]["by_kept"]
    return {
        "rows": rows,
        "bands": [(one["least"], one["most"]) for one in bands],
        "finding": _asked_finding([line.numbers[WORN] for line in lines_with(WORN, lines)]),
        "judges": sorted({row.judge for row in rows}),
    }


def lines_with(metric: str, lines: Sequence[Line]) -> list[Line]:
    return [line for line in lines if metric in line.numbers]


def _asked_finding(told: Sequence[Mapping[str, Any]]) -> str:
    """How many of the returns that lost more than half it notices."""
    worst = [one for each in told for one in each["by_kept"] if one["most"] <= 0.5]
    asked, worn = (sum(one[name] for one in worst) for name in ("asked", "worn"))
    if not asked:
        return "Asked outright, a model says yes or no; no return has lost half of its picture yet"
    return (
        f"Asked outright, a model calls {formatting.percent(worn / asked)} of the returns worn that "
        "lost more than half of the picture"
    )


def _where(name: str, told: Mapping[str, Any]) -> str:
    if name == WORN:
        return "here; a model was asked"
    return "elsewhere; imported as a score file" if told["imported"] else "here"


COLUMNS = (
    *("suite", "model", "run", "metric", "version", "higher_is_better", "imported", "trip"),
    *("since", "returns", "worse", "better", "gap", "mean_value", "mean_gained", "mean_lost"),
)


def table_rows(suite: Suite, lines: Sequence[Line]) -> Iterator[list[Any]]:
    """A row for each model, metric, trip and comparison."""
    for line in lines:
        for metric, told in line.numbers.items():
            for trip, both in told["trips"].items():
                for since in SINCE:
                    if counted := both.get(since):
                        yield [
                            *(suite.key, line.run.editing_model.slug, line.run.pk, metric),
                            *(told["version"], told["higher_is_better"], told["imported"]),
                            *(trip, since, *(counted[name] for name in COLUMNS[9:13])),
                            *(told[name][int(trip)] for name in ("value", "gained", "lost")),
                        ]


def as_csv(suite: Suite, lines: Sequence[Line]) -> str:
    table = io.StringIO(newline="")
    writer = csv.writer(table)
    writer.writerow(COLUMNS)
    for row in table_rows(suite, lines):
        writer.writerow(["" if value is None else safe_cell(value) for value in row])
    return table.getvalue()
