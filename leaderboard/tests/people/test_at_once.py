"""One person votes from several windows at the same moment, in real threads."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from leaderboard.models import Question, Vote
from leaderboard.people import questions
from leaderboard.testing.votable import votable_board

pytestmark = pytest.mark.both_databases

AT_ONCE = 6


def all_at_once(work: Callable[[], Any]) -> list[Any]:
    """Return the results of the same work, started by all threads at the same time."""
    ready, found = threading.Barrier(AT_ONCE), []

    def run() -> None:
        ready.wait()
        try:
            found.append(work())
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == AT_ONCE
    return found


def post(client: Client, address: str, body: dict[str, Any]) -> Any:
    return client.post(address, json.dumps(body), content_type="application/json")


@pytest.mark.django_db(transaction=True)
def test_one_person_has_one_session_and_one_vote_on_each_question(client):
    votable_board({"Oracle": 0.0, "Alder": 0.06, "Noise": 0.45}, images=4, trips=2)
    questions.refresh()
    # One more question gives the visitor a voter's cookie; the session is then abandoned.
    assert post(client, "/vote/session", {"kind": "pair"}).status_code == 200
    cookies = client.cookies
    Vote.objects.all().delete()
    Question.objects.update(asked=0)

    def window() -> Client:
        found = Client()
        found.cookies = cookies
        return found

    begun = all_at_once(lambda: post(window(), "/vote/session", {"kind": "pair"}))
    assert {answer.status_code for answer in begun} == {200}
    tickets = {tuple(q["ticket"] for q in answer.json()["questions"]) for answer in begun}
    assert len(tickets) == 1
    assert Vote.objects.values("session").distinct().count() == 1
    asked = Counter(Vote.objects.exclude(role=Vote.Role.REPEAT).values_list("question", flat=True))
    assert set(asked.values()) == {1}

    ticket = tickets.pop()[0]
    body = {"ticket": ticket, "answer": "left"}
    said = all_at_once(lambda: post(window(), "/vote/answer", body).status_code)
    assert Counter(said) == {200: 1, 409: AT_ONCE - 1}
    assert Vote.objects.answered().count() == 1
