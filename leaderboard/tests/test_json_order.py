"""The order of a stored object's keys means nothing."""

from __future__ import annotations

import pytest

from leaderboard.models import EditingModel
from leaderboard.testing.factories import editing_model

pytestmark = pytest.mark.both_databases


@pytest.mark.django_db
def test_tests_meet_stored_objects_in_more_than_one_order():
    """So a page that takes the first key fails on every database."""
    options = {"bb": {"x": 1, "y": 2}, "a": 1}
    editing_model(options=options)
    read = [EditingModel.objects.get().options for _ in range(20)]
    assert read == [options] * 20
    assert len({tuple(one) for one in read}) == len({tuple(one["bb"]) for one in read}) == 2
