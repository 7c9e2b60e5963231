"""Find what becomes slow first on a large board: python -m leaderboard.benchmarks.load

Fills a temporary PostgreSQL database (with --here: the database of the settings) with invented
models, each with a run of 300 cases and 20 trips. Then requests each kind of page, and the API,
with an empty cache. Prints queries, bytes, and the processor time of the database and of the page,
which a busy machine does not change. Prints the slowest queries with their plans. Exits with 1 if a
page exceeds its budget of queries or bytes, or if a query takes longer than --slowest.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

CASES, TRIPS = 300, 20
DEFAULT_SLOWEST = 0.1


def main() -> int:
    args = arguments()
    if not args.here:
        command = [sys.executable, "-m", "convergebench_site.with_postgres", sys.executable, "-m"]
        command += ["leaderboard.benchmarks.load", "--here", *sys.argv[1:]]
        return subprocess.run(command, check=False).returncode
    os.environ |= {"LOG_LEVEL": "ERROR", "DJANGO_SETTINGS_MODULE": "convergebench_site.settings"}
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    if not args.filled:
        with timed("filled"):
            from leaderboard.testing.large_board import invent_board

            invent_board(models=args.models, cases=CASES, trips=TRIPS)
    print_sizes()
    return 0 if measure(args.slowest) else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument(
        "--slowest",
        type=float,
        default=DEFAULT_SLOWEST,
        help="Processor seconds that a query may take.",
    )
    parser.add_argument(
        "--here", action="store_true", help="Use the database of the settings, which must be empty."
    )
    parser.add_argument(
        "--filled",
        action="store_true",
        help="With --here: the database is filled already; only measure.",
    )
    return parser.parse_args()


@contextmanager
def timed(what: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    print(f"{what} in {time.perf_counter() - start:.1f} s", flush=True)


def print_sizes() -> None:
    """Print the rows and bytes of the tables that grow with the board."""
    from django.db import connection

    from leaderboard import models

    with connection.cursor() as cursor:
        for model in (models.Run, models.Standing, models.Chain, models.Trip, models.Score):
            table = model._meta.db_table
            size = ""
            if connection.vendor == "postgresql":
                cursor.execute("SELECT pg_table_size(%s), pg_indexes_size(%s)", [table, table])
                heap, indexes = cursor.fetchone()
                size = f", {heap / 1e6:,.0f} MB and {indexes / 1e6:,.0f} MB of indexes"
            print(f"{model.__name__}: {model._base_manager.count():,} rows{size}", flush=True)


def measure(slowest: float) -> bool:
    """Request every page; return True if all pages and queries are within their limits."""
    from django.conf import settings
    from django.test import Client, override_settings

    from leaderboard.testing.page_budgets import addresses, cost, over_budget

    # Static files keep their names, because none has been collected here.
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    override_settings(STORAGES=settings.STORAGES | {"staticfiles": plain}).enable()
    client = Client(headers={"host": "localhost"})
    clock = database_clock()
    client.get("/")  # a suite's choices never change, and are read once per process
    costs, slow = {}, {}
    print("\n| page | queries | KB | database, ms | slowest query, ms | processor, ms |")
    print("|---|---|---|---|---|---|")
    for name, address in addresses().items():
        cost(client, address)  # fills the database's own cache before the measurement
        one = costs[name] = cost(client, address, clock)
        longest = max(one.queries, default=(0.0, "", ()))
        if longest[0] > slowest:
            slow[name] = longest
        print(
            f"| {name} | {len(one.queries)} | {one.size / 1000:.0f} | {1000 * one.database:.0f} "
            f"| {1000 * longest[0]:.0f} | {1000 * one.processor:.0f} |",
            flush=True,
        )
    for name, (seconds, sql, params) in slow.items():
        print(f"\n{name}: {1000 * seconds:.0f} ms\n{sql[:2000]}\n{plan(sql, params)}")
    over = over_budget(costs)
    for name, (queries, size) in over.items():
        print(f"{name}: {queries} queries, {size / 1000:.0f} KB exceed its budget")
    return not over and not slow


def database_clock() -> Callable[[], float]:
    """Return a clock of the processor seconds that the database has used for this connection.

    If the database's process cannot be observed, the clock returns the elapsed time.
    """
    from django.db import connection

    if connection.vendor != "postgresql":
        return time.process_time
    with connection.cursor() as cursor:
        # One process must run the whole query: only this process is observed.
        cursor.execute("SET max_parallel_workers_per_gather = 0")
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    statistics = Path(f"/proc/{pid}/schedstat")
    if not statistics.exists():
        return time.perf_counter
    return lambda: int(statistics.read_text().split()[0]) / 1e9


def plan(sql: str, params: object) -> str:
    """Return the plan by which the database answers this query; empty if it has none."""
    from django.db import connection

    if connection.vendor != "postgresql" or not sql.lstrip().upper().startswith("SELECT"):
        return ""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS) {sql}", params)  # type: ignore[arg-type]
        return "\n".join(line for (line,) in cursor.fetchall())[:4000]


if __name__ == "__main__":
    sys.exit(main())
