from __future__ import annotations

import json
import re

import pytest
from django.urls import reverse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leaderboard.board.query import PARAMETERS, BoardQuery
from leaderboard.board.row import BoardFilters, semantic_of
from leaderboard.board.rows import RANKED, UNRANKED, board_rows, stamp
from leaderboard.models import (
    EditingModel,
    MetricVersion,
    Run,
    Standing,
    StoredImage,
    Suite,
    SuiteImage,
    Trip,
)
from leaderboard.models.runs import RunState
from leaderboard.testing.boards import (
    make_model,
    make_run,
    make_standing,
    make_suite,
    metric_version,
)

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def suite():
    return make_suite(images=2)


def names(rows):
    return [row.model.name for row in rows]


def page(client, query=""):
    response = client.get(f"/{query}")
    assert response.status_code == 200
    return response.content.decode()


def test_the_board_is_ordered_by_usable_trips_even_if_no_half_life_is_reached(suite):
    make_run("Short", suite, 3)
    endless = [make_run(name, suite, 500) for name in ("Less usable", "More usable")]
    endless[0].standings.update(usable_trips=15)
    make_run("Middle", suite, 6)
    assert names(board_rows(BoardFilters(suite))) == [
        "More usable",
        "Less usable",
        "Middle",
        "Short",
    ]


def test_a_shared_first_place_names_whose_half_life_it_gives(client, suite):
    make_run("Aurora", suite, 4, rank=1)
    make_run("Borealis", suite, 4, rank=1)
    assert "share first place: they last " in page(client)
    make_run("Cascade", suite, 5, rank=1)
    assert "share first place; Cascade lasts " in page(client)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"complete": False, "chains_done": 5}, "3 cases missing"),
        ({"flags": [{"kind": "copies"}]}, "Flagged"),
        ({"state": RunState.PLAYING, "current": False, "complete": False}, "Playing now"),
        (
            {"state": RunState.PAUSED, "reason_text": "no money", "current": False},
            "Paused: no money",
        ),
        ({"state": RunState.FAILED, "current": False}, "The run failed"),
        ({"source": Run.Source.EXTERNAL}, "not checked yet"),
        ({"source": Run.Source.EXTERNAL, "verified": False}, "numbers not reproduced"),
        ({"source": Run.Source.PUBLISHED}, "Published elsewhere"),
        ({"metrics": ()}, "Overall not run"),
    ],
)
def test_a_run_that_cannot_rank_is_listed_with_the_reason(client, suite, fields, reason):
    make_run("Good", suite, 2, rank=1)
    make_run("Odd one", suite, 9, **fields)
    rows = board_rows(BoardFilters(suite))
    assert [(row.model.name, row.group) for row in rows] == [
        ("Good", RANKED),
        ("Odd one", UNRANKED),
    ]
    assert reason in rows[1].reason
    assert reason in page(client)


def test_one_row_per_model_from_its_current_run(suite):
    model = make_model("Twice")
    make_run(model, suite, 4)
    make_run(model, suite, 9, state=RunState.PLAYING, current=False)
    (row,) = board_rows(BoardFilters(suite))
    assert row.half_life == 4


def test_a_metric_that_was_not_run_is_shown_as_not_run_and_never_as_zero(client, suite):
    make_run("With", suite, metrics=("lpips", "ssim"))
    make_run("Without", suite, metrics=("ssim",))
    html = page(client, "?metric=lpips")
    row = html[html.index(">Without<") :]
    assert "not run" in row[: row.index("</tr>")]


def test_the_semantic_metric_is_clip_only_if_every_model_shown_has_it(client, suite):
    make_run("A", suite, metrics=("lpips", "imagenet", "clip"))
    assert semantic_of(board_rows(BoardFilters(suite))) == "clip"
    make_run("B", suite, metrics=("lpips", "imagenet"))
    assert semantic_of(board_rows(BoardFilters(suite))) == "imagenet"
    assert "ImageNet features" in page(client)


def test_versions_of_a_metric_never_mix(suite):
    for name in ("A", "B"):
        make_run(name, suite)
    old = make_run("Old", suite, 19)
    older = MetricVersion.objects.create(name="overall", version="old")
    old.standings.filter(metric__name="overall").update(metric=older)
    rows = board_rows(BoardFilters(suite))
    assert names(rows) == ["A", "B", "Old"]
    assert rows[2].standing is None
    assert "another version" in rows[2].reason


def test_standings_of_another_method_version_are_not_shown(suite):
    make_run("Today", suite, 3)
    make_run("Before", suite, 19).standings.update(method_version="1")
    rows = board_rows(BoardFilters(suite))
    assert [(row.model.name, row.group) for row in rows] == [
        ("Today", RANKED),
        ("Before", UNRANKED),
    ]


def test_the_board_opens_on_the_most_important_suite_that_has_results(client, suite):
    make_suite("big", title="Big one", importance=99, images=1)
    make_run("A", suite)
    assert "on Demo v1" in page(client)


def test_suites_are_chosen_by_key_or_by_name_alone(suite):
    newer = make_suite("demo", version=2, images=1)
    assert BoardQuery.parse({"suite": "demo-v1"}).filters.suite == suite
    assert BoardQuery.parse({"suite": "demo"}).filters.suite == newer


def test_a_category_ranks_by_its_own_standings(client, suite):
    first = make_run("First overall", suite, 9)
    second = make_run("First at geometry", suite, 2)
    for run, half_life in ((first, 3), (second, 7)):
        make_standing(run, metric_version("lpips"), half_life, scope="category:geometry").save()
    rows = board_rows(BoardFilters(suite, scope="category:geometry"))
    assert names(rows) == ["First at geometry", "First overall"]
    assert "Geometry" in page(client, "?cases=category:geometry")


def test_the_state_of_the_board_is_in_its_url(suite):
    make_run("A", suite, metrics=("lpips", "ssim"))
    parameters = {
        "suite": "demo-v1",
        "metric": "ssim",
        "threshold": "0.75",
        "cases": "category:geometry",
        "weights": "open",
        "sort": "-price",
        "every": "1",
    }
    filters = BoardQuery.parse(parameters).filters
    assert filters.query() == (
        "suite=demo-v1&metric=ssim&threshold=0.75&cases=category:geometry"
        "&weights=open&sort=-price&every=1"
    )


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    query=st.dictionaries(
        st.sampled_from(PARAMETERS),
        # NUL never reaches a page.
        st.text(st.characters(exclude_characters="\x00", codec="utf-8"), max_size=30),
    )
)
def test_no_url_breaks_the_board(client, suite, query):
    assert client.get("/", query).status_code == 200


def test_reference_runs_in_progress_have_a_progress_bar_and_private_runs_have_none(client, suite):
    fields = {"state": RunState.PLAYING, "current": False, "edits_done": 3, "edits_total": 12}
    fields |= {"chains_total": 2}
    make_run(make_model("Reference editor", is_reference=True), suite, published=False, **fields)
    make_run("Secret", suite, published=False, **fields)
    html = page(client)
    assert "3 of 12 edits" in html
    steps = 12 + 2 * suite.trips
    assert re.search(rf'<progress max="{steps}"\s+value="3"', html)
    assert "Secret" not in html


def test_search_engines_index_the_board_but_not_its_sorted_variants(client, suite):
    make_run("A", suite)
    assert "X-Robots-Tag" not in client.get("/")
    assert client.get("/?sort=price")["X-Robots-Tag"] == "noindex"


def test_the_stamp_changes_with_everything_the_board_shows(suite):
    seen = {stamp()}
    run = make_run("A", suite)
    seen.add(stamp())
    Run.objects.filter(pk=run.pk).update(published=False)
    seen.add(stamp())
    run.editing_model.save()
    seen.add(stamp())
    EditingModel.objects.update(status=EditingModel.Status.HIDDEN)
    seen.add(stamp())
    suite.save()
    seen.add(stamp())
    Suite.objects.update(importance=7)
    seen.add(stamp())
    Standing.objects.all().delete()
    seen.add(stamp())
    assert len(seen) == 8


def test_an_older_version_of_a_suite_points_to_the_newer_one(client, suite):
    make_run("A", suite)
    assert "newer version" not in page(client)
    make_suite("demo", version=2, images=1)
    assert "?suite=demo-v2" in page(client, "?suite=demo-v1")
    assert "newer version" not in page(client, "?suite=demo-v2")


def test_results_published_elsewhere_are_shown_with_their_source_and_never_ranked(client):
    suite = make_suite(
        "theirs", images=1, published_elsewhere=True, source_url="https://example.org/"
    )
    make_run("Their model", suite, 4, rank=1, source=Run.Source.PUBLISHED)
    html = page(client)
    assert "published by others" in html
    assert "https://example.org/" in html
    assert "Published by others" in html
    assert "Their model keeps" in html
    assert [row.group for row in board_rows(BoardFilters(suite))] == [UNRANKED]


def test_a_board_of_a_hundred_models_stays_within_its_size_limit(client, suite):
    for number in range(100):
        make_run(
            make_model(f"Image Editing Model {number}", slug=f"image-editing-model-{number}"),
            suite,
            1 + number / 6,
            rank=number + 1,
        )
    for name in ("Oracle", "JPEG 75 each step", "Noise", "Resample", "Blank card"):
        make_run(make_model(name, is_reference=True), suite, 7)
    assert len(page(client).encode()) < 120_000


def stored(number):
    return StoredImage.objects.create(
        sha256=f"{number:064x}", mime="image/png", width=64, height=48, bytes=9
    )


@pytest.mark.parametrize("reference", [True, False])
def test_the_board_opens_with_one_case_in_images(client, suite, reference):
    SuiteImage.objects.update(stored=stored(1))
    run = make_run(make_model("A", is_reference=reference), suite, chains=True)
    case = suite.cases.order_by("category", "position").first()
    Trip.objects.bulk_create(
        Trip(
            chain=run.chains.get(case=case),
            number=n,
            edited=stored(10 + n),
            restored=stored(40 + n),
        )
        for n in range(1, 21)
    )
    html = page(client)
    shown = [f"{number:064x}" for number in (1, 60)]
    assert [html.index(sha256) for sha256 in shown] == sorted(map(html.index, shown))
    assert "after 20 trips" in html
    words = "a reference editor that damages the image a little at each step (A)"
    assert (words in html) == reference
    assert f"/runs/{run.pk}/cases/{case.pk}/" in html


def test_a_model_that_makes_no_edits_is_not_in_the_chart(client, suite):
    run = make_run("Copies its input", suite, 1e6, rank=1)
    for standing in run.standings.all():
        standing.counts["change_seen"] = 0
        standing.save()
    make_run("Edits", suite, 5, rank=2)
    title = re.search(r"<figcaption>\s*<h2>(.*?)</h2>", page(client))[1]
    assert "Edits" in title
    assert "Copies its input" not in title


def test_only_reading_is_allowed(client):
    assert client.post(reverse("board")).status_code == 405


def test_the_chart_of_reference_editors_names_those_that_lose_something_but_not_all(client, suite):
    for name, half_life in (("Oracle", 1e6), ("Noise", 4), ("Blur", 9), ("Blank card", 0)):
        make_run(make_model(name, is_reference=True), suite, half_life)
    html = page(client)
    title = re.search(r'id="curves".*?<h2>(.*?)</h2>', html, re.S)[1]
    assert title.startswith("Reference editors: after ")
    assert "Blur keeps" in title
    assert "Noise" in title
    assert not {"Oracle", "Blank card"} & set(re.findall(r"Oracle|Blank card", title))
    figure = json.loads(re.search(r'<script id="curves-figure"[^>]*>(.*?)</script>', html, re.S)[1])
    greys = {t["name"] for t in figure["data"] if t["line"].get("color") == "var(--ink-3)"}
    assert greys == {"Oracle", "Blank card"}
    texts = [note["text"] for note in figure["layout"]["annotations"]]
    assert {"a blank card", "clearly damaged", "Oracle", "Blank card"} == set(texts)


def test_a_flagged_model_has_its_number_a_reason_and_a_thin_grey_line(client, suite):
    make_run("Ranked", suite, 5, rank=1)
    flagged = make_run("Flagged", suite, 7.3, complete=False)
    html = page(client)
    row = re.search(r'<tbody class="unranked">.*?</tbody>', html, re.S)[0]
    assert "<b>7.3</b>" in row
    assert "Incomplete: not every case has a result" in row
    assert flagged.get_absolute_url() in row
    figure = json.loads(re.search(r'<script id="curves-figure"[^>]*>(.*?)</script>', html, re.S)[1])
    line = next(t for t in figure["data"] if t["name"] == "Flagged (not ranked)")["line"]
    assert line["color"] == "var(--ink-3)"
    assert line["width"] < 2


def test_a_suite_without_intervals_is_called_too_narrow(client):
    run = make_run(make_model("Oracle", is_reference=True), make_suite(images=2))
    assert "No model is ranked here yet" in page(client)
    run.standings.update(has_interval=False)
    run.editing_model.save()  # a new stamp
    html = page(client)
    assert "This suite has too few images or edits to rank models" in html
    assert (
        "Submit a model</a>\n            "
        not in html.split("too few images", 1)[1].split("</td>")[0]
    )


def test_the_editor_that_does_nothing_has_a_note_on_its_loss(client, suite):
    make_run(make_model("Do nothing", is_reference=True, editor="noop"), suite)
    make_run(make_model("Noise", is_reference=True, editor="noise"), suite)
    assert page(client).count("sent with faint noise (dither)") == 1


def test_rows_are_sorted_by_rank_unless_sorted_by_half_life(client, suite):
    make_run("Wide", suite, 4.0, rank=1)
    make_run("Narrow", suite, 6.0, rank=2)
    rows = BoardQuery.parse({"suite": suite.key}).rows()
    assert names(rows) == ["Wide", "Narrow"]
    assert names(BoardQuery.parse({"sort": "half_life"}).rows()) == ["Narrow", "Wide"]


def test_a_row_names_the_contract_and_the_sizes_sent_and_returned(client, suite):
    wire = {"model": {"contract": "huggingface"}, "answers": {"returned": 1024}}
    make_run("Called", suite, rank=1, provenance=wire)
    make_run(make_model("Scale", is_reference=True), suite, provenance=wire)
    words = f"huggingface, sent at {suite.size:,}, returned at 1,024 px"
    assert page(client).count(words) == 1
