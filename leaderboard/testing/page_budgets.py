"""Budgets of queries and bytes for the first view of each page, whatever the size of the board."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.core.cache import cache
from django.db import connection
from django.urls import reverse

from leaderboard.models import Case, EditingModel, Run
from leaderboard.models.runs import RunState

#: The number of queries that a page may make with an empty cache, and the largest compressed size
#: of the page in kilobytes.
BUDGETS = {
    "board": (8, 120),
    "every model": (8, 120),
    "model": (14, 100),
    "strip": (8, 100),
    "case": (8, 100),
    "run": (10, 100),
    "running": (12, 60),
    "progress": (10, 2),
    "categories": (7, 120),
    "compare": (10, 120),
    "suite": (8, 120),
    "suites": (3, 60),
    "price": (6, 60),
    "gallery": (8, 60),
    "gallery of a category": (8, 60),
    "what is new": (4, 60),
    "another day": (4, 60),
    "reported": (3, 60),
    "tour": (8, 20),
    "vote": (2, 20),
    "agreement": (4, 20),
    "embedded board": (6, 20),
    "embedded chart": (6, 60),
    "card of a model": (4, 60),
    "card of a case": (6, 200),
    "API: board": (9, 120),
    "API: models": (4, 120),
    "API: runs": (4, 120),
    "API: run": (5, 20),
    "API: standings": (5, 200),
    "API: chains": (6, 200),
    "API: trips": (8, 60),
    "API: cases": (5, 120),
}


def addresses() -> dict[str, str]:
    """Return the address of a page of each kind, about the first run; set the last to playing."""
    run, *_, playing = Run.objects.order_by("pk")
    Run.objects.filter(pk=playing.pk).update(state=RunState.PLAYING, current=False)
    # All visitors can follow runs of reference editors, but only the owner those of a submission.
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
        "reported": reverse("reported"),
        "tour": reverse("tour"),
        "vote": reverse("vote"),
        "agreement": reverse("agreement"),
        "embedded board": reverse("embed_board"),
        "embedded chart": reverse("embed_chart") + "?chart=value",
        "card of a model": reverse("model_card", args=[run.editing_model.slug]),
        "card of a case": reverse("case_card", args=[case.pk]),
        "API: board": "/api/v1/leaderboard",
        "API: models": "/api/v1/models",
        "API: runs": "/api/v1/runs",
        "API: run": f"/api/v1/runs/{run.pk}",
        "API: standings": f"/api/v1/runs/{run.pk}/standings",
        "API: chains": f"/api/v1/runs/{run.pk}/chains",
        "API: trips": f"/api/v1/runs/{run.pk}/cases/{case.pk}/trips",
        "API: cases": f"/api/v1/cases?suite={run.suite.key}",
    }


@dataclass
class Cost:
    """The cost of a first view: queries with their seconds, and compressed bytes."""

    queries: list[tuple[float, str, Any]] = field(default_factory=list)
    size: int = 0
    processor: float = 0.0

    @property
    def database(self) -> float:
        """The seconds spent in the database."""
        return sum(seconds for seconds, _, _ in self.queries)


def cost(client: Any, address: str, clock: Callable[[], float] = time.perf_counter) -> Cost:
    """Return the cost of a first view with an empty cache; `clock` times its queries."""
    cache.clear()
    measured = Cost()

    def timed(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        start = clock()
        try:
            return execute(sql, params, many, context)
        finally:
            measured.queries.append((clock() - start, sql, params))

    with connection.execute_wrapper(timed):
        start = time.process_time()
        answer = client.get(address)
        measured.processor = time.process_time() - start
    if answer.status_code != 200:
        raise RuntimeError(f"{address} answered {answer.status_code}")
    measured.size = len(gzip.compress(answer.content))
    return measured


def over_budget(costs: dict[str, Cost]) -> dict[str, tuple[int, int]]:
    """Return the queries and bytes of the pages that exceed their budget."""
    return {
        name: (len(page.queries), page.size)
        for name, page in costs.items()
        if len(page.queries) > BUDGETS[name][0] or page.size > BUDGETS[name][1] * 1000
    }
