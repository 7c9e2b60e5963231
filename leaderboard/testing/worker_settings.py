"""The site's settings with shorter times, which tests of workers choose by the environment."""

import os

from convergebench_site.settings import *  # noqa: F403

for _name in ("LEASE_SECONDS", "TURN_SECONDS", "SWEEP_SECONDS"):
    if _name in os.environ:
        globals()[_name] = float(os.environ[_name])
