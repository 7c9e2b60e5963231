"""Exports have the numbers of the pages, in files that are safe to open."""

from __future__ import annotations

import csv
import io
import json

import django_rq
import pytest
from django.contrib.auth.models import User
from django.core.files.storage import default_storage
from django.urls import reverse
from django.utils import timezone

from leaderboard import jobs
from leaderboard.exports import scores as score_exports
from leaderboard.models import EditingModel, Run, Submission, Suite
from leaderboard.standings import refresh_ranks
from leaderboard.submissions import workflow
from leaderboard.testing.boards import make_model, make_run, make_suite
from leaderboard.testing.losing_runs import losing_run, losing_suite

pytestmark = pytest.mark.django_db


@pytest.fixture
def suite() -> Suite:
    return losing_suite()


def table(answer) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(answer.content.decode())))


def test_the_board_as_csv_has_the_rows_of_the_page(client):
    demo = make_suite()
    make_run(make_model("Alpha"), demo, 9.0, rank=1)
    make_run(make_model("Beta"), demo, 60.0, rank=1)
    rows = table(client.get("/?format=csv"))
    assert [(row["model"], row["half_life"]) for row in rows] == [
        ("Beta", "> 20"),
        ("Alpha", "9.0"),
    ]
    assert [row["model"] for row in table(client.get("/?format=csv&sort=name"))] == [
        "Alpha",
        "Beta",
    ]
    assert b"<!doctype" in client.get("/?sort=name").content.lower()


@pytest.mark.parametrize("name", ["=HYPERLINK(1)", "+1+cmd", "-1+cmd", "@SUM(1)"])
def test_exported_cells_are_never_formulas(client, name):
    make_run(make_model(name, slug="m"), make_suite(), 9.0)
    cell = table(client.get("/?format=csv"))[0]["model"]
    assert cell.startswith("'")


def test_every_score_of_a_run_is_in_csv_and_json(client, suite):
    run = losing_run(suite, "m", 0.1)
    lines = b"".join(client.get(f"/runs/{run.pk}/scores.csv").streaming_content).decode()
    rows = list(csv.DictReader(io.StringIO(lines)))
    assert len(rows) == 24 * 10
    assert float(rows[0]["retention"]) == pytest.approx(0.9)
    data = json.loads(b"".join(client.get(f"/runs/{run.pk}/scores.json").streaming_content))
    assert len(data) == 240
    assert data[0]["distance"] == pytest.approx(0.08)
    Run.objects.update(published=False)
    assert client.get(f"/runs/{run.pk}/scores.csv").status_code == 404


def models_in(client, suite) -> set[str]:
    """Return the models in the suite's Parquet file; empty without a file."""
    pq = pytest.importorskip("pyarrow.parquet")
    answer = client.get(f"/suites/{suite.slug}/{suite.version}/scores.parquet")
    if answer.status_code == 404:
        return set()
    result = pq.read_table(io.BytesIO(b"".join(answer.streaming_content)))
    assert result.schema.metadata[b"content_hash"].decode() == suite.content_hash
    assert result.num_rows == 240 * len(set(result["model"].to_pylist()))
    return set(result["model"].to_pylist())


def test_a_suites_parquet_has_the_scores_that_are_public_now(client, suite):
    run = losing_run(suite, "one", 0.1)
    refresh_ranks(suite)
    assert models_in(client, suite) == set()  # no worker has written it yet
    jobs.export(suite.pk)
    assert models_in(client, suite) == {"one"}
    losing_run(suite, "two", 0.2)
    refresh_ranks(suite)
    jobs.export(suite.pk)
    assert models_in(client, suite) == {"one", "two"}

    # A withdrawn run is in no file from that moment on, even if no worker has run.
    Run.objects.filter(pk=run.pk).update(published=False)
    refresh_ranks(suite)
    assert models_in(client, suite) == set()
    jobs.export(suite.pk)
    assert models_in(client, suite) == {"two"}


def test_older_files_of_a_suite_are_deleted(suite):
    for name in ("one", "two"):
        losing_run(suite, name, 0.1)
        refresh_ranks(suite)
        jobs.export(suite.pk)
    stem = score_exports.file_name(suite).split("/")[1].rsplit("-", 1)[0]
    files = [file for file in default_storage.listdir("exports")[1] if file.startswith(stem)]
    assert [f"exports/{file}" for file in files] == [score_exports.file_name(suite)]
    Run.objects.update(published=False)
    jobs.export(suite.pk)
    assert not [file for file in default_storage.listdir("exports")[1] if file.startswith(stem)]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("way", ["withdraw the run", "hide the model", "withdraw the submission"])
def test_every_way_off_the_board_requires_a_new_file(client, suite, valkey, way):
    run = losing_run(suite, "m", 0.1)
    refresh_ranks(suite)
    queue = django_rq.get_queue("gpu")
    queue.empty()
    client.force_login(User.objects.create_superuser("owner"))
    if way == "withdraw the run":
        page = reverse("admin:leaderboard_run_changelist")
        client.post(page, {"action": "withdraw", "_selected_action": [run.pk]})
    elif way == "hide the model":
        page = reverse("admin:leaderboard_editingmodel_change", args=[run.editing_model_id])
        form = client.get(page).context["adminform"].form
        values = {name: form[name].value() for name in form.fields}
        values = {name: value for name, value in values.items() if value not in (None, False)}
        answer = client.post(page, values | {"status": "hidden", "options": "{}"})
        assert answer.status_code == 302, answer.context["errors"]
    else:
        submission = Submission.objects.create(
            name="m",
            email="a@b.example",
            suite=suite,
            editing_model=run.editing_model,
            state=Submission.State.APPROVED,
        )
        workflow.withdraw(submission)
    assert [job.rsplit("-", 2)[0] for job in queue.get_job_ids()] == [f"export-{suite.pk}"]


def test_a_file_that_was_never_written_is_stale(suite):
    losing_run(suite, "m", 0.1)
    refresh_ranks(suite)
    assert score_exports.stale() == [suite]
    jobs.export(suite.pk)
    assert score_exports.stale() == []


def test_a_citation_names_suite_version_hash_and_view(client):
    demo = make_suite()
    make_run(make_model("Alpha"), demo, 9.0, thresholds=(0.5, 0.75))
    text = client.get("/cite.bib?threshold=0.75").content.decode()
    assert f"content hash {demo.content_hash[:12]}" in text
    assert "threshold=0.75" in text
    assert f"suite={demo.slug}-v1" in text


def test_a_citation_of_the_headline_is_dated_and_links_to_that_day(client):
    demo = make_suite()
    make_run(make_model("Alpha"), demo, 9.0)
    today = timezone.localdate()
    page = client.get("/").text
    assert f"{today:%-d %B %Y}. " in page
    link = f"/new/board/?suite={demo.slug}-v1&date={today:%Y-%m-%d}"
    assert link in client.get("/cite.bib").text
    assert client.get(link).status_code == 200


def test_a_badge_shows_half_life_and_rank_escaped(client):
    make_run(make_model("Alpha"), make_suite(), 9.0, rank=2)
    EditingModel.objects.create(slug="new", name="New", editor="noop")
    answer = client.get("/badges/alpha.svg")
    assert "half-life 9.0 trips, rank 2" in answer.content.decode()
    assert answer["Content-Type"] == "image/svg+xml"
    assert "not measured" in client.get("/badges/new.svg").content.decode()
    assert client.get("/badges/nobody.svg").status_code == 404
