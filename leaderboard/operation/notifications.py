"""Mails to submitters: what became of their submission, and what happens next."""

from __future__ import annotations

from django.core.mail import send_mail
from django.db import transaction

from leaderboard.models import Submission
from leaderboard.text import absolute

State = Submission.State

NEXT = {
    State.PROBING: "We are sending one small picture through your endpoint.",
    State.PROBE_FAILED: "The test did not pass. The failed step says why and how to mend it.",
    State.REVIEW: "The test passed. A person looks at it next.",
    State.ASKED: "We have a question; please answer it on this submission's page.",
    State.APPROVED: "Your model is being evaluated; its page shows how far it is.",
    State.REJECTED: "We will not evaluate this model. The reviewers say why.",
    State.WITHDRAWN: "The submission is withdrawn and its key is deleted.",
}

#: A person has looked at it.
SEEN = frozenset({State.ASKED, State.APPROVED, State.REJECTED})


def notify_submitter(submission: Submission) -> None:
    """A mail to the submitter when there is news; nothing where mail is not set up.

    A test made again is news only by its end, and only where that end is another one.
    """
    news = submission.state != submission.notified_state
    if not news or (submission.state == State.PROBING and submission.notified_state):
        return
    submission.notified_state = submission.state
    Submission.objects.filter(pk=submission.pk).update(notified_state=submission.state)
    page = absolute(submission.get_absolute_url())
    text = f"{NEXT[State(submission.state)]}\n\n{submission.message}\n\n{page}\n"
    # Before a person has looked, the name is whatever somebody typed, and the address perhaps
    # somebody else's: nobody shall have us mail their words to others.
    name = submission.name if submission.state in SEEN else "your submission"
    subject = f"ConvergeBench: {name}: {submission.get_state_display()}"

    def send() -> None:
        send_mail(subject, text, None, [submission.email], fail_silently=True)

    transaction.on_commit(send)
