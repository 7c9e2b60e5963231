"""Stored images: served while a page that the visitor may see shows them."""

from __future__ import annotations

import contextlib
import resource
import threading
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from evaluation.images import EncodedImage
from leaderboard import jobs
from leaderboard.models import EditingModel, Run, SourceImage, StoredImage, Trip, UploadedChain
from leaderboard.models.images import write
from leaderboard.models.runs import RunState
from leaderboard.testing import factories
from leaderboard.testing.played import once, play
from leaderboard.views import images

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick_metrics")]


@pytest.fixture(scope="module")
def played(django_db_setup, django_db_blocker):
    yield from once(
        django_db_blocker, lambda: play("noise", factories.tiny_suite(slug="images")).pk
    )


@pytest.fixture
def run(db, played):
    EditingModel.objects.update(is_reference=False)
    Run.objects.filter(pk=played).update(published=True)
    return Run.objects.get(pk=played)


@pytest.fixture
def answer(run) -> StoredImage:
    """An image that only one model's answer has."""
    return Trip.objects.filter(chain__run=run).first().restored


def statuses(client, stored: StoredImage, **headers: str) -> set[int]:
    addresses = (stored.thumbnail_url, stored.copy_url, stored.original_url)
    return {client.get(address, headers=headers).status_code for address in addresses}


def test_an_image_of_a_public_run_is_cached_briefly(client, answer):
    found = client.get(answer.thumbnail_url)
    assert found.status_code == 200
    assert found["Cache-Control"] == "public, max-age=300, must-revalidate"
    again = client.get(answer.thumbnail_url, headers={"if-none-match": found["ETag"]})
    assert again.status_code == 304


@pytest.mark.parametrize(
    "hide",
    [
        lambda run: Run.objects.filter(pk=run.pk).update(published=False),
        lambda run: EditingModel.objects.filter(runs=run).update(status="hidden"),
    ],
)
def test_hidden_images_are_visible_to_staff_only(client, admin_client, run, answer, hide):
    assert statuses(client, answer) == {200}
    hide(run)
    assert statuses(client, answer) == {404}
    # Nor does a cache hear that what it has is still good.
    tag = f'"thumbnail-{answer.sha256}"'
    assert client.get(answer.thumbnail_url, headers={"if-none-match": tag}).status_code == 404
    assert statuses(admin_client, answer) == {200}
    assert "private" in admin_client.get(answer.thumbnail_url)["Cache-Control"]


def test_images_of_suites_stay_available(client, run):
    assert statuses(client, run.suite.images.first().stored) == {200}


def test_a_draft_is_visible_to_staff_only(client, admin_client):
    stored = StoredImage.objects.get_or_store(EncodedImage.from_image(factories.drawn_image(901)))
    row = SourceImage.objects.create(slug="draft", title="Draft", stored=stored, kind="object")
    assert statuses(client, stored) == {404}
    assert statuses(admin_client, stored) == {200}
    row.status = "active"
    row.save()
    assert statuses(client, stored) == {200}


def test_an_uploaded_image_expires_after_its_day(client):
    stored = StoredImage.objects.get_or_store(EncodedImage.from_image(factories.drawn_image(902)))
    stored.write_copy()
    chain = UploadedChain.objects.create()
    chain.images.create(stored=stored, number=0)
    assert statuses(client, stored) == {200}
    UploadedChain.objects.update(created_at=timezone.now() - timedelta(days=1, minutes=1))
    assert statuses(client, stored) == {404}


def test_the_check_of_access_to_an_image_is_one_query(client, answer, django_assert_num_queries):
    client.get(answer.thumbnail_url)
    with django_assert_num_queries(1):
        client.get(answer.thumbnail_url)


def test_a_large_image_is_not_decoded_for_a_page(client, run, answer):
    default_storage.delete(answer.copy_name)
    StoredImage.objects.filter(pk=answer.pk).update(width=5000, height=5000)
    assert client.get(answer.copy_url).status_code == 404
    answer.write_copy()
    assert client.get(answer.copy_url).status_code == 200


def test_a_lost_image_gives_404(client, answer):
    data = answer.read().data
    for name in (answer.name, answer.thumbnail_name, answer.copy_name):
        default_storage.delete(name)
    assert statuses(client, answer) == {404}
    shown = client.get(answer.thumbnail_url)
    assert "image missing" in shown.content.decode()
    assert shown["Content-Type"] == "image/svg+xml"
    assert "sandbox" in shown["Content-Security-Policy"]
    assert shown["Cache-Control"] == "no-store"
    write(answer.name, data)  # other tests need it
    assert statuses(client, answer) == {200}


def test_an_altered_image_is_never_served_under_its_hash(client, answer, caplog):
    data = answer.data()
    altered = data[:-1] + bytes([data[-1] ^ 1])  # of the same length
    for name in (answer.name, answer.copy_name):
        default_storage.delete(name)
    default_storage.save(answer.name, ContentFile(altered))
    try:
        assert client.get(answer.original_url).status_code == 410
        assert "stored image is altered" in caplog.text
        assert client.get(answer.copy_url).status_code == 410  # it would be made of these bytes
    finally:
        default_storage.delete(answer.name)
        write(answer.name, data)  # other tests need it
    assert statuses(client, answer) == {200}


def test_a_disk_that_fills_up_during_a_write_keeps_no_partial_image(settings, tmp_path):
    """The kernel writes what fits and raises nothing; only the next write fails."""
    settings.MEDIA_ROOT = tmp_path
    _, most = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, most))
    try:
        with pytest.raises(OSError, match="large"):
            default_storage.save("originals/aa/a.png", ContentFile(bytes(130_000)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_the_chain_of_a_lost_image_is_played_again_from_there(local):
    run = play("noise", factories.tiny_suite(2, trips=3, slug="lost"))
    chain = run.chains.first()
    kept, lost = (trip.restored for trip in chain.trips.filter(number__in=(1, 2)))
    default_storage.delete(lost.name)
    jobs.recover_images(run.pk)
    run.refresh_from_db()
    assert run.state == RunState.QUEUED
    chain.refresh_from_db()
    assert (chain.trips_played, chain.trips_scored, chain.outcome) == (1, 1, "")
    calls = run.progress.calls
    jobs.play(run.pk)
    jobs.score(run.pk)
    run.refresh_from_db()
    assert (run.state, run.complete, run.progress.calls - calls) == (RunState.FINISHED, True, 4)
    assert chain.trips.get(number=1).restored == kept
    images = [p for trip in chain.trips.all() for p in (trip.edited, trip.restored)]
    assert all(default_storage.exists(image.name) for image in images)
    jobs.recover_images(run.pk)  # nothing is gone: nothing is played
    run.refresh_from_db()
    assert run.state == RunState.FINISHED


def test_images_of_a_run_under_way_cannot_be_recovered(admin_client):
    run = jobs.start(factories.editing_model("busy", "noise"), factories.tiny_suite(slug="busy"))
    with pytest.raises(jobs.NotAllowed):
        jobs.recover(run)
    with pytest.raises(CommandError, match="recover its images when it has ended"):
        call_command("storage", "recover", str(run.pk))
    data = {"action": "recover", "_selected_action": [run.pk]}
    page = admin_client.post("/admin/leaderboard/run/", data, follow=True).content.decode()
    assert "recover its images when it has ended" in page


def test_lost_images_and_orphans_are_found(run, answer, capsys):
    default_storage.save("originals/ff/" + "f" * 64 + ".png", ContentFile(b"x"))
    call_command("storage", "clean", "--hours", "0")  # what other tests left
    call_command("storage", "verify")
    assert "0 images are lost, 0 files have no row" in capsys.readouterr().out
    default_storage.save("originals/ff/" + "f" * 64 + ".png", ContentFile(b"x"))
    default_storage.delete(answer.name)
    with pytest.raises(CommandError):
        call_command("storage", "verify")
    said = capsys.readouterr().out
    assert f"lost: {answer.name} (needed by run {run.pk})" in said
    assert f"without a row: originals/ff/{'f' * 64}.png" in said


def test_a_page_decodes_one_image_at_a_time():
    """Eight at once took 460 MB of a process that may have 200."""
    at_once, most = [], []

    def decode() -> None:
        at_once.append(1)
        most.append(len(at_once))
        threading.Event().wait(0.02)
        at_once.pop()

    stored = SimpleNamespace(copy_name="copies/none", may_be_decoded_here=True, write_copy=decode)

    def ask() -> None:
        with contextlib.suppress(FileNotFoundError):
            images.content(stored, "copy")

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(most), max(most)) == (6, 1)
