"""A real web process stays under 200 MB during attacks on its memory.

A worker stays under 1 GB with the largest images of our suites.
"""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import zipfile
import zlib
from threading import Thread

import pytest
from django.conf import settings

from convergebench_site.tests.conftest import WebServer
from evaluation.testing.image_bombs import large_profile, many_parts, many_texts
from evaluation.testing.zips import hidden_directory, many_entries


def zipped(method: int) -> bytes:
    """Return a zip of a few hundred bytes, with one entry of 200 MB of zeros."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive, archive.open("I0_source.png", "w") as entry:
        for _ in range(200):
            entry.write(bytes(2**20))
    return file.getvalue()


def png(width: int, height: int) -> bytes:
    """Return a PNG with four channels of 16 bits."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    packer = zlib.compressobj(9)
    pixels = b"".join(packer.compress(bytes(1 + width * 8)) for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 16, 6, 0, 0, 0)
    parts = chunk(b"IHDR", head), chunk(b"IDAT", pixels + packer.flush()), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.release
@pytest.mark.slow
def test_a_web_process_stays_under_200_megabytes(server: WebServer):
    server.migrate()
    peak_memory = {}
    for name, data, status in (
        ("bzip2.zip", zipped(zipfile.ZIP_BZIP2), 422),
        ("lzma.zip", zipped(zipfile.ZIP_LZMA), 422),
        ("many.zip", many_entries(400_000), 422),
        ("hidden.zip", hidden_directory(400_000), 422),
        ("deep.png", png(8000, 5000), 422),
        ("texts.png", many_texts(60), 422),
        ("parts.png", many_parts("PNG", 900_000), 422),
        ("parts.jpg", many_parts("JPEG", 2_900_000), 422),
        ("parts.webp", many_parts("WEBP", 1_400_000), 422),
        ("small.png", png(1260, 1260), 302),
        ("noise.png", png(1200, 1200) + bytes(10 * 2**20), 302),
    ):
        files = {f"{n}{name}": data for n in range(6)}
        assert server.post("/upload/", files) == status, name
        peak_memory[name] = server.peak()
    assert max(peak_memory.values()) < 200, peak_memory


@pytest.mark.release
@pytest.mark.slow
def test_two_large_uploads_at_once_are_read_one_image_at_a_time(server: WebServer):
    server.migrate()
    large = {f"{n}.jpg": large_profile(180) for n in range(3)}
    for _ in range(3):
        uploads = [Thread(target=server.post, args=("/upload/", large)) for _ in range(2)]
        for upload in uploads:
            upload.start()
        for upload in uploads:
            upload.join()
    assert server.peak() < 200


@pytest.mark.release
@pytest.mark.slow
def test_a_worker_scores_four_megapixels_in_less_than_a_gigabyte(tmp_path):
    """Run all metrics and witnesses (checks of edits), and as many trips as a job scores at once."""
    program = "from leaderboard.testing import large_chain; large_chain.main()"
    answer = subprocess.run(
        [sys.executable, "manage.py", "shell", "-v0", "-c", program],
        env=os.environ | {"DATA_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"},
        cwd=settings.BASE_DIR,
        capture_output=True,
        check=True,
    )
    peak_memory = json.loads(answer.stdout.splitlines()[-1])
    assert max(peak_memory.values()) < 1024, peak_memory
