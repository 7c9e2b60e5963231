"""Votes as tables: in the admin, the API, bundles and datasets."""

from __future__ import annotations

import csv
import io
import json

import pytest
from django.contrib.auth.models import Group, User
from django.urls import reverse

from evaluation.bundle import document as bundles
from evaluation.bundle.verify import vote_checks
from leaderboard.exports import bundles as site_bundles
from leaderboard.exports import datasets
from leaderboard.models import EditingModel, Run, Vote, Voter
from leaderboard.people import vote_rows
from leaderboard.testing.bundle_runs import altered
from leaderboard.testing.votable import cast_votes

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator(client, board):
    user = User.objects.create_user("ada", password="x", is_staff=True)
    user.groups.add(Group.objects.get(name="operator"))
    client.force_login(user)
    return client


def test_admins_read_votes_and_voters_and_cannot_change_them(operator, board):
    cast_votes("pair", voters=3, each=10)
    for name in ("vote", "voter"):
        page = operator.get(reverse(f"admin:leaderboard_{name}_changelist"))
        assert page.status_code == 200
        assert operator.get(reverse(f"admin:leaderboard_{name}_add")).status_code == 403
    vote = Vote.objects.first()
    page = operator.get(reverse("admin:leaderboard_vote_change", args=[vote.pk]))
    assert page.status_code == 200
    assert 'type="submit"' not in page.content.decode().split("<main", 1)[-1]
    sent = operator.post(
        reverse("admin:leaderboard_vote_changelist"),
        {"action": "download", "_selected_action": [vote.pk]},
    )
    text = b"".join(sent.streaming_content).decode()
    (row,) = csv.DictReader(io.StringIO(text))
    assert row["answer"] in ("first", "second", "cannot say")
    assert row["first_model"] in ("oracle", "alder", "beech", "cedar", "noise")
    assert 0 <= float(row["first_lpips"]) <= 1
    assert row["case"]


def test_the_api_returns_every_public_vote_without_identities(client, board):
    crowd = cast_votes("pair", voters=3, each=10)
    sent = client.get("/api/v1/votes?limit=200").json()
    assert sent["count"] == Vote.objects.count()
    row = next(row for row in sent["items"] if row["role"] == "")
    assert row["answer"] in ("first", "second")
    assert row["first"]["model"] != ""
    assert 0 <= row["first"]["retention"]["overall"] <= 1
    assert {row["voter"] for row in sent["items"]} == {vote_rows.pseudonym(one) for one in crowd}
    text = json.dumps(sent)
    assert not any(one.key in text for one in crowd)
    assert not any(vote.ticket in text or vote.session in text for vote in Vote.objects.all())
    Run.objects.filter(editing_model__slug="beech").update(published=False)
    left = client.get("/api/v1/votes?limit=200").json()
    assert 0 < left["count"] < sent["count"]
    assert "beech" not in json.dumps(left)
    assert client.get("/api/v1/votes?kind=usable").json()["count"] == 0
    assert client.get("/api/v1/votes?suite=nowhere").json()["count"] == 0
    assert client.get("/api/v1/agreement").json() == {}


def test_a_bundle_carries_the_votes_on_its_run_and_they_are_checked(board, tmp_path):
    cast_votes("pair", voters=4, each=12)
    cast_votes("usable", voters=2, each=8, seed=1)
    run = Run.objects.select_related("suite", "editing_model").get(editing_model__slug="beech")
    path = tmp_path / "run.zip"
    site_bundles.write(run, path)
    with bundles.read(path) as bundle:
        votes = bundle.document.votes
        checks = list(vote_checks(bundle))
    assert len(votes) == Vote.objects.public().about(run).count() > 10
    assert {check.verdict for check in checks} == {"equal"}
    for line in votes:
        assert (line.kind == "pair") == (line.against is not None)
    stored = list(vote_rows.with_related(Vote.objects.public().about(run)))
    for vote, line in zip(stored, votes, strict=True):
        if vote.question.first.chain.run_id != run.pk:
            assert line.answer == -vote.answer
            assert line.stood_left is not vote.first_left
    text = path.read_bytes()
    assert not any(one.key.encode() in text for one in Voter.objects.all())

    def forge(document):
        document["votes"][0]["answer"] = 1 - document["votes"][0]["answer"] ** 2
        document["votes"][1]["trip"] = 99

    with bundles.read(altered(path, forge)) as bundle:
        wrong = [check for check in vote_checks(bundle) if check.verdict == "different"]
    assert {(check.line, check.what) for check in wrong} >= {
        ("vote 1", "digest"),
        ("vote 2", "digest"),
        ("vote 2", "restored image is present"),
    }


def test_the_dataset_has_votes_as_preference_pairs_with_models_metrics_and_images(board, tmp_path):
    cast_votes("pair", voters=2, each=10)
    counts = datasets.export(tmp_path / "out")
    rows = [json.loads(line) for line in (tmp_path / "out/votes.jsonl").read_text().splitlines()]
    assert len(rows) == counts.votes == Vote.objects.count()
    for row in rows:
        assert row["answer"] in ("first", "second", "cannot say")
        for side in ("first", "second"):
            assert EditingModel.objects.filter(slug=row[side]["model"]).exists()
            assert row[side]["retention"].keys() == {"overall", "lpips"}
        for name in row["images"].values():
            assert (tmp_path / "out" / name).is_file()
    Run.objects.filter(editing_model__slug="beech").update(published=False)
    datasets.export(tmp_path / "again")
    assert "beech" not in (tmp_path / "again/votes.jsonl").read_text()
