"""Mails to submitters: the state of their submission, and the next step."""

from __future__ import annotations

from django.core.mail import send_mail
from django.db import transaction

from leaderboard.models import Submission
from leaderboard.text import absolute

State = Submission.State

NEXT = {
    State.PROBING: "We are sending one small image through your endpoint.",
    State.PROBE_FAILED: "The test did not pass. The failed step shows the reason and the fix.",
    State.REVIEW: "The test passed. A person reviews it next.",
    State.ASKED: "We have a question; please answer it on this submission's page.",
    State.APPROVED: "Your model is being evaluated. The submission's page shows the progress.",
    State.REJECTED: "We will not evaluate this model. The reviewers' reason follows.",
    State.WITHDRAWN: "The submission is withdrawn and its key is deleted.",
}

#: States in which a person has reviewed the submission.
REVIEWED = frozenset({State.ASKED, State.APPROVED, State.REJECTED})


def notify_submitter(submission: Submission) -> None:
    """Mail the submitter if the state has changed; do nothing if mail is not set up.

    A repeated test is reported only at its end, and only if its result differs.
    """
    has_changed = submission.state != submission.notified_state
    if not has_changed or (submission.state == State.PROBING and submission.notified_state):
        return
    submission.notified_state = submission.state
    Submission.objects.filter(pk=submission.pk).update(notified_state=submission.state)
    page = absolute(submission.get_absolute_url())
    text = f"{NEXT[State(submission.state)]}\n\n{submission.message}\n\n{page}\n"
    # Before the review, the name may be any text and the address someone else's: the site must
    # not mail a visitor's text to others.
    name = submission.name if submission.state in REVIEWED else "your submission"
    subject = f"ConvergeBench: {name}: {submission.get_state_display()}"

    def send() -> None:
        send_mail(subject, text, None, [submission.email], fail_silently=True)

    transaction.on_commit(send)
