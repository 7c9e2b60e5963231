from __future__ import annotations

import pytest

from leaderboard.board import breakdowns
from leaderboard.testing.boards import (
    make_model,
    make_run,
    make_standing,
    make_suite,
    metric_version,
)

pytestmark = pytest.mark.django_db
SCOPES = ("all", "category:accessories", "category:geometry", "kind:face", "pair:flip")


@pytest.fixture
def suite():
    return make_suite(images=3)


def page(client, query=""):
    response = client.get(f"/categories/{query}")
    assert response.status_code == 200
    return response.content.decode()


def test_the_title_names_the_easiest_and_the_hardest_category(client, suite):
    run = make_run("A", suite, 5)
    for category, half_life in (("geometry", 9), ("accessories", 2)):
        make_standing(
            run, metric_version("overall"), half_life, scope=f"category:{category}"
        ).save()
    html = page(client)
    assert "Geometric edits keep an image longest, accessory edits wear it out first" in html


def test_the_best_model_of_each_category_is_marked(client, suite):
    make_run("Worse", suite, 2, scopes=SCOPES)
    make_run("Better", suite, 8, scopes=SCOPES)
    html = page(client)
    row = html[html.index(">Better<") :]
    assert row[: row.index("</tr>")].count(' best"') == 3
    assert html.count(' best"') == 3 + 1  # and once in the table of pairs


def test_models_with_equal_displayed_values_are_marked_alike(client, suite):
    make_run("First", suite, 2.04, scopes=SCOPES)
    make_run("Second", suite, 2.01, scopes=SCOPES)
    assert page(client).count(' best"') == 2 * (3 + 1)


def test_an_unmeasured_part_is_shown_as_not_run(client, suite):
    make_run("Whole", suite, 2, scopes=SCOPES)
    make_run("Lacks faces", suite, 1, scopes=("all", "category:geometry"))
    row = page(client).partition(">Lacks faces<")[2]
    assert "not run" in row[: row.index("</tr>")]


def test_with_reference_editors_alone_the_page_still_shows_them(client, suite):
    make_run(make_model("Oracle", is_reference=True), suite, 1e6, scopes=SCOPES)
    assert "Oracle" in page(client)


def test_a_pair_links_to_the_board_of_that_pair(client, suite):
    make_run("A", suite, scopes=SCOPES)
    assert "cases=pair:flip" in page(client)


def test_shades_grow_with_half_life_and_stay_on_the_scale():
    shades = [breakdowns.shade(time, 20) for time in (0, 0.5, 2, 5, 10, 20, 25)]
    assert shades == sorted(shades)
    assert (shades[0], shades[-1]) == (0, breakdowns.SHADES - 1)
