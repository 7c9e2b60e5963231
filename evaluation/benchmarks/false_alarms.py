"""False alarms of audits (tests for cheating), in 200 runs of honest models.

Each model has its own mix of damages.
"""

from __future__ import annotations

import time

from evaluation.testing.zoo.honest_damages import MARKS, false_alarms

RUNS = 200


def main() -> None:
    began = time.monotonic()
    accused = false_alarms(RUNS)
    seconds = time.monotonic() - began
    print(f"{accused} of {RUNS} honest runs with {MARKS} marks each are accused ({seconds:.0f} s)")
    if accused >= RUNS / 100:
        raise SystemExit("more than 1 % of honest runs are accused")


if __name__ == "__main__":
    main()
