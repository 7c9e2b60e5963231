from __future__ import annotations

import re

import pytest

from evaluation.analysis.case_values import case_values
from evaluation.analysis.comparison import compare
from evaluation.analysis.events import ChainResult
from leaderboard.board.row import BoardFilters
from leaderboard.board.rows import board_rows, stamp
from leaderboard.models import Chain, StoredImage, Trip
from leaderboard.testing.boards import make_model, make_run, make_suite
from leaderboard.views import compare as comparing

pytestmark = pytest.mark.django_db
SCOPES = ("all", "category:accessories", "category:geometry", "kind:face")


@pytest.fixture
def suite():
    return make_suite(images=10, pairs=12)


@pytest.fixture
def runs(suite):
    return [
        make_run(name, suite, half_life, rank=1, chains=True, scopes=SCOPES)
        for name, half_life in (("Long", 14), ("Short", 3), ("Twin", 14.001))
    ]


def page(client, query=""):
    response = client.get(f"/compare/{query}")
    assert response.status_code == 200
    return response.content.decode()


def test_without_a_choice_there_is_a_picker_with_suggestions(client, runs):
    html = page(client)
    assert html.count('type="checkbox"') == 3
    assert "The first three" in html


def test_a_single_model_asks_for_another(client, runs):
    assert "Choose at least one more" in page(client, "?models=long")


def test_two_models_get_a_verdict_a_chart_and_where_each_wins(client, runs):
    html = page(client, "?models=long,short")
    assert re.search(
        r"Long keeps images usable longer than Short, by \d+\.\d to \d+\.\d round trips", html
    )
    assert "clear difference" in html
    assert "3 of 3" in html
    assert 'id="curves-figure"' in html


def test_equal_models_have_no_clear_difference_and_a_hint_on_distinguishing_them(client, runs):
    chains = list(runs[2].chains.all())
    for chain, other in zip(chains, reversed(list(runs[0].chains.all())), strict=True):
        chain.results = other.results
        chain.save()
    html = page(client, "?models=long,twin")
    assert "cannot be distinguished on 120 cases" in html
    assert "no clear difference" in html
    assert "difference of this size" in html or "would decide which lasts longer" in html


def test_the_page_works_with_too_few_images_for_an_interval(client):
    suite = make_suite(images=2)
    for name, half_life in (("Long", 9), ("Short", 3), ("Middle", 6)):
        make_run(name, suite, half_life, chains=True, scopes=SCOPES)
    assert "too few images to decide" in page(client, "?models=long,short,middle")


def test_no_model_lasts_longest_if_all_outlast_the_suite(client, suite):
    for name in ("One", "Two", "Three"):
        make_run(name, suite, 1e6, chains=True, scopes=SCOPES)
    html = page(client, "?models=one,two,three")
    assert (
        "All 3 outlast the suite: after 20 round trips, fewer than half of their images are clearly"
        in html
    )
    assert "both outlast this suite" in html
    assert html.count('<span class="muted">none</span>') == 3


def test_a_gap_to_a_model_beyond_the_suite_is_of_usable_trips_or_a_bound(client, suite):
    for name, half_life in (("Endless", 1e6), ("Nearly", 12), ("Short", 3)):
        make_run(name, suite, half_life, chains=True, scopes=SCOPES)
    html = page(client, "?models=endless,nearly,short")
    assert "≥\u00a0+" in html
    headline = re.search(r"Endless keeps images usable longest of the 3, by (\d+\.\d) to", html)
    usable = re.findall(r"\+(\d+\.\d) \((\d+\.\d) to", html)
    # The nearest of the others, by usable trips.
    assert headline[1] == min((low for _, low in usable), key=float)


def test_the_page_explains_why_half_life_and_usable_trips_disagree(client, runs):
    """One model loses three of five cases at once and keeps the others to the end."""
    trips = runs[0].suite.trips
    for place, chain in enumerate(runs[0].chains.all()):
        chain.numbers("overall")["retention"] = [0.1 if place % 5 < 3 else 1.0] * trips
        chain.save()
    html = page(client, "?models=long,short")
    assert re.search(
        r"Long has more usable trips than Short but a shorter half-life \(0\.\d against \d\.\d\), "
        "because its most durable images last longer\\.",
        html,
    )
    assert "because" not in page(client, "?models=twin,short")


def test_the_paired_difference_equals_that_of_the_statistics_module(suite, runs):
    rows = [row for row in board_rows(BoardFilters(suite)) if row.model.name in ("Long", "Short")]
    comparisons = comparing.cached_comparisons(rows, BoardFilters(suite), stamp())
    chains = [
        [
            ChainResult(
                chain.case.image.slug,
                chain.case.pair_slug,
                chain.case.category,
                chain.case.kind,
                chain.case.origin,
                chain.repeat,
                tuple(chain.retention("overall")),
            )
            for chain in run.chains.select_related("case__image")
        ]
        for run in runs[:2]
    ]
    expected = compare(*(case_values(own, suite.trips) for own in chains))
    assert comparisons.leader == runs[0].pk
    assert comparisons.against[runs[1].pk] == expected


def test_a_change_that_was_not_seen_ends_the_chain_in_comparisons_too(suite, runs):
    for chain in runs[0].chains.all():
        chain.results["overall"]["gate"] = [3, "not_made"]
        chain.save()
    rows = [row for row in board_rows(BoardFilters(suite)) if row.model.name in ("Long", "Short")]
    comparisons = comparing.cached_comparisons(rows, BoardFilters(suite), stamp())
    (comparison,) = comparisons.against.values()
    assert comparison.first.usable_trips == pytest.approx(2)


@pytest.mark.parametrize("outcome", ["completed", "refused", "lost", ""])
def test_broken_chains_do_not_break_the_page(client, runs, outcome):
    for chain in runs[0].chains.all()[:10]:
        chain.numbers("overall")["retention"] = [0.9, 0.8]
        chain.outcome = outcome
        chain.save()
    Chain.objects.filter(run=runs[1])[:1].get().delete()
    assert re.search(r">\s*119\s*</td>", page(client, "?models=long,short"))


def test_runs_without_a_shared_case_are_shown_without_a_verdict(client, runs):
    Chain.objects.all().delete()
    html = page(client, "?models=long,short")
    assert "2 models side by side" in html


def test_ticked_boxes_become_one_url_to_share(client, runs):
    response = client.get("/compare/?models=long&models=short&suite=demo-v1")
    assert response.status_code == 302
    assert response.url == "/compare/?models=long,short&suite=demo-v1&metric=overall"


def test_unknown_and_too_many_models_are_named(client, suite, runs):
    for number in range(6):
        make_run(f"More {number}", suite, 2)
    html = page(client, "?models=long,nobody,<b>,short,twin,more-0,more-1,more-2,more-3,more-4")
    assert "“nobody” has no results on this suite" in html
    assert "At most 6 models" in html
    assert "<b>”" not in html


def test_reference_editors_can_be_compared_too(client, suite, runs):
    make_run(make_model("Oracle", is_reference=True), suite, 1e6, chains=True)
    assert "Oracle keeps images usable" in page(client, "?models=long,oracle")


def test_the_same_case_is_shown_as_each_model_restored_it(client, suite, runs):
    image = StoredImage.objects.create(
        sha256="ab" * 32, mime="image/png", width=64, height=64, bytes=9
    )
    case = suite.cases.first()
    for run in runs[:2]:
        chain = run.chains.get(case=case)
        Trip.objects.bulk_create(
            Trip(chain=chain, number=n, edited=image, restored=image) for n in range(1, 8)
        )
    html = page(client, f"?models=long,short&case={case.pk}")
    assert html.count(image.thumbnail_url) == 2 * 3  # trips 1, 2 and 5
    assert "no image" in html
    assert 'alt="Long after 5 round trips"' in html


@pytest.mark.parametrize("case", ["x", "-1", "0", "99999999999999999999", "٣", "1e3", ""])
def test_an_unknown_case_falls_back_to_the_widest_gap(client, runs, case):
    assert "The same case by each" in page(client, f"?models=long,short&case={case}")


def test_results_are_cached_until_a_standing_changes(
    client, suite, runs, django_assert_max_num_queries, monkeypatch
):
    page(client, "?models=long,short")
    calls = []
    monkeypatch.setattr(comparing, "compare", lambda *a, **k: calls.append(1) or compare(*a, **k))
    with django_assert_max_num_queries(9):
        page(client, "?models=long,short")
    assert not calls
    make_run("New", suite, 4)
    page(client, "?models=long,short")
    assert calls
