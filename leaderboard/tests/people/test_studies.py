"""Closed studies: lists, links, progress, exports; and every vote as a table."""

from __future__ import annotations

import csv
import io
import json

import pytest
from django.contrib.auth.models import Group, User
from django.urls import reverse

from evaluation.bundle import format as bundles
from evaluation.bundle.votes import vote_checks
from leaderboard import jobs
from leaderboard.exchange import bundles as site_bundles
from leaderboard.exchange import datasets
from leaderboard.models import EditingModel, Question, Run, Study, Suite, Vote, Voter
from leaderboard.people import studies, vote_rows
from leaderboard.people.studies import StudyError
from leaderboard.testing.bundle_runs import altered
from leaderboard.testing.votable import cast
from leaderboard.tests.people.conftest import Browser

pytestmark = pytest.mark.django_db
ADD = "admin:leaderboard_study_add"


@pytest.fixture
def operator(client, board):
    user = User.objects.create_user("ada", password="x", is_staff=True)
    user.groups.add(Group.objects.get(name="operator"))
    client.force_login(user)
    return client


def fields(**more):
    base = {"title": "Restoration", "kind": "rating", "votes_each": 4, "open": "on"}
    return base | {"instructions": "Look closely.", "lines": "", "cases": 3, "trips": "1, 2"} | more


def made(client, board, **more):
    models = EditingModel.objects.filter(slug__in=("alder", "beech", "cedar"))
    values = fields(suite=board.pk, models=[m.pk for m in models], more_raters=2, **more)
    answer = client.post(reverse(ADD), values)
    assert answer.status_code == 302, answer.context["adminform"].form.errors
    return Study.objects.get()


def test_an_operator_makes_a_study_gives_links_and_watches_it(operator, board):
    study = made(operator, board)
    assert study.questions.count() == 3 * 3 * 2
    assert set(study.questions.values_list("kind", flat=True)) == {"rating"}
    one, other = studies.progress(study)
    rater = Browser()
    page = rater.client.get(reverse("study", args=[one.token])).content.decode()
    assert "Look closely." in page
    assert "0 of 4 answered" in page
    session = rater.post(reverse("study_session", args=[one.token]), {}).json()
    assert len(session["questions"]) == session["total"] == 4
    for number, question in enumerate(session["questions"]):
        assert rater.client.get(question["pictures"]["left"]).status_code == 200
        assert rater.answer(question["ticket"], "6").status_code == 422
        assert rater.answer(question["ticket"], str(number)).status_code == 200
    again = rater.post(reverse("study_session", args=[one.token]), {}).json()
    assert again["questions"] == []
    page = operator.get(reverse("admin:leaderboard_study_change", args=[study.pk]))
    assert "4 of 4" in page.content.decode()
    assert one.token in page.content.decode()
    assert "0 of 4" in page.content.decode()
    # Each rater begins with what the others were not asked.
    rest = rater.post(reverse("study_session", args=[other.token]), {}).json()["questions"]
    tickets = [q["ticket"] for q in rest]
    seen = set(Vote.objects.filter(voter=one).values_list("question", flat=True))
    mine = set(Vote.objects.filter(ticket__in=tickets).values_list("question", flat=True))
    assert not seen & mine


def test_votes_of_a_study_go_into_csv_and_parquet_with_all_that_is_needed(operator, board):
    pq = pytest.importorskip("pyarrow.parquet")
    study = made(operator, board)
    rater = Browser()
    token = studies.progress(study)[0].token
    for question in rater.post(reverse("study_session", args=[token]), {}).json()["questions"]:
        rater.answer(question["ticket"], "3", seconds=1.5, looked={"zoom": True})
    address = reverse("admin:leaderboard_study_csv", args=[study.pk])
    text = b"".join(operator.get(address).streaming_content).decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 4
    assert {row["answer"] for row in rows} == {"3"}
    for row in rows:
        assert row["study"] == "Restoration"
        assert row["first_model"] in ("alder", "beech", "cedar")
        assert float(row["first_picture"] != "")
        assert 0 <= float(row["first_lpips"]) <= 1
        assert row["zoom"] == "True"
        assert row["seconds"] == "1.5"
        assert row["case"]
        assert row["second_model"] == ""
    file = reverse("admin:leaderboard_study_parquet", args=[study.pk])
    assert operator.get(file).status_code == 302  # a worker is asked
    jobs.export_study(study.pk)
    sent = b"".join(operator.get(file).streaming_content)
    table = pq.read_table(io.BytesIO(sent)).to_pylist()
    assert [row["answer"] for row in table] == ["3"] * 4
    assert set(table[0]) >= set(vote_rows.COLUMNS) | {"first_lpips"}
    # More votes, another file; the old one is gone.
    assert studies.parquet(study) == studies.parquet_name(study)


def test_nobody_but_staff_sees_studies(client, board, operator):
    study = made(operator, board)
    operator.logout()
    for name in ("csv", "parquet"):
        answer = client.get(reverse(f"admin:leaderboard_study_{name}", args=[study.pk]))
        assert answer.status_code == 302
        assert "login" in answer["Location"]
    assert client.get("/vote/study/" + "a" * 32 + "/").status_code == 404
    assert client.get("/api/v1/votes").json()["count"] == 0


def test_a_study_that_is_over_takes_no_more_votes(operator, board):
    study = made(operator, board)
    token = studies.progress(study)[0].token
    Study.objects.update(open=False)
    answer = Browser().post(reverse("study_session", args=[token]), {})
    assert answer.status_code == 410
    assert "thank you" in Browser().client.get(reverse("study", args=[token])).content.decode()


def test_what_raters_are_asked_stays_once_they_have_begun(operator, board):
    study = made(operator, board)
    token = studies.progress(study)[0].token
    Browser().post(reverse("study_session", args=[token]), {})
    address = reverse("admin:leaderboard_study_change", args=[study.pk])
    assert 'name="lines"' not in operator.get(address).content.decode()
    before = set(study.questions.values_list("pk", flat=True))
    operator.post(address, fields(kind="pair", more_raters=1, title="New"))
    study.refresh_from_db()
    assert study.title == "New"
    assert study.kind == "rating"
    assert set(study.questions.values_list("pk", flat=True)) == before
    assert studies.progress(study).count() == 3


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("nonsense", "line 1: expected"),
        ("# a remark\n\ncase, a@1", "line 3: expected"),
        ("case, a@1, a@1", "line 1: a return is compared with itself"),
        ("case, a@1000, b@1", "line 1: expected"),
        ("case, a@1, b@1\n<script>, a@1, b@1", "line 2: expected"),
        ("", "the list is empty"),
        ("case, a@1, b@1\n" * 5001, "5,001 lines are too many"),
    ],
)
def test_a_list_that_makes_no_sense_is_refused_by_its_line(lines, why):
    with pytest.raises(StudyError, match=why):
        studies.parse(lines, "pair")


def test_what_is_not_public_is_in_no_study(board):
    study = Study.objects.create(title="Closed", kind="pair")
    case = board.cases.first().slug
    line = f"{case}, alder@1, beech@1"
    assert studies.set_questions(study, board, line) == 1
    assert studies.set_questions(study, board, line) == 1
    Run.objects.filter(editing_model__slug="beech").update(published=False)
    with pytest.raises(StudyError, match="no public return of beech after trip 1"):
        studies.set_questions(study, board, line)
    Run.objects.update(published=True)
    Suite.objects.update(sealed=True)
    with pytest.raises(StudyError, match="no public return"):
        studies.set_questions(study, board, line)


def test_the_form_says_what_is_missing(operator, board):
    for values, field in (
        (fields(), "lines"),
        (fields(lines="x, y@1"), "suite"),
        (fields(lines="x", suite=board.pk), "lines"),
        (fields(models=[EditingModel.objects.first().pk], suite=board.pk, trips="a"), "trips"),
    ):
        answer = operator.post(reverse(ADD), values)
        assert answer.status_code == 200
        assert field in answer.context["adminform"].form.errors
    assert not Study.objects.exists()


def test_admins_read_votes_and_voters_and_cannot_change_them(operator, board):
    cast("pair", voters=3, each=10)
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
    assert len(text.splitlines()) == 2


def test_the_api_tells_every_public_vote_and_nothing_of_who_it_was(client, board):
    crowd = cast("pair", voters=3, each=10)
    sent = client.get("/api/v1/votes?limit=200").json()
    assert sent["count"] == Vote.objects.count()
    row = next(row for row in sent["items"] if row["role"] == "")
    assert row["answer"] in ("first", "second")
    assert row["first"]["model"] != ""
    assert 0 <= row["first"]["retention"]["picture"] <= 1
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


def test_a_voters_key_is_no_name_outside(board):
    voter = Voter.objects.create()
    assert voter.key not in vote_rows.pseudonym(voter)
    assert Question.objects.exists()


def test_a_bundle_carries_the_votes_on_its_run_and_they_are_checked(board, tmp_path):
    cast("pair", voters=4, each=12)
    cast("usable", voters=2, each=8, seed=1)
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
    stored = list(vote_rows.with_all(Vote.objects.public().about(run)))
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
        ("vote 2", "its return is here"),
    }


def test_the_dataset_has_votes_as_preference_pairs_with_models_metrics_and_pictures(
    board, tmp_path
):
    cast("pair", voters=2, each=10)
    counts = datasets.export(tmp_path / "out")
    rows = [json.loads(line) for line in (tmp_path / "out/votes.jsonl").read_text().splitlines()]
    assert len(rows) == counts.votes == Vote.objects.count()
    for row in rows:
        assert row["answer"] in ("first", "second", "cannot say")
        assert {row["first_model"], row["second_model"]} <= {
            *EditingModel.objects.values_list("slug", flat=True)
        }
        assert row["first_kept"].keys() == row["second_kept"].keys() == {"picture", "lpips"}
        for name in row["pictures"].values():
            assert (tmp_path / "out" / name).is_file()
    Run.objects.filter(editing_model__slug="beech").update(published=False)
    datasets.export(tmp_path / "again")
    assert "beech" not in (tmp_path / "again/votes.jsonl").read_text()
