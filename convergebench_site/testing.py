"""Set the environment of tests; pytest loads it before Django reads its settings."""

from __future__ import annotations

import os
import tempfile

from hypothesis import HealthCheck, settings

# Tests never touch the site's own folder. Kept alive until the process ends.
_DATA_DIR = tempfile.TemporaryDirectory(prefix="convergebench-test-")
os.environ["DATA_DIR"] = _DATA_DIR.name
# Tests count calls; tests of audits enable them.
os.environ["AUDITS"] = "0"
# Side by side, each test process takes one core; more threads would only wait for each other.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
for _name in (
    "REDIS_URL",
    "SECRET_KEY",
    "FIELD_KEYS",
    "S3_BUCKET",
    "SENTRY_DSN",
    "EMAIL_URL",
    "SITE_URL",
):
    os.environ.pop(_name, None)

# A machine that is busy with other things makes no test fail. CI tries the same input each time:
# what chance finds, `make test` on people's machines and `make fuzz` find.
settings.register_profile(
    "busy",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
    database=None if "CI" in os.environ else settings().database,
)
# `make fuzz`: the same tests, for as long as there is time.
settings.register_profile(
    "fuzz", settings.get_profile("busy"), max_examples=2_000, derandomize=False
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "busy"))
