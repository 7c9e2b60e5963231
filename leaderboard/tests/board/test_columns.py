"""One list of columns defines the page, the sort choices, the CSV and the API."""

from __future__ import annotations

import csv
import io
import re

import pytest

from leaderboard import formatting
from leaderboard.api.schemas import BoardRowOut
from leaderboard.board import columns
from leaderboard.board.columns import (
    COLUMNS,
    Column,
    api_columns,
    heads,
    page_columns,
    sort_columns,
)
from leaderboard.board.row import BoardFilters
from leaderboard.board.rows import RANKED, board_rows
from leaderboard.models import Run, RunProgress
from leaderboard.testing.boards import make_model, make_run, make_suite

pytestmark = pytest.mark.django_db


@pytest.fixture
def suite():
    suite = make_suite(images=2)
    make_run(make_model("Alpha", price_per_edit="0.2", provider="Zed"), suite, 3, rank=2)
    make_run(make_model("beta", price_per_edit="0.1", open_weights=None), suite, 800, rank=1)
    make_run("Gamma", suite, metrics=())
    make_run(make_model("Oracle", is_reference=True), suite, 7)
    return suite


def page(client, query=""):
    return client.get(f"/{query}").content.decode()


def heads_in(html):
    """The names of the table's columns, read from the classes of its headers."""
    head = html[html.index("<thead>") : html.index("</thead>")]
    return [c.split()[-1] for c in re.findall(r'<th scope="col"\s+class="([^"]*)"', head)][1:]


def sorts_in(html):
    chosen = html[html.index('name="sort"') :]
    return re.findall(r'<option value="([^"]*)"', chosen[: chosen.index("</select>")])


def test_page_sort_choices_csv_and_api_have_exactly_the_listed_columns(client, suite):
    html = page(client)
    assert heads_in(html) == [column.name for column in page_columns(())]
    assert sorts_in(html) == list(sort_columns())
    rows = list(csv.reader(io.StringIO(page(client, "?format=csv"))))
    assert rows[0] == [column.file_name for column in COLUMNS]
    within = {"model", "standing", "semantic"}
    assert set(BoardRowOut.model_fields) - within == {c.file_name for c in api_columns()}
    (row, *_) = client.get("/api/v1/leaderboard").json()["rows"]
    assert set(row) == set(BoardRowOut.model_fields)


def test_columns_not_in_the_apis_rows_are_elsewhere_in_its_response(client, suite):
    board = client.get("/api/v1/leaderboard").json()
    row = board["rows"][0]
    api_fields = {*board, *board["suite"], *row["model"], *row["standing"], *row["semantic"]}
    api_fields |= {
        "model",
        "semantic_metric",
        "semantic_half_life",
    }  # model.name, semantic.metric …
    assert {column.file_name for column in COLUMNS if not column.in_api} <= api_fields


def test_every_row_of_the_page_has_a_cell_for_each_column(client, suite):
    html = page(client)
    body = html[html.index("</thead>") : html.index("</table>")]
    count = len(page_columns(())) + 1  # the tick
    for line in re.findall(r"<tr.*?</tr>", body, re.DOTALL):
        spans = [int(span) for span in re.findall(r'colspan="(\d+)"', line)]
        assert (spans or [len(re.findall(r"<t[dh][ >]", line))]) == [count], line


def test_a_new_column_appears_on_the_page_in_the_sort_choices_and_in_the_csv(
    client, suite, monkeypatch
):
    new = Column(
        name="letters",
        field="letters_in_name",
        value=lambda row: len(row.model.name) if row.standing else None,
        help="Nothing to do with editing.",
        label="Letters",
        text=lambda value: formatting.count(value, "letter") if value else "none",
        low=5,
    )
    monkeypatch.setattr(columns, "COLUMNS", (*COLUMNS, new))
    html = page(client, "?sort=-letters")
    assert heads_in(html)[-1] == "letters"
    assert sorts_in(html).count("-letters") == 1
    assert html.index(">beta<") < html.index(">Alpha<")
    assert '<td class="num fact low" data-label="Letters">4 letters</td>' in html
    assert '<td class="num fact" data-label="Letters">6 letters</td>' in html
    assert '<td class="num fact" data-label="Letters">none</td>' in html
    lines = list(csv.DictReader(io.StringIO(page(client, "?format=csv&sort=letters"))))
    assert [(line["model"], line["letters_in_name"]) for line in lines] == [
        ("Alpha", "5"),
        ("beta", "4"),
        ("Gamma", ""),
        ("Oracle", "6"),
    ]


@pytest.mark.parametrize("sort", [sign + name for name in sort_columns() for sign in ("", "-")])
def test_every_column_sorts_both_ways_with_unknown_values_last(client, suite, sort):
    rows = board_rows(BoardFilters(suite, sort=sort))
    assert len(rows) == 4
    column = sort_columns()[sort.removeprefix("-")]
    values = [column.sort_key(row) for row in rows if row.group == RANKED]
    known = [value for value in values if value is not None]
    assert values == known + [None] * (len(values) - len(known))
    assert known == sorted(known, reverse=column.largest_first != sort.startswith("-"))
    html = page(client, f"?sort={sort}")
    assert html.count("aria-current" if column.under else "aria-sort") >= 1


def test_the_second_click_on_a_header_reverses_the_order(client, suite):
    assert "sort=-usable" in page(client, "?sort=usable")
    assert "sort=usable" in page(client, "?sort=-usable")


def test_names_sort_without_regard_to_case(suite):
    ranked = [row for row in board_rows(BoardFilters(suite, sort="name")) if row.group == RANKED]
    assert [row.model.name for row in ranked] == ["Alpha", "beta"]


def test_labels_name_the_threshold_and_have_few_words(client, suite):
    html = page(client, "?threshold=0.75")
    assert "Trips to slightly worn" in html
    assert "Semantic trips to slightly worn" in html
    assert "The semantic half-life is by ImageNet features" in page(client)
    shown = [head.label for head in heads(BoardFilters(suite))]
    assert all(len(label.split()) <= 2 for label in shown), shown


def test_the_csv_distinguishes_unreached_unmeasured_and_unknown(client, suite):
    RunProgress.objects.filter(run__editing_model__slug="alpha").update(edits_done=0)
    lines = csv.DictReader(io.StringIO(page(client, "?format=csv")))
    by_model = {line["model"]: line for line in lines}
    assert by_model["beta"]["half_life"] == by_model["beta"]["half_life_low"] == "> 20"
    assert by_model["Gamma"]["half_life"] == by_model["Gamma"]["rank"] == ""
    assert by_model["Alpha"]["half_life"] == "3.0"
    assert by_model["Alpha"]["usd_per_edit"] == "0.2"
    assert by_model["Alpha"]["median_seconds"] == ""
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", by_model["Alpha"]["date"])


def test_a_model_that_rarely_makes_the_edit_is_marked(client, suite):
    run = Run.objects.get(editing_model__slug="alpha")
    for standing in run.standings.all():
        standing.counts["change_seen"] = 0.79
        standing.save()
    assert 'class="num fact low" data-label="Change seen">79' in page(client)


def test_time_per_edit_is_the_same_number_everywhere(client, suite):
    run = Run.objects.get(editing_model__slug="alpha")
    RunProgress.objects.filter(run=run).update(median_seconds=0.003, p95_seconds=0.018)
    run.editing_model.save()  # a new stamp: nothing that was kept is shown
    lines = csv.DictReader(io.StringIO(page(client, "?format=csv")))
    assert next(line for line in lines if line["model"] == "Alpha")["median_seconds"] == "0.003"
    assert client.get(f"/api/v1/runs/{run.pk}").json()["median_seconds"] == 0.003
    for html in (page(client), client.get("/models/alpha/").content.decode()):
        assert "3\u00a0ms" in html
        assert "95\u00a0% within 18\u00a0ms" in html.replace("95 %", "95\u00a0%")
