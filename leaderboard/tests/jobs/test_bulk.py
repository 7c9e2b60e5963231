"""The statements of the hot path store what the ORM would."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from uuid import UUID, uuid4

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from leaderboard import jobs
from leaderboard.models import Call, Chain, Run, StoredImage, Trip, bulk
from leaderboard.testing import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> Run:
    return jobs.start(factories.editing_model(), factories.tiny_suite())


def test_inserted_rows_read_back_with_defaults_for_what_was_not_said(run: Run) -> None:
    chain = run.chains.first()
    assert chain
    notes = {"said": 'a "quoted" ünïcode \\ text', "list": [1, None, 2.5]}
    bulk.insert(Trip, [{"chain": chain.pk, "number": 1, "edited_notes": notes}])
    trip = Trip.objects.get()
    assert trip.edited_notes == notes
    assert (trip.restored_notes, trip.change_measure, trip.reframed) == ({}, {}, False)
    assert (trip.edited, trip.step, trip.worst_place) == (None, None, None)
    assert abs((timezone.now() - trip.created_at).total_seconds()) < 60


def test_rows_that_are_there_already_stay_when_told_so(run: Run) -> None:
    known = StoredImage.objects.first()
    assert known
    row = {"sha256": known.pk, "mime": "image/jpeg", "width": 1, "height": 1, "bytes": 1}
    new = row | {"sha256": "0" * 64}
    bulk.insert(StoredImage, [row, new], ignore=True)
    known.refresh_from_db()
    assert known.mime == "image/png"
    assert StoredImage.objects.get(pk="0" * 64).mime == "image/jpeg"


def test_rows_that_are_there_already_are_touched_and_else_stay(run: Run) -> None:
    known = StoredImage.objects.first()
    assert known
    long_ago = timezone.now() - timedelta(days=9)
    StoredImage.objects.update(created_at=long_ago)
    row = {"sha256": known.pk, "mime": "image/jpeg", "width": 1, "height": 1, "bytes": 1}
    bulk.insert(StoredImage, [row], touch="created_at")
    known.refresh_from_db()
    assert known.mime == "image/png"
    assert known.created_at > long_ago + timedelta(days=8)
    assert StoredImage.objects.filter(created_at=long_ago).count() > 0


def test_updates_touch_only_the_rows_they_name(run: Run) -> None:
    chains = list(run.chains.all())
    began = timezone.now()
    fields = {"run": run.pk, "number": 1, "direction": "forward", "outcome": Call.CALLING}
    bulk.insert(Call, [fields | {"chain": c.pk, "started_at": began} for c in chains])
    closed = {"outcome": Call.ANSWERED, "cost": Decimal("0.03950"), "seconds": 1.25}
    bulk.update(
        Call,
        [{**closed, "chain": chain.pk, "started_at": began} for chain in chains[:2]],
        by=("chain", "started_at"),
    )
    rows = Call.objects.order_by("chain").values_list("chain", "outcome", "cost", "seconds")
    expected = [(c.pk, Call.ANSWERED, Decimal("0.0395"), 1.25) for c in chains[:2]]
    expected += [(c.pk, Call.CALLING, None, 0.0) for c in chains[2:]]
    assert sorted(rows) == sorted(expected)


def test_updates_take_every_kind_of_value_and_none(run: Run) -> None:
    first, second, third = list(run.chains.all())[:3]
    for chain in (first, second, third):
        bulk.insert(Trip, [{"chain": chain.pk, "number": 1}])
    kept = StoredImage.objects.first()
    assert kept
    said = {"restored_notes": {"a": ['"', "%s", None]}, "restored_seed": 2**30, "step": 0.25}
    rows = [
        {"chain": first.pk, "number": 1, "restored": None, "reframed": False, **said},
        {"chain": second.pk, "number": 1, "restored": kept.pk, "reframed": True, **said},
        {
            "chain": second.pk,
            "number": 1,
            "restored": kept.pk,
            "reframed": True,
            **said,
            "step": None,
        },
    ]
    bulk.update(Trip, rows, by=("chain", "number"))
    one, two, other = Trip.objects.order_by("chain")
    assert (one.restored, one.reframed, one.step) == (None, False, 0.25)
    assert (two.restored, two.reframed, two.step) == (kept, True, None)  # the last word counts
    assert one.restored_notes == two.restored_notes == said["restored_notes"]
    assert one.restored_seed == two.restored_seed == 2**30
    assert (other.restored_seed, other.restored_notes) == (None, {})


def test_updates_look_up_the_rows_that_they_name(run: Run) -> None:
    """A run has a row of the ledger for every call: none but those named are looked at."""
    chain, now = run.chains.all()[0], timezone.now()
    fields = {"run": run.pk, "number": 1, "direction": "forward", "outcome": Call.CALLING}
    times = [now - timedelta(seconds=n) for n in range(3000)]
    bulk.insert(Call, [fields | {"chain": chain.pk, "started_at": time} for time in times])
    with CaptureQueriesContext(connection) as asked:
        closed = [{"outcome": "answered", "chain": chain.pk, "started_at": t} for t in times[:3]]
        bulk.update(Call, closed, by=("chain", "started_at"))
    (statement,) = asked
    explain = "EXPLAIN" if connection.vendor == "postgresql" else "EXPLAIN QUERY PLAN"
    with connection.cursor() as cursor:
        cursor.execute(f"{explain} {statement['sql']}")
        plan = str(cursor.fetchall())
    assert "Seq Scan" not in plan
    assert f"SCAN {Call._meta.db_table}" not in plan
    assert "INDEX" in plan.upper()


def test_sums_are_added_and_the_rest_is_set(run: Run) -> None:
    for _ in range(2):
        bulk.add(Run, run.pk, {"calls": 3, "spent_usd": Decimal("0.1")}, last_error="it's 100% bad")
    run.refresh_from_db()
    assert (run.calls, run.spent_usd, run.last_error) == (6, Decimal("0.2"), "it's 100% bad")


def test_locked_keys_are_those_of_the_token_alone(run: Run) -> None:
    mine, other = uuid4(), uuid4()
    taken = {chain.pk for chain in Chain.objects.claim(run, mine, 2)}
    Chain.objects.claim(run, other, 2)
    every = [chain.pk for chain in run.chains.all()]

    def locked(keys: list[int], token: UUID) -> set[int]:
        return bulk.locked_keys(bulk.Held(Chain, keys, {"token": token, "state": "playing"}))

    assert locked(every, mine) == taken
    one = sorted(taken)[:1]
    assert locked(one, mine) == set(one)
    assert locked(every, uuid4()) == set()
    assert locked([], mine) == set()


@pytest.mark.skipif(connection.vendor != "postgresql", reason="one statement is PostgreSQL's way")
@pytest.mark.django_db(transaction=True)
def test_one_statement_writes_all_or_nothing_by_whose_rows_they_are(run: Run) -> None:
    mine = uuid4()
    keys = [chain.pk for chain in Chain.objects.claim(run, mine, 2)]

    def write(token: UUID) -> None:
        held = bulk.Held(Chain, keys, {"token": token, "state": "playing"})
        with bulk.together(held):
            bulk.insert(Trip, [{"chain": key, "number": 1} for key in keys])
            bulk.update(Chain, [{"id": key, "trips_played": 1} for key in keys], by=("id",))
            bulk.add(Run, run.pk, {"calls": 3})

    assert bulk.can_write_at_once()
    Chain.objects.filter(pk=keys[0]).update(token=uuid4())
    with pytest.raises(bulk.NotHeld):
        write(mine)
    run.refresh_from_db()
    assert (run.calls, Trip.objects.count()) == (0, 0)
    Chain.objects.filter(pk=keys[0]).update(token=mine)
    with CaptureQueriesContext(connection) as asked:
        write(mine)
    assert len(asked) == 1
    run.refresh_from_db()
    assert (run.calls, Trip.objects.count()) == (3, 2)
    assert set(run.chains.filter(pk__in=keys).values_list("trips_played", flat=True)) == {1}
    with pytest.raises(IntegrityError):  # what else goes wrong is told as what it is
        write(mine)


def test_nothing_to_write_is_no_statement(django_assert_num_queries: object) -> None:
    with django_assert_num_queries(0):  # type: ignore[operator]
        bulk.insert(Trip, [])
        bulk.update(Trip, [], by=("id",))


def test_what_goes_wrong_together_is_an_error_and_leaves_nothing_half_written(run: Run) -> None:
    chain = run.chains.first()
    assert chain
    row = {"chain": chain.pk, "number": 1}

    def write(times: int) -> None:
        with transaction.atomic(), bulk.together():
            for _ in range(times):
                bulk.insert(Trip, [row])
            bulk.add(Run, run.pk, {"calls": 3})

    with pytest.raises(IntegrityError):
        write(2)  # PostgreSQL says so when the block ends
    run.refresh_from_db()
    assert (run.calls, Trip.objects.count()) == (0, 0)
    write(1)
    run.refresh_from_db()
    assert (run.calls, Trip.objects.count()) == (3, 1)
