"""A sealed suite shows its numbers and nothing else, at every address."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections import deque

import pytest
from django.core.management import CommandError, call_command
from django.urls import Resolver404, URLResolver, get_resolver, resolve
from prometheus_client import CollectorRegistry

from evaluation.bundle.document import BundleError
from leaderboard.exports import bundles, scores
from leaderboard.models import Suite, Trip
from leaderboard.operation import monitoring
from leaderboard.standings import refresh_ranks
from leaderboard.testing.factories import FLIP, drawn_image, tiny_suite
from leaderboard.testing.played import QUICK_WITNESSES, play

pytestmark = pytest.mark.django_db

CANARY = "Turn this canary round, left to right: flip it horizontally."
OPEN = FLIP.forward


@pytest.fixture
def folder(tmp_path):
    rows = []
    for number in range(2):
        drawn_image(50 + number, 64).save(tmp_path / f"{number}.png")
        rows.append({"file": f"{number}.png", "kind": "object"})
    (tmp_path / "images.json").write_text(json.dumps(rows))
    (tmp_path / "wordings.json").write_text(
        json.dumps({FLIP.slug: {"forward": CANARY, "backward": CANARY}})
    )
    return tmp_path


@pytest.fixture
def runs(folder):
    """Play finished runs on an open suite and on its sealed twin."""
    suite = tiny_suite(pairs=(FLIP,))
    call_command("seal_suite", suite.key, folder, narrow=True, verbosity=0)
    sealed = Suite.objects.sealed().get()
    play("thumbnail", suite)
    return play("jpeg", suite), play("noise", sealed)


#: Routes that are not crawled: addresses known only to their owner; experiments, which cannot have a
#: sealed suite; maps of loss, which these metrics do not draw; the root of the API, which is no page.
NOT_MET = re.compile(r"token|ticket|session|submissions$|experiments/<|/lost/|^api/v1/$")
LINK = re.compile(r"""["'>=](?:https?://[^/"'<>\s]+)?(/[^"'<>\s#]*)""")


def routes(patterns=None, before=""):
    """Yield every route of the site except the admin's, as Django writes it."""
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        route = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, route)
        elif not route.startswith("admin/"):
            yield route


def crawl(client, *starts):
    """Return every linked address of the site with its answer."""
    result, todo, visited = {}, deque(starts), set()
    while todo:
        address = todo.popleft()
        if address in result or len(result) > 900:
            continue
        try:
            route = resolve(address.partition("?")[0]).route
        except Resolver404:
            continue
        if route.startswith("admin/"):
            continue
        response = client.get(address)
        body = b"".join(response.streaming_content) if response.streaming else response.content
        result[address] = body
        if response.status_code < 400 or response.status_code == 405:
            visited.add(route)
        if response.status_code in (301, 302):
            todo.append(response["Location"])
        if response.get("Content-Type", "").startswith(("image", "application/zip")):
            continue
        text = body.decode("utf-8", "replace").replace("&amp;", "&")
        todo.extend(LINK.findall(text))
    return result, visited


def files(folder):
    """Return the content of a folder's files and of archives among them."""
    result = {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    for name in [name for name in result if name.endswith(".zip")]:
        with zipfile.ZipFile(name) as archive:
            result |= {f"{name}/{part}": archive.read(part) for part in archive.namelist()}
    return result


@pytest.mark.usefixtures("quick_metrics")
def test_a_crawler_finds_nothing_of_a_sealed_suite(client, runs, tmp_path):
    opened, run = runs
    case = opened.suite.cases.first()
    one, api = f"/api/v1/runs/{opened.pk}", "/api/v1/"
    scores.write(opened.suite)
    result, visited = crawl(
        client,
        # Every route without arguments, so that pages added later are checked too.
        *(f"/{route}" for route in routes() if not re.search(r"[<^]", route)),
        *("/embed/chart/?chart=value", "/vote/?mode=usable", f"/suites/{opened.suite.slug}/"),
        *(f"{one}{part}" for part in ("", "/status", "/standings", "/chains")),
        *(f"{one}/cases/{case.pk}/trips", f"{api}cases?suite={opened.suite.key}"),
        *(f"{api}suites/{opened.suite.key}", f"{api}models/{opened.editing_model.slug}"),
        *(f"{api}cases/{case.pk}", f"/cases/{case.pk}/card.png"),
        *("/compare/card.png?models=jpeg,thumbnail", f"/runs/{opened.pk}/progress.json"),
        f"/images/jpeg/{case.image.stored_id}/50",
    )
    missed = {route for route in routes() if not NOT_MET.search(route)} - visited
    assert not missed, f"the crawl did not reach {missed}"
    call_command("export_results", "dataset", tmp_path / "exports/dataset", verbosity=0)
    bundles.write(opened, tmp_path / "exports/run.zip")
    result |= files(tmp_path / "exports")
    result["figures"] = monitoring.exposition(CollectorRegistry())
    everything = b"\n".join(result.values())
    # The crawl finds the open suite, so it would find a leak.
    assert OPEN.encode() in everything
    assert opened.suite.content_hash.encode() in everything
    secrets = [CANARY, run.suite.content_hash, "sealed-1", run.secret]
    secrets += [p.stored.sha256 for p in run.suite.images.select_related("stored")]
    secrets += [p.pixels_sha256 for p in run.suite.images.all()]
    secrets += Trip.objects.filter(chain__run=run).values_list("restored", flat=True)
    for secret in secrets:
        where = [address for address, body in result.items() if str(secret).encode() in body]
        assert not where, (secret, where)
    images = {hashlib.sha256(body).hexdigest() for body in result.values()}
    assert images.isdisjoint(map(str, secrets))
    assert b"tiny, sealed" in everything.lower()


@pytest.mark.usefixtures("quick_metrics")
def test_guessed_addresses_of_a_sealed_suite_give_nothing(client, runs, tmp_path):
    _, run = runs
    case = run.suite.cases.first()
    sha256 = run.suite.images.first().stored_id
    answered = Trip.objects.filter(chain__run=run).first().restored_id
    api = "/api/v1/"
    suite = f"/suites/{run.suite.slug}/"
    for address in (
        f"/cases/{case.pk}/card.png",
        *(case.get_absolute_url(), f"/runs/{run.pk}/", f"/runs/{run.pk}/cases/{case.pk}/"),
        *(f"/runs/{run.pk}/bundle.zip", f"/runs/{run.pk}/progress.json"),
        *(f"/runs/{run.pk}/scores.csv", f"/runs/{run.pk}/scores.json"),
        *(f"/runs/{run.pk}/cases/{case.pk}/lost/1.png", suite, f"{suite}1/"),
        *(f"{suite}1/suite.json", f"{suite}1/scores.parquet", f"/images/jpeg/{sha256}/50"),
        *(f"/images/{form}/{sha256}" for form in ("thumbnail", "copy", "original")),
        *(f"/images/{form}/{answered}" for form in ("thumbnail", "copy", "original")),
        *(f"{api}suites/{run.suite.key}", f"{api}cases/{case.pk}", f"{api}runs/{run.pk}"),
        *(f"{api}runs/{run.pk}/chains", f"{api}runs/{run.pk}/status"),
        *(f"{api}runs/{run.pk}/standings", f"{api}runs/{run.pk}/cases/{case.pk}/trips"),
    ):
        assert client.get(address).status_code == 404, address
    with pytest.raises(BundleError, match="sealed"):
        bundles.write(run, tmp_path / "run.zip")


@pytest.fixture
def headline_only(settings):
    settings.METRICS, settings.WITNESSES = ["overall"], QUICK_WITNESSES


@pytest.mark.usefixtures("headline_only")
def test_standings_of_a_sealed_suite_are_public(client, runs):
    _, run = runs
    refresh_ranks(run.suite)
    text = client.get("/suites/").content.decode()
    assert run.editing_model.name in text[text.index("sealed</span>") :]


def test_an_invalid_folder_is_refused_with_the_reason(folder):
    suite = tiny_suite(pairs=(FLIP,))
    with pytest.raises(CommandError, match="2 images are too few"):
        call_command("seal_suite", suite.key, folder)
    (folder / "wordings.json").write_text('{"sing": {"forward": "La", "backward": "Al"}}')
    with pytest.raises(CommandError, match=r"wordings\.json: the suite has no pair sing"):
        call_command("seal_suite", suite.key, folder, narrow=True)
    (folder / "wordings.json").write_text('{"flip": {}}')
    with pytest.raises(CommandError, match=r"wordings\.json: flip\.forward: Field required"):
        call_command("seal_suite", suite.key, folder, narrow=True)
    (folder / "wordings.json").unlink()
    (folder / "images.json").write_text("[]")
    with pytest.raises(CommandError, match=r"images\.json: expected a list of images"):
        call_command("seal_suite", suite.key, folder, narrow=True)
    assert not Suite.objects.sealed().exists()
