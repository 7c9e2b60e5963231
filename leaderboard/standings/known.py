"""While a run is played: by which trip the end of a chain is known."""

from __future__ import annotations

from evaluation.analysis import stopping
from evaluation.analysis.standings import ScoredTrip, measured_chain
from leaderboard.models import Calibration, Chain, MetricVersion, Score
from leaderboard.models.runs import Outcome
from leaderboard.standings.stored import core_case


def known_at(chain: Chain, metric: MetricVersion) -> int | None:
    """The trip by which the chain's end is known by this metric; None where it is not yet."""
    calibration = Calibration.objects.filter(
        metric=metric, pixels_sha256=chain.case.picture.pixels_sha256
    ).first()
    scores = Score.objects.filter(trip__chain=chain, metric=metric)
    distances = dict(scores.values_list("trip_id", "distance"))
    trips = chain.trips.filter(scored_at__isnull=False).order_by("number")
    measured = measured_chain(
        metric.name,
        core_case(chain),
        chain.repeat,
        Outcome.LOST,  # where it stands is not where it ends
        [ScoredTrip(trip.number, distances.get(trip.pk), trip.measures) for trip in trips],
        calibration.blank if calibration else None,
        {},
        0,
    )
    return stopping.known_at(measured.result) if measured else None
