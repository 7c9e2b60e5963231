"""Sends what was written down: mails, and signed requests to webhooks; tries again when it fails."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from datetime import timedelta

import structlog
from django.core.mail import EmailMessage
from django.db.models import F, QuerySet
from django.utils import timezone

from evaluation.errors import EditorError
from evaluation.net.addresses import for_strangers
from evaluation.net.guarded_client import GuardedClient
from leaderboard import endpoints, job_queue
from leaderboard.links import absolute
from leaderboard.models import Delivery, SecurityEvent, Subscription

log = structlog.get_logger(__name__)
#: How long after each failure it is tried again; then it is given up, and the subscription ends.
WAITS = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 30, 120, 720))
#: Seconds that a webhook may take; bytes of its answer that are read.
TIMEOUT, MAX_ANSWER = 10.0, 64 * 1024
#: While one worker sends a message, no other does.
CLAIM = timedelta(minutes=2)
#: Messages that one job sends, and the seconds that it may take: tests of endpoints wait behind
#: it, and a slow webhook must not keep them waiting.
MOST, JOB_SECONDS = 100, 30.0
SIGNATURE = "ConvergeBench-Signature"


def due() -> QuerySet[Delivery]:
    """Messages whose time has come."""
    rows = Delivery.objects.filter(sent_at__isnull=True, next_at__lte=timezone.now())
    return rows.filter(subscription__ended_at__isnull=True).order_by("next_at", "pk")


def deliver_due() -> None:
    """Send what is due; safe to call twice and at once. What is left goes behind other jobs."""
    began = time.monotonic()
    for pk in list(due().values_list("pk", flat=True)[:MOST]):
        if time.monotonic() - began > JOB_SECONDS:
            job_queue.enqueue(0, job_queue.DELIVER, job_queue.PROBES)
            return
        # Counted before it is tried: one that ends the process is given up, too.
        claim = {"next_at": timezone.now() + CLAIM, "attempts": F("attempts") + 1}
        if due().filter(pk=pk).order_by().update(**claim):
            deliver(Delivery.objects.select_related("subscription").get(pk=pk))


def deliver(delivery: Delivery) -> None:
    """Send one message; what came of it is written down."""
    follower = delivery.subscription
    send = _mail if follower.way == Subscription.Way.EMAIL else _post
    try:
        begun_too_often = delivery.attempts > len(WAITS) + 1
        error = "it was begun too often" if begun_too_often else send(delivery)
    except Exception as failure:  # the mail server is away, a header that cannot be, anything
        log.exception("message not sent", delivery=delivery.pk)
        error = type(failure).__name__
    now = timezone.now()
    delivery.error = error[:300]
    if not error:
        delivery.sent_at = now
        Subscription.objects.filter(pk=follower.pk, confirmed_at=None).update(confirmed_at=now)
    elif delivery.attempts <= len(WAITS):
        delivery.next_at = now + WAITS[delivery.attempts - 1]
    else:
        Subscription.objects.filter(pk=follower.pk).update(ended_at=now)
        log.info("subscription ended: its messages do not arrive", subscription=follower.pk)
    delivery.save(update_fields=["error", "sent_at", "next_at"])


def signature(secret: str, stamp: str, body: bytes) -> str:
    """What a receiver computes to know that a message is ours and from when it is."""
    signed = hmac.new(secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={stamp},v1={signed}"


def _post(delivery: Delivery) -> str:
    """Send it to a webhook; why it did not arrive, or empty."""
    follower = delivery.subscription
    body = json.dumps(
        {
            "id": delivery.pk,
            "about": follower.subject,
            "title": delivery.title,
            "text": delivery.text,
            "url": absolute(delivery.url),
            "at": delivery.created_at.isoformat(),
        }
    ).encode()

    def record(kind: str, detail: str) -> None:
        SecurityEvent.record(f"webhook {kind}", detail)

    client = GuardedClient(endpoints.rules(), on_security_event=record, max_bytes=MAX_ANSWER)
    try:
        reply = client.send(
            "POST",
            follower.address.reveal(),
            headers={
                "Content-Type": "application/json",
                SIGNATURE: signature(follower.secret.reveal(), str(int(time.time())), body),
            },
            content=body,
            timeout=TIMEOUT,
        )
    except EditorError as error:
        # Its owner reads this, who may be anybody: not what our name server knows.
        return for_strangers(error).message
    finally:
        client.close()
    return "" if reply.status < 300 else f"it answered {reply.status}"


def _mail(delivery: Delivery) -> str:
    follower = delivery.subscription
    manage = absolute(follower.get_absolute_url())
    text = "\n\n".join(filter(None, (delivery.title, delivery.text, absolute(delivery.url))))
    EmailMessage(
        subject=f"ConvergeBench: {' '.join(delivery.title.split())}",
        body=f"{text}\n\nYou asked for this. To stop it: {manage}\n",
        to=[follower.address.reveal()],
        headers={"List-Unsubscribe": f"<{manage}>"},
    ).send()
    return ""


def ask_to_confirm(subscription: Subscription) -> None:
    """The one mail that goes to an address nobody has confirmed."""
    page = absolute(subscription.get_absolute_url())
    # The name of a submission is whatever somebody typed: nobody shall have us mail that to others.
    subject = "a submission" if subscription.submission else " ".join(subscription.subject.split())
    EmailMessage(
        subject=f"ConvergeBench: do you want to follow {subject}?",
        body=f"Somebody, probably you, asked us to write to you when there is news of "
        f"{subject}. Confirm it here:\n\n{page}\n\n"
        "If it was not you, do nothing: no other mail follows.\n",
        to=[subscription.address.reveal()],
    ).send(fail_silently=True)
