"""Results that outlive the server: the site as plain files, and as a dataset."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import re
from collections.abc import Iterator
from html import unescape
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urljoin, urlsplit
from urllib.request import urlopen

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from PIL import Image

from evaluation.testing.local_server import LocalServer
from leaderboard.models import Run
from leaderboard.testing import factories
from leaderboard.testing.bundle_runs import finished_run

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick_metrics")]
ADDRESS = re.compile(r'\s(href|src|srcset|action|data-[\w-]+)="([^"]*)"')


@pytest.fixture
def runs() -> list[Run]:
    """Two models on a suite of one picture."""
    suite = factories.tiny_suite(1, (factories.FLIP,), trips=2)
    return [finished_run(editor, suite) for editor in ("oracle", "thumbnail")]


LIVE = "https://bench.example"


@pytest.fixture
def snapshot(runs, tmp_path) -> Iterator[str]:
    """The address of the frozen site in a folder of a plain file server."""
    out = tmp_path / "host" / "folder"
    quiet = {"stdout": io.StringIO(), "stderr": io.StringIO()}
    call_command("freeze_site", str(out), live_url=LIVE, **quiet)
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "host"))
    with LocalServer(handler) as server:
        yield f"{server.url}/folder"


def links(text: str) -> Iterator[str]:
    for name, value in ADDRESS.findall(text):
        if name.startswith("data-") and not value.startswith("/"):
            continue
        for part in value.split(", ") if name == "srcset" else [value]:
            yield unescape(part.strip().split(" ")[0])


def test_every_link_of_the_frozen_site_leads_somewhere(snapshot, runs, tmp_path):
    todo, seen, broken = [f"{snapshot}/"], set(), []
    while todo:
        address = todo.pop()
        if address in seen:
            continue
        seen.add(address)
        try:
            with urlopen(address) as answer:
                kind, body = answer.headers["Content-Type"], answer.read()
        except HTTPError:
            broken.append(address)
            continue
        if kind.startswith("text/html"):
            policy = re.search(
                r'http-equiv="Content-Security-Policy" content="([^"]*)"', body.decode()
            )
            assert policy, address
            assert "script-src &#x27;self&#x27;" in policy[1]
            for link in links(body.decode()):
                target = urljoin(address, link).partition("#")[0]
                if target.startswith(snapshot):
                    assert not urlsplit(target).query, f"{address} leads to {target}"
                    todo.append(target)
    assert broken == []
    paths = {urlsplit(address).path.removeprefix("/folder") for address in seen}
    run = runs[0]
    case = run.chains.get().case_id
    for path in (
        *("/", "/models/thumbnail/", f"/runs/{run.pk}/", f"/runs/{run.pk}/cases/{case}/"),
        *(f"/cases/{case}/", "/suites/", "/suites/tiny/1/", "/methodology/"),
    ):
        assert path in paths, path
    pictures = [path for path in paths if path.startswith("/pictures/copy/")]
    assert pictures
    for path in pictures:
        Image.open(tmp_path / "host" / "folder" / path.lstrip("/")).verify()
    board = (tmp_path / "host" / "folder" / "index.html").read_text()
    assert "Half-life" in board

    tables = [path for path in paths if path.startswith("/downloads/")]
    assert {path.rpartition(".")[2] for path in tables} == {"csv", "json"}
    for path in tables:
        data = (tmp_path / "host" / "folder" / path.lstrip("/")).read_text()
        assert "thumbnail" in data.lower()
        assert not data.lstrip().startswith("<")
    assert '<fieldset disabled class="frozen">' in board
    assert re.search(rf'href="{LIVE}/\?[^"]*sort=', board)  # what a file cannot do
    assert "127.0.0.1" not in board


def test_a_snapshot_without_a_live_site_says_so_and_names_no_machine_of_ours(runs, tmp_path):
    said = io.StringIO()
    call_command("freeze_site", str(tmp_path / "site"), stdout=io.StringIO(), stderr=said)
    assert "say it with --live-url" in said.getvalue()
    board = (tmp_path / "site" / "index.html").read_text()
    assert "not said where the live site is" in board
    assert "snapshot/" in board


def test_a_folder_that_holds_something_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(CommandError, match="is not empty"):
        call_command("freeze_site", str(tmp_path))
    with pytest.raises(CommandError, match="is not empty"):
        call_command("export_dataset", str(tmp_path))


# The dataset


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_dataset_has_pictures_retention_preferences_and_licences(runs, tmp_path):
    out = tmp_path / "data"
    call_command("export_dataset", str(out), "--suite", "tiny-v1", stdout=io.StringIO())
    degraded = rows(out / "degraded.jsonl")
    assert len(degraded) == 2 * 2  # two models, two trips
    for row in degraded:
        assert (row["licence"], row["attribution"]) == ("CC0-1.0", "A test")
        assert row["suite_hash"] == runs[0].suite.content_hash
        assert set(row["degraded"]["retention"]) == {"psnr", "ssim"}
        for name in (row["source"], row["degraded"]["picture"]):
            data = (out / name).read_bytes()
            assert Path(name).stem == hashlib.sha256(data).hexdigest()
    preferences = rows(out / "preferences.jsonl")
    assert {row["from"] for row in preferences} >= {"two models"}
    for row in preferences:
        better, worse = row["better"]["retention"], row["worse"]["retention"]
        assert all(better[metric] > worse[metric] for metric in better)
    assert json.loads((out / "runs.json").read_text())[str(runs[0].pk)]["metrics"]
    assert "`preferences.jsonl` is by machine scores" in (out / "README.md").read_text()


def test_what_is_not_public_is_not_exported(runs, tmp_path):
    Run.objects.update(published=False)
    with pytest.raises(CommandError, match="no public run"):
        call_command("export_dataset", str(tmp_path / "data"))
    with pytest.raises(CommandError, match="There is no suite other-v1; there are: tiny-v1"):
        call_command("export_dataset", str(tmp_path / "data"), "--suite", "other-v1")
