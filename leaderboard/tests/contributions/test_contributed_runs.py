"""From shell to board: a contributed run is recomputed, marked and never ranked."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.files.storage import default_storage
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.test import override_settings
from django.utils import timezone
from django.utils.html import escape

from evaluation.__main__ import main as convergebench
from evaluation.bundle import document as bundles
from evaluation.bundle.verify import Verification
from evaluation.images import encode_png
from leaderboard import job_queue, jobs
from leaderboard.exports import bundles as site_bundles
from leaderboard.models import (
    ContributedRun,
    EditingModel,
    Run,
    Standing,
    StoredImage,
    Suite,
    Trip,
)
from leaderboard.operation import storage
from leaderboard.testing import factories
from leaderboard.testing.bundle_runs import altered, rewritten
from leaderboard.testing.played import play
from leaderboard.testing.shell_runs import shell_bundle

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("quick_metrics", "valkey"),
]
SIZES: dict[str, Any] = {"images": 2, "pairs": (factories.FLIP, factories.REPLICA), "trips": 2}


@pytest.fixture(scope="module")
def packed(tmp_path_factory) -> Path:
    return shell_bundle(tmp_path_factory.mktemp("shell"), **SIZES)


@pytest.fixture
def suite(db):
    return factories.tiny_suite(**SIZES)


def contribute(client, path: Path, **fields: Any):
    values = {"name": "My Editor", "contributed_by": "A Group", "email": "me@example.org"}
    file = SimpleUploadedFile("run.zip", path.read_bytes(), "application/zip")
    return client.post("/contribute/", values | {"bundle": file} | fields)


def contributed(client, path: Path, **fields: Any) -> ContributedRun:
    """Return the contributed run after a worker has checked it."""
    answer = contribute(client, path, **fields)
    assert answer.status_code == 302, answer.content.decode()
    row = ContributedRun.objects.latest("pk")
    assert answer["Location"] == row.get_absolute_url()
    jobs.check_contributed_run(row.pk)
    row.refresh_from_db()
    return row


@pytest.mark.both_databases
def test_a_run_from_the_shell_becomes_a_verified_import(client, suite, packed, tmp_path):
    assert convergebench(["verify", str(packed), "--quiet"]) == 0
    assert contribute(client, packed).status_code == 302
    row = ContributedRun.objects.get()
    waiting = client.get(row.get_absolute_url())
    assert b"Waiting for a worker" in waiting.content
    assert waiting["X-Robots-Tag"] == "noindex"
    assert not Run.objects.exists()  # nothing shows before it is recomputed
    jobs.check_contributed_run(row.pk)
    run = Run.objects.get()
    assert (run.source, run.verified, run.complete, run.published) == ("external", True, True, True)
    assert (run.editing_model.name, run.contributed_by) == ("My Editor", "A Group")
    assert run.played == "recomputed"
    assert not run.is_ranked
    assert run.standings.exists()
    assert not Standing.objects.filter(rank__isnull=False).exists()
    assert not default_storage.exists(row.file_name)
    board = client.get(f"/?suite={suite.key}").content.decode()
    assert "My Editor" in board
    assert "Played elsewhere, numbers checked" in board
    page = client.get(run.get_absolute_url()).content.decode()
    assert "contributed by A Group; every number was recomputed here and matches" in page
    assert "me@example.org" not in board + page
    status = client.get(row.get_absolute_url()).content.decode()
    assert "Published, not ranked: played elsewhere" in status
    # The site's own bundle of it says the same, but for what the site does not take on trust.
    site_bundles.write(run, tmp_path / "site.zip", images=True)
    assert convergebench(["verify", str(tmp_path / "site.zip"), "--quiet"]) == 0
    with bundles.read(packed) as mine, bundles.read(tmp_path / "site.zip") as theirs:
        assert mine.image_hashes == theirs.image_hashes
        for section in ("suite", "sources", "calibrations", "standings"):
            assert mine.raw[section] == theirs.raw[section], section
        ours, other = (b.document.chains for b in (mine, theirs))
        for one, two in zip(ours, other, strict=True):
            assert one.results == two.results
            assert [t.scores for t in one.trips] == [t.scores for t in two.trips]


def test_the_command_accepts_it_too(suite, packed, capsys):
    call_command("import_results", "bundle", str(packed))
    assert "verified: every number was recomputed" in capsys.readouterr().out
    assert Run.objects.get().verified is True


def test_no_admin_can_let_a_contributed_run_rank(client, admin_client, suite, packed):
    row = contributed(client, packed)
    run = row.run
    fields = {"cleared": "on", "published": "on", "decision": "Its marks are leaves."}
    assert admin_client.post(f"/admin/leaderboard/run/{run.pk}/change/", fields).status_code == 302
    run.refresh_from_db()
    assert run.review.cleared
    assert not run.is_ranked
    assert not run.standings.filter(rank__isnull=False).exists()
    assert (
        "The run is shown and never ranked." in client.get(run.get_absolute_url()).content.decode()
    )
    assert admin_client.get("/admin/leaderboard/contributedrun/").status_code == 200
    assert (
        admin_client.get(f"/admin/leaderboard/contributedrun/{row.pk}/change/").status_code == 200
    )


def test_a_contributed_run_is_listed_below_every_ranked_run(client, suite, packed):
    play("noise", suite, name="Worn", options={"sigma": 40})
    contributed(client, packed)
    board = client.get(f"/?suite={suite.key}").content.decode()
    assert board.index("Worn") < board.index("My Editor")


# What is refused, by its name.


def scores(document):
    document["chains"][0]["trips"][0]["scores"]["ssim"] *= 0.5


def shorter(document):
    document["chains"][0]["trips"].pop()


def unmeasured(document):
    document["chains"][0]["trips"][1] |= {"step": None, "from_source": None, "scores": {}}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (scores, "image-0--flip, trip 1, ssim: states"),
        (lambda d: d["run"].update(method_version="1"), "scored by method 1, but this site uses 3"),
        (lambda d: d["chains"].pop(), "1 of 4 chains are missing, such as image-1--replica"),
        (shorter, "completed with only 1 of 2 trips"),
        (unmeasured, "a restored image was not measured"),
        (lambda d: d["chains"][0].update(outcome="lost"), "image-0--flip is not complete"),
        (lambda d: d.update(images=False), "it contains no images"),
        (lambda d: d["run"]["metrics"].pop("ssim"), "it was not scored by ssim"),
        (lambda d: d["run"].update(secret="7" * 64), "run, secret: "),
        (lambda d: d["chains"][0].update(outcome_text="a\0b"), "contains a NUL byte"),
    ],
)
def test_a_changed_value_is_named_in_the_refusal(client, suite, packed, change, why):
    row = contributed(client, altered(packed, change, sealed=True))
    assert row.state == ContributedRun.State.REFUSED
    assert why in row.error
    assert not Run.objects.exists()
    assert not EditingModel.objects.exists()
    assert escape(why.split(":")[0]) in client.get(row.get_absolute_url()).content.decode()
    assert not default_storage.exists(row.file_name)


def test_a_changed_image_is_named_in_the_refusal(client, suite, packed):
    with bundles.read(packed) as bundle:
        edit = bundle.document.chains[0].trips[0].backward
    name = bundles.image_name(edit.sha256, edit.mime)
    other = factories.drawn_image(9)
    row = contributed(client, rewritten(packed, {name: encode_png(other)}))
    assert "image-0--flip, trip 1, backward, hash" in row.error


def test_an_unknown_suite_and_a_sealed_one_get_the_same_message(client, suite, packed):
    Suite.objects.filter(pk=suite.pk).update(sealed=True)
    row = contributed(client, packed)
    assert "its suite tiny v1" in row.error
    assert "is not a suite of this site" in row.error


@pytest.mark.both_databases
def test_a_run_is_not_accepted_twice_nor_if_it_was_played_here(client, suite, packed, tmp_path):
    first = contributed(client, packed)
    again = contributed(client, packed, name="Another Name")
    assert f"it is already on this site as run {first.run_id}" in again.error
    ours = play("noise", suite, name="Ours")
    site_bundles.write(ours, tmp_path / "ours.zip", images=True)
    stolen = contributed(client, tmp_path / "ours.zip", name="Stolen")
    assert f"it is already on this site as run {ours.pk}" in stolen.error


def test_images_of_another_run_are_reported_to_admins(client, suite, packed, tmp_path):
    contributed(client, packed)
    other = shell_bundle(tmp_path, **SIZES)  # the same editor, another secret
    row = contributed(client, other, name="Second")
    assert [hint["text"] for hint in row.run.review.hints if hint["kind"] == "same images"]


# Names, limits, hostile files.


def test_an_existing_name_is_not_taken_over(client, suite, packed):
    factories.editing_model(slug="known")
    answer = contribute(client, packed, name="KNÓWN")
    assert answer.status_code == 422
    assert "“Known” is already on this site" in answer.content.decode()
    row = ContributedRun.objects.create(name="Known", contributed_by="x", email="a@example.org")
    default_storage.save(row.file_name, SimpleUploadedFile("x", packed.read_bytes()))
    jobs.check_contributed_run(row.pk)  # the name was free when it was contributed
    row.refresh_from_db()
    assert "is already on this site" in row.error


def test_another_run_of_the_same_model_is_contributed_from_its_own_page(
    client, suite, packed, tmp_path
):
    first = contributed(client, packed)
    page = client.get(f"/contribute/?of={first.token}").content.decode()
    assert "My Editor" in page
    sizes = SIZES | {"trips": 1, "slug": "tinier"}
    factories.tiny_suite(**sizes)
    second = contributed(client, shell_bundle(tmp_path, **sizes), of=first.token, name="Ignored")
    assert second.run.editing_model == first.run.editing_model
    assert EditingModel.objects.count() == 1


@pytest.mark.parametrize(
    "data",
    [b"", b"GIF89a", b"PK\x03\x04", b"PK\x05\x06" + b"\xff" * 18, b"PK\x03\x04PK\x05\x06"],
)
def test_a_file_that_is_not_a_zip_is_refused_at_once(client, suite, tmp_path, data):
    (tmp_path / "x.zip").write_bytes(data)
    assert contribute(client, tmp_path / "x.zip").status_code == 422
    assert not ContributedRun.objects.exists()


def test_a_zip_that_is_not_a_bundle_is_refused_by_the_worker(client, suite, packed):
    row = contributed(client, rewritten(packed, {bundles.DOCUMENT: b"[" * 100_000}))
    assert "bundle.json is not readable JSON" in row.error


def test_quotas_hold_and_too_many_waiting_runs_are_refused(client, suite, packed):
    with override_settings(CONTRIBUTED_RUNS_WAITING=1, CONTRIBUTED_RUNS_PER_DAY=2):
        assert contribute(client, packed, name="One").status_code == 302
        full = contribute(client, packed, name="Two")
        assert (full.status_code, b"Too many runs are waiting" in full.content) == (429, True)
        jobs.check_contributed_run(ContributedRun.objects.get().pk)
        assert contribute(client, packed, name="Two").status_code == 302
        ContributedRun.objects.update(state="refused")
        again = contribute(client, packed, name="Three")
        assert b"have reached the limit of 2 in 24 hours" in again.content
    with override_settings(CONTRIBUTED_BYTES=100):
        assert b"is larger than 0 MB" in contribute(client, packed, name="Four").content


def test_a_run_that_s3_cannot_store_is_refused_with_a_message(client, suite, packed, s3):
    s3.fails = 503
    answer = contribute(client, packed)
    assert answer.status_code == 503
    assert "cannot be stored right now" in answer.content.decode()
    assert not ContributedRun.objects.exists()


def test_a_run_that_a_full_disk_cannot_store_is_refused_with_a_message(
    client, suite, packed, settings, tmp_path
):
    settings.MEDIA_ROOT = tmp_path / "media"
    settings.MEDIA_ROOT.touch()  # no folder can be made here
    answer = contribute(client, packed)
    assert answer.status_code == 503
    assert not ContributedRun.objects.exists()


@pytest.mark.both_databases
def test_a_bundle_that_crashes_its_worker_is_given_up(client, suite, packed):
    contribute(client, packed)
    row = ContributedRun.objects.get()
    ContributedRun.objects.update(state="checking", attempts=3)
    jobs.check_contributed_run(row.pk)
    row.refresh_from_db()
    assert (row.state, row.attempts) == ("refused", 4)
    assert "failed three times" in row.error


@pytest.mark.both_databases
def test_two_workers_do_not_check_the_same_run_and_a_dead_workers_run_is_taken_over(
    client, suite, packed
):
    contribute(client, packed)
    row = ContributedRun.objects.get()
    assert row.claim()
    jobs.check_contributed_run(row.pk)
    assert not Run.objects.exists()
    ContributedRun.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    jobs.check_contributed_run(row.pk)
    assert Run.objects.get().verified


def test_progress_is_shown_while_the_run_is_checked(client, suite, packed, monkeypatch):
    monkeypatch.setattr("leaderboard.contributions.checking.REPORT_INTERVAL", 0.0)
    seen: list[dict[str, Any]] = []
    save_progress = ContributedRun.save_progress

    def observed(self, done, total):
        is_under_check = save_progress(self, done, total)
        seen.append(client.get(f"{self.get_absolute_url()}state.json").json())
        return is_under_check

    monkeypatch.setattr(ContributedRun, "save_progress", observed)
    contributed(client, packed)
    assert {one["state"] for one in seen} == {"checking"}
    assert [one["done"] for one in seen] == sorted(one["done"] for one in seen)
    assert 0 < seen[-1]["done"] <= seen[-1]["total"]


def test_a_long_check_yields_to_other_jobs_and_resumes_where_it_stopped(
    client, suite, packed, monkeypatch
):
    """A large bundle takes hours; no other run or upload waits that long."""
    monkeypatch.setattr("leaderboard.contributions.checking.REPORT_INTERVAL", 0.0)
    monkeypatch.setattr(job_queue, "should_yield", lambda *_, **__: True)
    looked_at: list[str] = []
    trips = Verification._trips

    def counted(self, chain, *others):
        looked_at.append(chain.name)
        return trips(self, chain, *others)

    monkeypatch.setattr(Verification, "_trips", counted)
    contribute(client, packed)
    row = ContributedRun.objects.get()
    for left in range(1, 4):
        jobs.check_contributed_run(row.pk)
        row.refresh_from_db()
        assert (row.state, row.attempts, len(row.finished)) == ("waiting", 0, left)
    jobs.check_contributed_run(row.pk)
    run = Run.objects.get()
    assert run.verified
    # Each once: what is finished is not looked at again.
    assert len(looked_at) == len(set(looked_at)) == 4
    monkeypatch.setattr(job_queue, "should_yield", lambda *_, **__: False)
    run.delete()
    again = contributed(client, packed, name="In One Piece").run
    assert run.provenance["bundle"]["checks"]["equal"] > 100
    assert again.provenance["bundle"]["checks"] == run.provenance["bundle"]["checks"]


def test_an_error_found_before_the_worker_stopped_is_found_again(
    client, suite, packed, monkeypatch
):
    monkeypatch.setattr("leaderboard.contributions.checking.REPORT_INTERVAL", 0.0)
    contribute(client, altered(packed, scores, sealed=True))
    row = ContributedRun.objects.get()
    stops = iter([False] * 60 + [True])
    monkeypatch.setattr(
        "leaderboard.contributions.checking.stop_requested", lambda: next(stops, False)
    )
    jobs.check_contributed_run(row.pk)
    row.refresh_from_db()
    assert (row.state, row.attempts) == ("waiting", 0)
    jobs.check_contributed_run(row.pk)
    row.refresh_from_db()
    assert "image-0--flip, trip 1, ssim: states" in row.error


@pytest.mark.parametrize(
    "notes",
    [
        {"converted": 5, "reasoning": ["x"]},
        {"converted": "x" * 10**5},
        {"converted": [{"a": 1}], "kept_at": "http://169.254.169.254/latest"},
        {f"note {number}": "x" for number in range(1000)},
    ],
)
def test_unverified_notes_break_no_page_and_are_never_fetched(client, suite, packed, notes):
    def noted(document):
        for edit in ("forward", "backward"):
            document["chains"][0]["trips"][0][edit]["notes"] = notes

    run = contributed(client, altered(packed, noted, sealed=True)).run
    kept = run.chains.get(case__slug="image-0--flip").trips.get(number=1)
    assert len(json.dumps([kept.edited_notes, kept.restored_notes])) < 1000
    assert "kept_at" not in kept.edited_notes
    page = client.get(f"/runs/{run.pk}/cases/{kept.chain.case_id}/")
    assert page.status_code == 200


def unmeasured(document):
    """A chain that broke on its way back, with a witness that was not run."""
    chain = document["chains"][0]
    chain["outcome"] = "refused"
    chain["trips"][1] |= {
        "backward": None,
        "step": None,
        "from_source": None,
        "scores": {},
        "undo": None,
        "change_seen": None,
        "change_measure": {},
        "because": "",
        "window": None,
        "evidence": [
            {"witness": "hue", "thing": "red", "made": True, "undone": None, "gates": False}
        ],
    }


def test_an_unmeasured_trip_must_have_no_measurements(client, suite, packed):
    row = contributed(client, altered(packed, unmeasured, sealed=True))
    assert "an unmeasured trip has measurements" in row.error


def test_a_model_that_an_admin_hid_is_not_shown_again_by_another_run(
    client, suite, packed, tmp_path
):
    first = contributed(client, packed)
    other = shell_bundle(tmp_path, **SIZES)
    contribute(client, other, of=first.token)
    EditingModel.objects.update(status=EditingModel.Status.HIDDEN)
    row = ContributedRun.objects.exclude(pk=first.pk).get()
    jobs.check_contributed_run(row.pk)
    row.refresh_from_db()
    assert "is no longer on this site" in row.error
    assert EditingModel.objects.get().status == EditingModel.Status.HIDDEN
    # Nor is its page offered for one more.
    assert contribute(client, other, of=first.token, name="My Editor").status_code == 422


# The way back.


def test_the_contributor_can_withdraw_a_run(client, suite, packed):
    row = contributed(client, packed)
    run = row.run
    assert client.post(f"{row.get_absolute_url()}withdraw/").status_code == 302
    row.refresh_from_db()
    assert (row.state, row.email, row.remote_address) == ("withdrawn", "", None)
    assert "My Editor" not in client.get("/").content.decode()
    assert b"was withdrawn" in client.get(run.get_absolute_url()).content
    assert b"The run is withdrawn" in client.get(row.get_absolute_url()).content
    assert client.post("/contribute/nobody/withdraw/").status_code == 404
    ContributedRun.objects.update(ended_at=timezone.now() - timedelta(days=31))
    jobs.sweep()
    assert not ContributedRun.objects.exists()


@pytest.mark.both_databases
def test_a_run_withdrawn_during_its_check_is_never_shown(client, suite, packed, monkeypatch):
    monkeypatch.setattr("leaderboard.contributions.checking.REPORT_INTERVAL", 0.0)
    contribute(client, packed)
    row = ContributedRun.objects.get()
    save_progress = ContributedRun.save_progress

    def gone(self, done, total):
        client.post(f"{self.get_absolute_url()}withdraw/")
        return save_progress(self, done, total)

    monkeypatch.setattr(ContributedRun, "save_progress", gone)
    jobs.check_contributed_run(row.pk)
    row.refresh_from_db()
    assert row.state == "withdrawn"
    assert not Run.objects.exists()


def test_files_without_a_waiting_check_are_deleted(client, suite, packed):
    contribute(client, packed)
    kept = ContributedRun.objects.get().file_name
    default_storage.save("contributed/left.zip", SimpleUploadedFile("x", b"x"))
    storage.collect(timedelta(seconds=-1))
    assert default_storage.exists(kept)
    assert not default_storage.exists("contributed/left.zip")


def test_no_web_process_decodes_contributed_images(client, suite, packed):
    row = contributed(client, packed)
    returned = Trip.objects.filter(chain__run=row.run).values("restored")
    images = StoredImage.objects.filter(pk__in=returned)
    assert images
    names = [name for p in images for name in (p.copy_name, p.thumbnail_name)]
    assert all(map(default_storage.exists, names))


def test_an_operator_may_view_contributed_runs(client, django_user_model, suite, packed):
    contributed(client, packed)
    user: User = django_user_model.objects.create_user("op", password="x", is_staff=True)
    user.groups.add(Group.objects.get(name="operator"))
    client.force_login(user)
    assert client.get("/admin/leaderboard/contributedrun/").status_code == 200


def test_the_bundle_contains_no_keys(packed):
    with bundles.read(packed) as bundle:
        assert "api_key" not in json.dumps(bundle.raw)
