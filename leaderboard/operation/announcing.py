"""`python -m leaderboard.operation.announcing ADDRESS [LINE …]`: wait for the site, then say where it is.

Imports nothing of Django: whoever waits for the first page shares the processors with it.
"""

from __future__ import annotations

import sys
import time
import urllib.error
import urllib.request

PATIENCE_SECONDS = 120.0
BETWEEN_SECONDS = 0.25


def answers(address: str) -> bool:
    """Tell if the site at this address answers, even with an error."""
    try:
        urllib.request.urlopen(f"{address}livez", timeout=2).close()  # noqa: S310
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def main(address: str, *lines: str, patience: float = PATIENCE_SECONDS) -> int:
    """0 when the site has answered and its address is told, 1 when it did not in time."""
    end = time.monotonic() + patience
    while not answers(address):
        if time.monotonic() > end:
            sys.stdout.write(
                f"the site did not answer at {address} within {patience:.0f} seconds\n"
            )
            return 1
        time.sleep(BETWEEN_SECONDS)
    told = (f"ConvergeBench is at {address}", "Ctrl-C ends it.", *lines)
    sys.stdout.write("\n" + "".join(f"  {line}\n" for line in told))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
