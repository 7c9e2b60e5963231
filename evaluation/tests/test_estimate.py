from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.estimate import duration, estimate


def test_an_estimate_of_two_thousand_edits_one_after_another() -> None:
    found = estimate(2000, 0.039, 10, 1)
    assert (found.edits, found.seconds) == (2000, 20_000)
    assert found.usd == pytest.approx(78)
    assert str(found) == "2,000 edits, about $78.00, about 5 h 34 min"


def test_more_edits_in_flight_help_only_up_to_the_chains_and_the_rate() -> None:
    assert estimate(400, None, 10, 8).seconds == 500
    assert estimate(400, None, 10, 8, chains=4).seconds == 1000
    assert estimate(400, None, 10, 8, chains=9).seconds == pytest.approx(2 * 400 / 9 * 10)
    assert estimate(400, None, 10, 8, calls_per_minute=20).seconds == 1200


def test_an_unknown_price_is_reported_as_unknown() -> None:
    found = estimate(10)
    assert found.usd is None
    assert str(found) == "10 edits, price not known, about 2 min"


@given(st.integers(0, 10**6), st.floats(0, 10), st.floats(0, 600), st.integers(1, 300))
def test_more_edits_in_flight_are_never_slower(
    edits: int, price: float, each: float, hands: int
) -> None:
    assert (
        estimate(edits, price, each, hands + 1).seconds
        <= estimate(edits, price, each, hands).seconds
    )


@pytest.mark.parametrize(("edits", "price", "hands"), [(-1, None, 1), (1, -0.1, 1), (1, None, 0)])
def test_nonsense_is_refused(edits: int, price: float | None, hands: int) -> None:
    with pytest.raises(ValueError, match="negative"):
        estimate(edits, price, 1, hands)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (89.2, "90 s"),
        (91, "2 min"),
        (3600, "60 min"),
        (7200, "2 h"),
        (20_000, "5 h 34 min"),
        (86400 * 3, "3 d"),
        (86400 * 3 + 3600, "3 d 1 h"),
    ],
)
def test_durations_read_well(seconds: float, text: str) -> None:
    assert duration(seconds) == text
