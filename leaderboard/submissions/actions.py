"""What submitters can do with their submission, on its page or by machine.

Each act says in a sentence what it did, or raises `NotPossible`.
"""

from __future__ import annotations

from leaderboard.models import Submission
from leaderboard.submissions import workflow
from leaderboard.submissions.forms import MAX_KEY, can_be_key
from leaderboard.text import plain_text

MAX_REPLY = 2000


def test_again(submission: Submission) -> str:
    workflow.probe_again(submission)
    return "The endpoint is being tested again."


def new_key(submission: Submission, key: str) -> str:
    if not can_be_key(key.strip()):
        raise workflow.NotPossible(
            f"A key has at most {MAX_KEY} characters, and no spaces or line breaks."
        )
    if submission.state in (Submission.State.REJECTED, Submission.State.WITHDRAWN):
        raise workflow.NotPossible("This submission is over; a key would not be used.")
    workflow.set_key(submission, key.strip())
    return "The new key is stored. It is never shown again."


def reply(submission: Submission, text: str) -> str:
    answer = plain_text(text)[:MAX_REPLY]
    if not answer:
        raise workflow.NotPossible("The answer is empty.")
    workflow.move(submission, Submission.State.REVIEW, reply=answer)
    return "Thank you, your answer is with the reviewers."


def withdraw(submission: Submission) -> str:
    workflow.withdraw(submission)
    return "The submission is withdrawn and its key is deleted."
