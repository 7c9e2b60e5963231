"""The API returns the numbers of the pages, and never more than is public."""

from __future__ import annotations

import html

import pytest
import schemathesis
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from leaderboard import formatting, visitors
from leaderboard.api.schemas import absolute
from leaderboard.models import (
    ApiToken,
    Case,
    EditingModel,
    PublishedFigure,
    Question,
    Run,
    Submission,
    Suite,
    Trip,
    Vote,
    Voter,
)
from leaderboard.models.runs import RunState
from leaderboard.testing.boards import make_chains, make_model, make_run, make_suite
from leaderboard.testing.large_board import invent_board

pytestmark = pytest.mark.django_db


@pytest.fixture
def board():
    suite = make_suite()
    runs = {}
    for name, half_life in (("Alpha", 9.0), ("Beta", 4.0), ("Gamma", 25.0)):
        runs[name] = make_run(make_model(name), suite, half_life)
        make_chains(runs[name], half_life, ["lpips"])
    return suite, runs


def get(client: Client, path: str, **query: str):
    return client.get(f"/api/v1{path}", query)


def test_the_board_and_the_page_give_the_same_numbers(client, board):
    suite, _ = board
    rows = get(client, "/leaderboard").json()["rows"]
    page = html.unescape(client.get("/").content.decode())
    names = [row["model"]["name"] for row in rows]
    assert sorted(names, key=page.index) == names
    for row in rows:
        assert formatting.half_life(row["standing"]["half_life"], suite.trips) in page


def test_the_api_has_the_filters_of_the_page_and_reports_invalid_values(client, board):
    answer = get(client, "/leaderboard", threshold="0.75", metric="nonsense", sort="name").json()
    assert answer["threshold"] == 0.75
    assert [row["model"]["name"] for row in answer["rows"]] == ["Alpha", "Beta", "Gamma"]
    assert "nonsense" in answer["remarks"][0]


def test_lists_are_paginated(client, board):
    first = get(client, "/models", limit="2").json()
    rest = get(client, "/models", limit="2", offset="2").json()
    assert first["count"] == 3
    assert [m["name"] for m in first["items"] + rest["items"]] == ["Alpha", "Beta", "Gamma"]
    assert get(client, "/models", limit="9999").status_code == 422


def test_a_run_has_chains_and_standings(client, board):
    _, runs = board
    run = runs["Alpha"]
    assert get(client, f"/runs/{run.pk}").json()["model"] == run.editing_model.slug
    chains = get(client, f"/runs/{run.pk}/chains").json()["items"]
    assert chains[0]["results"]["lpips"]["retention"]
    standings = get(client, f"/runs/{run.pk}/standings", metric="lpips").json()["items"]
    assert {standing["scope"] for standing in standings} >= {"all"}


def test_unpublished_runs_are_not_found(client, board):
    _, runs = board
    Run.objects.filter(pk=runs["Alpha"].pk).update(published=False)
    EditingModel.objects.filter(name="Beta").update(status=EditingModel.Status.HIDDEN)
    for name in ("Alpha", "Beta"):
        assert get(client, f"/runs/{runs[name].pk}").status_code == 404
        assert get(client, f"/runs/{runs[name].pk}/chains").status_code == 404
    assert get(client, "/runs").json()["count"] == 1
    assert "Beta" not in get(client, "/models").content.decode()


def test_no_response_contains_a_key(client, board):
    EditingModel.objects.update(api_key="sk-canary", options={"api_key_env": "X"})
    for path in ("/leaderboard", "/models", "/runs"):
        assert "canary" not in get(client, path).content.decode()


def test_a_request_with_the_etag_gets_no_body(client, board):
    tag = get(client, "/leaderboard").headers["ETag"]
    again = client.get("/api/v1/leaderboard", headers={"If-None-Match": tag})
    assert again.status_code == 304
    assert again.content == b""


def test_other_sites_may_read_the_api(client, board):
    answer = client.get("/api/v1/models", headers={"Origin": "https://elsewhere.example"})
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    page = client.get("/", headers={"Origin": "https://elsewhere.example"})
    assert "Access-Control-Allow-Origin" not in page.headers


def test_lists_take_the_same_number_of_queries_for_any_number_of_rows(
    client, django_assert_num_queries
):
    invent_board(models=2, cases=6, trips=3)
    Suite.objects.create(slug="other", title="Other", status=Suite.Status.FROZEN)
    for number in range(3):
        figure = {"metric": "lpips", "trip": number, "value": 0.5, "source": "A paper"}
        PublishedFigure.objects.create(model_name="Fine Editor", **figure)
    run, case = Run.objects.all()[0], Case.objects.all()[0]
    for trip in Trip.objects.filter(number=1, chain__run=run)[:3]:
        question = Question.objects.create(kind="usable", case=trip.chain.case, first=trip)
        answer = {"answer": 1, "answered_at": timezone.now(), "kind": "usable", "place": 0}
        Vote.objects.create(question=question, voter=Voter.objects.create(), **answer)
    for path in (
        "/votes?",
        *("/models?", "/suites?", "/runs?", "/cases?suite=invented&", "/published-figures?"),
        *(f"/runs/{run.pk}/{part}?" for part in ("standings", "chains", f"cases/{case.pk}/trips")),
    ):
        queries = {}
        for limit in (1, 200):
            with CaptureQueriesContext(connection) as captured:
                rows = client.get(f"/api/v1{path}limit={limit}").json()["items"]
            queries[len(rows)] = len(captured)
        assert len(queries) == 2, f"{path} lists too little to tell"
        assert len(set(queries.values())) == 1, (path, queries)
    get(client, "/leaderboard")  # what may be chosen of a suite is read once per process
    for models in (2, 1):
        with django_assert_num_queries(4):
            assert len(get(client, "/leaderboard").json()["rows"]) == models
        EditingModel.objects.filter(pk=run.editing_model_id).update(status="hidden")


def test_a_row_of_a_list_equals_the_response_of_its_own_url(client, board):
    for path, name in (("/models", "slug"), ("/runs", "id"), ("/cases?suite=demo", "id")):
        row = client.get(f"/api/v1{path}").json()["items"][1]
        assert get(client, f"{path.partition('?')[0]}/{row[name]}").json() == row


def test_a_trip_has_its_images_and_every_distance(client):
    invent_board(models=1, cases=3, trips=2)
    trip = Trip.objects.select_related("chain", "restored").get(
        chain__case=Case.objects.first(), number=2
    )
    path = f"/runs/{trip.chain.run_id}/cases/{trip.chain.case_id}/trips"
    answer = get(client, path).json()["items"][1]
    assert answer["restored"]["original"] == absolute(trip.restored.original_url)
    rows = trip.scores.values_list("metric__name", "metric__version", "distance")
    assert answer["distances"] == {f"{name}@{version}": value for name, version, value in rows}
    Trip.objects.update(restored=None)
    assert get(client, path).json()["items"][1]["restored"] is None


def test_a_run_in_progress_shows_its_state(client, board):
    _, runs = board
    Run.objects.filter(pk=runs["Alpha"].pk).update(
        state=RunState.PAUSED, reason_text="Rate limited"
    )
    answer = get(client, f"/runs/{runs['Alpha'].pk}").json()
    assert (answer["state"], answer["reason"]) == ("paused", "Rate limited")


@pytest.mark.django_db
def test_the_rate_limit_is_per_network_or_token_whatever_the_headers(client, monkeypatch, db):
    monkeypatch.setattr(visitors, "LIMITS", visitors.LIMITS | {"api": "2/h"})

    def ask(address: str, path: str = "/models", **headers: str) -> int:
        return client.get(f"/api/v1{path}", REMOTE_ADDR=address, headers=headers).status_code

    assert [ask(f"2001:db8::{n}", **{"X-Forwarded-For": f"203.0.113.{n}"}) for n in range(3)] == [
        *(200, 200),
        429,
    ]
    assert ask("2001:db8:0:1::1") == 200
    signed = [
        {"Authorization": f"Bearer {ApiToken.objects.issue('Same', 'a@fine.example')[1]}"}
        for _ in range(2)
    ]
    assert [ask("2001:db8::9", "/submissions", **signed[0]) for _ in range(3)] == [200, 200, 429]
    assert ask("2001:db8::9", "/submissions", **signed[1]) == 200


@pytest.mark.fuzz
@pytest.mark.django_db(transaction=True)
def test_no_request_breaks_the_schema_or_the_server(board, live_server, limitless):
    """schemathesis generates requests from the API's schema, with a valid token."""
    _, secret = ApiToken.objects.issue("Fine Lab", "ada@fine.example")
    headers = {"Authorization": f"Bearer {secret}"}
    check_operations(live_server, lambda path: "submissions" not in path, headers=headers)


@pytest.mark.both_databases
@pytest.mark.fuzz
@pytest.mark.django_db(transaction=True)
def test_no_submission_breaks_the_schema_or_the_server(board, live_server, limitless):
    """The same for the endpoints of an existing submission."""
    suite, _ = board
    sender, secret = ApiToken.objects.issue("Fine Lab", "ada@fine.example")
    submission = Submission.objects.create(
        name="Fine Editor", email=sender.email, contract="cog", suite=suite, api_token=sender
    )
    check_operations(
        live_server,
        lambda path: "submissions" in path,
        token=submission.token,
        headers={"Authorization": f"Bearer {secret}"},
        # Data that fits the schema may still name an address that is not public.
        excluded_checks=[positive_data_acceptance],
    )


@pytest.fixture
def limitless(settings):
    """The API's schema, without rate limits for thousands of requests."""
    settings.RATELIMIT_ENABLE = False


def check_operations(live_server, wanted, token: str = "", **how: object) -> None:
    url = f"{live_server.url}/api/v1/openapi.json"
    schema = schemathesis.openapi.from_url(url, timeout=120)  # a busy machine is no fault
    schema.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
    unlimited = settings(
        max_examples=max(8, settings().max_examples // 20),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    operations = [found.ok() for found in schema.get_all_operations()]
    operations = [operation for operation in operations if wanted(operation.path)]
    assert operations
    for operation in operations:

        @unlimited
        @given(case=operation.as_strategy())
        def check(case):
            if "token" in (case.path_parameters or {}):
                case.path_parameters["token"] = token
            case.call_and_validate(**how)

        check()
