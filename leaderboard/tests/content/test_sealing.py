"""A sealed suite tells its numbers and nothing else, at whatever address one asks."""

from __future__ import annotations

import json
import re
from collections import deque

import pytest
from django.core.management import CommandError, call_command

from evaluation.bundle.format import BundleError
from leaderboard.exchange import bundles
from leaderboard.models import Suite, Trip
from leaderboard.standings import refresh_ranks
from leaderboard.testing.bundle_runs import finished_run
from leaderboard.testing.factories import FLIP, picture, tiny_suite

pytestmark = pytest.mark.django_db

CANARY = "Turn this canary round, left to right: flip it horizontally."
OPEN = FLIP.forward


@pytest.fixture
def folder(tmp_path):
    rows = []
    for number in range(2):
        picture(50 + number, 64).save(tmp_path / f"{number}.png")
        rows.append({"file": f"{number}.png", "kind": "object"})
    (tmp_path / "pictures.json").write_text(json.dumps(rows))
    (tmp_path / "wordings.json").write_text(
        json.dumps({FLIP.slug: {"forward": CANARY, "backward": CANARY}})
    )
    return tmp_path


@pytest.fixture
def runs(folder):
    """A finished run on an open suite and one on its sealed twin."""
    suite = tiny_suite(pairs=(FLIP,))
    call_command("seal_suite", suite.key, folder, narrow=True, verbosity=0)
    sealed = Suite.objects.sealed().get()
    return finished_run("jpeg", suite), finished_run("noise", sealed)


def crawl(client, *starts):
    """Every address of the site that a link leads to, with what it answers."""
    found, todo = {}, deque(starts)
    while todo:
        address = todo.popleft()
        if address in found or len(found) > 400:
            continue
        response = client.get(address)
        body = b"".join(response.streaming_content) if response.streaming else response.content
        found[address] = body
        if response.status_code in (301, 302):
            todo.append(response["Location"])
        if "image" in response.get("Content-Type", ""):
            continue
        text = body.decode("utf-8", "replace").replace("&amp;", "&")
        links = re.findall(r'(?:href|src)="(/[^"#]*)', text)
        links += re.findall(r"<loc>https?://[^/]+(/[^<]*)", text)
        todo.extend(link for link in links if not link.startswith(("/static/", "/admin/")))
    return found


def test_nothing_of_a_sealed_suite_is_found_by_a_crawler(client, runs, tmp_path):
    opened, run = runs
    api = "/api/v1/"
    found = crawl(
        client,
        *("/tour/", "/embed/board/", "/embed/chart/", "/embed/chart/?chart=value"),
        *("/vote/", "/vote/?mode=usable", "/agreement/", f"{api}votes", f"{api}agreement"),
        *("/gallery/", "/value/", "/value/figure.json", "/new/", "/new/feed.atom", "/new/board/"),
        *("/", "/suites/", "/sitemap.xml", "/compare/", "/categories/", "/changelog/", "/submit/"),
        *(f"{api}{name}" for name in ("leaderboard", "models", "suites", "runs")),
    )
    call_command("export_dataset", tmp_path / "dataset", verbosity=0)
    for file in (tmp_path / "dataset").rglob("*"):
        if file.is_file():
            found[str(file)] = file.read_bytes()
    everything = b"\n".join(found.values())
    # The same walk finds what is open: it would find a leak.
    assert OPEN.encode() in everything
    assert opened.suite.content_hash.encode() in everything
    secrets = [CANARY, run.suite.content_hash, "sealed-1", run.secret]
    secrets += [p.stored.sha256 for p in run.suite.pictures.select_related("stored")]
    secrets += [p.pixels_sha256 for p in run.suite.pictures.all()]
    secrets += Trip.objects.filter(chain__run=run).values_list("restored", flat=True)
    for secret in secrets:
        where = [address for address, body in found.items() if str(secret).encode() in body]
        assert not where, (secret, where)
    assert b"tiny, sealed" in everything.lower()


def test_who_guesses_an_address_of_a_sealed_suite_gets_nothing(client, runs, tmp_path):
    _, run = runs
    case = run.suite.cases.first()
    sha256 = run.suite.pictures.first().stored_id
    answered = Trip.objects.filter(chain__run=run).first().restored_id
    api = "/api/v1/"
    suite = f"/suites/{run.suite.slug}/"
    for address in (
        f"/cases/{case.pk}/card.png",
        *(case.get_absolute_url(), f"/runs/{run.pk}/", f"/runs/{run.pk}/cases/{case.pk}/"),
        *(f"/runs/{run.pk}/bundle.zip", f"/runs/{run.pk}/progress.json"),
        *(f"/runs/{run.pk}/scores.csv", f"/runs/{run.pk}/scores.json"),
        *(f"/runs/{run.pk}/cases/{case.pk}/lost/1.png", suite, f"{suite}1/"),
        *(f"{suite}1/suite.json", f"{suite}1/scores.parquet", f"/pictures/jpeg/{sha256}/50"),
        *(f"/pictures/{form}/{sha256}" for form in ("thumbnail", "copy", "original")),
        *(f"/pictures/{form}/{answered}" for form in ("thumbnail", "copy", "original")),
        *(f"{api}suites/{run.suite.key}", f"{api}cases/{case.pk}", f"{api}runs/{run.pk}"),
        *(f"{api}runs/{run.pk}/chains", f"{api}runs/{run.pk}/status"),
        *(f"{api}runs/{run.pk}/standings", f"{api}runs/{run.pk}/cases/{case.pk}/trips"),
    ):
        assert client.get(address).status_code == 404, address
    with pytest.raises(BundleError, match="sealed"):
        bundles.write(run, tmp_path / "run.zip")


def test_its_standings_are_told(client, runs):
    _, run = runs
    refresh_ranks(run.suite)
    text = client.get("/suites/").content.decode()
    assert run.editing_model.name in text[text.index("sealed</span>") :]


def test_a_folder_that_does_not_fit_is_refused_in_words(folder):
    suite = tiny_suite(pairs=(FLIP,))
    with pytest.raises(CommandError, match="2 pictures are too few"):
        call_command("seal_suite", suite.key, folder)
    (folder / "wordings.json").write_text('{"sing": {}}')
    with pytest.raises(CommandError, match=r"wordings\.json: the suite has no pair sing"):
        call_command("seal_suite", suite.key, folder, narrow=True)
    (folder / "wordings.json").unlink()
    (folder / "pictures.json").write_text("[]")
    with pytest.raises(CommandError, match=r"pictures\.json: expected a list of pictures"):
        call_command("seal_suite", suite.key, folder, narrow=True)
    assert not Suite.objects.sealed().exists()
