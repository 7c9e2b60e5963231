"""Published values of others are drawn with our curves, attributed, and never ranked."""

from __future__ import annotations

import html
import json
import re

import pytest

from leaderboard.models import PublishedFigure
from leaderboard.pages import reported
from leaderboard.testing.boards import make_model, make_run, make_suite

pytestmark = pytest.mark.django_db


def figure(model: str = "Flux", trip: int = 10, value: float = 0.41, **fields: object):
    values = {
        "metric": "lpips",
        "source": "A paper",
        "source_url": "https://example.org/paper",
        "published_on": "2026-02-01",
    }
    return PublishedFigure.objects.create(
        model_name=model, trip=trip, value=value, **values | fields
    )


def page(client, path: str) -> str:
    return html.unescape(client.get(path).content.decode())


def traces(client, path: str = "/models/flux/") -> dict[str, dict]:
    text = client.get(path).content.decode()
    found = re.search(r'<script id="published-figure"[^>]*>(.*?)</script>', text, re.S)
    return {trace["name"]: trace for trace in json.loads(found[1])["data"]} if found else {}


def figure_of_retention(client) -> str:
    text = page(client, "/models/flux/")
    return re.search(r'<script id="curves-figure".*?</script>', text, re.S)[0]


@pytest.fixture
def board():
    suite = make_suite()
    make_run(make_model("Flux"), suite, 9.0, rank=1)
    make_run(make_model("Beta"), suite, 4.0, rank=2)
    return suite


def test_published_figures_are_drawn_with_our_curve_and_have_source_and_date(client, board):
    figure(trip=5, value=0.3)
    figure(trip=10, value=0.41)
    drawn = traces(client)
    theirs = drawn["Flux (published elsewhere)"]
    assert (theirs["x"], theirs["y"]) == ([5, 10], [0.3, 0.41])
    assert theirs["line"]["dash"] == "dot"
    assert "A paper, 1 February 2026" in theirs["text"][0]
    assert len(drawn["Flux"]["y"]) == board.trips + 1
    # Without scripts the same is in the table, and the source is a link.
    text = page(client, "/models/flux/")
    assert re.search(
        r"Flux \(published elsewhere\)</th>.*?0\.410.*?A paper, 1 February 2026", text, re.S
    )
    assert 'href="https://example.org/paper"' in text


def test_published_figures_change_no_rank_row_or_retention_curve(client, board):
    before = client.get("/api/v1/leaderboard").json()
    curves = figure_of_retention(client)
    figure(model="Nobody here", value=0.001)
    assert client.get("/api/v1/leaderboard").json() == before
    assert figure_of_retention(client) == curves

    assert "Nobody here (published elsewhere)" in traces(client)


def test_without_figures_of_this_metric_there_is_no_such_chart(client, board):
    figure(metric="ssim")
    assert traces(client, "/models/flux/?metric=lpips") == {}
    assert "published elsewhere" not in page(client, "/models/flux/")


def test_a_cached_page_is_renewed_for_a_new_figure(client, board):
    assert traces(client) == {}
    row = figure()
    assert traces(client)
    row.value = 0.5
    row.save()
    assert traces(client)["Flux (published elsewhere)"]["y"] == [0.5]
    row.delete()
    assert traces(client) == {}


def test_the_models_own_figures_come_first_and_the_rest_is_hidden_at_first(client, board):
    for number in range(12):
        figure(model=f"Other {number}")
    figure(model="FLUX!")
    drawn = traces(client)
    names = [name for name in drawn if "elsewhere" in name]
    assert names[0] == "FLUX! (published elsewhere)"
    assert len(names) == reported.LINES + reported.MORE_LINES
    hidden = [name for name in names if drawn[name].get("visible") == "legendonly"]
    assert len(hidden) == reported.MORE_LINES


def test_a_hostile_name_stays_text(client, board):
    figure(model="<img src=x onerror=alert(1)>", source="</script><b>x")
    text = client.get("/models/flux/").content.decode()
    assert "<img src=x" not in text
    assert "</script><b>" not in text
    assert any(name.startswith("&lt;img") for name in traces(client))


def test_a_figure_after_our_last_trip_is_drawn_too(client, board):
    figure(trip=50)
    text = client.get("/models/flux/").content.decode()
    found = re.search(r'<script id="published-figure"[^>]*>(.*?)</script>', text, re.S)
    assert json.loads(found[1])["layout"]["xaxis"]["range"][1] > 50
    assert "after 50 round trips" in text


def test_the_api_returns_published_figures_with_their_sources(client, board):
    figure()
    figure(metric="ssim")
    answer = client.get("/api/v1/published-figures?metric=lpips").json()
    assert answer["count"] == 1
    assert answer["items"][0]["source_url"] == "https://example.org/paper"


def test_the_title_of_the_chart_of_all_metrics_uses_their_labels(client, board):
    metrics = ("overall", "lpips", "imagenet", "text")
    run = make_run("Gamma", board, metrics=metrics)
    for standing in run.standings.all():
        standing.curve["mean"][-1] = {"overall": 0.0, "lpips": 0.45, "text": 1.0}.get(
            standing.metric.name, 0.2
        )
        standing.save()
    text = page(client, "/models/gamma/")
    assert (
        "After 20 round trips, 45\u00a0% is kept by LPIPS, the most lenient metric, "
        "and 0\u00a0% by Overall" in text
    )
