"""Measure how many votes a minute the site can take: python -m leaderboard.benchmarks.votes

Voters use one gunicorn with two processes. They fetch the three images of each pair and answer it:
first at a pace of 600 votes a minute, then as fast as they can. Meanwhile a reader requests the
board. The processor time of the two processes per vote is measured too, because other programs on
the machine do not change it. Exits with 1 if 500 votes a minute would take more than half of two
cores.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from leaderboard.benchmarks import pages

VOTERS, PACE, SECONDS = 10, 600.0, 30.0
WANTED, CORES, LIMIT = 500.0, 2, 0.5
TIMEOUT = 120.0
INVENT = """
from leaderboard.testing.votable import votable_board
from leaderboard.people import counting
votable_board(images=8, side=512)
counting.count()
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        invent(data)
        with pages.server(data, {"TRUSTED_PROXIES": "1"}) as address:
            Reader(address).read(2)  # both processes cache the board
            alone = Reader(address).read(SECONDS / 3)
            paced, beside = voted(address, SECONDS, PACE)
            fast, under_load = voted(address, SECONDS / 2, None)
    print(f"board without votes: {show(alone)}")
    print(f"{paced.each_minute:.0f} votes a minute at a pace of {PACE:.0f}: board {show(beside)}")
    print(f"  an answer takes {show(paced.answers)}, an image {show(paced.images)}")
    print(f"{fast.each_minute:.0f} votes a minute at full speed: board {show(under_load)}")
    slower = statistics.median(beside) / statistics.median(alone)
    print(f"the board beside votes: {slower:.2f} x")
    share = paced.processor / len(paced.answers) * WANTED / 60 / CORES
    print(
        f"a vote with its images takes {1000 * paced.processor / len(paced.answers):.0f} ms of "
        f"processor: {WANTED:.0f} a minute take {share:.0%} of {CORES} cores (limit {LIMIT:.0%})"
    )
    return 0 if share <= LIMIT else 1


def invent(data: Path) -> None:
    for command in (["migrate"], ["collectstatic", "--no-input"], ["shell", "-c", INVENT]):
        subprocess.run(
            [sys.executable, "manage.py", *command, "-v0"],
            cwd=pages.ROOT,
            env=pages.environment(data),
            check=True,
        )


@dataclass
class Taken:
    """The seconds that each answer and each image took, and the duration of the voting."""

    answers: list[float] = field(default_factory=list)
    images: list[float] = field(default_factory=list)
    seconds: float = 0.0
    #: Processor seconds that the site used meanwhile, including the reader's pages.
    processor: float = 0.0

    @property
    def each_minute(self) -> float:
        return 60 * len(self.answers) / self.seconds


def voted(address: str, seconds: float, pace: float | None) -> tuple[Taken, list[float]]:
    """Vote and read for this many seconds; return the times of the voters and of the reader."""
    taken, start = Taken(), time.perf_counter()
    before = processor_of_children()
    wait = 60 * VOTERS / pace if pace else 0.0
    voters = [
        threading.Thread(target=vote, args=(address, number, start + seconds, wait, taken))
        for number in range(VOTERS)
    ]
    for voter in voters:
        voter.start()
    read = Reader(address).read(seconds)
    for voter in voters:
        voter.join()
    taken.seconds = time.perf_counter() - start
    taken.processor = processor_of_children() - before
    return taken, read


def processor_of_children() -> float:
    """Return the processor seconds that the site's processes have used so far."""
    ticks, pids = os.sysconf("SC_CLK_TCK"), [os.getpid()]
    total = 0
    while pids:
        pid = pids.pop()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for child in children:
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        pids += [int(child) for child in children]
    return total / ticks


def vote(address: str, number: int, end: float, wait: float, taken: Taken) -> None:
    """Vote until `end`, session after session, each as a new voter on a network of its own."""
    person = 0
    while time.perf_counter() < end:
        person += 1
        network = f"10.{number}.{int(end) % 250}.{person % 250}"
        with httpx2.Client(
            base_url=address, headers={"X-Forwarded-For": network}, timeout=TIMEOUT
        ) as client:
            client.get("/vote/")
            client.headers["X-CSRFToken"] = client.cookies["csrftoken"]
            session = client.post("/vote/session", json={"kind": "pair"}).json()
            for question in session["questions"]:
                start = time.perf_counter()
                if start >= end:
                    return
                for image in question["images"].values():
                    began = time.perf_counter()
                    client.get(image).raise_for_status()
                    taken.images.append(time.perf_counter() - began)
                began = time.perf_counter()
                said = {"ticket": question["ticket"], "answer": "left", "seconds": 1.0}
                client.post("/vote/answer", json=said).raise_for_status()
                taken.answers.append(time.perf_counter() - began)
                time.sleep(max(0.0, wait - (time.perf_counter() - start)))


class Reader:
    """A visitor who requests the board again and again."""

    def __init__(self, address: str) -> None:
        self.address = address

    def read(self, seconds: float) -> list[float]:
        found, end = [], time.perf_counter() + seconds
        with httpx2.Client(base_url=self.address, timeout=TIMEOUT) as client:
            while time.perf_counter() < end:
                start = time.perf_counter()
                client.get("/").raise_for_status()
                found.append(time.perf_counter() - start)
                time.sleep(0.05)
        return found


def show(seconds: list[float]) -> str:
    worst = sorted(seconds)[int(0.95 * (len(seconds) - 1))]
    return f"{1000 * statistics.median(seconds):.1f} ms (95 % within {1000 * worst:.0f})"


if __name__ == "__main__":
    sys.exit(main())
