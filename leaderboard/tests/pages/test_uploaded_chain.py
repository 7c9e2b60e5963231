"""Uploaded chains: any upload is either scored or refused with a reason."""

from __future__ import annotations

import io
import zipfile
from datetime import timedelta
from functools import partial

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from evaluation.images import encode_jpeg, encode_png
from leaderboard import jobs
from leaderboard.formatting import percent
from leaderboard.models import UploadedChain, Use
from leaderboard.testing.factories import drawn_image
from leaderboard.views import uploaded_chains

pytestmark = pytest.mark.django_db


def worn(trips: int = 3) -> list[bytes]:
    """A source and its restored images, each one JPEG worse."""
    image = drawn_image(1, 128)
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
    restored = [SimpleUploadedFile(name, data) for name, data in files.items()]
    return client.post("/upload/", {"restored": restored, **fields})


def test_retention_is_shown_with_the_part_that_lost_most():
    kept = {"overall": 0.47, "lpips": 0.86, "object": 0.52, "face": 0.49, "psnr": 0.8}
    metrics = {name: {"label": name.upper(), "retention": [q]} for name, q in kept.items()}
    left = f"After 1 round trip, {percent(0.47)} of the image is left"
    assert uploaded_chains.finding(metrics, "overall", 1) == f"{left}; most lost: face"
    assert uploaded_chains.finding(metrics, "psnr", 1).endswith("of the image is left (PSNR)")
    intact = {name: {"label": name, "retention": [1.0]} for name in kept}
    assert uploaded_chains.finding(intact, "overall", 1).endswith("of the image is left")


def test_a_source_and_its_restored_images_are_scored_and_shown(client, valkey):
    source, *restored = worn()
    answer = send(
        client,
        {f"back{n}.png": data for n, data in enumerate(restored)},
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
    assert "of the image is left" in page
    assert "deleted on" in page
    assert "not judged" in page
    chain.refresh_from_db()
    metrics = chain.results["metrics"]
    kept = metrics["psnr"]["retention"]
    assert len(kept) == 3
    assert 0 < kept[0] < 1


@pytest.mark.parametrize(
    ("trips", "sentence"),
    [
        (3, "This <strong>is unclear</strong>: the trips are too few or too uneven."),
        (6, "The image <strong>settles at once</strong>: the first trip does nearly all of the"),
    ],
)
def test_the_page_says_whether_the_image_settles(client, valkey, trips, sentence):
    source, *restored = worn(trips)
    send(
        client,
        {f"back{n}.png": data for n, data in enumerate(restored)},
        source=SimpleUploadedFile("zzz.png", source),
    )
    chain = UploadedChain.objects.get()
    jobs.score_uploaded_chain(chain.pk)
    page = " ".join(client.get(chain.get_absolute_url()).content.decode().split())
    assert sentence in page


def test_a_zip_with_named_images_is_understood(client, valkey):
    source, one, two = worn(2)
    names = ["I0_source.png", "I1_forward.png", "I1_backward.png", "I2_backward.png"]
    data = zipped(dict(zip([f"chain/{n}" for n in names], [source, two, one, two], strict=True)))
    assert send(client, {"chain.zip": data}).status_code == 302
    roles = [(p.number, p.forward) for p in UploadedChain.objects.get().images.all()]
    assert roles == [(0, False), (1, True), (1, False), (2, False)]


def test_an_upload_that_cannot_be_stored_is_refused_in_words(client, settings, tmp_path):
    settings.MEDIA_ROOT = tmp_path
    (tmp_path / "originals").touch()  # no folder can be made here
    answer = send(client, {f"{n}.png": data for n, data in enumerate(worn())})
    assert answer.status_code == 503
    assert "cannot be stored right now" in answer.content.decode()
    assert not UploadedChain.objects.exists()


@pytest.mark.parametrize("status", [403, 503])
def test_an_upload_that_s3_refuses_to_store_is_refused_in_words(client, s3, status):
    s3.fails = status
    answer = send(client, {f"{n}.png": data for n, data in enumerate(worn())})
    assert answer.status_code == 503
    assert "cannot be stored right now" in answer.content.decode()
    assert not UploadedChain.objects.exists()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.png": worn()[0]}, "at least one restored image"),
        ({"a.png": worn()[0], "b.txt": b"hello"}, "b.txt: not a PNG"),
        ({"a.zip": b"PK\x03\x04 nonsense"}, "not a zip file"),
        ({"I0_source.png": worn()[0], "I2_backward.png": worn()[0]}, "I1_backward is missing"),
        ({"I1_backward.png": worn()[0], "I2_backward.png": worn()[0]}, "I0_source is missing"),
        (
            {"I0_source.png": worn()[0], "I1_forward.png": worn()[0]},
            "there is no restored image yet",
        ),
        ({"a.png": encode_png(Image.new("RGB", (9, 9))), "b.png": worn()[0]}, "at least 64"),
        ({"a.zip": zipped({f"{n}.png": b"x" for n in range(200)})}, "the limit is 101"),
        ({"a.zip": zipped({f"{'9' * 5_000}{n}.png": b"x" for n in "ab"})}, "not a PNG"),
        (
            {"a.zip": damaged(zipfile.ZIP_DEFLATED), "I1_backward.png": worn()[0]},
            "cannot be unpacked",
        ),
        ({"a.zip": damaged(zipfile.ZIP_LZMA)}, "unsupported compression method"),
        ({"a.zip": damaged(zipfile.ZIP_BZIP2)}, "unsupported compression method"),
        ({"a.png": worn()[0], "b.png": encode_png(Image.new("RGB", (3000, 1501)))}, "1.6 mega"),
    ],
)
def test_an_invalid_chain_is_refused_with_a_reason_and_not_stored(client, files, message):
    answer = send(client, files)
    assert answer.status_code == 422
    assert message in answer.content.decode()
    assert not UploadedChain.objects.exists()


def test_a_zip_bomb_is_cut_short(client):
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("I0_source.png", b"\0" * (uploaded_chains.MAX_IMAGE_BYTES + 1))
    answer = send(client, {"bomb.zip": bomb.getvalue()})
    assert "the limit is 12,582,912" in answer.content.decode()


def test_many_small_bombs_are_one_large_one(client, monkeypatch):
    monkeypatch.setattr(uploaded_chains, "MAX_TOTAL_BYTES", 2**20)
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", b"\0" * 600_000)
    answer = send(client, {f"{n}.zip": bomb.getvalue() for n in range(3)})
    assert "too large" in answer.content.decode()


def test_a_chain_is_deleted_after_a_day(client, valkey):
    source, one = worn(1)
    send(client, {"a.png": source, "b.png": one})
    UploadedChain.objects.update(created_at=timezone.now() - timedelta(days=1, minutes=1))
    chain = UploadedChain.objects.get()
    assert client.get(chain.get_absolute_url()).status_code == 404
    jobs.sweep()
    assert not UploadedChain.objects.exists()


def test_an_internal_error_is_admitted_without_its_details(client, valkey, monkeypatch):
    source, one = worn(1)
    answer = send(client, {"a.png": source, "b.png": one})

    def broken(*_: object) -> None:
        raise ImportError("no module at /srv/secret/place")

    monkeypatch.setattr("leaderboard.jobs.uploaded_chains.score_trips", broken)
    jobs.score_uploaded_chain(UploadedChain.objects.get().pk)
    page = client.get(answer.url).content.decode()
    assert "This is our error" in page
    assert "secret" not in page


def test_uploads_have_a_daily_quota_for_each_address(client, valkey, settings):
    settings.UPLOADED_CHAINS_PER_DAY = 1
    source, one = worn(1)
    assert send(client, {"a.png": source, "b.png": one}).status_code == 302
    again = send(client, {"a.png": source, "b.png": one})
    assert again.status_code == 429
    assert "reached the limit of 1 in" in again.content.decode()
    assert UploadedChain.objects.count() == 1
    UploadedChain.objects.all().delete()  # nothing gives a use back but time
    assert send(client, {"a.png": source, "b.png": one}).status_code == 429
    Use.objects.update(since=timezone.now() - timedelta(days=1, minutes=1))
    assert send(client, {"a.png": source, "b.png": one}).status_code == 302


def test_an_address_cannot_be_guessed(client):
    assert client.get("/upload/abc/").status_code == 404


@given(st.lists(st.tuples(st.text(max_size=20), st.binary(max_size=20)), max_size=8))
def test_any_names_are_arranged_or_refused(files):
    try:
        found = uploaded_chains.arrange(
            [uploaded_chains.Upload(name, len(data), partial(bytes, data)) for name, data in files]
        )
    except uploaded_chains.UnusableUpload:
        return
    assert found[0][:2] == (0, False)


def test_images_are_decoded_by_the_worker_alone(client, valkey, monkeypatch):
    source, one = (encode_png(drawn_image(seed, 128)) for seed in (7701, 7702))

    def decoded(*_: object) -> None:
        raise AssertionError("decoded in a web process")

    with monkeypatch.context() as patch:
        patch.setattr("evaluation.images._canonical", decoded)
        answer = send(client, {"a.png": source, "b.png": one})
        chain = UploadedChain.objects.get()
        stored = chain.images.first().stored
        assert client.get(answer.url).status_code == 200
        assert client.get(stored.thumbnail_url).status_code == 404  # not yet
        assert client.get(stored.copy_url).status_code == 404
    jobs.score_uploaded_chain(chain.pk)
    assert client.get(stored.thumbnail_url).status_code == 200
    assert client.get(stored.copy_url).status_code == 200
    assert stored.thumbnail_url in client.get(answer.url).content.decode()


def test_an_image_that_cannot_be_decoded_fails_by_its_place_in_the_chain(client, valkey):
    source, one, two = worn(2)
    answer = send(client, {"a.png": source, "b.png": one, "c.png": two[:-400]})
    assert answer.status_code == 302
    jobs.score_uploaded_chain(UploadedChain.objects.get().pk)
    assert (
        "Restored image 2: the image cannot be decoded" in client.get(answer.url).content.decode()
    )


def test_an_image_on_its_side_has_its_true_size_after_scoring(client, valkey):
    image = drawn_image(1, 128).crop((0, 0, 128, 96))
    turned = Image.Exif()
    turned[0x0112] = 6
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", exif=turned)
    send(client, {"a.jpg": buffer.getvalue(), "b.png": encode_png(image)})
    chain = UploadedChain.objects.get()
    jobs.score_uploaded_chain(chain.pk)
    stored = chain.images.first().stored
    assert (stored.width, stored.height) == (96, 128)


def test_a_chain_that_kills_its_worker_is_given_up(client, valkey, monkeypatch):
    source, one = worn(1)
    answer = send(client, {"a.png": source, "b.png": one})
    chain = UploadedChain.objects.get()

    def killed(*_: object) -> None:
        raise SystemExit  # as good as a kill: nothing below hears of it

    monkeypatch.setattr("leaderboard.jobs.uploaded_chains.score_trips", killed)
    for _ in range(3):
        with pytest.raises(SystemExit):
            jobs.score_uploaded_chain(chain.pk)
    jobs.score_uploaded_chain(chain.pk)
    assert "failed three times" in client.get(answer.url).content.decode()
