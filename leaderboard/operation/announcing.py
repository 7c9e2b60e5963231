"""Wait for the site, then print its address.

`python -m leaderboard.operation.announcing ADDRESS [LINE …]`. This module does not import
Django, which would slow down the first page.
"""

from __future__ import annotations

import sys
import time
import urllib.error
import urllib.request

PATIENCE_SECONDS = 120.0
BETWEEN_SECONDS = 0.25


def answers(address: str) -> bool:
    """Return True if the site at this address answers, even with an error."""
    try:
        urllib.request.urlopen(f"{address}livez", timeout=2).close()  # noqa: S310
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def main(address: str, *lines: str, patience: float = PATIENCE_SECONDS) -> int:
    """Return 0 after printing the address, or 1 if the site did not answer in time."""
    end = time.monotonic() + patience
    while not answers(address):
        if time.monotonic() > end:
            sys.stdout.write(
                f"the site did not answer at {address} within {patience:.0f} seconds\n"
            )
            return 1
        time.sleep(BETWEEN_SECONDS)
    messages = (f"ConvergeBench is at {address}", "Ctrl-C ends it.", *lines)
    sys.stdout.write("\n" + "".join(f"  {line}\n" for line in messages))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
