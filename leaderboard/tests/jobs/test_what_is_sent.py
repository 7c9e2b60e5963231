"""Requests to an endpoint reveal the case only by pixels and prompt."""

from __future__ import annotations

import base64
import re
import struct

import pytest

from evaluation.editors.contracts import CONTRACTS
from evaluation.images import EncodedImage, clean_wire
from evaluation.testing.endpoints import PATHS
from evaluation.testing.hostile_server import HostileServer, Received, as_json, response
from leaderboard import jobs
from leaderboard.models import Run, Suite
from leaderboard.testing import factories
from leaderboard.testing.served_runs import played

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick")]

IMAGE = EncodedImage.from_image(factories.drawn_image(9))
B64 = base64.b64encode(IMAGE.data).decode()
ANSWERS = {
    "openai-edits": as_json({"data": [{"b64_json": B64}]}),
    "openai-generations": as_json({"data": [{"b64_json": B64}]}),
    "huggingface": response(200, IMAGE.data, "image/png"),
    "cog": as_json({"status": "succeeded", "output": f"data:image/png;base64,{B64}"}),
}


def play(contract: str) -> tuple[Run, list[Received]]:
    """Play two cases of each of two images; return the run and all requests."""
    suite = Suite.objects.first() or factories.tiny_suite(2, trips=2)
    with HostileServer() as server:
        server.answers(PATHS[contract], ANSWERS[contract])
        options = {"url": server.url("/v1"), "contract": contract, "model": "m"}
        model = factories.editing_model(f"{contract}-{server.port}", "endpoint", options=options)
        run = played(jobs.start(model, suite))
        return run, list(server.received)


def sent_images() -> list[bytes]:
    _, images = factories.core_suite(2, trips=2)
    return [clean_wire(image).data for image in (*images.values(), IMAGE)]


def besides(request: Received) -> dict[str, str]:
    """Return a request without its pixels, its prompt and its length."""
    body = request.body
    for data in sent_images():
        body = body.replace(data, b"PIXELS").replace(base64.b64encode(data), b"PIXELS")
    for pair in (factories.FLIP, factories.TURN):
        body = body.replace(pair.forward.encode(), b"PROMPT")
    assert b"PIXELS" in body
    assert b"PROMPT" in body
    host = request.headers["host"].encode()
    words = re.findall(r"[\w.-]+", body.replace(host, b"HOST").decode())
    headers = {k: v for k, v in request.headers.items() if k not in ("content-length", "host")}
    return {
        "method": request.method,
        "path": request.path,
        "names": " ".join(headers),
        **headers,
        **{f"word {number}": word for number, word in enumerate(words)},
    }


@pytest.mark.parametrize("contract", sorted(CONTRACTS))
def test_requests_differ_only_in_pixels_and_prompt(
    contract: str,
) -> None:
    first, second = ([besides(r) for r in play(contract)[1]] for _ in range(2))
    assert len(first) == len(second) == 16
    assert {tuple(request) for request in first + second} == {tuple(first[0])}
    for name in first[0]:
        before, after = ([request[name] for request in run] for run in (first, second))
        if len({*before, *after}) > 1:
            # Not the same for all: then never seen before, so that no table helps, and never
            # twice, so that it does not even tell which requests belong together.
            assert len({*before, *after}) == 32, name


def test_the_order_of_chains_is_drawn_by_the_secret() -> None:
    suite, model = factories.tiny_suite(3), factories.editing_model()

    def order(secret: str | None = None) -> tuple[int, ...]:
        run = jobs.start(model, suite, secret=secret)
        return tuple(run.chains.order_by("pk").values_list("case", flat=True))

    orders = {order() for _ in range(8)}
    assert len(orders) > 4
    assert len({found[0] for found in orders}) > 1
    assert order("5" * 64) == order("5" * 64)


def chunk_names(data: bytes) -> list[bytes]:
    names, at = [], 8
    while at < len(data):
        names.append(data[at + 4 : at + 8])
        at += 12 + struct.unpack_from(">I", data, at)[0]
    return names


def test_metadata_hidden_in_an_answer_does_not_reach_the_next_edit() -> None:
    hidden = b"the source itself"
    tail = IMAGE.data.index(b"IEND") - 4
    chunk = struct.pack(">I", len(hidden)) + b"prVt" + hidden + b"\0\0\0\0"
    dirty = EncodedImage.from_bytes(IMAGE.data[:tail] + chunk + IMAGE.data[tail:] + hidden)
    with HostileServer() as server:
        server.answers("/v1", response(200, dirty.data, "image/png"))
        options = {"url": server.url("/v1"), "contract": "huggingface"}
        model = factories.editing_model("hides", "endpoint", options=options)
        run = played(jobs.start(model, factories.tiny_suite(1, trips=2)))
        sent = [base64.b64decode(request.json()["inputs"]) for request in server.received]
    kept = {trip.edited.read().data for chain in run.chains.all() for trip in chain.trips.all()}
    assert kept == {dirty.data}  # the record has the very bytes
    assert not any(hidden in image for image in sent)
    assert {name for data in sent for name in chunk_names(data)} == {b"IHDR", b"IDAT", b"IEND"}


def test_the_secret_is_published_when_the_run_has_finished(client) -> None:
    run, _ = play("huggingface")
    Run.objects.filter(pk=run.pk).update(published=True)
    pages = [run.get_absolute_url(), f"/api/v1/runs/{run.pk}"]
    for page in pages:
        assert run.secret not in client.get(page).content.decode()
    jobs.score(run.pk)
    document = client.get(pages[1]).json()
    assert document["secret"] == run.secret
