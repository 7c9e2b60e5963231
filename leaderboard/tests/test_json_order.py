"""The order of a stored object's keys means nothing."""

from __future__ import annotations

import pytest

from leaderboard.models import EditingModel
from leaderboard.testing.factories import editing_model

pytestmark = pytest.mark.both_databases


@pytest.mark.django_db
def test_tests_meet_stored_objects_in_more_than_one_order():
    """So a page that takes the first key fails on every database."""
    stored = [{"bb": {"x": 1, "y": 2}, "a": number} for number in range(20)]
    for number, options in enumerate(stored):
        editing_model(str(number), options=options)
    read = [model.options for model in EditingModel.objects.order_by("pk")]
    assert read == stored
    assert len({tuple(one) for one in read}) == len({tuple(one["bb"]) for one in read}) == 2
