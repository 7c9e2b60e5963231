"""All pages on invented boards of two sizes: equal queries, within their budgets."""

from __future__ import annotations

import pytest
from django.core.management import call_command

from leaderboard.testing.large_board import invent_board
from leaderboard.testing.page_budgets import addresses, cost, over_budget

#: Models, cases and trips.
SMALL, LARGE = (4, 6, 5), (20, 12, 8)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)  # PostgreSQL empties no table in mid-transaction
def test_pages_make_the_same_queries_however_large_the_board(client):
    costs = []
    for models, cases, trips in (SMALL, LARGE):
        call_command("flush", interactive=False, verbosity=0)
        invent_board(models=models, cases=cases, trips=trips)
        client.get("/")  # what a suite offers never changes, and is read once per process
        costs.append({name: cost(client, address) for name, address in addresses().items()})
    small, large = ({name: len(one.queries) for name, one in some.items()} for some in costs)
    assert small == large
    assert over_budget(costs[1]) == {}
