"""`make cluster`: the machines of docs/operating.md as processes; `--kills 25` kills 25 of them."""

from __future__ import annotations

import argparse
import os
import pkgutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import django

from leaderboard.testing.cluster.parts import PARTS, Cluster


def main() -> int:
    parser = argparse.ArgumentParser(prog="make cluster", description=__doc__)
    parser.add_argument("--port", type=int, default=8100, help="where the proxy listens (8100)")
    parser.add_argument(
        "--kills",
        type=int,
        default=0,
        help="kill random processes this often during runs, then end",
    )
    parser.add_argument("--seed", type=int, default=0, help="decides what is killed and when")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *about: sys.exit(143))
    quick = {"METRICS": "psnr,ssim"} if args.kills else {}
    with tempfile.TemporaryDirectory(prefix="convergebench-cluster-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL runs as a user of its own
        with Cluster(Path(folder), args.port, DEBUG="1", **quick) as cluster:
            return attack(cluster, args.kills, args.seed) if args.kills else live(cluster)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def attack(cluster: Cluster, kills: int, seed: int) -> int:
    """Play runs while parts are killed; return 1 if any result differs or pages do not answer."""
    os.environ.update(cluster.environment)
    django.setup()
    drill = pkgutil.resolve_name("leaderboard.testing.cluster.drill:drill")  # needs the settings
    done = drill(cluster, kills, seed=seed, say=say)
    problem = cluster.unreachable_reason()
    say(
        f"{len(done.killed)} kills in {done.runs} runs and {done.seconds:.0f} s; "
        f"{', '.join(done.differing) or 'nothing'} differs; "
        f"{done.requested_twice} edits were requested twice; pages {problem or 'answer'}"
    )
    return int(bool(done.differing or problem))


def live(cluster: Cluster) -> int:
    """Load the smoke suite, play the reference editors, and run until Ctrl-C."""
    cluster.manage("load_benchmark", "--suites", "smoke", "--verbosity", "0")
    cluster.manage("start_run", "--references", "--suite", "smoke", "--missing")
    say(f"\n  ConvergeBench is at {cluster.address}/\n  ({', '.join(PARTS)})\n  Ctrl-C ends it.")
    try:
        while True:
            cluster.restart_dead()
            time.sleep(1)
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
