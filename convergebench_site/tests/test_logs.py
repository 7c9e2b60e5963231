"""No log line contains a secret."""

import json
import logging
import re
import secrets

import pytest
from django.conf import settings

from convergebench_site import logs
from convergebench_site.logs import scrub
from leaderboard.models import ApiToken, ContributedRun, Submission, UploadedChain
from leaderboard.models.votes import new_ticket
from leaderboard.urls import urlpatterns

SECRETS = re.compile(r"<str:token>|\(\?P<(?:token|ticket|session)>[^)]*\)")
ADDRESSES = [
    "/api/v1/submissions/<str:token>/key",
    *(f"/{p.pattern}" for p in urlpatterns if SECRETS.search(str(p.pattern))),
]
#: A token of each kind that the site generates.
TOKENS = {
    "submission": Submission().token,
    "upload": UploadedChain().token,
    "contributed run": ContributedRun().token,
    "ticket": new_ticket(),
    "longest": secrets.token_urlsafe(32),
}


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_log_line_contains_a_secret_url(address):
    secret = Submission().token
    asked = SECRETS.sub(secret, address).replace("^", "")
    assert secret in asked
    line = scrub(None, "", {"event": f"Not Found: {asked}", "request": f"GET {asked}"})
    assert secret not in str(line)
    assert line["request"].endswith(asked.rpartition(secret)[2])


@pytest.mark.parametrize("kind", TOKENS)
@pytest.mark.parametrize(
    "place",
    [
        "GET /subscribe/?submission={}",
        "GET /contribute/?of={}&x=1",
        "GET /admin/login/?next=/subscribe/%3Fsubmission%3D{}%26a=1",
        "Submission matching query does not exist: {{'token': '{}'}}",
        "https://site.example/x#{}",
    ],
)
def test_no_log_line_contains_our_tokens_anywhere(kind, place):
    token = TOKENS[kind]
    line = scrub(None, "", {"event": place.format(token), "deep": [{"a": place.format(token)}]})
    assert token not in str(line)
    assert line["event"] == place.format("[hidden]")


@pytest.mark.parametrize("query", ["?token={}", "?a=1&api_key={}", "?X-Access-Token={}&b=2"])
def test_no_log_line_contains_a_key_from_a_url(query):
    asked = f"GET /api/v1/submissions{query.format('cbt_0123456789')}"
    line = scrub(None, "", {"event": f"Unauthorized: {asked}", "request": asked})
    assert "0123456789" not in str(line)
    assert line["request"].startswith("GET /api/v1/submissions?")


def test_no_log_line_contains_an_api_token_anywhere():
    secret = ApiToken().draw()
    assert secret[8:] not in str(scrub(None, "", {"request": f"GET /?q={secret}"}))


@pytest.mark.parametrize(
    "request_line",
    [
        "GET /?sort=name&keys",
        f"GET /images/original/{'0a1b2c3d' * 8}",
        "GET /models/stable-diffusion-3-medium-turbo/",
        "GET /suites/standard-v1/cases/Astronaut--add-a-hat-to-the-man/",
    ],
)
def test_a_log_line_keeps_values_that_are_not_secret(request_line):
    assert scrub(None, "", {"request": request_line})["request"] == request_line


@pytest.mark.parametrize("as_json", [True, False])
def test_no_logged_traceback_contains_a_token(as_json, capsys):
    token = Submission().token
    try:
        logs.configure({"level": "INFO", "json": as_json})
        try:
            raise LookupError(f"no submission {token}")
        except LookupError:
            logging.getLogger("leaderboard").exception("failed at %s", f"/submissions/{token}/")
        line = capsys.readouterr().err
    finally:
        logs.configure(settings.LOGGING)
    assert token not in line
    assert "LookupError: no submission [hidden]" in (
        json.loads(line)["exception"] if as_json else line
    )
