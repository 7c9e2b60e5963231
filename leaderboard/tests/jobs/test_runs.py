"""Runs, their moves and claims, and how a play job handles each kind of answer."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from cryptography.fernet import Fernet
from django.core.management import call_command
from django.utils import timezone
from PIL import Image

from evaluation.editors import EDITORS, Answer, Editor
from evaluation.errors import Fault
from evaluation.images import EncodedImage, encode_png
from evaluation.testing.editing_server import Call as ServerCall
from evaluation.testing.editing_server import EditingServer, Reply, noisy_turn
from leaderboard import jobs
from leaderboard.jobs import pacing
from leaderboard.jobs.database_store import DatabaseStore
from leaderboard.models import Call, Chain, EditingModel, Pace, Run, StoredImage, Trip
from leaderboard.models.runs import RUN_MOVES, ChainState, Outcome, RunState
from leaderboard.testing import factories
from leaderboard.testing.served_runs import error, interfere, played, served, started

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick"), pytest.mark.both_databases]


# Moves


def test_a_run_moves_only_along_the_allowed_moves(server: EditingServer) -> None:
    run = started(server)
    for origin in RunState.values:
        for target in RunState.values:
            Run.objects.filter(pk=run.pk).update(state=origin)
            assert run.move(target) is (target in RUN_MOVES[origin]), (origin, target)


def test_a_stale_object_cannot_move_a_run_that_was_cancelled_meanwhile(
    server: EditingServer,
) -> None:
    run = started(server)
    jobs.cancel(Run.objects.get(pk=run.pk))
    assert run.state == RunState.QUEUED
    assert not run.move(RunState.PLAYING)
    assert run.state == RunState.CANCELLED


# Claims


def test_a_chain_is_claimed_once(server: EditingServer) -> None:
    run = started(server, max_in_flight=10)
    first = Chain.objects.claim(run, uuid4(), 3)
    second = Chain.objects.claim(run, uuid4(), 3)
    assert (len(first), len(second)) == (3, 1)
    assert not {chain.pk for chain in first} & {chain.pk for chain in second}


def test_no_more_chains_than_the_model_allows_are_in_flight_over_all_its_runs(
    server: EditingServer,
) -> None:
    model = served(server, max_in_flight=3)
    suite = factories.tiny_suite()
    runs = [jobs.start(model, suite) for _ in range(2)]
    taken = [len(Chain.objects.claim(run, uuid4(), 2)) for run in (*runs, *runs)]
    assert taken == [2, 1, 0, 0]


def test_a_lapsed_lease_is_taken_over_and_its_old_owner_can_write_nothing(
    server: EditingServer,
) -> None:
    run, old, new = started(server), uuid4(), uuid4()
    (chain,) = Chain.objects.claim(run, old, 1)
    Chain.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert chain.pk in {taken.pk for taken in Chain.objects.claim(run, new, 4)}
    Chain.objects.renew(old)
    assert Chain.objects.release(old) == 0
    assert Chain.objects.held(old).count() == 0
    assert Chain.objects.held(new).filter(pk=chain.pk).exists()


def test_an_unclaimed_lapsed_lease_still_belongs_to_its_owner(server: EditingServer) -> None:
    run, token = started(server), uuid4()
    Chain.objects.claim(run, token, 1)
    Chain.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    Chain.objects.renew(token)
    assert Chain.objects.held(token).in_flight().count() == 1


# Playing


def test_each_trip_is_played_once_and_stored(server: EditingServer) -> None:
    run = played(started(server))
    assert run.state == RunState.SCORING
    assert len(server.calls) == len({call.edit for call in server.calls}) == 24
    assert Trip.objects.filter(edited__isnull=False, restored__isnull=False).count() == 12
    assert (run.progress.calls, run.progress.edits_done, run.progress.chains_done) == (24, 24, 4)
    assert set(run.ledger.values_list("outcome", "attempt")) == {(Call.ANSWERED, 1)}
    assert set(run.chains.values_list("state", "outcome", "trips_played", "token")) == {
        (ChainState.PLAYED, Outcome.COMPLETED, 3, None)
    }


def test_playing_a_finished_run_makes_no_calls(server: EditingServer) -> None:
    run = played(started(server))
    played(run)
    played(run)
    assert len(server.calls) == 24


def test_the_same_secret_requests_the_same_edits(server: EditingServer) -> None:
    model, suite = served(server), factories.tiny_suite()
    for _ in range(2):
        played(jobs.start(model, suite, secret="7" * 64))
    assert len({call.edit for call in server.calls}) == 24
    assert len({call.key for call in server.calls}) == 48  # a run's keys are its own
    played(jobs.start(model, suite))
    assert len({call.edit for call in server.calls}) == 48


def test_a_chain_continues_with_its_missing_edit(server: EditingServer) -> None:
    run = played(started(server))
    before = list(Trip.objects.order_by("pk").values_list("edited", "restored"))
    chain = run.chains.first()
    assert chain
    # As after a kill between the two edits of trip 3.
    chain.trips.filter(number=3).update(restored=None)
    Chain.objects.filter(pk=chain.pk).update(state=ChainState.WAITING, outcome="", trips_played=2)
    Run.objects.filter(pk=run.pk).update(state=RunState.QUEUED)
    played(run)
    assert len(server.calls) == 25
    assert list(Trip.objects.order_by("pk").values_list("edited", "restored")) == before


def test_calls_in_flight_stay_within_the_limit(server: EditingServer) -> None:
    server.latency = 0.05
    played(started(server, max_in_flight=2))
    assert server.most_in_flight == 2


def test_calls_per_minute_are_spaced(server: EditingServer) -> None:
    began = time.monotonic()
    played(started(server, trips=1, calls_per_minute=600))
    assert time.monotonic() - began >= 7 * 0.1


def test_images_are_stored_before_their_rows_and_only_once(server: EditingServer) -> None:
    run = played(started(server))
    for stored in StoredImage.objects.all():
        assert stored.read().sha256 == stored.sha256
    assert run.chains.count() == 4


# Answers that are no images


def first_calls(count: int, reply: Reply) -> Any:
    """Answer the first calls with `reply`, the others with an image."""
    left = iter(range(count))
    return lambda call: reply if next(left, None) is not None else None


def test_server_errors_are_retried_and_recorded_in_the_ledger(server: EditingServer) -> None:
    server.instead = first_calls(3, error(503))
    run = played(started(server))
    assert run.state == RunState.SCORING
    outcomes = list(run.ledger.values_list("outcome", flat=True))
    assert outcomes.count(Fault.SERVER_ERROR) == 3
    assert outcomes.count(Call.ANSWERED) == 24
    assert run.progress.calls == 27


def test_a_refusal_is_an_outcome_and_not_repeated(server: EditingServer) -> None:
    refusal = error(400, body=b'{"error": {"code": "content_policy_violation", "message": "no"}}')
    server.instead = first_calls(1, refusal)
    run = played(started(server))
    assert run.state == RunState.SCORING
    assert sorted(run.chains.values_list("outcome", flat=True)) == ["completed"] * 3 + ["refused"]
    assert run.ledger.filter(outcome=Call.REFUSED).count() == 1


def test_an_image_of_one_colour_ends_its_chain_as_blank(server: EditingServer) -> None:
    card = encode_png(Image.new("RGB", (64, 64), "white"))
    server.instead = first_calls(1, (200, {"Content-Type": "image/png"}, card))
    run = played(started(server))
    blank = run.chains.get(outcome=Outcome.BLANK)
    assert blank.trips_played == 0
    assert blank.trips.count() == 1  # the card is kept as evidence
    assert run.state == RunState.SCORING


def test_a_chain_fails_after_retries_if_no_answer_is_an_image(
    server: EditingServer,
) -> None:
    broken = 200, {"Content-Type": "image/png"}, b"half a pictu"
    server.instead = lambda call: broken if "180" in call.prompt else None
    run = played(started(server))
    outcomes = list(run.chains.values_list("case__pair_slug", "outcome"))
    assert set(outcomes) == {("flip", "completed"), ("upside-down", "failed")}
    assert run.state == RunState.SCORING


@pytest.mark.parametrize(
    ("status", "reason"), [(401, Fault.KEY_REJECTED), (402, Fault.OUT_OF_CREDIT)]
)
def test_a_rejected_key_pauses_until_a_person_resumes(
    server: EditingServer, status: int, reason: Fault
) -> None:
    server.instead = lambda call: error(status) if len(server.calls) > 6 else None
    run = played(started(server))
    assert (run.state, run.reason, run.resume_at) == (RunState.PAUSED, reason, None)
    assert reason.label in run.reason_text
    kept = run.progress.edits_done
    assert kept == 6
    assert not run.chains.in_flight().exists()
    jobs.sweep()
    run.refresh_from_db()
    assert run.state == RunState.PAUSED  # nothing resumes it but a person
    server.instead = lambda call: None
    jobs.resume(run)
    played(run)
    assert run.state == RunState.SCORING
    answered = run.ledger.filter(outcome=Call.ANSWERED).count()
    assert answered == 24


def test_a_key_rotated_while_a_worker_runs_pauses_the_run_with_a_message(
    server: EditingServer, settings: Any
) -> None:
    """The rotation ran before this worker was restarted with the new key."""
    run = started(server)
    EditingModel.objects.update(api_key="sk-1")
    old, both = settings.FIELD_KEYS, [Fernet.generate_key().decode(), *settings.FIELD_KEYS]
    settings.FIELD_KEYS = both
    call_command("rotate_keys")
    settings.FIELD_KEYS = old
    run = Run.objects.select_related("editing_model", "suite").get()
    played(run)
    assert (run.state, run.reason) == (RunState.PAUSED, Fault.CONFIGURATION)
    assert "FIELD_KEYS" in run.reason_text
    settings.FIELD_KEYS = both
    jobs.resume(run)
    assert played(run).state == RunState.SCORING


def test_an_unreachable_endpoint_pauses_and_resumes_by_itself(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "_backoff", lambda failures: 0.2)
    run = started(server)
    url = run.editing_model.options["url"]
    EditingModel.objects.update(options=run.editing_model.options | {"url": "http://127.0.0.1:9/"})
    played(run)
    assert (run.state, run.reason) == (RunState.PAUSED, Fault.UNREACHABLE)
    assert run.resume_at
    assert run.resume_at > timezone.now()
    EditingModel.objects.update(options=run.editing_model.options | {"url": url})
    Run.objects.update(resume_at=timezone.now() - timedelta(seconds=1))
    Pace.objects.update(blocked_until=None)
    jobs.sweep()
    run = Run.objects.select_related("editing_model").get()
    assert run.state == RunState.QUEUED
    assert played(run).state == RunState.SCORING
    assert Pace.objects.get().failures_in_a_row == 0


def test_one_image_that_always_fails_ends_its_chain_while_others_are_answered(
    server: EditingServer,
) -> None:
    bad: set[str] = set()

    def instead(call: ServerCall) -> Reply | None:
        if not bad:
            bad.add(call.edit)
        return error(500) if call.edit in bad else None

    server.instead = instead
    run = played(started(server, trips=20))
    assert run.state == RunState.SCORING
    assert sorted(run.chains.values_list("outcome", flat=True)) == ["completed"] * 3 + ["failed"]


def test_a_rate_limit_blocks_all_calls_and_is_no_failure(server: EditingServer) -> None:
    server.instead = first_calls(1, error(429, {"Retry-After": "1"}))
    began = time.monotonic()
    run = played(started(server))
    assert run.state == RunState.SCORING
    assert time.monotonic() - began >= 1
    limited = run.ledger.get(outcome=Fault.RATE_LIMITED)
    after = run.ledger.filter(started_at__gt=limited.started_at + timedelta(seconds=0.5))
    assert after.earliest("started_at").started_at >= limited.started_at + timedelta(seconds=0.99)


def test_a_rate_limit_met_by_another_worker_blocks_calls(server: EditingServer) -> None:
    run = started(server)
    until = timezone.now() + timedelta(seconds=1.5)
    Pace.objects.create(editing_model=run.editing_model, blocked_until=until)
    played(run)
    assert run.ledger.earliest("started_at").started_at >= until


def test_a_long_rate_limit_frees_the_worker_and_states_its_end(server: EditingServer) -> None:
    server.instead = lambda call: error(429, {"Retry-After": "7200"})
    run = played(started(server))
    assert (run.state, run.reason) == (RunState.PAUSED, Fault.RATE_LIMITED)
    assert run.resume_at
    assert timedelta(hours=1.9) < run.resume_at - timezone.now() < timedelta(hours=2.1)


def test_an_unknown_editor_pauses_the_run_and_lists_the_known_ones(server: EditingServer) -> None:
    run = jobs.start(factories.editing_model(editor="no-such"), factories.tiny_suite())
    played(run)
    assert (run.state, run.reason) == (RunState.PAUSED, "configuration")
    assert "no-such" in run.reason_text


def test_failing_storage_pauses_the_run_and_counts_nothing_as_done(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    run = started(server)
    monkeypatch.setattr("convergebench_site.storage.WholeFileStorage._save", full)
    played(run)
    assert (run.state, run.reason, run.progress.edits_done) == (RunState.PAUSED, "storage", 0)
    assert "No space left" in run.reason_text
    assert run.resume_at
    assert not Trip.objects.exists()


# On a graphics card


class OnGpu(Editor):
    """A local model: one image at a time."""

    queue = "gpu"
    busy = most = 0

    def edit(self, image: EncodedImage, prompt: str, seed: int | None = None) -> Answer:
        type(self).busy += 1
        type(self).most = max(self.most, self.busy)
        answer = noisy_turn(image.png(), prompt, seed or 0)
        type(self).busy -= 1
        return Answer(EncodedImage.from_bytes(answer), 0.01)


def test_a_local_model_plays_one_chain_at_a_time_and_scores_between_chains(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(EDITORS, "on-gpu", f"{__name__}:OnGpu")
    run = jobs.start(factories.editing_model("local", "on-gpu"), factories.tiny_suite())
    scored: list[int] = []

    def look(store: DatabaseStore) -> bool:
        scored.append(Trip.objects.filter(scored_at__isnull=False).count())
        return False

    interfere("tick", look, monkeypatch)
    played(run)
    assert run.state == RunState.SCORING
    assert OnGpu.most == 1
    assert {3, 6, 9} <= set(scored)  # each chain was scored before the next began
    jobs.score(run.pk)
    run.refresh_from_db()
    assert run.state == RunState.FINISHED
