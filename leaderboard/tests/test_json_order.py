"""Code must not depend on the order of keys in stored JSON objects."""

from __future__ import annotations

import pytest

from leaderboard.models import EditingModel
from leaderboard.testing.factories import editing_model

pytestmark = pytest.mark.both_databases


@pytest.mark.django_db
def test_tests_read_stored_objects_in_different_orders():
    """A page that relied on the first key would then fail on every database."""
    stored = [{"bb": {"x": 1, "y": 2}, "a": number} for number in range(20)]
    for number, options in enumerate(stored):
        editing_model(str(number), options=options)
    read = [model.options for model in EditingModel.objects.order_by("pk")]
    assert read == stored
    assert len({tuple(one) for one in read}) == len({tuple(one["bb"]) for one in read}) == 2
