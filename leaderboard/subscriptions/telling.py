"""Who is told of what: writes messages down, for a worker to send."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db.models import Q
from django.urls import reverse

from leaderboard import formatting, job_queue
from leaderboard.models import BoardRecord, Delivery, Run, Submission, Subscription

Kind = BoardRecord.Kind
#: Lines of one message; the rest is on the page it leads to.
MOST_LINES = 50


def sentence(row: BoardRecord) -> str:
    """ "A is new on Lite v1: rank 2, half-life 4.2"; without the full stop."""
    name, suite = row.run.editing_model.name, row.run.suite
    life = f"half-life {formatting.half_life(row.half_life, suite.trips)}"
    place = f"rank {row.rank}" if row.rank else "not ranked"
    if row.kind == Kind.ADDED:
        return f"{name} is new on {suite}: {place}, {life}"
    if row.kind == Kind.AGAIN:
        moved = f", it was {row.rank_before}" if row.rank_before not in (None, row.rank) else ""
        return f"{name} was played again on {suite}: {place}{moved}, {life}"
    if row.kind == Kind.LEFT:
        return f"{name} is no longer on {suite}"
    if row.kind == Kind.NUMBERS:
        return f"{name} was measured anew on {suite}: {place}, {life}"
    if row.rank is None or row.rank_before is None:
        return f"{name} is {'no longer' if row.rank is None else 'now'} ranked on {suite}" + (
            f": {place}" if row.rank else ""
        )
    way = "rises" if row.rank < row.rank_before else "falls"
    return f"{name} {way} from rank {row.rank_before} to {row.rank} on {suite}"


def tell_of_records(records: Iterable[BoardRecord]) -> None:
    """Write to those who follow a model or a suite what has changed, where it is public."""
    told = [row for row in records if row.kind != Kind.NUMBERS]
    public = set(
        Run.objects.public()
        .filter(pk__in=[row.run_id for row in told])
        .values_list("pk", flat=True)
    )
    told = [row for row in told if row.run_id in public]
    if not told:
        return
    models = {row.run.editing_model_id for row in told}
    suites = {row.run.suite_id for row in told}
    wanted = Q(editing_model__in=models) | Q(suite__in=suites)
    messages = []
    for follower in Subscription.objects.active().filter(wanted):
        own = [
            row
            for row in told
            if row.run.editing_model_id == follower.editing_model_id
            or row.run.suite_id == follower.suite_id
        ]
        messages.append(_news(follower, own))
    _write(messages)


def _news(follower: Subscription, rows: Sequence[BoardRecord]) -> Delivery:
    """One message about all that changed at once: a new leader moves every rank below it."""
    # What is new first, then who moved.
    rows = sorted(rows, key=lambda row: (row.kind == Kind.MOVED, row.run_id))
    first, *others = (sentence(row) for row in rows)
    more = f", and {formatting.count(len(others), 'other change')}" if others else ""
    url = rows[0].run.editing_model.get_absolute_url() if not others else reverse("news")
    return Delivery(
        subscription=follower,
        key=f"record-{min(row.pk for row in rows)}",
        title=f"{first[: 300 - len(more)]}{more}",
        text="\n".join(others[:MOST_LINES]),
        url=url,
    )


def tell_of_submission(submission: Submission) -> None:
    """Write to those who follow a submission where it stands now."""
    state = submission.get_state_display()
    _write(
        Delivery(
            subscription=follower,
            key=f"submission-{submission.pk}-{submission.state}-{submission.updated_at:%s}",
            title=f"{submission.name}: {state}"[:300],
            text=submission.message,
            url=submission.get_absolute_url(),
        )
        for follower in Subscription.objects.active().filter(submission=submission)
    )


def say_hello(subscription: Subscription) -> None:
    """The first message to a webhook: once it is taken, the subscription counts."""
    message = Delivery(
        subscription=subscription,
        key="hello",
        title=f"You follow {subscription.subject}"[:300],
        url=subscription.get_absolute_url(),
    )
    _write([message])


def _write(messages: Iterable[Delivery]) -> None:
    rows = Delivery.objects.bulk_create(messages, ignore_conflicts=True)
    if rows:
        job_queue.enqueue(0, job_queue.DELIVER, job_queue.PROBES)
