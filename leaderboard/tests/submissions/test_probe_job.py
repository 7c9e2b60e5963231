"""Tests of hostile endpoints: each ends soon with a message and is made by one worker only."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta

import pytest
from django.db import connection
from django.urls import reverse
from django.utils import timezone

from evaluation.measuring.probe import probe_steps
from evaluation.net.addresses import Rules
from evaluation.net.client import HttpClient
from evaluation.testing.hostile_server import HostileServer, response
from evaluation.testing.resolvers import resolver
from leaderboard import endpoints, job_queue, jobs
from leaderboard.endpoints import count_submission
from leaderboard.jobs import probe_job
from leaderboard.models import SecurityEvent, Submission, Suite, Use
from leaderboard.submissions import workflow
from leaderboard.submissions.workflow import NotPossible
from leaderboard.testing.submission_fields import form_fields

pytestmark = pytest.mark.both_databases

State = Submission.State


@pytest.fixture
def hostile() -> Iterator[HostileServer]:
    with HostileServer() as server:
        yield server


def submission(suite: Suite, url: str, **fields: object) -> Submission:
    return Submission.objects.create(
        name="Hostile",
        email="a@example.org",
        endpoint_url=url,
        contract="huggingface",
        suite=suite,
        options={"send_seed": False},
        **fields,
    )


ANSWERS = {
    "a time of 400 digits": response(503, b'{"estimated_time": 1%s}' % (b"0" * 400)),
    "a length of 5,000 digits": b"HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\nhello"
    % (b"0" * 5_000 + b"5"),
    "a code of 5,000 digits": response(400, b'{"error": {"code": 1%s}}' % (b"0" * 4_000)),
    "infinity": response(503, b'{"estimated_time": 1e999}'),
}


@pytest.mark.django_db
@pytest.mark.parametrize("answer", ANSWERS)
def test_the_test_ends_for_any_number_in_an_answer(suite, local, hostile, answer):
    reply = ANSWERS[answer]
    url = hostile.answers("/edit", *[reply] * 8)
    tested = submission(suite, url)
    jobs.probe(tested.pk)
    tested.refresh_from_db()
    assert tested.state == State.PROBE_FAILED
    assert any(step["state"] == "failed" for step in tested.probe["steps"])
    assert "the test failed on the endpoint" not in str(tested.probe)  # nothing broke on the way


@pytest.mark.django_db
def test_any_exception_ends_the_test_with_a_message(suite, local, monkeypatch):
    def broken(*_: object, **__: object) -> None:
        raise OverflowError("int too large to convert to float")

    monkeypatch.setattr(probe_job, "probe_steps", broken)
    tested = submission(suite, "https://93.184.216.34/v1")
    jobs.probe(tested.pk)
    tested.refresh_from_db()
    assert tested.state == State.PROBE_FAILED
    assert "the test failed on the endpoint" in tested.probe["steps"][0]["detail"]
    assert "too large" not in str(tested.probe)


@pytest.mark.django_db
def test_a_test_that_crashes_its_process_is_given_up(suite, local, monkeypatch):
    def killed(*_: object, **__: object) -> None:
        raise SystemExit

    monkeypatch.setattr(probe_job, "probe_steps", killed)
    tested = submission(suite, "https://93.184.216.34/v1")
    for _ in range(probe_job.MAX_ATTEMPTS):
        with pytest.raises(SystemExit):
            jobs.probe(tested.pk)
        Submission.objects.update(probe_lease_until=timezone.now() - timedelta(seconds=1))
    jobs.probe(tested.pk)
    tested.refresh_from_db()
    assert tested.state == State.PROBE_FAILED
    workflow.test_again(tested)  # a person may ask for it once more
    assert tested.probe_attempts == 0


@pytest.mark.django_db(transaction=True)
def test_two_workers_do_not_test_the_same_endpoint(suite, local, hostile, settings):
    """Also when a step takes longer than a lease: the first worker shows that it is alive."""
    settings.LEASE_SECONDS = 0.3
    calling, go_on = threading.Event(), threading.Event()

    def slow(sock, _request) -> None:
        calling.set()
        go_on.wait(10)
        sock.sendall(response(400, b"no"))

    tested = submission(suite, hostile.does("/edit", slow))

    def first() -> None:
        jobs.probe(tested.pk)
        connection.close()

    worker = threading.Thread(target=first)
    worker.start()
    try:
        assert calling.wait(10)
        calling.clear()
        for _ in range(4):
            assert not go_on.wait(0.2)
            jobs.probe(tested.pk)  # the sweep enqueued it again
        assert not calling.is_set()
    finally:
        go_on.set()
        worker.join()
    tested.refresh_from_db()
    assert tested.state == State.PROBE_FAILED
    assert tested.probe_attempts == 0


# Slow endpoints beside others.


@pytest.fixture
def scaled(monkeypatch) -> float:
    """Limits a twentieth of the real ones; return the factor."""
    for name in ("TURN", "CHECK_SECONDS", "DEADLINE", "TIMEOUT"):
        monkeypatch.setattr(probe_job, name, getattr(probe_job, name) / 20)
    return 20


def until_the_end(sock, _request) -> None:
    """Never answer; return when the caller hangs up."""
    sock.settimeout(30)
    with suppress(OSError):
        sock.recv(1)


def in_two_workers(done: Callable[[], bool]) -> float:
    """Run tests as two workers do, until `done`; return the seconds it took."""
    start, ends = time.monotonic(), []

    def work() -> None:
        while not done():
            jobs.probe(0)
            time.sleep(0.01)
        ends.append(time.monotonic() - start)
        connection.close()

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return min(ends)


def is_tested(row: Submission) -> bool:
    return Submission.objects.exclude(state=State.PROBING).filter(pk=row.pk).exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("before", [0, 1])
def test_ten_slow_endpoints_hold_a_quick_one_up_for_less_than_a_minute(
    suite, local, hostile, scaled, before
):
    """Also where all of the ten took too long before."""
    url = hostile.does("/edit", until_the_end)
    for _ in range(10):
        submission(suite, url, probe_overruns=before)
    quick = submission(suite, hostile.answers("/quick", response(400, b"no")))
    assert in_two_workers(lambda: is_tested(quick)) * scaled < 60


@pytest.mark.django_db(transaction=True)
def test_a_slow_endpoint_waits_behind_first_tests_and_then_gets_its_time(
    suite, local, hostile, scaled
):
    slow = submission(suite, hostile.does("/edit", until_the_end))
    others = [submission(suite, hostile.does(f"/{n}", until_the_end)) for n in range(2)]
    in_two_workers(Submission.objects.filter(pk=slow.pk, probe_overruns=1).exists)
    slow.refresh_from_db()
    assert slow.state == State.PROBING
    assert slow.probe_overruns == 1
    assert "after the tests of other endpoints" in slow.probe["steps"][0]["detail"]
    Submission.objects.filter(pk__in=[row.pk for row in others]).delete()
    Submission.objects.filter(pk=slow.pk).update(
        endpoint_url=hostile.answers("/late", response(400, b"no"))
    )
    jobs.probe(slow.pk)
    assert is_tested(slow)


@pytest.mark.django_db(transaction=True)
def test_one_worker_stays_free_for_first_tests(suite, local, hostile, settings):
    long = submission(suite, "https://93.184.216.34/v1", probe_overruns=1)
    lease = timezone.now() + timedelta(seconds=60)
    Submission.objects.filter(pk=long.pk).update(probe_lease_until=lease)
    waits = submission(suite, "https://93.184.216.34/v1", probe_overruns=1)
    jobs.probe(waits.pk)
    waits.refresh_from_db()
    assert waits.probe_attempts == 0  # it was not begun
    first = submission(suite, hostile.answers("/edit", response(400, b"no")))
    jobs.probe(waits.pk)  # the job of one serves the next in turn
    assert is_tested(first)
    assert not is_tested(waits)


@pytest.mark.django_db
def test_a_test_that_timed_out_gets_a_shorter_limit_each_time(suite, local, hostile, monkeypatch):
    monkeypatch.setattr(probe_job, "DEADLINE", 0.8)
    tested = submission(suite, hostile.does("/edit", until_the_end))
    seconds = []
    for _ in range(4):
        start = time.monotonic()
        jobs.probe(tested.pk)
        seconds.append(time.monotonic() - start)
        tested.refresh_from_db()
        assert tested.state == State.PROBE_FAILED
        workflow.test_again(tested)
    assert tested.probe_overruns == 4
    assert seconds[0] > 0.8 > seconds[1] > 0.4 > seconds[2] > 0.2
    assert seconds[3] > 0.2  # never less than a quarter


@pytest.mark.django_db
def test_a_passed_test_resets_the_count_of_timeouts(suite, local, server):
    tested = submission(suite, server, probe_overruns=3)
    Submission.objects.update(contract="openai-edits")
    jobs.probe(tested.pk)
    tested.refresh_from_db()
    assert (tested.state, tested.probe_overruns) == (State.REVIEW, 0)


@pytest.mark.django_db
def test_a_test_has_one_deadline_including_retries(suite, local, hostile, monkeypatch):
    monkeypatch.setattr(probe_job, "DEADLINE", 1.0)
    asked = []

    def hang(sock, _request) -> None:
        asked.append(1)
        threading.Event().wait(30)

    tested = submission(suite, hostile.does("/edit", hang))
    jobs.probe(tested.pk)
    tested.refresh_from_db()
    assert tested.state == State.PROBE_FAILED
    assert tested.probe["seconds"] < 10
    assert len(asked) == 1


@pytest.mark.django_db
def test_tests_have_their_own_queue(client, suite, valkey, django_capture_on_commit_callbacks):
    import django_rq

    with django_capture_on_commit_callbacks(execute=True):
        client.post(reverse("submit"), form_fields(suite))
    assert django_rq.get_queue("probes").get_job_ids()
    assert not django_rq.get_queue("edits").get_job_ids()
    assert not job_queue.should_yield(1, job_queue.EDITS, turn_is_over=True)


@pytest.mark.django_db
def test_tests_per_day_are_limited_by_endpoint_across_submissions(suite, settings):
    settings.PROBES_PER_DAY = 2
    one = submission(suite, "https://93.184.216.34/v1", state=State.REVIEW)
    other = submission(suite, "https://93.184.216.34/v2", state=State.REVIEW)
    for tested in (one, other):
        workflow.test_again(tested)
        assert tested.state == State.PROBING
        tested.move(State.PROBE_FAILED)
    for tested in (one, other):
        with pytest.raises(NotPossible, match="2 times"):
            workflow.test_again(tested)
        assert tested.state == State.PROBE_FAILED
    Use.objects.update(since=timezone.now() - timedelta(days=1, seconds=1))
    workflow.test_again(one)


# Quotas of submissions.


@pytest.mark.django_db
def test_withdrawing_refunds_no_submission(client, suite, settings, valkey):
    settings.SUBMISSIONS_PER_DAY = 1
    client.post(reverse("submit"), form_fields(suite))
    workflow.withdraw(Submission.objects.get())
    answer = client.post(reverse("submit"), form_fields(suite, name="Another"))
    assert answer.status_code == 422
    assert "the limit of 1 " in answer.content.decode()


@pytest.mark.django_db
def test_a_failed_test_refunds_the_submission_and_a_passed_one_does_not(suite, settings):
    settings.SUBMISSIONS_PER_DAY = 1
    url = "https://no-such-host.invalid/v1"
    failed = submission(suite, url)
    assert count_submission(failed.email, None, url) is None
    jobs.probe(failed.pk)
    failed.refresh_from_db()
    assert failed.state == State.PROBE_FAILED
    assert count_submission(failed.email, None, url) is None
    with pytest.raises(NotPossible, match="the limit of 1 "):
        workflow.test_again(failed)


@pytest.mark.django_db
def test_submissions_that_fail_are_limited_by_their_tests(settings):
    settings.PROBES_PER_DAY = 2
    url = "https://93.184.216.34/v1"
    for number in range(2):
        assert count_submission(f"{number}@example.org", None, url) is None
    assert "Tests of this endpoint have reached the limit of 2 in 24 hours" in count_submission(
        "2@example.org", None, url
    )


@pytest.mark.django_db
def test_no_submitter_uses_up_the_quota_of_another_host(settings):
    settings.SUBMISSIONS_PER_DAY = 1
    attacker = "https://93.184.216.35/v1?u=//93.184.216.34"
    assert count_submission("a@example.org", "192.0.2.1", attacker) is None
    assert count_submission("b@example.org", "192.0.2.2", "https://93.184.216.34/v1") is None
    again = count_submission("c@example.org", "192.0.2.3", "https://93.184.216.34:443/v2")
    assert again is not None
    assert "this endpoint" in again


@pytest.mark.django_db
def test_a_network_of_ipv6_counts_as_one_address(settings):
    settings.SUBMISSIONS_PER_DAY = 2
    url = "https://93.184.216.{}/v1"
    found = [
        count_submission(f"{n}@example.org", f"2001:db8:1:2::{n}", url.format(n))
        for n in range(1, 4)
    ]
    assert found[:2] == [None, None]
    assert "your network address" in found[2]
    assert count_submission("x@example.org", "2001:db8:1:3::1", url.format(9)) is None


@pytest.mark.django_db(transaction=True)
def test_ten_simultaneous_submissions_share_one_quota():
    ready, taken = threading.Barrier(10), []

    def take() -> None:
        ready.wait()
        taken.append(Use.objects.take("test", {"you": "one", "us": "two"}, 3))
        connection.close()

    threads = [threading.Thread(target=take) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 10
    assert taken.count(None) == 3


# What strangers may learn of our network.


@pytest.mark.django_db
def test_an_unknown_host_and_an_internal_one_get_the_same_answer(suite, monkeypatch):
    monkeypatch.setattr(endpoints, "LOOKUP_SECONDS", 0.3)
    names = ("inside.example", "gone.example")

    def lookup(host, *rest):
        if host == "gone.example":
            raise socket.gaierror("no such name")
        return resolver("10.0.0.5")(host, *rest)

    rules = Rules(resolver=lookup)
    monkeypatch.setattr(endpoints, "rules", lambda: rules)
    answers, took = set(), []
    for name in names:
        start = time.monotonic()
        answers.add(endpoints.check_address(f"https://{name}/v1"))
        took.append(time.monotonic() - start)
    assert answers == {"the host name has no public address"}
    assert min(took) >= 0.3
    # Staff see which it was.
    assert "10.0.0.5" in SecurityEvent.objects.get(kind="address").detail
    found = []
    for name in names:
        client = HttpClient(rules)
        steps = list(probe_steps({"url": f"https://{name}/v1", "client": client}))
        found.append((steps[-1].detail, steps[-1].advice, steps[-1].data))
    assert found[0] == found[1]
