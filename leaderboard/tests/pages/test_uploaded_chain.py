"""Bring your own chain, in the browser: any upload is either scored or refused with a reason."""

from __future__ import annotations

import io
import zipfile
from datetime import timedelta

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from evaluation import jobs
from evaluation.images import encode_jpeg, encode_png
from leaderboard.models import UploadedChain
from leaderboard.pages import uploaded_chain
from leaderboard.testing.factories import picture

pytestmark = pytest.mark.django_db


def worn(trips: int = 3) -> list[bytes]:
    """A source and its returns, each one JPEG worse."""
    image = picture(1, 128)
    found = [encode_png(image)]
    for _ in range(trips):
        image = Image.open(io.BytesIO(encode_jpeg(image, 20))).convert("RGB")
        found.append(encode_png(image))
    return found


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def damaged(way: int) -> bytes:
    """A zip whose directory is whole and whose content is not."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", way) as archive:
        archive.writestr("I0_source.png", bytes(range(256)) * 40)
    data = bytearray(buffer.getvalue())
    start = 30 + len("I0_source.png")
    data[start : start + 20] = b"\xff" * 20
    return bytes(data)


def send(client, files: dict[str, bytes], **fields: object):
    returns = [SimpleUploadedFile(name, data) for name, data in files.items()]
    return client.post("/try/", {"returns": returns, **fields})


def test_a_source_and_its_returns_are_scored_and_shown(client, valkey):
    source, *returns = worn()
    answer = send(
        client,
        {f"back{n}.png": data for n, data in enumerate(returns)},
        source=SimpleUploadedFile("zzz.png", source),
        name="Mine",
    )
    chain = UploadedChain.objects.get()
    assert answer.url == chain.get_absolute_url()
    assert "Being scored" in client.get(answer.url).content.decode()
    assert client.get(f"{answer.url}state.json").json() == {"state": "waiting"}
    jobs.score_uploaded_chain(chain.pk)
    page = client.get(answer.url).content.decode()
    assert "Half-life by" in page
    assert "of the picture is left" in page
    assert "not judged" in page
    chain.refresh_from_db()
    kept = chain.results["metrics"]["psnr"]["retention"]
    assert len(kept) == 3
    assert 0 < kept[0] < 1


def test_a_zip_with_named_pictures_is_understood(client, valkey):
    source, one, two = worn(2)
    names = ["I0_source.png", "I1_forward.png", "I1_backward.png", "I2_backward.png"]
    data = zipped(dict(zip([f"chain/{n}" for n in names], [source, two, one, two], strict=True)))
    assert send(client, {"chain.zip": data}).status_code == 302
    roles = [(p.number, p.forward) for p in UploadedChain.objects.get().pictures.all()]
    assert roles == [(0, False), (1, True), (1, False), (2, False)]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.png": worn()[0]}, "at least one return"),
        ({"a.png": worn()[0], "b.txt": b"hello"}, "b.txt: not a PNG"),
        ({"a.zip": b"PK\x03\x04 nonsense"}, "not a zip file"),
        ({"I0_source.png": worn()[0], "I2_backward.png": worn()[0]}, "I1_backward is missing"),
        ({"I1_backward.png": worn()[0], "I2_backward.png": worn()[0]}, "I0_source is missing"),
        ({"I0_source.png": worn()[0], "I1_forward.png": worn()[0]}, "nothing came back yet"),
        ({"a.png": encode_png(Image.new("RGB", (9, 9))), "b.png": worn()[0]}, "at least 64"),
        ({"a.zip": zipped({f"{n}.png": b"x" for n in range(200)})}, "at most 101"),
        ({"a.zip": zipped({f"{'9' * 5_000}{n}.png": b"x" for n in "ab"})}, "not a PNG"),
        ({"a.zip": damaged(zipfile.ZIP_DEFLATED)}, "cannot be unpacked"),
        ({"a.zip": damaged(zipfile.ZIP_LZMA)}, "cannot be unpacked"),
        ({"a.zip": damaged(zipfile.ZIP_BZIP2)}, "cannot be unpacked"),
    ],
)
def test_what_is_not_a_chain_is_refused_with_a_reason_and_not_kept(client, files, message):
    answer = send(client, files)
    assert answer.status_code == 422
    assert message in answer.content.decode()
    assert not UploadedChain.objects.exists()


def test_a_zip_bomb_is_cut_short(client):
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("I0_source.png", b"\0" * (uploaded_chain.MAX_PICTURE_BYTES + 1))
    answer = send(client, {"bomb.zip": bomb.getvalue()})
    assert "too large" in answer.content.decode()


def test_many_small_bombs_are_one_large_one(client, monkeypatch):
    monkeypatch.setattr(uploaded_chain, "MAX_TOTAL_BYTES", 2**20)
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", b"\0" * 600_000)
    answer = send(client, {f"{n}.zip": bomb.getvalue() for n in range(3)})
    assert "too large" in answer.content.decode()


def test_after_a_day_the_chain_is_gone(client, valkey):
    source, one = worn(1)
    send(client, {"a.png": source, "b.png": one})
    UploadedChain.objects.update(created_at=timezone.now() - timedelta(days=1, minutes=1))
    chain = UploadedChain.objects.get()
    assert client.get(chain.get_absolute_url()).status_code == 404
    jobs.sweep()
    assert not UploadedChain.objects.exists()


def test_a_fault_of_ours_is_admitted_without_its_inner_workings(client, valkey, monkeypatch):
    source, one = worn(1)
    answer = send(client, {"a.png": source, "b.png": one})

    def broken(*_: object) -> None:
        raise ImportError("no module at /srv/secret/place")

    monkeypatch.setattr("evaluation.jobs.uploaded_chain_job.score_chain", broken)
    jobs.score_uploaded_chain(UploadedChain.objects.get().pk)
    page = client.get(answer.url).content.decode()
    assert "The fault is ours" in page
    assert "secret" not in page


def test_a_day_has_a_quota_for_each_address(client, valkey, settings):
    settings.UPLOADED_CHAINS_PER_DAY = 1
    source, one = worn(1)
    assert send(client, {"a.png": source, "b.png": one}).status_code == 302
    again = send(client, {"a.png": source, "b.png": one})
    assert again.status_code == 429
    assert "the limit is 1" in again.content.decode()
    assert UploadedChain.objects.count() == 1
    UploadedChain.objects.update(created_at=timezone.now() - timedelta(days=1, minutes=1))
    assert send(client, {"a.png": source, "b.png": one}).status_code == 302


def test_nobody_guesses_an_address(client):
    assert client.get("/try/abc/").status_code == 404


@given(st.lists(st.tuples(st.text(max_size=20), st.binary(max_size=20)), max_size=8))
def test_any_names_are_arranged_or_refused(files):
    try:
        found = uploaded_chain.arrange([uploaded_chain.Upload(name, data) for name, data in files])
    except uploaded_chain.Unusable:
        return
    assert found[0][:2] == (0, False)
