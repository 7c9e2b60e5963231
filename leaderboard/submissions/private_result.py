"""A finished result before it is public: for its submitter, and whom they show it to."""

from __future__ import annotations

from typing import Any

from django.db.models import Q

from evaluation.analysis.levels import DEFAULT_LEVEL
from evaluation.metrics import METRICS
from leaderboard.models import Chain, Run, StoredImage, Trip
from leaderboard.models.runs import RunState
from leaderboard.pages import model_page, strips

#: Cases shown at either end.
EXTREMES = 2


def result(run: Run | None) -> dict[str, Any] | None:
    """What came out: a sentence, the numbers, the curves, some strips; None before the end."""
    if run is None or run.state != RunState.FINISHED or run.suite.sealed:
        return None
    whole = run.standings.filter(scope="all", level=DEFAULT_LEVEL).select_related("metric")
    standings = {standing.metric.name: standing for standing in whole}
    names = [name for name in METRICS if name in standings]
    if not names:
        return {"answer": "The run is finished, but nothing could be scored."}
    metric, trips = names[0], run.suite.trips
    shown = standings[metric].details
    keys = [row["case"] for end in ("worst", "best") for row in shown.get(end, [])[:EXTREMES]]
    return {
        "answer": model_page.answer(standings[metric], trips),
        "metric": metric,
        "lines": [line for line in model_page.metric_lines(standings, trips) if line.standing],
        "chart": model_page.curves_chart(standings, metric, trips),
        "strips": _strips(run, metric, list(dict.fromkeys(keys))),
    }


def _strips(run: Run, metric: str, cases: list[int]) -> list[dict[str, Any]]:
    chains = Chain.objects.filter(run=run, case__in=cases, repeat=0)
    numbers = strips.short_numbers(run.suite.trips)
    trips = Trip.objects.filter(chain__in=chains, number__in=numbers).select_related("restored")
    returns: dict[int, list[Trip]] = {}
    for trip in trips.order_by("number"):
        returns.setdefault(trip.chain_id, []).append(trip)
    by_case = {chain.case_id: chain for chain in chains.select_related("case__picture__stored")}
    return [
        {
            "case": chain.case,
            "source": chain.case.picture.stored,
            "trips": returns.get(chain.pk, []),
            "verdict": strips.verdict(chain, metric, run.suite.trips),
        }
        for chain in (by_case[case] for case in cases if case in by_case)
    ]


def may_show(run: Run | None, sha256: str) -> bool:
    """Whether the run answered with this picture: its submitter may see it before others do."""
    if run is None or run.suite.sealed:
        return False
    trips = Trip.objects.filter(chain__run=run)
    return trips.filter(Q(edited=sha256) | Q(restored=sha256)).exists()


def picture(run: Run | None, sha256: str) -> StoredImage | None:
    return StoredImage.objects.filter(pk=sha256).first() if may_show(run, sha256) else None
