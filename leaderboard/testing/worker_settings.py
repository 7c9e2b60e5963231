"""The site's settings, with times that tests of workers shorten in the environment."""

import os

from convergebench_site.settings import *  # noqa: F403

for _name in ("LEASE_SECONDS", "TURN_SECONDS", "SWEEP_SECONDS"):
    if _name in os.environ:
        globals()[_name] = float(os.environ[_name])
