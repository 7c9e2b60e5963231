"""Large answers are processed one at a time, so that memory stays bounded."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from evaluation.net.large_answers import LargeAnswers

#: Eight threads get the largest accepted 16-bit image at once.
ATTACK = """
import io, struct, threading, zlib
from pathlib import Path
from evaluation.editors.endpoint import Endpoint
from evaluation.net.large_answers import limit_malloc_arenas
from evaluation.images import EncodedImage, encode_png
from evaluation.testing.hostile_server import HostileServer, response
from PIL import Image

limit_malloc_arenas()  # as workers do

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

packer = zlib.compressobj(1)
pixels = b"".join(packer.compress(bytes(1 + 4096 * 8)) for _ in range(4096)) + packer.flush()
head = struct.pack(">IIBBBBB", 4096, 4096, 16, 6, 0, 0, 0)
png = bytes([137]) + b"PNG" + bytes([13, 10, 26, 10])
png += chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
small = EncodedImage.from_image(Image.new("RGB", (64, 64), (9, 99, 199)))
answers = []
with HostileServer() as server:
    url = server.answers("/edit", *[response(200, png, "image/png")] * 8)
    editor = Endpoint(url=url, contract="huggingface", allow_local=True, timeout=120)
    def edit():
        answers.append(editor.edit(small, "x"))
    threads = [threading.Thread(target=edit) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
assert len(answers) == 8, answers
assert answers[0].image.size == (4096, 4096)
lines = Path("/proc/self/status").read_text().splitlines()
print(int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024)
"""


@pytest.mark.release
@pytest.mark.slow
def test_many_large_answers_at_once_keep_a_worker_under_a_gigabyte() -> None:
    done = subprocess.run([sys.executable, "-c", ATTACK], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) < 700


def test_a_large_answer_waits_for_the_one_before() -> None:
    large, inside, go_on = LargeAnswers(), threading.Event(), threading.Event()

    def first() -> None:
        with large.edit():
            large.wait(1)
            large.wait(0)  # its own place is not waited for
            inside.set()
            go_on.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    assert inside.wait(10)
    with large.edit(), pytest.raises(TimeoutError):
        large.wait(0.05)
    go_on.set()
    thread.join()
    with large.edit():
        large.wait(5)
    large.wait(0)  # outside of an edit nothing is held
    with large.edit():
        large.wait(0)
