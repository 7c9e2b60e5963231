"""From the scores of a run to what is kept of it, and back."""

from __future__ import annotations

import dataclasses

import pytest

from evaluation.measuring.trip_measures import TripMeasures
from evaluation.statistics.half_life import event
from evaluation.statistics.levels import LEVELS
from evaluation.statistics.standings import (
    MeasuredChain,
    Place,
    ScoredTrip,
    chain_numbers,
    chain_of_numbers,
    measured_chain,
    standings,
)

TRIPS = 5
PLACE = Place("cat", "hat", "objects", "face", 0)
BLANK, LADDER = 0.8, {"95": 0.01, "50": 0.2, "1": 0.6}


def scored(
    *distances: float, outcome: str = "completed", unseen: int | None = None, place: Place = PLACE
) -> MeasuredChain:
    """A chain by one metric; at trip `unseen` no change was seen."""
    trips = [
        ScoredTrip(n, distance, TripMeasures(False, 0.1, 0.1, [], change_seen=n != unseen))
        for n, distance in enumerate(distances, start=1)
    ]
    chain = measured_chain(place, outcome, trips, BLANK, LADDER)
    assert isinstance(chain, MeasuredChain)
    return chain


@pytest.mark.parametrize(
    "chain",
    [
        scored(0.1, 0.2, 0.3, 0.4, 0.5),
        scored(0.0, 0.0, 0.0, 0.0, 0.0, unseen=1),
        scored(0.0, 0.1, 0.1, 0.1, 0.1, unseen=4),
        scored(0.1, 0.7, 0.7, 0.7, 0.7, unseen=4),  # worn out before that trip
        scored(0.1, 0.5, 0.1, 0.1, 0.1, unseen=4),  # at some levels only
        scored(0.1, 0.2, outcome="refused"),
        scored(outcome="blank"),
        scored(0.1, 0.2, outcome="lost"),
    ],
)
def test_a_chain_is_worth_the_same_after_it_was_kept(chain):
    again = chain_of_numbers(PLACE, chain.result.outcome, chain_numbers(chain, TRIPS), TRIPS)
    assert again.key == chain.result.key
    for level in LEVELS:
        one, other = (event(result, TRIPS, level) for result in (chain.result, again))
        assert (other.kind, other.recovered) == (one.kind, one.recovered)
        assert other.time == pytest.approx(one.time, abs=1e-4)


@pytest.mark.parametrize("outcome", ["", "completed"])
def test_a_chain_that_is_still_in_play_is_censored_where_it_stands(outcome):
    numbers = chain_numbers(scored(0.1, 0.2, outcome="lost"), TRIPS)
    found = event(chain_of_numbers(PLACE, outcome, numbers, TRIPS), TRIPS, 0.5)
    assert (found.time, found.kind) == (2.0, None)


def jpeg_after(chains: list[MeasuredChain]) -> dict[str, float | None]:
    """The JPEG of equal loss after n trips, as a standing of these chains tells it."""
    numbers = next(s for s in standings("psnr", chains, TRIPS) if s.scope == "all").numbers
    return numbers["details"]["jpeg"]


def test_a_model_that_breaks_most_chains_is_not_the_jpeg_of_those_that_are_left():
    places = [dataclasses.replace(PLACE, picture=f"picture-{n}") for n in range(10)]
    whole = [scored(*[0.01] * TRIPS, place=place) for place in places]
    assert set(jpeg_after(whole).values()) == {95.0}
    broken = [scored(0.01, 0.01, outcome="refused", place=place) for place in places[:8]]
    assert jpeg_after([*broken, *whole[8:]]) == {"1": 95.0, "2": 95.0, "3": None, "5": None}


def test_a_chain_that_we_lost_says_nothing_of_the_jpeg():
    places = [dataclasses.replace(PLACE, picture=f"picture-{n}") for n in range(3)]
    lost = [scored(0.01, outcome="lost", place=place) for place in places[:2]]
    assert jpeg_after([*lost, scored(*[0.01] * TRIPS, place=places[2])])["5"] == 95.0
