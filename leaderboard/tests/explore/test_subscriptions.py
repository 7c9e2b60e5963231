"""Who asks to be told is told, by mail or by a signed request, and by nothing they did not ask for."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import socket
from datetime import timedelta

import pytest
from django.core import mail
from django.utils import timezone

from evaluation.net.addresses import Rules
from evaluation.testing.hostile_server import HostileServer, response
from evaluation.testing.resolvers import resolver
from leaderboard.jobs import deliver
from leaderboard.models import (
    Delivery,
    EditingModel,
    Run,
    SecurityEvent,
    Submission,
    Subscription,
)
from leaderboard.notifications import notify_submitter
from leaderboard.standings import refresh_ranks
from leaderboard.subscriptions import sending
from leaderboard.testing.boards import make_model, make_run, make_suite

pytestmark = pytest.mark.django_db


@pytest.fixture
def suite():
    return make_suite(pictures=2)


@pytest.fixture
def hooks():
    with HostileServer() as server:
        yield server


@pytest.fixture(autouse=True)
def mails(settings):
    settings.EMAIL_URL = "smtp://mail"


def follow(way="email", address="reader@example.org", **subject):
    return Subscription.objects.create(
        way=way, address=address, confirmed_at=timezone.now(), **subject
    )


def send_all():
    Delivery.objects.update(next_at=timezone.now())
    deliver(0)


def test_a_mail_address_counts_once_its_owner_confirmed_it(client, suite):
    model = make_model("A")
    page = client.post("/subscribe/?model=a", {"way": "email", "address": "reader@example.org"})
    assert "One mail is on its way" in page.content.decode()
    (sent,) = mail.outbox
    link = re.search(r"/subscriptions/[\w-]+/", sent.body)[0]
    assert link not in page.content.decode()
    make_run(model, suite, 4)
    refresh_ranks(suite)
    assert not Delivery.objects.exists()
    client.get(link)  # a mail scanner looks, and confirms nothing
    assert not Subscription.objects.active().exists()
    client.post(link, {"do": "confirm"})
    assert Subscription.objects.active().count() == 1


def test_followers_hear_once_of_their_model_and_of_no_other(suite, mailoutbox):
    run = make_run("Followed", suite, 4)
    follow(editing_model=run.editing_model)
    follow(suite=suite, address="suite@example.org")
    make_run("Other", suite, 6)
    refresh_ranks(suite)
    refresh_ranks(suite)
    send_all()
    send_all()
    told = sorted((m.to[0], m.subject) for m in mailoutbox)
    assert [(to, "Followed" in subject) for to, subject in told] == [
        ("reader@example.org", True),
        ("suite@example.org", True),
    ]
    assert "and 1 other change" in told[1][1]
    assert any("Other is new" in m.body for m in mailoutbox)
    assert "/subscriptions/" in mailoutbox[0].body
    assert "List-Unsubscribe" in mailoutbox[0].extra_headers


def test_nobody_hears_of_sealed_suites_or_unpublished_runs(suite):
    sealed = make_suite("secret", pictures=1, sealed=True)
    model = make_model("A")
    follow(editing_model=model)
    make_run(model, sealed, 4)
    make_run(model, suite, 4, published=False)
    for one in (sealed, suite):
        refresh_ranks(one)
    assert not Delivery.objects.exists()


def test_a_submission_is_followed_through_its_states(suite):
    submission = Submission.objects.create(
        name="Mine",
        email="lab@example.org",
        endpoint_url="https://lab.example/",
        contract="openai-images",
        suite=suite,
    )
    follow(submission=submission)
    for state in (Submission.State.REVIEW, Submission.State.APPROVED):
        submission.state = state
        submission.save()
        notify_submitter(submission)
    titles = Delivery.objects.order_by("pk").values_list("title", flat=True)
    assert list(titles) == ["Mine: Waiting for review", "Mine: Approved"]


def test_a_webhook_gets_signed_requests_and_counts_once_it_answers(client, suite, settings, hooks):
    settings.ALLOW_LOCAL_ENDPOINTS = True
    make_model("A")
    address = hooks.answers("/hook", response(500, b"no"), response(200, b"ok"))
    answer = client.post("/subscribe/?model=a", {"way": "webhook", "address": address})
    page = client.get(answer["Location"]).content.decode()
    (made,) = Subscription.objects.all()
    assert made.secret.reveal() in page
    deliver(0)
    (hello,) = Delivery.objects.all()
    assert (hello.attempts, hello.sent_at) == (1, None)
    assert hello.next_at > timezone.now() + timedelta(seconds=50)
    deliver(0)  # not before its time
    assert not Subscription.objects.active().exists()
    send_all()
    assert Subscription.objects.active().count() == 1
    request = hooks.received[-1]
    assert request.method == "POST"
    stamp, signed = re.fullmatch(
        r"t=(\d+),v1=(\w+)", request.headers[sending.SIGNATURE.lower()]
    ).groups()
    wanted = hmac.new(
        made.secret.reveal().encode(), f"{stamp}.".encode() + request.body, hashlib.sha256
    )
    assert hmac.compare_digest(wanted.hexdigest(), signed)
    assert json.loads(request.body)["title"] == "You follow A"
    assert len(hooks.received) == 2


def test_what_never_arrives_is_given_up_and_ends_the_subscription(suite, settings, hooks):
    settings.ALLOW_LOCAL_ENDPOINTS = True
    gone = hooks.answers("/gone", response(410, b"gone"))
    run = make_run("A", suite, 4)
    follow("webhook", gone, editing_model=run.editing_model)
    refresh_ranks(suite)
    for _ in range(10):
        send_all()
    assert len(hooks.received) == 1 + len(sending.WAITS)
    assert Subscription.objects.get().ended_at
    assert not sending.due().exists()


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:9/",
        "https://10.0.0.5/",
        "http://[::1]/",
        "https://169.254.169.254/latest",
        "file:///etc/passwd",
        "hook",
    ],
)
def test_no_webhook_leads_into_our_own_network(client, suite, address):
    make_model("A")
    page = client.post("/subscribe/?model=a", {"way": "webhook", "address": address})
    assert page.status_code == 200
    assert "errorlist" in page.content.decode()
    assert not Subscription.objects.exists()


def test_an_address_that_turns_inwards_later_is_blocked_when_it_is_sent_to(suite):
    run = make_run("A", suite, 4)
    follow("webhook", "https://127.0.0.1:9/", editing_model=run.editing_model)
    refresh_ranks(suite)
    send_all()
    (message,) = Delivery.objects.all()
    assert message.sent_at is None
    assert message.error
    assert SecurityEvent.objects.filter(kind__startswith="webhook").exists()


def test_nothing_that_is_not_public_can_be_followed(client, suite):
    make_model("Hidden", status=EditingModel.Status.HIDDEN)
    make_suite("secret", pictures=1, sealed=True)
    for query in ("", "?model=hidden", "?model=x", "?suite=secret-v1", "?suite=x", "?submission=x"):
        assert client.get(f"/subscribe/{query}").status_code == 404
    assert client.get("/subscribe/?suite=demo-v1").status_code == 200


def test_who_has_the_link_can_stop_it_and_the_address_is_forgotten(client, suite):
    made = follow(suite=suite)
    make_run("A", suite, 4)
    refresh_ranks(suite)
    client.post(made.get_absolute_url(), {"do": "end"})
    send_all()
    assert mail.outbox == []
    assert "has ended" in client.get(made.get_absolute_url()).content.decode()
    Subscription.objects.update(ended_at=timezone.now() - timedelta(days=3))
    Subscription.objects.expired().delete()
    assert not Delivery.objects.exists()


@pytest.mark.parametrize(
    ("way", "address"),
    [
        ("email", "victim@example.org"),
        ("email", "victim+{}@example.org"),
        ("webhook", "https://127.0.0.1/?n={}"),
    ],
)
def test_nobody_is_flooded_under_other_spellings_of_their_address(
    client, suite, settings, way, address
):
    settings.ALLOW_LOCAL_ENDPOINTS = True
    for number in range(6):
        form = {"way": way, "address": address.format(number)}
        client.post("/subscribe/?suite=demo-v1", form, REMOTE_ADDR=f"192.0.2.{number}")
    assert Subscription.objects.count() == 3
    assert len(mail.outbox) + Delivery.objects.count() == 3


def test_a_new_leader_is_one_message_however_many_it_moves(suite):
    for number in range(5):
        make_run(f"Model {number}", suite, 2 + number)
    refresh_ranks(suite)
    follow(suite=suite)
    make_run("Leader", suite, 30)
    refresh_ranks(suite)
    (message,) = Delivery.objects.all()
    assert "Leader is new" in message.title


def submitted(suite, name):
    return Submission.objects.create(
        name=name,
        email="victim@example.org",
        endpoint_url="https://lab.example/",
        contract="openai-images",
        suite=suite,
    )


def test_nobody_has_us_mail_their_own_words_to_others(
    client, suite, django_capture_on_commit_callbacks
):
    """Neither as the name of a submission that is followed, nor as that of a new one."""
    submission = submitted(suite, "Cheap watches at https://spam.example")
    form = {"way": "email", "address": "victim@example.org"}
    client.post(f"/subscribe/?submission={submission.token}", form)
    with django_capture_on_commit_callbacks(execute=True):
        notify_submitter(submission)
    assert len(mail.outbox) == 2
    for sent in mail.outbox:
        assert "spam" not in f"{sent.subject}{sent.body}"
    submission.state = Submission.State.APPROVED
    with django_capture_on_commit_callbacks(execute=True):
        notify_submitter(submission)
    assert "Cheap watches" in mail.outbox[-1].subject


def test_a_message_that_breaks_us_is_counted_and_holds_up_no_other(suite, monkeypatch, mailoutbox):
    broken = follow(suite=suite, address="broken@example.org")
    make_run("A", suite, 4)
    follow(suite=suite)
    refresh_ranks(suite)
    real = sending._mail

    def mail_or_break(delivery):
        if delivery.subscription_id == broken.pk:
            raise ValueError("no such header")
        return real(delivery)

    monkeypatch.setattr(sending, "_mail", mail_or_break)
    for _ in range(10):
        send_all()
    assert len(mailoutbox) == 1
    broken.refresh_from_db()
    assert broken.ended_at
    assert broken.deliveries.get().attempts == 1 + len(sending.WAITS)


def test_a_message_that_kills_its_worker_is_given_up(suite, monkeypatch):
    killer = follow(suite=suite)
    make_run("A", suite, 4)
    refresh_ranks(suite)

    def die(delivery):
        raise SystemExit

    monkeypatch.setattr(sending, "_mail", die)
    for _ in range(1 + len(sending.WAITS)):
        with pytest.raises(SystemExit):
            send_all()
    send_all()
    killer.refresh_from_db()
    assert killer.ended_at


def test_slow_webhooks_leave_the_queue_to_others_after_a_while(suite, monkeypatch):
    make_run("A", suite, 4)
    for number in range(4):
        follow("webhook", f"https://h{number}.example/", suite=suite)
    refresh_ranks(suite)
    now, enqueued = [0.0], []
    monkeypatch.setattr(sending.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sending.queue, "enqueue", lambda *args: enqueued.append(args))

    def slowly(delivery):
        now[0] += 20
        return "too late"

    monkeypatch.setattr(sending, "_post", slowly)
    send_all()
    assert Delivery.objects.filter(attempts=1).count() == 2
    assert enqueued == [(0, "deliver", "probes")]


def unknown_name(*_):
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def test_a_webhooks_page_does_not_tell_what_our_name_server_knows(client, suite, monkeypatch):
    """Its owner may point a name of theirs at one of ours, and read here what came of it."""
    make_run("A", suite, 4)
    told = set()
    for lookup in (unknown_name, resolver("10.0.0.5")):
        follower = follow("webhook", "https://hook.example/", suite=suite)
        rules = Rules(resolver=lookup)
        monkeypatch.setattr(sending.endpoints, "rules", lambda rules=rules: rules)
        message = Delivery.objects.create(subscription=follower, key="x", title="x", url="/")
        sending.deliver(message)
        told.add(message.error)
    assert len(told) == 1


def test_a_site_without_mail_offers_webhooks_alone(client, suite, settings):
    settings.EMAIL_URL = ""
    page = client.get("/subscribe/?suite=demo-v1").content.decode()
    assert "sends no mail" in page
    client.post("/subscribe/?suite=demo-v1", {"way": "email", "address": "a@example.org"})
    assert not Subscription.objects.exists()


def test_a_record_of_a_run_that_was_withdrawn_meanwhile_is_told_to_nobody(suite):
    run = make_run("A", suite, 4)
    follow(editing_model=run.editing_model)
    refresh_ranks(suite)
    Delivery.objects.all().delete()
    Run.objects.update(published=False)
    refresh_ranks(suite)
    assert not Delivery.objects.exists()
