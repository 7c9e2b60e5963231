"""Options that a run gives to a submitted endpoint's editor, and those its row cannot set."""

from __future__ import annotations

from typing import Any

import pytest

from evaluation.editors.endpoint import Endpoint
from evaluation.net.addresses import AddressRefused
from leaderboard.jobs.control import editor_of
from leaderboard.models import EditingModel, Run
from leaderboard.models.encryption import Secret, encrypt

KEY = "sk-canary-0123456789abcdef"


def run_of(**options: Any) -> Run:
    model = EditingModel(slug="m", name="M", editor="endpoint", options=options)
    model.api_key = Secret(encrypt(KEY))
    return Run(pk=7, editing_model=model)


def test_the_editor_gets_the_decrypted_key() -> None:
    editor = editor_of(run_of(url="https://example.com/v1"))
    assert isinstance(editor, Endpoint)
    assert editor.api_key == KEY
    assert KEY not in repr(editor)


def test_attempts_are_named_by_the_run_and_its_secret_only() -> None:
    run, same = (run_of(url="https://example.com/v1") for _ in range(2))
    groups = {getattr(editor_of(one), "group", "") for one in (run, run, same)}
    assert len(groups) == 2  # another secret, another name
    same.secret = run.secret
    assert len({getattr(editor_of(one), "group", "") for one in (run, same)}) == 1
    assert run.secret not in groups


def test_options_of_a_row_cannot_open_the_private_network(settings: Any) -> None:
    settings.ALLOW_LOCAL_ENDPOINTS = False
    settings.ALLOWED_HOSTS = ["board.example.org"]
    wide = {"allow_local": True, "ports": [22, 443, 6379], "deny": []}
    for url in ("http://127.0.0.1:8000/", "https://10.0.0.1/", "https://example.com:6379/"):
        with pytest.raises(AddressRefused):
            editor_of(run_of(url=url, **wide))
    with pytest.raises(AddressRefused, match="cannot benchmark this server"):
        editor_of(run_of(url="https://board.example.org/v1", **wide))


@pytest.mark.parametrize(
    "url", ["https://files.example.org/", "https://203.0.114.7/", "https://bench.example.net/"]
)
def test_other_private_addresses_stay_closed(settings: Any, url: str) -> None:
    settings.ALLOW_LOCAL_ENDPOINTS = False
    settings.ALLOWED_HOSTS = ["*"]
    settings.SITE_URL = "https://bench.example.net:443"
    settings.OWN_ADDRESSES = [".example.org", "203.0.114.0/24"]
    with pytest.raises(AddressRefused, match="cannot benchmark this server"):
        editor_of(run_of(url=url))


def test_the_development_setting_opens_private_addresses(settings: Any) -> None:
    settings.ALLOW_LOCAL_ENDPOINTS = True
    editor = editor_of(run_of(url="http://127.0.0.1:8000/v1"))
    assert isinstance(editor, Endpoint)
    assert editor.allow_local


def test_security_events_reach_the_callback(settings: Any) -> None:
    settings.ALLOW_LOCAL_ENDPOINTS = False
    events: list[tuple[str, str]] = []
    with pytest.raises(AddressRefused):
        editor_of(run_of(url="https://169.254.169.254/"), lambda *event: events.append(event))
    assert [kind for kind, _ in events] == ["address"]
