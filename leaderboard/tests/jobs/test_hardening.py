"""Runs under attack or accident: shared endpoints, two admins at once, expired uploads."""

from __future__ import annotations

import threading
from datetime import timedelta
from uuid import uuid4

import pytest
from django.core.files.storage import default_storage
from django.db import connection
from django.utils import timezone

from evaluation.images import EncodedImage
from leaderboard import jobs
from leaderboard.jobs.pacing import Pacer
from leaderboard.models import Chain, Run, StoredImage, UploadedChain, Use
from leaderboard.models.runs import ChainState, Outcome, RunState
from leaderboard.testing import factories

pytestmark = pytest.mark.both_databases


def endpoint(slug: str, url: str, **fields: object):
    options = {"url": url, "model": fields.pop("model", "m"), "contract": "openai-edits"}
    return factories.editing_model(slug, "endpoint", options=options, **fields)


@pytest.mark.django_db
def test_an_endpoint_submitted_twice_has_one_limit_and_one_pace(suite):
    one = endpoint("one", "https://api.example.org/v1", max_in_flight=2, calls_per_minute=60)
    two = endpoint(
        "two", "https://API.example.org:443/v1/?x=1", max_in_flight=3, calls_per_minute=60
    )
    other = endpoint("other", "https://api.example.org/v1", model="another", max_in_flight=2)
    assert one.peers == two.peers == [one.pk, two.pk]
    assert other.peers == [other.pk]
    runs = [jobs.start(model, suite) for model in (one, two, other)]
    assert len(Chain.objects.claim(runs[0], uuid4(), 9)) == 2
    assert len(Chain.objects.claim(runs[1], uuid4(), 9)) == 1
    assert not Chain.objects.claim(runs[0], uuid4(), 9)
    assert len(Chain.objects.claim(runs[2], uuid4(), 9)) == 2
    first = Pacer(one)
    delays = [first.reserve() for _ in range(3)]
    assert [delay is None for delay in delays] == [False, False, True]  # now, and in a second
    assert Pacer(two).reserve() is None
    assert Pacer(other).reserve() == 0


@pytest.mark.django_db(transaction=True)
def test_two_admins_at_once_play_no_chain_twice(suite):
    run = jobs.start(factories.editing_model(), suite)
    Chain.objects.filter(run=run).update(state=ChainState.PLAYED, outcome=Outcome.FAILED)
    Run.objects.filter(pk=run.pk).update(state=RunState.PAUSED)
    count = run.chains.count()
    ready, found = threading.Barrier(2), []

    def press() -> None:
        mine = Run.objects.get(pk=run.pk)
        ready.wait()
        found.append(jobs.play_again(mine))
        connection.close()

    threads = [threading.Thread(target=press) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, count]
    run.refresh_from_db()
    assert run.state == RunState.QUEUED
    assert run.chains.filter(state=ChainState.WAITING).count() == count


@pytest.mark.django_db
def test_files_of_an_upload_are_deleted_after_a_day():
    kept = StoredImage.objects.get_or_store(EncodedImage.from_image(factories.drawn_image(801)))
    gone = StoredImage.objects.get_or_store(EncodedImage.from_image(factories.drawn_image(802)))
    gone.write_copy()
    old, young = UploadedChain.objects.create(), UploadedChain.objects.create()
    for number, stored in enumerate((kept, gone)):
        old.images.create(stored=stored, number=number)
    young.images.create(stored=kept, number=0)
    long_ago = timezone.now() - timedelta(days=1, minutes=1)
    UploadedChain.objects.filter(pk=old.pk).update(created_at=long_ago)
    StoredImage.objects.update(created_at=long_ago)
    jobs.sweep()
    assert set(StoredImage.objects.filter(pk__in=(kept.pk, gone.pk))) == {kept}
    assert default_storage.exists(kept.name)
    for name in (gone.name, gone.thumbnail_name, gone.copy_name):
        assert not default_storage.exists(name)


@pytest.mark.django_db
def test_a_workers_clock_collects_garbage_once_a_day(valkey, django_capture_on_commit_callbacks):
    import django_rq

    def sweep() -> list[str]:
        with django_capture_on_commit_callbacks(execute=True):
            jobs.sweep()
        ids = django_rq.get_queue("gpu").get_job_ids()
        django_rq.get_queue("gpu").empty()
        return [job_id for job_id in ids if job_id.startswith("collect_garbage")]

    assert len(sweep()) == 1
    assert not sweep()
    Use.objects.update(since=timezone.now() - timedelta(days=1, minutes=1))
    assert len(sweep()) == 1
    lost = StoredImage.objects.get_or_store(EncodedImage.from_image(factories.drawn_image(803)))
    StoredImage.objects.update(created_at=timezone.now() - timedelta(days=2))
    jobs.collect_garbage(0)
    assert not StoredImage.objects.filter(pk=lost.pk).exists()
