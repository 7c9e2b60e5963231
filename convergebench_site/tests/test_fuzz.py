"""Random input for all readers of untrusted data: they accept it or refuse it clearly.

These tests are short; `make fuzz` runs them for an hour. `corpus/` has the shortest input found for
each way in which a reader can end. `make fuzz` extends the corpus, and mutates its inputs too. Every
test run reads the whole corpus. Inputs that have revealed a defect are listed below as `@example`.
"""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from django.urls import reverse
from httpcore2 import MockBackend
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PIL import Image

from evaluation.bundle import document as bundles
from evaluation.content import archives
from evaluation.content.archives import ArchiveError
from evaluation.editors.contracts import CONTRACTS, Settings, as_curl, find_contract
from evaluation.editors.instructions import parse
from evaluation.errors import EditorError
from evaluation.images import EncodedImage, ImageError, encode_jpeg, encode_png, encode_webp
from evaluation.net.addresses import Rules
from evaluation.net.client import HttpClient, Reply
from evaluation.testing.image_bombs import broken_exif, many_parts, many_texts
from evaluation.testing.made_up import JSON, Corpus
from evaluation.testing.zips import hidden_directory
from evaluation.untrusted_json import parse_json
from evaluation.witnesses.judge.clients import ChatClient
from evaluation.witnesses.judge.questions import QUESTIONS, TRIP
from leaderboard.people import ballots
from leaderboard.testing.factories import drawn_image
from leaderboard.testing.submission_fields import form_fields
from leaderboard.views import uploaded_chains

pytestmark = pytest.mark.fuzz

WORDS = (
    *("add", "remove", "a", "the", "flip", "rotate", "mirror", "undo", "write", "hat", "glasses"),
    *("horizontally", "upside", "down", "90", "degrees", "left", "winter", "red", "ball", "."),
    *('"SUMMER"', "replace", "with", "smaller", "larger", "keep", "exactly", "as", "it", "is"),
)


# The readers.


def read_answer(data: bytes, step: int = 60) -> str:
    client = HttpClient(Rules(allow_local=True), max_bytes=1_000)
    pieces = [data[start : start + step] for start in range(0, len(data), step)]
    client._backend.connect_tcp = MockBackend(pieces).connect_tcp  # type: ignore[method-assign]
    reply = client.send("GET", "http://127.0.0.1/", timeout=5)
    assert len(reply.body) <= 1_000
    return f"{reply.status // 100} {len(reply.headers)}"


def read_judge(data: bytes) -> str:
    client = ChatClient(model="m", key="a-secret-key", prices=(1.0, 1.0))
    reply = client._read(Reply(200, {}, data))
    assert reply.cost is None or 0 <= reply.cost < 1e6
    return "refused" if reply.refused else type(TRIP.read(reply.text)).__name__


def read_image(data: bytes) -> str:
    head = EncodedImage.from_head(data, max_pixels=10**6)
    image = EncodedImage.from_bytes(data, max_pixels=10**6)
    assert (image.mime, max(image.size)) == (head.mime, max(head.size))  # the image may be rotated
    assert image.width * image.height <= 10**6
    return f"{image.mime} {len(image.notes)}"


def read_zip(data: bytes) -> str:
    uploads = list(uploaded_chains.unpack("a.zip", io.BytesIO(data)))
    assert all(len(upload.read()) <= uploaded_chains.MAX_IMAGE_BYTES for upload in uploads)
    return f"{len(uploads)} files"


def read_bundle(data: bytes) -> str:
    """Read a bundle as the form does, then as a worker does."""
    archives.check_directory(io.BytesIO(data), 100)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "bundle.zip"
        path.write_bytes(data)
        with bundles.read(path) as bundle:
            return f"{len(bundle.image_hashes)} images"


CORPUS = Corpus(
    Path(__file__).parent / "corpus",
    {
        "answer": read_answer,
        "json": lambda data: type(parse_json(data)).__name__,
        "judge": read_judge,
        "image": read_image,
        "zip": read_zip,
        "bundle": read_bundle,
    },
    # Errors that a reader may raise for invalid data.
    (
        *(
            EditorError,
            ImageError,
            ArchiveError,
            bundles.BundleError,
            uploaded_chains.UnusableUpload,
        ),
        ValueError,
    ),
)


# Answers of endpoints.

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: v\r\n\r\n"
PACKED = zlib.compress(b"hello" * 9)
ANSWERS = [
    CHUNKED,
    b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 No\r\nRetry-After: 9\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\nContent-Length: %d\r\n\r\n%s"
    % (len(PACKED), PACKED),
]


@given(CORPUS.damaged("answer", ANSWERS) | st.binary(max_size=200), st.integers(1, 60))
@example(b"HTTP/1.1 200 OK\r\nContent-Length: " + b"0" * 5_000 + b"5\r\n\r\nhello", 60)
def test_any_answer_is_read_or_refused(data: bytes, step: int) -> None:
    with contextlib.suppress(*CORPUS.refusals):
        read_answer(data, step)
    CORPUS.read("answer", data)


@given(st.binary(max_size=300) | CORPUS.damaged("json", [b'{"data": [{"b64_json": "aGVsbG8="}]}']))
def test_any_bytes_are_json_or_not(data: bytes) -> None:
    CORPUS.read("json", data)


# Answers of judges.

SAID = '{"made": "yes", "undone": "no", "else_changed": "no", "what_else": ""}'
CHATS = [
    json.dumps({"choices": [{"message": {"content": text}}]}).encode()
    for text in (SAID, f"```json\n{SAID}\n```", '{"closer": "first"}', "I cannot see it.")
]


@given(CORPUS.damaged("judge", CHATS) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_response_of_a_judge_is_read_or_refused(data: bytes) -> None:
    CORPUS.read("judge", data)


@given(st.text(max_size=300) | st.text(alphabet='{}[]":,\\ nytesmadeuo', max_size=300))
def test_any_text_of_a_judge_is_parsed_or_gives_no_answer(text: str) -> None:
    for question in QUESTIONS:
        with contextlib.suppress(ValueError):
            question.read(text)


# Images and files.


def images() -> list[bytes]:
    image = drawn_image(3, 64)
    deep = io.BytesIO()
    Image.new("I;16", (20, 20), 40_000).save(deep, "PNG")
    return [
        *(encode_png(image), encode_jpeg(image, 80), encode_webp(image), deep.getvalue()),
        encode_png(image.convert("P")),
        *(many_parts("PNG", 3), many_parts("JPEG", 3), many_parts("WEBP", 3), broken_exif(3)),
    ]


@given(CORPUS.damaged("image", images()) | st.binary(max_size=100))
@example(many_texts(2))
@example(many_parts("JPEG", 20_001))
def test_any_image_is_decoded_or_refused(data: bytes) -> None:
    CORPUS.read("image", data)


def zips() -> list[bytes]:
    files = []
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", method) as archive:
            archive.writestr("I0_source.png", b"x" * 200)
            archive.writestr(bundles.DOCUMENT, '{"format": 1, "suite": {}}')
        files.append(file.getvalue())
    return [*files, hidden_directory(3)]


@given(CORPUS.damaged("zip", zips()) | st.binary(max_size=200))
@example(hidden_directory(2_000))
def test_any_zip_is_unpacked_or_refused(data: bytes) -> None:
    CORPUS.read("zip", data)


@given(CORPUS.damaged("bundle", zips()) | st.binary(max_size=200))
@example(b"PK\3\4PK\5\6")
@example(hidden_directory(2_000))
def test_any_bundle_is_read_or_refused(data: bytes) -> None:
    CORPUS.read("bundle", data)


@pytest.mark.parametrize("name", sorted(CORPUS.readers))
def test_the_corpus_is_read_or_refused(name: str) -> None:
    inputs = CORPUS.known(name)
    assert inputs
    for data in inputs:
        CORPUS.ending(name, data)


# Texts.


@given(st.text(max_size=200) | st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join))
def test_any_prompt_is_understood_or_refused(prompt: str) -> None:
    with contextlib.suppress(EditorError):
        instruction = parse(prompt)
        assert str(instruction)
        assert instruction.inverse.inverse == instruction


@given(st.sampled_from(sorted(CONTRACTS)), st.text(min_size=1), st.dictionaries(st.text(), JSON))
def test_no_prompt_or_parameter_escapes_its_quotes_in_the_shell(
    contract: str, prompt: str, extra: dict[str, Any]
) -> None:
    made = Settings(url="https://example.org/v1", contract=contract, model=prompt, extra=extra)
    try:
        find_contract(contract).check(made)
    except EditorError:
        return
    words = shlex.split(as_curl(made))
    assert "curl" in words or "curl" in as_curl(made)
    assert not {"rm", ";rm", "$(id)"} & set(words) - {prompt}


FIELDS = st.sampled_from(
    [
        *("name", "organisation", "email", "paper_url", "endpoint_url", "contract", "model_id"),
        *("api_key", "extra", "size", "price_per_edit", "max_in_flight", "suite", "licence"),
        *("idempotency_key", "send_seed"),
    ]
)


@pytest.fixture
def post(client, db, settings) -> Callable[[str, dict[str, Any]], int]:
    settings.RATELIMIT_ENABLE = False
    return lambda address, data: client.post(address, data).status_code


# No host names, because a lookup takes time.
TEXTS = st.text(max_size=60).filter(lambda text: "://" not in text)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=max(30, settings().max_examples // 10),
)
@given(changes=st.dictionaries(FIELDS, TEXTS, min_size=1, max_size=4))
@example(changes={"extra": '{"a": "\\u0000"}'})
@example(changes={"extra": '{"a": "\\ud800"}'})
def test_any_form_is_accepted_or_refused(post, changes: dict[str, str]) -> None:
    fields = form_fields("1") | changes
    assert post(reverse("submit"), fields) in (302, 422)
    assert post(reverse("submit_preview"), fields) == 200


VOTE = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from(["pair", "usable"]) | JSON,
        "ticket": st.text(max_size=30) | JSON,
        "answer": st.sampled_from(["left", "yes", "5"]) | JSON,
        "seconds": JSON,
        "looked": JSON,
    },
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.django_db
@given(value=VOTE | JSON)
@example(value={"ticket": "\0" * 22, "answer": "left"})
@example(value={"ticket": "\ud800" * 22, "answer": "left"})
def test_any_vote_is_accepted_or_refused(client, value: Any) -> None:
    for name in ("vote_answer", "vote_session"):
        answer = client.post(reverse(name), json.dumps(value), content_type="application/json")
        assert answer.status_code in (404, 422, 429)


@given(seconds=JSON, looked=st.dictionaries(st.text(max_size=8), JSON) | st.just({}))
def test_reported_viewing_data_is_bounded(seconds: Any, looked: dict[str, Any]) -> None:
    stored = ballots._seconds(seconds)
    assert stored is None or 0 <= stored <= ballots.LONGEST_SECONDS
    assert set(ballots._looked(looked)) <= {"zoom", "flicker", "width"}
