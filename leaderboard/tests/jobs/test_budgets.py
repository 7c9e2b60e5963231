"""Every page on invented boards of two sizes: the same queries, and within its budget of bytes."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from django.core.cache import cache
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from leaderboard.models import Case, EditingModel, Run
from leaderboard.models.runs import RunState

pytestmark = pytest.mark.django_db
#: Queries a page may make when nothing is kept, and kilobytes of it as they are sent.
BUDGETS = {
    "board": (8, 120),
    "every model": (8, 120),
    "model": (13, 100),
    "strip": (8, 100),
    "case": (8, 100),
    "run": (10, 100),
    "running": (12, 60),
    "progress": (10, 2),
    "categories": (8, 120),
    "compare": (10, 120),
    "suite": (8, 120),
    "suites": (4, 60),
    "price": (6, 60),
    "gallery": (8, 60),
    "gallery of a category": (8, 60),
    "what is new": (4, 60),
    "another day": (4, 60),
    "tour": (8, 20),
    "vote": (2, 20),
    "agreement": (4, 20),
    "embedded board": (6, 20),
    "embedded chart": (6, 60),
    "card of a model": (4, 60),
    "card of a case": (6, 200),
}
SMALL, LARGE = (4, 6, 5), (16, 24, 10)


def invent(models: int, cases: int, trips: int) -> None:
    call_command("generate_board", models=models, cases=cases, trips=trips, verbosity=0)


def addresses() -> dict[str, str]:
    run, *_, playing = Run.objects.order_by("pk")
    Run.objects.filter(pk=playing.pk).update(state=RunState.PLAYING, current=False)
    # Runs of submitted models are followed by their owners alone; a yardstick's by everybody.
    EditingModel.objects.filter(pk=playing.editing_model_id).update(is_reference=True)
    case = Case.objects.filter(suite=run.suite).order_by("pk").first()
    assert case
    slugs = ",".join(EditingModel.objects.order_by("pk").values_list("slug", flat=True)[:3])
    return {
        "board": reverse("board"),
        "every model": reverse("board") + "?every=1",
        "model": run.editing_model.get_absolute_url(),
        "strip": reverse("run_case", args=[run.pk, case.pk]),
        "case": case.get_absolute_url(),
        "run": run.get_absolute_url(),
        "running": playing.get_absolute_url(),
        "progress": reverse("run_progress", args=[playing.pk]),
        "categories": reverse("categories"),
        "compare": reverse("compare") + f"?models={slugs}",
        "suite": run.suite.get_absolute_url(),
        "suites": reverse("suites"),
        "price": reverse("value") + "?by=usable",
        "gallery": reverse("gallery"),
        "gallery of a category": reverse("gallery") + "?category=objects&order=best",
        "what is new": reverse("news"),
        "another day": reverse("board_then"),
        "tour": reverse("tour"),
        "vote": reverse("vote"),
        "agreement": reverse("agreement"),
        "embedded board": reverse("embed_board"),
        "embedded chart": reverse("embed_chart") + "?chart=value",
        "card of a model": reverse("model_card", args=[run.editing_model.slug]),
        "card of a case": reverse("case_card", args=[case.pk]),
    }


def cost(client: Any, address: str) -> tuple[int, int]:
    """Queries and bytes of a first view, compressed as it is sent."""
    cache.clear()
    with CaptureQueriesContext(connection) as queries:
        answer = client.get(address)
    assert answer.status_code == 200, address
    return len(queries), len(gzip.compress(answer.content))


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)  # PostgreSQL empties no table in mid-transaction
def test_pages_make_the_same_queries_however_large_the_board(client):
    costs = []
    for size in (SMALL, LARGE):
        call_command("flush", interactive=False, verbosity=0)
        invent(*size)
        client.get("/")  # what a suite offers never changes, and is read once per process
        costs.append({name: cost(client, address) for name, address in addresses().items()})
    small, large = ({name: queries for name, (queries, _) in one.items()} for one in costs)
    assert small == large
    over = {
        name: (queries, size)
        for name, (queries, size) in costs[1].items()
        if queries > BUDGETS[name][0] or size > BUDGETS[name][1] * 1000
    }
    assert not over
