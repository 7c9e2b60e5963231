"""How often the audits accuse an honest model: 200 runs, each with a mix of damages of its own."""

from __future__ import annotations

import time

from evaluation.testing.zoo.honest_damages import MARKS, false_alarms

RUNS = 200


def main() -> None:
    began = time.monotonic()
    accused = false_alarms(RUNS)
    seconds = time.monotonic() - began
    print(f"{accused} of {RUNS} honest runs of {MARKS} marks each are accused, in {seconds:.0f} s")
    if accused >= RUNS / 100:
        raise SystemExit("more than 1 % of honest runs are accused")


if __name__ == "__main__":
    main()
