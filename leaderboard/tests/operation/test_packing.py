"""Answers of ended runs are kept for less, and nothing that anybody computes changes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import default_storage, storages
from django.core.management import CommandError, call_command
from django.db.models import F
from django.test import Client

from evaluation.bundle import format as bundles
from evaluation.bundle.checks import DIFFERENT
from evaluation.bundle.verification import Verification
from leaderboard import garbage, jobs
from leaderboard.models import Chain, Run, Standing, StoredImage, Trip
from leaderboard.operation import packing
from leaderboard.testing import bundle_runs, factories
from leaderboard.testing.played import once, play

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick_metrics")]


@pytest.fixture(scope="module")
def played(django_db_setup: None, django_db_blocker: Any) -> Iterator[Run]:
    def make() -> Run:
        run = play("resample", factories.tiny_suite(1, trips=8))
        # Pictures as small as these gain nothing: as if they had come from a wasteful encoder.
        keys = [row.pk for row in answers(run)]
        StoredImage.objects.filter(pk__in=keys).update(bytes=F("bytes") + 10_000)
        return run

    yield from once(django_db_blocker, make)


@pytest.fixture
def run(played: Run) -> Iterator[Run]:
    """The run; files that a test removes are put back."""
    rows = StoredImage.objects.all()
    kept = {row.original_name: default_storage.open(row.original_name).read() for row in rows}
    yield Run.objects.select_related("suite", "editing_model").get(pk=played.pk)
    for row in rows:
        default_storage.delete(row.copy_name)
    for name, data in kept.items():
        if not default_storage.exists(name):
            with default_storage.open(name, "wb") as file:
                file.write(data)


def answers(run: Run) -> list[StoredImage]:
    keys = Trip.objects.filter(chain__run=run).values_list("edited", "restored")
    return list(StoredImage.objects.filter(pk__in={key for pair in keys for key in pair}))


def test_a_packed_picture_is_smaller_and_has_the_very_same_pixels(run: Run):
    before = {row.pk: row.read() for row in answers(run)}
    found = packing.pack_run(run)
    assert found.packed == len(before) == found.pictures
    for row in answers(run):
        assert row.packed_sha256
        assert row.packed_bytes < row.bytes
        assert not default_storage.exists(row.original_name)
        assert row.read().image.tobytes() == before[row.pk].image.tobytes()
    assert packing.pack_run(run).packed == 0, "once is enough"
    source = run.suite.pictures.first().stored
    assert default_storage.exists(source.original_name), "sources stay as they are"
    assert not list(garbage.lost())
    assert not {row.original_name for row in answers(run)} & set(garbage.orphans())


def test_a_row_that_was_read_before_packing_still_finds_its_picture(run: Run):
    stale = answers(run)[0]
    pixels = copy.copy(stale).read().image.tobytes()
    packing.pack_run(run)
    assert stale.read().image.tobytes() == pixels
    default_storage.delete(stale.copy_name)
    with pytest.raises(FileNotFoundError):
        stale.read()


def test_a_packed_run_scores_packs_up_and_verifies_as_before(run: Run, tmp_path: Path):
    numbers = ("level", "scope", "usable_trips", "auc", "curve")
    before = list(Standing.objects.filter(run=run).order_by("pk").values(*numbers))
    packing.pack_run(run)
    jobs.score_again(run)
    jobs.score(run.pk)
    assert list(Standing.objects.filter(run=run).order_by("pk").values(*numbers)) == before
    run.refresh_from_db()
    with bundles.read(bundle_runs.bundle_of(run, tmp_path)) as bundle:
        wrong = [c for c in Verification(bundle).checks() if c.verdict == DIFFERENT]
        assert wrong == []
        half = bundle.document.chains[0].trips[0].forward
        assert half
        assert half.packed_sha256
        assert half.mime == "image/png"


def test_pages_show_a_packed_picture_and_hand_out_what_is_kept(run: Run, client: Client):
    packing.pack_run(run)
    row = answers(run)[0]
    shown, handed = client.get(row.copy_url), client.get(row.original_url)
    assert (shown.status_code, handed.status_code) == (200, 200)
    assert handed["Content-Type"] == "image/webp"
    assert handed["Content-Disposition"].endswith(f'{row.pk}.webp"')


def test_the_same_answer_again_is_found_packed_and_its_file_is_garbage(run: Run):
    row = answers(run)[0]
    picture = row.read()
    packing.pack_run(run)
    StoredImage.objects.get_or_store(picture)
    StoredImage.objects.write_bytes(picture)
    mine = {one.original_name for one in answers(run)}
    assert mine & set(garbage.orphans()) == {row.original_name}
    default_storage.delete(row.original_name)


def test_trips_that_nobody_looks_at_go_cold_and_can_still_be_read(
    run: Run, settings: Any, tmp_path: Path
):
    backend = settings.STORAGES["default"]["BACKEND"]
    cold = {"BACKEND": backend, "OPTIONS": {"location": str(tmp_path)}}
    settings.STORAGES = settings.STORAGES | {"cold": cold}
    before = {row.pk: row.read().image.tobytes() for row in answers(run)}
    found = packing.pack_run(run)
    moved = StoredImage.objects.filter(cold=True)
    assert found.moved == moved.count() > 0
    for chain in run.chains.all():
        warm = packing.at_hand(chain)
        assert packing.AT_HAND - {10, 20} <= warm
        for trip in chain.trips.select_related("restored"):
            assert trip.restored.cold is (trip.number not in warm)
    for row in moved:
        assert not default_storage.exists(row.name)
        assert storages["cold"].exists(row.name)
        assert row.read().image.tobytes() == before[row.pk]
    assert not list(garbage.lost())


def test_the_trip_on_which_a_chain_ended_stays_at_hand():
    events = {"0.5": {"time": 6.3, "cause": "place"}, "0.9": {"time": 3.0, "cause": "not_made"}}
    chain = Chain(trips_played=9, results={"picture": {"events": events}})
    assert packing.at_hand(chain) - packing.AT_HAND == {6, 7, 4, 9}


def test_the_command_says_what_takes_how_much(run: Run):
    out = StringIO()
    call_command("pack_pictures", stdout=out)
    assert f"{len(answers(run))} packed" in out.getvalue()
    call_command("storage", stdout=out)
    for words in ("all pictures", f"run {run.pk}: {run}", "originals/", "Packing saved"):
        assert words in out.getvalue()
    with pytest.raises(CommandError, match="No finished run 99"):
        call_command("pack_pictures", 99)


def test_runs_are_packed_by_night_once_they_are_old_enough(run: Run, settings: Any):
    assert run not in packing.due()
    settings.PACK_AFTER_DAYS = 0
    assert not packing.due().exists()
    settings.PACK_AFTER_DAYS = 1e-9
    assert run in packing.due()
    jobs.collect_garbage(0)
    assert all(row.packed_sha256 for row in answers(run))
    assert run not in packing.due()
