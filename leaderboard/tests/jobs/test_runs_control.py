"""Control of runs: budgets, pause, cancel, play again; and the remains of a killed job."""

from __future__ import annotations

import io
import time
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.utils import timezone

from evaluation.editors import Fault
from evaluation.play.store import ChainTaken, ClaimedChain, Paused
from evaluation.testing.editing_server import EditingServer
from leaderboard import job_queue, jobs
from leaderboard.jobs import control, database_store
from leaderboard.jobs.database_store import DatabaseStore
from leaderboard.models import Call, Chain, EditingModel, Run, RunProgress, Trip
from leaderboard.models.runs import ChainState, Outcome, RunState
from leaderboard.testing import factories
from leaderboard.testing.served_runs import error, interfere, played, served, started

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick"), pytest.mark.both_databases]


# Budgets


@pytest.mark.parametrize("budget", [1, 7, 23])
def test_a_run_pauses_before_it_exceeds_its_budget_of_calls(
    server: EditingServer, budget: int
) -> None:
    run = played(started(server, budget_calls=budget))
    assert (run.state, run.reason) == (RunState.PAUSED, "budget")
    assert len(server.calls) == run.progress.calls == run.progress.edits_done == budget
    assert str(budget) in run.reason_text
    RunProgress.objects.update(budget_calls=24)
    jobs.resume(run)
    assert played(run).state == RunState.SCORING
    assert len(server.calls) == 24


def test_failed_calls_count_towards_the_budget(server: EditingServer) -> None:
    server.instead = lambda call: error(503)
    played(started(server, budget_calls=5))
    assert len(server.calls) <= 5


def test_a_run_pauses_before_it_exceeds_its_budget_in_usd(server: EditingServer) -> None:
    budget = {"budget_usd": Decimal("0.50"), "price_per_edit": Decimal("0.04")}
    run = played(started(server, **budget))
    assert (run.state, run.reason) == (RunState.PAUSED, "budget")
    assert len(server.calls) == 12
    assert run.progress.spent_usd == Decimal("0.48")
    assert "0.48" in run.reason_text


def store_of(run: Run) -> DatabaseStore:
    return DatabaseStore(run, uuid4(), job_queue.EDITS)


def claimed(store: DatabaseStore) -> ClaimedChain:
    chain = store.claim()
    assert chain
    return chain


def hold_up(store: DatabaseStore) -> None:
    """Let the store notice that its leases have lapsed, as after a pause of the process."""
    for chain in store._renewed:
        store._renewed[chain] -= settings.LEASE_SECONDS


def test_a_job_makes_no_call_for_a_chain_it_has_lost(server: EditingServer) -> None:
    store = store_of(started(server, max_in_flight=4))
    ours, lost = claimed(store), claimed(store)
    Chain.objects.filter(pk=lost.key).update(token=uuid4())
    hold_up(store)
    with pytest.raises(ChainTaken):
        store.open_call(lost, 1, "forward")
    store.open_call(ours, 1, "forward")
    assert Call.objects.get().chain_id == ours.key
    control.recount(store.run)
    assert store.run.progress.calls == 1


def test_two_jobs_share_one_budget(server: EditingServer) -> None:
    """Two jobs of one run in turn: the second must count the first one's calls in flight."""
    run = started(server, budget_calls=3, max_in_flight=4)
    stores = [store_of(run), store_of(run)]
    for store in stores:
        store.open_call(claimed(store), 1, "forward")
    stores[0].open_call(claimed(stores[0]), 1, "forward")
    with pytest.raises(Paused, match="All 3 calls of the budget are used"):
        stores[1].open_call(claimed(stores[1]), 1, "forward")
    assert Call.objects.filter(outcome=Call.CALLING).count() == 3


@pytest.mark.parametrize("budget", [{"budget_calls": 60}, {"budget_usd": Decimal("0.60")}])
def test_near_the_end_of_the_budget_a_job_recounts_what_others_have_spent(
    server: EditingServer, budget: dict[str, Any]
) -> None:
    run = started(server, max_in_flight=4, price_per_edit=Decimal("0.01"), **budget)
    store = store_of(run)
    chain = claimed(store)

    def others_make(calls: int) -> None:
        call = {"run": run, "chain_id": chain.key, "number": 1, "outcome": Call.ANSWERED}
        now = timezone.now()
        Call.objects.bulk_create(
            Call(**call, cost=Decimal("0.01"), started_at=now) for _ in range(calls)
        )

    others_make(50)
    control.recount(store.run)
    others_make(9)
    store.open_call(chain, 1, "forward")
    with pytest.raises(Paused, match="of the budget"):
        store.open_call(chain, 1, "forward")


# Pause and cancel


def test_cancel_ends_a_run_in_the_middle_of_an_edit_within_seconds(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = started(server)
    cancelled: list[float] = []

    def cancel(store: DatabaseStore) -> bool:
        if server.in_flight < 4:
            return False
        jobs.cancel(Run.objects.get(pk=run.pk))
        cancelled.append(time.monotonic())
        return True

    interfere("tick", cancel, monkeypatch)
    server.latency = 60
    played(run)
    assert run.state == RunState.CANCELLED
    assert time.monotonic() - cancelled[0] < 5
    assert not run.chains.in_flight().exists()
    assert run.finished_at
    assert set(run.ledger.values_list("outcome", flat=True)) <= {Call.LOST, Fault.UNREACHABLE}


def test_finished_chains_survive_a_cancel_and_the_run_can_continue(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = started(server)

    def cancel(store: DatabaseStore) -> bool:
        if Trip.objects.count() < 2:
            return False
        jobs.cancel(Run.objects.get(pk=run.pk))
        store._due["poll"] = 0
        return True

    interfere("tick", cancel, monkeypatch)
    played(run)
    kept = run.progress.edits_done
    assert 2 <= kept < 24
    jobs.resume(run)
    played(run)
    assert run.state == RunState.SCORING
    assert run.ledger.filter(outcome=Call.ANSWERED).count() == 24


def test_a_pause_waits_for_the_calls_in_flight_and_keeps_their_answers(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = started(server)
    server.latency = 0.5

    def pause(store: DatabaseStore) -> bool:
        if server.in_flight < 4:
            return False
        store._due["poll"] = 0
        return jobs.pause(Run.objects.get(pk=run.pk), "person")

    interfere("tick", pause, monkeypatch)
    played(run)
    assert run.state == RunState.PAUSED
    assert run.progress.edits_done == len(server.calls) == 4
    assert set(run.chains.values_list("state", flat=True)) == {ChainState.WAITING}


@pytest.mark.parametrize("state", [RunState.FINISHED, RunState.CANCELLED, RunState.FAILED])
def test_a_run_that_ended_is_neither_played_nor_paused(
    server: EditingServer, state: RunState
) -> None:
    run = started(server)
    Run.objects.update(state=state)
    assert not jobs.pause(run, "person")
    played(run)
    assert run.state == state
    assert not server.calls


# Fences


def test_a_job_that_lost_its_chains_writes_nothing_more(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, thief = started(server), uuid4()

    def steal(store: DatabaseStore) -> bool:
        if Trip.objects.count() < 4:
            return False
        Chain.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        hold_up(store)
        assert len(Chain.objects.claim(run, thief, 4)) == 4
        return True

    interfere("tick", steal, monkeypatch)
    played(run)
    assert Chain.objects.held(thief).count() == 4
    before = run.progress.edits_done
    # Answers to calls in flight at that moment were lost: the ledger has them, no row does.
    assert (
        before
        == Trip.objects.filter(edited__isnull=False).count()
        + Trip.objects.filter(restored__isnull=False).count()
    )
    assert run.state == RunState.PLAYING
    assert not run.ledger.filter(outcome=Call.CALLING).exists()
    assert run.ledger.filter(outcome=Call.ANSWERED).count() == before


def test_a_kill_between_answer_and_commit_repeats_that_call(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        """An exception that no handler catches, as after a kill."""

    original = database_store._save_answer_row

    def killed(*args: Any) -> None:
        if Trip.objects.count() >= 3:
            monkeypatch.setattr(database_store, "_save_answer_row", original)
            raise Killed
        original(*args)

    run = started(server, max_in_flight=1)
    monkeypatch.setattr(database_store, "_save_answer_row", killed)
    with pytest.raises(Killed):
        jobs.play(run.pk)
    run.refresh_from_db()
    kept = Trip.objects.count()
    played(run)
    assert run.state == RunState.SCORING
    repeated = len(server.calls) - len({call.edit for call in server.calls})
    assert repeated == 1
    assert len({call.key for call in server.calls}) == 24  # so a provider bills it once
    assert kept >= 3
    assert run.ledger.filter(outcome=Call.LOST).count() == 1
    assert run.ledger.filter(outcome=Call.ANSWERED).count() == 24


def test_the_sweep_releases_lapsed_chains_of_ended_runs_too(server: EditingServer) -> None:
    run = started(server)
    Chain.objects.claim(run, uuid4(), 4)
    Run.objects.update(state=RunState.CANCELLED)
    Chain.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    jobs.sweep()
    assert set(run.chains.values_list("state", "token")) == {(ChainState.WAITING, None)}


# Again


def test_broken_chains_are_played_again_from_their_last_good_image(
    server: EditingServer,
) -> None:
    broken = 200, {"Content-Type": "image/png"}, b"half a pictu"
    server.instead = lambda call: broken if "180" in call.prompt and len(server.calls) > 8 else None
    run = played(started(server))
    failed = run.chains.filter(outcome=Outcome.FAILED)
    assert failed
    kept = {chain.pk: chain.trips_played for chain in failed}
    server.instead = lambda call: None
    calls = len(server.calls)
    assert jobs.play_again(run) == len(kept)
    played(run)
    assert run.state == RunState.SCORING
    assert set(run.chains.values_list("outcome", "trips_played")) == {(Outcome.COMPLETED, 3)}
    assert len(server.calls) - calls <= sum(2 * (3 - played) for played in kept.values())


def test_commands_report_what_they_did_and_what_is_refused(server: EditingServer) -> None:
    run = started(server)
    out = io.StringIO()
    call_command("runs", "pause", run.pk, "--reason", "The owner asked", stdout=out)
    run.refresh_from_db()
    assert run.reason_text == "The owner asked"
    call_command("runs", "resume", run.pk, stdout=out)
    call_command("runs", "cancel", run.pk, stdout=out)
    assert out.getvalue().splitlines() == [
        f"Run {run.pk}: paused.",
        f"Run {run.pk}: continues.",
        f"Run {run.pk}: cancelled.",
    ]
    with pytest.raises(CommandError, match="A cancelled run cannot be paused"):
        call_command("runs", "pause", run.pk, stdout=out)
    with pytest.raises(CommandError, match="There is no run 999"):
        call_command("runs", "cancel", 999, stdout=out)
    with pytest.raises(CommandError, match="cannot be scored again"):
        call_command("runs", "rescore", run.pk, stdout=out)


def test_reference_editors_start_on_their_own_suites_only() -> None:
    suite = factories.tiny_suite()
    for slug, suites in (("everywhere", None), ("here", ["tiny"]), ("there", ["lite"])):
        factories.editing_model(slug, is_reference=True, reference_suites=suites)
    factories.editing_model("by-name", is_reference=True, reference_suites=[])
    factories.editing_model("none", reference_suites=["tiny"])  # not a reference editor
    call_command("start_run", references=True, suite="tiny", verbosity=0)
    started_on = Run.objects.filter(suite=suite)
    assert set(started_on.values_list("editing_model__slug", flat=True)) == {"everywhere", "here"}
    call_command("start_run", "by-name", suite="tiny", verbosity=0)
    assert started_on.filter(editing_model__slug="by-name").exists()
    with pytest.raises(ValidationError, match="Enter a list of suite slugs"):
        EditingModel(slug="x", name="x", editor="jpeg", reference_suites="lite").full_clean()


def test_start_run_starts_missing_runs_once(server: EditingServer) -> None:
    served(server, is_reference=True)
    factories.editing_model("other", is_reference=True)
    factories.editing_model("restorer", "restorer", is_reference=True)
    factories.tiny_suite()
    said = io.StringIO()
    for _ in range(2):
        call_command(
            "start_run", references=True, suite="tiny", missing=True, verbosity=0, stderr=said
        )
    assert Run.objects.count() == 2
    assert "the suite has no edits of the kind that the editor makes" in said.getvalue()
    call_command("start_run", "other", suite="tiny-v1", budget_calls=5, stdout=io.StringIO())
    assert Run.objects.latest("pk").progress.budget_calls == 5
    for arguments, message in (
        (
            {"suite": "nope", "references": True},
            "There is no frozen suite 'nope'; choose one of tiny",
        ),
        ({"suite": "tiny"}, "Name one or more models"),
    ):
        with pytest.raises(CommandError, match=message):
            call_command("start_run", **arguments)
    with pytest.raises(CommandError, match="No editing model called ghost"):
        call_command("start_run", "ghost", suite="tiny")
