"""A board that people can vote on, and voters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from leaderboard.models import Suite, Vote
from leaderboard.people import questions
from leaderboard.testing.played import once
from leaderboard.testing.votable import votable_board


def _made() -> Suite:
    suite = votable_board()
    questions.refresh()
    return suite


@pytest.fixture(scope="module")
def board(django_db_setup: None, django_db_blocker: Any) -> Iterator[Suite]:
    """Five models on twelve cases, with questions to ask."""
    yield from once(django_db_blocker, _made)


class Browser:
    """A visitor who votes: a client with its cookies."""

    def __init__(self, **fields: Any) -> None:
        self.client = Client(**fields)

    def post(self, address: str, body: Any) -> Any:
        text = body if isinstance(body, str) else json.dumps(body)
        return self.client.post(address, text, content_type="application/json")

    def begin(self, kind: str = "pair") -> Any:
        return self.post("/vote/session", {"kind": kind})

    def answer(self, ticket: str, said: str, **more: Any) -> Any:
        return self.post("/vote/answer", {"ticket": ticket, "answer": said, **more})

    def vote_all(self, kind: str = "pair", said: str = "") -> dict[str, Any]:
        """Answer a whole session; by default with the answers of the headline."""
        session = self.begin(kind).json()
        for question in session["questions"]:
            assert self.answer(question["ticket"], said or best(question["ticket"])).json()
        return session


def best(ticket: str) -> str:
    """Return the answer that the headline would give."""
    vote = Vote.objects.select_related("question__first__chain", "question__second__chain").get(
        ticket=ticket
    )
    kept = [
        trip.chain.retention("overall")[trip.number - 1]
        for trip in (vote.question.first, vote.question.second)
        if trip
    ]
    if vote.kind == "usable":
        return "yes" if kept[0] > 0.5 else "no"
    return "left" if (kept[0] > kept[1]) == vote.first_left else "right"


@pytest.fixture
def browser() -> Browser:
    return Browser()
