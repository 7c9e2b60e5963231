"""Run a command as a service of `manage.py up`.

`python -m leaderboard.operation.service NICE COMMAND`

The command runs at priority NICE, and gets SIGTERM if the process runner is killed. This module
does not import Django, because each service starts through it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

#: Linux prctl option: send this process a signal when its parent dies. It survives exec.
PR_SET_PDEATHSIG = 1


def main(nice: str, *command: str) -> None:
    os.nice(int(nice))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    os.execv(command[0], command)  # noqa: S606 -- a command line of `up`


if __name__ == "__main__":
    main(*sys.argv[1:])
