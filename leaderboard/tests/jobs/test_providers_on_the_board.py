"""Every hosted provider plays a suite through the site's jobs and ends on the board."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.test import Client

from evaluation.content import catalog
from evaluation.content.suites import Suite
from evaluation.editors import load_editor
from evaluation.editors.payloads import IMAGE_ADDRESS
from evaluation.images import EncodedImage
from evaluation.testing.fake_providers import FAKES, KEY, FakeProvider, by_editor
from evaluation.testing.fake_providers.server import Edit
from leaderboard import jobs
from leaderboard.content import loading
from leaderboard.models import Call, EditingModel, Run, Trip
from leaderboard.models.runs import RunState
from leaderboard.testing import factories
from leaderboard.testing.bundle_runs import bundle_of
from leaderboard.testing.worker_processes import WorkerProcesses

PRICE = "0.04"


@pytest.fixture(autouse=True)
def _settings(quick_metrics: None, settings: Any) -> None:
    settings.PUBLISH_AT_ONCE = True


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, FakeProvider]]:
    """All providers at once; each answers with the reference editor that saves as JPEG."""
    edit = remembered(by_editor(load_editor("jpeg")))
    with ExitStack() as stack:
        fakes = {name: stack.enter_context(fake(edit=edit)) for name, fake in FAKES.items()}
        for fake in fakes.values():
            for name, value in fake.environment.items():
                monkeypatch.setenv(name, value)
        yield fakes


def remembered(edit: Edit) -> Edit:
    """The same edit, cached for requests that another provider has answered already."""
    answers: dict[tuple[str, str], EncodedImage] = {}

    def remembering(image: EncodedImage, prompt: str, seed: int | None) -> EncodedImage:
        request = image.sha256, prompt
        if request not in answers:
            answers[request] = edit(image, prompt, seed)
        return answers[request]

    return remembering


def hosted(fake: FakeProvider) -> EditingModel:
    options = {**fake.options, "timeout": 60}  # patience: nothing here is about slowness
    return factories.editing_model(
        f"by-{fake.name}", fake.name, options=options, price_per_edit=PRICE
    )


def on_board(run: Run, suite_edits: int) -> None:
    """Assert that the run is complete, paid for and ranked, and its model on the board."""
    run.refresh_from_db()
    assert (run.state, run.reason_text, run.progress.last_error) == (RunState.FINISHED, "", "")
    assert run.complete
    assert run.current
    assert run.is_ranked, run.review.flags
    assert run.ledger.filter(outcome=Call.ANSWERED).count() == run.progress.calls == suite_edits
    assert run.progress.spent_usd > 0
    standing = run.standings.get(scope="all", metric__name="psnr", threshold=0.5)
    assert standing.counts["completed"] == standing.counts["chains"] > 0
    assert standing.rank is not None
    page = Client().get("/", {"suite": run.suite.slug}).content.decode()
    assert f"/models/{run.editing_model.slug}/" in page
    assert KEY not in page


@pytest.mark.django_db
@pytest.mark.parametrize("name", sorted(FAKES))
def test_a_hosted_model_is_played_scored_and_ranked(
    name: str, fakes: dict[str, FakeProvider], local: None
) -> None:
    suite = factories.tiny_suite(images=1, trips=2)
    run = jobs.start(hosted(fakes[name]), suite)
    jobs.play(run.pk)
    jobs.score(run.pk)
    on_board(run, 8)
    assert fakes[name].edits == 8
    assert {trip.chain.run_id for trip in Trip.objects.select_related("chain")} == {run.pk}


@pytest.mark.django_db
def test_an_image_that_is_lost_is_fetched_again_while_the_provider_keeps_it(
    fakes: dict[str, FakeProvider], local: None, tmp_path: Path
) -> None:
    run = jobs.start(hosted(fakes["fal"]), factories.tiny_suite(images=1, trips=2))
    jobs.play(run.pk)
    jobs.score(run.pk)
    trip = Trip.objects.filter(chain__run=run, number=2).select_related("restored")[0]
    assert trip.restored is not None
    data = trip.restored.read().data
    default_storage.delete(trip.restored.name)
    jobs.recover_images(run.pk)
    assert trip.restored.read().data == data
    on_board(run, 8)
    assert fakes["fal"].edits == 8
    # The address must not be public, because it may be signed.
    with zipfile.ZipFile(bundle_of(run, tmp_path)) as archive:
        assert trip.restored_notes[IMAGE_ADDRESS] not in archive.read("bundle.json").decode()
    default_storage.delete(trip.restored.name)
    fakes["fal"].files.clear()
    jobs.recover_images(run.pk)
    run.refresh_from_db()
    assert run.state == RunState.QUEUED


def part_of_smoke() -> Suite:
    """Return a small part of the smoke suite, since all providers play it.

    It has flips and turns only: networks for other edits would take most of the time.
    """
    smoke = catalog.suite("smoke")
    cases = tuple(c for c in smoke.cases if smoke.pair_by_slug[c.pair].change == "exact")[:2]
    images, pairs = {case.image for case in cases}, {case.pair for case in cases}
    return replace(
        smoke,
        slug="part",
        trips=2,
        cases=cases,
        images=tuple(image for image in smoke.images if image.slug in images),
        pairs=tuple(pair for pair in smoke.pairs if pair.slug in pairs),
    )


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_runs_of_all_providers_at_once_through_real_workers_end_on_the_board(
    fakes: dict[str, FakeProvider], tmp_path: Path, valkey: Any
) -> None:
    suite = loading.load_suite(part_of_smoke(), loading.Loaded())
    assert suite is not None
    runs = [jobs.start(hosted(fake), suite) for fake in fakes.values()]
    unwell = (RunState.PAUSED, RunState.FAILED)

    def all_finished() -> bool:
        states = Run.objects.values_list("state", "reason_text")
        assert not [text for state, text in states if state in unwell]
        return {state for state, _ in states} == {RunState.FINISHED}

    with WorkerProcesses(tmp_path, PUBLISH_AT_ONCE=1, METRICS="psnr", LEASE_SECONDS=30) as workers:
        workers.start("edits")
        workers.start("gpu")
        workers.wait(all_finished, seconds=900)  # a busy machine makes no test fail
        assert KEY not in workers.logs()
    for run in runs:
        on_board(run, suite.core.edits)
    assert {fake.edits for fake in fakes.values()} == {suite.core.edits}
