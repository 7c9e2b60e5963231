"""More chains than calls: they take turns, and no endpoint has more calls than it allows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.testing.editing_server import EditingServer
from evaluation.testing.waiting import wait_until
from leaderboard.jobs import writer
from leaderboard.jobs.play_job import PlayJob, Share
from leaderboard.jobs.playing import events
from leaderboard.jobs.playing.call_slots import CallSlots, chains_per_call
from leaderboard.models import Call, Chain, Run, StoredImage
from leaderboard.models.runs import ChainState, Outcome, RunState
from leaderboard.testing.served_runs import interfere, played, started, works_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick")]

# How many chains


@given(st.integers(1, 5000), st.integers(1, 256))
def test_chains_are_played_in_waves_of_equal_size(chains: int, calls: int) -> None:
    at_once = chains_per_call(chains, calls) * calls
    if chains <= calls:
        assert at_once == calls
        return
    assert calls <= at_once + 1e-9
    assert at_once <= 2 * calls + 1e-9
    waves = chains / at_once
    assert waves == pytest.approx(round(waves))


@pytest.mark.parametrize(
    ("chains", "calls", "at_once"),
    [(64, 64, 64), (70, 64, 70), (128, 64, 128), (147, 64, 74), (256, 64, 86), (300, 4, 5)],
)
def test_so_many_chains_are_played_at_once(chains: int, calls: int, at_once: int) -> None:
    share = Share(calls, chains_per_call(chains, calls))
    assert calls + share.spares(calls) == at_once


# Slots


class Callers:
    """Threads that hold a slot each until they are told to leave."""

    def __init__(self, slots: CallSlots, count: int) -> None:
        self.slots = slots
        self.inside = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.threads = [threading.Thread(target=self._call, daemon=True) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def _call(self) -> None:
        self.slots.enter()
        self.inside.release()
        self.go.acquire()
        self.slots.leave()
        self.slots.leave()  # a call ends once, however often that is said

    def enter(self, count: int) -> bool:
        """Whether so many come in, and no more."""
        came = all(self.inside.acquire(timeout=10) for _ in range(count))
        return came and not self.inside.acquire(timeout=0.05)

    def leave(self, count: int) -> None:
        self.go.release(count)


@pytest.fixture
def callers() -> Iterator[Callers]:
    slots = CallSlots()
    slots.resize(3)
    slots.grant(8)
    found = Callers(slots, 8)
    yield found
    slots.resize(8)
    found.leave(8)
    for thread in found.threads:
        thread.join(10)


def test_no_more_calls_are_open_than_there_are_slots(callers: Callers) -> None:
    assert callers.enter(3)
    callers.leave(2)
    assert callers.enter(2)


def test_more_slots_let_more_in_and_fewer_wait_for_those_who_are_there(callers: Callers) -> None:
    assert callers.enter(3)
    callers.slots.resize(5)
    assert callers.enter(2)
    callers.slots.resize(4)
    callers.leave(1)
    assert callers.enter(0)
    callers.leave(1)
    assert callers.enter(1)


def test_calls_are_granted_for_free_slots_and_one_in_eight_ahead() -> None:
    slots = CallSlots()
    slots.resize(16)
    slots.grant(slots.to_grant)
    assert slots._granted == 18
    assert slots.to_grant == 0
    slots.enter()
    slots.leave()
    assert slots.to_grant == 1


def test_whoever_waits_for_a_slot_is_told_of_one() -> None:
    told: list[int] = []
    slots = CallSlots(on_free=lambda: told.append(1))
    for waited_for in (False, True):
        slots.waited_for = waited_for
        slots.enter()
        slots.leave()
    assert len(told) == 1


# Claims


def with_calls(run: Run) -> int:
    return run.chains.in_flight().filter(spare=False).count()


def test_spare_chains_add_no_call_to_the_models_limit(server: EditingServer) -> None:
    run, mine, other = started(server, pictures=3, max_in_flight=3), uuid4(), uuid4()
    assert len(Chain.objects.claim(run, mine, 2)) == 2
    spare = Chain.objects.claim(run, mine, 2, spare=True)
    assert [chain.spare for chain in spare] == [True, True]
    assert len(Chain.objects.claim(run, other, 9)) == 1
    assert Chain.objects.add_calls(run, mine, [chain.pk for chain in spare]) == []
    Chain.objects.release(other)
    first = min(chain.pk for chain in spare)
    assert Chain.objects.add_calls(run, mine, [chain.pk for chain in spare]) == [first]
    assert with_calls(run) == 3


def test_a_chain_that_was_spare_is_claimed_with_a_call_of_its_own(server: EditingServer) -> None:
    run, token = started(server, max_in_flight=9), uuid4()
    Chain.objects.claim(run, token, 4, spare=True)
    Chain.objects.release(token)
    assert not any(chain.spare for chain in Chain.objects.claim(run, token, 4))


# What is left by a chain that ends


@pytest.fixture
def one(server: EditingServer) -> writer.RunWriter:
    """A writer with two chains that call, and two spare ones."""
    one = writer.RunWriter(started(server, max_in_flight=2), uuid4())
    works_of(one, 2)
    works_of(one, 2, spare=True)
    return one


def test_a_spare_chain_inherits_the_call_of_one_that_ends(one: writer.RunWriter) -> None:
    works = list(one.works.values())
    one.write([events.ChainEnded(works[0], Outcome.COMPLETED)])
    assert with_calls(one.run) == one.slots.count == 2
    assert one.spares == [works[3].chain.pk]
    one.write([events.ThreadStopped(works[1])])
    assert with_calls(one.run) == one.slots.count == 2
    one.write([events.ChainEnded(works[2], Outcome.COMPLETED)])
    assert with_calls(one.run) == one.slots.count == 1


def test_a_spare_chain_that_ends_leaves_no_call(one: writer.RunWriter) -> None:
    one.write([events.ChainEnded(one.works[one.spares[0]], Outcome.COMPLETED)])
    assert len(one.spares) == 1
    assert with_calls(one.run) == one.slots.count == 2


def test_of_a_chain_that_was_taken_over_nothing_is_inherited(one: writer.RunWriter) -> None:
    lost = next(iter(one.works.values()))
    Chain.objects.filter(pk=lost.chain.pk).update(token=uuid4())
    one.write([events.ThreadStopped(lost)])
    assert with_calls(one.run) == 2  # with the one that somebody else plays
    assert one.slots.count == 1
    assert len(one.spares) == 2


def test_calls_beyond_the_slots_wait_and_their_answers_do_not(one: writer.RunWriter) -> None:
    works = list(one.works.values())
    one.write([events.CallRequested(work) for work in works])
    assert Call.objects.count() == 2
    assert [event.work for event in one.waiting] == works[2:]
    one.slots.enter()
    one.slots.leave()
    one.write([])
    assert [event.work for event in one.waiting] == works[3:]
    one.closing = True
    one.write([])
    assert works[3].reply.get_nowait() is None


# Played


def test_a_slot_is_free_while_the_answer_before_it_is_kept(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call at a time: the other chain's goes out before the first one's answer is stored."""
    original = type(StoredImage.objects).write_bytes

    def slow(self: Any, picture: Any) -> Any:
        wait_until(lambda: len(server.calls) >= 2, 10)  # else the run pauses
        return original(self, picture)

    run = started(server, pictures=1, max_in_flight=1)
    monkeypatch.setattr(type(StoredImage.objects), "write_bytes", slow)
    run = played(run)
    assert run.state == RunState.SCORING
    assert server.most_in_flight == 1


@pytest.mark.parametrize("limit", [1, 2, 3, 8])
def test_more_chains_than_calls_are_played_within_the_limit(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    held: list[int] = []
    calling: list[int] = []

    def look(job: PlayJob) -> bool:
        held.append(len(job.writer.works))
        calling.append(with_calls(job.run))
        return False

    interfere("_turn", look, monkeypatch)
    server.latency = 0.02
    run = played(started(server, pictures=5, max_in_flight=limit))  # ten chains
    assert run.state == RunState.SCORING
    assert len(server.calls) == len({call.edit for call in server.calls}) == 60
    assert server.most_in_flight <= limit
    assert max(calling) == limit
    assert max(held) > limit
    assert set(run.chains.values_list("state", flat=True)) == {ChainState.PLAYED}
    assert run.ledger.filter(outcome=Call.ANSWERED).count() == run.calls == 60
