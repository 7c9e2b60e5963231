"""`/no-reference/`: do quality metrics notice that images wear out?"""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from evaluation.analysis.no_reference import QualityChain, no_reference_numbers
from leaderboard.formatting import percent
from leaderboard.models import Chain, NoReferenceResult, Run, Suite
from leaderboard.testing import played
from leaderboard.testing.factories import tiny_suite
from leaderboard.testing.played import play
from leaderboard.views import no_reference as pages

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
TRIPS = 5
PINNED = {
    "brisque": {"version": "1"},
    "musiq": {"version": "2", "file": "f" * 64},
    "worn": {"version": "some-model-1"},
}
WORN = [0.0, 0.0, 1.0, None, None, 1.0]


@pytest.fixture(scope="module")
def run(django_db_setup: None, django_db_blocker: Any) -> Any:
    """A run whose images BRISQUE praises and MUSIQ does not."""

    def make() -> int:
        found = play("noise", tiny_suite(images=2, trips=TRIPS))
        say(found, brisque=[30.0 - n for n in range(TRIPS + 1)])
        return found.pk

    yield from played.once(django_db_blocker, make)


def say(run: Run, **values: list[float]) -> None:
    """Have metrics say this of every chain."""
    values_by_metric = {"musiq": [60.0 - n for n in range(TRIPS + 1)], "worn": WORN, **values}
    Chain.objects.filter(run=run).update(quality=values_by_metric)
    worn = [0.9, 0.8, 0.6, 0.5, 0.3]
    chains = [
        QualityChain(c.case_id, values_by_metric, worn) for c in Chain.objects.filter(run=run)
    ]
    numbers = no_reference_numbers(chains, TRIPS, PINNED)
    NoReferenceResult.objects.update_or_create(run=run, defaults={"numbers": numbers})


def test_the_page_states_the_finding_and_links_to_images(
    run: int, client: Client, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(8):
        page = client.get("/no-reference/").content.decode()
    said = f"BRISQUE calls {percent(1.0)} of images better than their source at trip 5"
    assert f"{said}, although only {percent(0.3)} of the image is kept" in page
    chain = Chain.objects.filter(run=run).first()
    assert chain
    assert chain.get_absolute_url() in page
    assert "30.0 → 25.0, rated <b>better</b>" in page
    assert "elsewhere, imported as a score file" in page
    assert f"the judge calls {percent(1.0)} of the clearly damaged images worn" in page
    assert "some-model-1 saw one image at a time" in page
    assert page.count("not run") >= 2  # NIQE and PIQE, in the list of metrics
    other = client.get("/no-reference/?metric=musiq&model=noise&trip=5&since=first")
    assert "rated <b>worse</b>" in other.content.decode()
    assert "60.0 → 55.0" in other.content.decode()


def test_retention_is_by_the_headline_in_any_order_of_keys(run: int) -> None:
    # PostgreSQL puts shorter keys first: "clip" before "picture".
    results = {"overall": {"retention": [0.9] * TRIPS}, "clip": {"retention": [0.1] * TRIPS}}
    Chain.objects.filter(run=run).update(results=results)
    (line,) = pages.lines_of(Suite.objects.get())
    assert {one["kept"] for one in pages.rated_images(line, "brisque", TRIPS)} == {0.9}


def test_unknown_parameters_are_not_cached(run: int, client: Client) -> None:
    for query in ("suite=none", "trip=4", "metric=beauty", "model=nobody", "since=never"):
        answer = client.get(f"/no-reference/?{query}")
        assert answer.status_code == 200, query
        assert answer["Cache-Control"] == "no-store", query


def test_all_numbers_can_be_downloaded(run: int, client: Client) -> None:
    answer = client.get("/no-reference/numbers.csv")
    head, *rows = answer.content.decode().splitlines()
    assert head == ",".join(pages.COLUMNS)
    assert len(rows) == 3 * 2  # three metrics, since the source and since the first restored image
    assert rows[0].startswith("tiny-v1,noise,")
    assert f"no-reference-{Suite.objects.get().key}.csv" in answer["Content-Disposition"]


def test_no_metric_is_praised_if_each_calls_every_restored_image_worse(run: int) -> None:
    say(Run.objects.get(pk=run), brisque=[30.0 + n for n in range(TRIPS + 1)])
    lines = pages.lines_of(Suite.objects.get())
    said = pages.finding(lines, pages.metrics_of(lines), TRIPS)
    assert said == (
        "No metric calls a worn image better than its source at trip 5, "
        f"where only {percent(0.3)} of the image is kept"
    )
    assert pages.totals(lines, ["brisque"], TRIPS, "source")[0].worse == 1.0


def test_a_suite_without_ratings_explains_how_to_compute_them(run: int, client: Client) -> None:
    NoReferenceResult.objects.all().delete()
    assert "convergebench weights" in client.get("/no-reference/").content.decode()
