"""The environment of tests. pytest loads this module before Django reads its settings."""

from __future__ import annotations

import os
import tempfile

from hypothesis import HealthCheck, settings

# Tests must not touch the site's folder. This variable keeps the temporary folder in existence.
_DATA_DIR = tempfile.TemporaryDirectory(prefix="convergebench-test-")
os.environ["DATA_DIR"] = _DATA_DIR.name
# Audits, extra calls that test for cheating, would change the number of calls that tests expect.
os.environ["AUDITS"] = "0"
# Parallel test processes use one core each; more threads would only compete.
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

# Slow machines must not make tests fail. CI always tries the same inputs; `make test` on other
# machines and `make fuzz` try random ones.
settings.register_profile(
    "busy",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
    database=None if "CI" in os.environ else settings().database,
)
# `make fuzz` runs the same tests with many more examples.
settings.register_profile(
    "fuzz", settings.get_profile("busy"), max_examples=2_000, derandomize=False
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "busy"))
