"""Random URLs of every public page, and random answers to open questions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import caches
from django.test import Client
from django.urls import get_resolver
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from evaluation.testing.made_up import JSON
from leaderboard.models import Vote
from leaderboard.people import questions
from leaderboard.testing.boards import make_chains, make_model, make_run, make_suite
from leaderboard.testing.experiments import experiment
from leaderboard.testing.played import once
from leaderboard.testing.votable import votable_board

pytestmark = [pytest.mark.fuzz, pytest.mark.django_db, pytest.mark.both_databases]

#: Query parameters that some page reads, and finally a parameter that no page reads.
NAMES = (
    *(
        "suite",
        "metric",
        "threshold",
        "cases",
        "q",
        "provider",
        "weights",
        "access",
        "price",
        "since",
    ),
    *("sort", "every", "models", "model", "case", "category", "cause", "label", "order", "page"),
    *("trip", "date", "mode", "chart", "by", "format", "repeat", "of", "submission", "images"),
    *("numbers", "nothing"),
)
#: Values that are valid on some page, so that the page also reads its other parameters.
MEANT = (
    *(
        "demo@1",
        "tiny@1",
        "lpips",
        "overall",
        "0.5",
        "1",
        "2",
        "alpha",
        "alpha,beta",
        "csv",
        "json",
    ),
    *(
        "worst",
        "-half_life",
        "name",
        "2026-01-01",
        "usable",
        "curves",
        "value",
        "first",
        "references",
    ),
)
ODD_TEXTS = ("\0", "\ud800", "9" * 30, "-1", "1e999", "NaN", "%00", "٣", "²", "=1+1", "a" * 3000)
VALUES = st.sampled_from(MEANT) | st.sampled_from(ODD_TEXTS) | st.text(max_size=20)
QUERIES = st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=5)
ANSWERED = (200, 301, 302, 304, 400, 404, 405, 410, 422, 429)


def _addresses() -> list[str]:
    """The URL pattern of every page; parameters are filled in below."""
    patterns = [str(pattern.pattern) for pattern in get_resolver("leaderboard.urls").url_patterns]
    return sorted(patterns)


FILLINGS = (
    *("1", "2", "3", "0", "999999999999999999999", "alpha", "demo", "tiny", "0" * 64, "a" * 22),
    *("a" * 32, "x", "copy", "csv", "words"),
)


def _made() -> None:
    suite = make_suite(images=2)
    for name, half_life in (("Alpha", 9.0), ("Beta", 4.0)):
        make_chains(make_run(make_model(name), suite, half_life), half_life, ["lpips"])
    experiment()
    votable_board({"Oracle": 0.0, "Alder": 0.06, "Noise": 0.45}, images=3, trips=2)
    questions.refresh()


@pytest.fixture(scope="module")
def board(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    yield from once(django_db_blocker, _made)


@pytest.fixture
def visitor(board: None, db: None, settings: Any) -> Client:
    settings.RATELIMIT_ENABLE = False
    settings.VOTE_SESSIONS_PER_DAY = 10**6
    for cache in ("default", "counters"):
        caches[cache].clear()
    return Client(raise_request_exception=True)


@st.composite
def addresses(draw: st.DrawFn) -> str:
    pattern = draw(st.sampled_from(_addresses()))
    filled = re.sub(r"<[^>]*>", lambda _: draw(st.sampled_from(FILLINGS)), pattern)
    filled = re.sub(r"\(\?P[^)]*\)", lambda _: draw(st.sampled_from(FILLINGS)), filled)
    return "/" + filled.replace("^", "").replace("$", "").replace("\\", "")


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=max(15, settings().max_examples // 4),
)
@given(address=addresses(), query=QUERIES)
def test_any_url_gets_a_response(
    visitor: Client, address: str, query: list[tuple[str, str]]
) -> None:
    asked: dict[str, list[str]] = {}
    for name, value in query:
        asked.setdefault(name, []).append(value.encode("utf-8", "replace").decode())
    assert visitor.get(address, asked).status_code in ANSWERED


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=max(20, settings().max_examples // 10),
)
@given(
    kind=st.sampled_from(["pair", "usable"]),
    answer=st.sampled_from(["left", "right", "yes", "no", "neither"]) | JSON,
    seconds=JSON,
    looked=st.fixed_dictionaries({}, optional={"width": JSON, "zoom": JSON, "flicker": JSON})
    | JSON,
)
@example(kind="pair", answer="left", seconds=10**400, looked={"width": 10**400})
@example(kind="usable", answer="²", seconds=float("nan"), looked={"zoom": []})
def test_any_answer_to_an_open_question_is_accepted_once_or_refused(
    visitor: Client, kind: str, answer: Any, seconds: Any, looked: Any
) -> None:
    def post(address: str, body: Any) -> Any:
        return visitor.post(address, json.dumps(body), content_type="application/json")

    session = post("/vote/session", {"kind": kind})
    assert session.status_code in (200, 404)
    if session.status_code == 404:  # all questions are answered
        Vote.objects.all().delete()
        return
    ticket = session.json()["questions"][0]["ticket"]
    body = {"ticket": ticket, "answer": answer, "seconds": seconds, "looked": looked}
    first, second = post("/vote/answer", body), post("/vote/answer", body)
    taken = Vote.objects.get(ticket=ticket)
    if first.status_code == 200:
        assert second.status_code == 409
        assert taken.answer in (-1, 0, 1)
        assert taken.seconds is None or 0 <= taken.seconds <= 3600
    else:
        # 404: the body is longer than any valid answer, so it is not read.
        assert first.status_code == second.status_code in (404, 422)
        assert taken.answered_at is None
