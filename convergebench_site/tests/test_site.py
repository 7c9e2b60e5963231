"""Health checks, security headers, imports and settings."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
from django.core.cache import cache
from django.core.files.storage import FileSystemStorage

from leaderboard.management.commands.up import lock_folder
from leaderboard.views.site import server_error

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "lpips", "open_clip", "diffusers", "skimage", "cv2", "matplotlib", "scipy.stats")
#: Limit of the memory of a web process that has imported every page.
RESIDENT_BYTES = 150e6


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | environment,
        check=False,
    )


def test_livez_answers_without_a_database(client):
    assert client.get("/livez").json() == {"status": "ok"}


@pytest.mark.django_db
def test_readyz_names_each_part_and_says_degraded_without_workers(client, valkey):
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json() == {
        "status": "degraded",
        "checks": {
            "database": "ok",
            "storage": "ok",
            "redis": "ok",
            "workers.edits": "none alive",
            "workers.probes": "none alive",
            "workers.gpu": "none alive",
        },
    }


@pytest.mark.django_db
def test_readyz_writes_nothing_to_storage(client, valkey, monkeypatch):
    def written(*_: object) -> None:
        raise AssertionError("written to storage")

    monkeypatch.setattr(FileSystemStorage, "save", written)
    assert client.get("/readyz").json()["checks"]["storage"] == "ok"


@pytest.mark.django_db
def test_readyz_still_serves_pages_when_redis_is_down(client, valkey):
    valkey.kill()
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["checks"]["redis"] == "ConnectionError"


@pytest.mark.django_db
def test_every_page_carries_the_security_headers(client):
    headers = client.get("/").headers
    policy = headers["Content-Security-Policy"]
    assert "script-src 'self';" in policy + ";"
    assert "object-src 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "same-origin"


@pytest.mark.django_db
def test_an_unknown_url_gets_our_404_page(client):
    answer = client.get("/no/such/page/")
    assert answer.status_code == 404
    assert b"There is no page here" in answer.content


def test_the_error_page_works_when_everything_else_fails(rf):
    answer = server_error(rf.get("/"))
    assert answer.status_code == 500
    assert "ConvergeBench" in answer.content.decode()


def test_the_pages_import_nothing_heavy():
    code = (
        "import os, sys, pkgutil, importlib, json, django;"
        # Some packages import these if installed. A site without torch has neither.
        "sys.modules.update(rich=None, jinja2=None);"
        "os.environ['DJANGO_SETTINGS_MODULE'] = 'convergebench_site.settings'; django.setup();"
        "import convergebench_site.urls, convergebench_site.wsgi, leaderboard.views as views;"
        "[importlib.import_module(f'leaderboard.views.{m.name}') for m in "
        "pkgutil.iter_modules(views.__path__)];"
        "import psutil;"
        f"heavy = [name for name in {HEAVY!r} if name in sys.modules];"
        "print(json.dumps([heavy, psutil.Process().memory_info().rss]))"
    )
    python(code)  # compiles the modules, which would add to the memory below
    done = python(code)
    assert done.returncode == 0, done.stderr
    heavy, resident = json.loads(done.stdout)
    assert heavy == []
    assert resident < RESIDENT_BYTES


def test_production_settings_pass_djangos_own_deployment_check():
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ
        | {
            "SITE_URL": "https://bench.example",
            "SECRET_KEY": "x7" * 40 + "äöü-!?",
            "FIELD_KEYS": "bm90LWEtcmVhbC1rZXktanVzdC1mb3ItdGhlLXRlc3Q=",
            "ALLOWED_HOSTS": "bench.example",
        },
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_folder_that_cannot_be_written_is_one_clear_line(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    done = subprocess.run(
        [sys.executable, "manage.py", "up"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"DATA_DIR": str(blocked / "var")},
        check=False,
    )
    assert done.returncode == 1
    assert "DATA_DIR" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_taken_port_is_one_clear_line(tmp_path):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "manage.py", "up"],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=os.environ | {"DATA_DIR": str(tmp_path), "PORT": port},
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.strip() == (
        f"CommandError: port {port} on 127.0.0.1 cannot be used (Address already in use); "
        "stop the process there, or choose another port: PORT=8001 make up"
    )


def test_a_second_site_in_one_data_folder_is_one_clear_line(tmp_path):
    """The first process locks the folder until it ends."""
    code = (
        "import os, pathlib, sys, django; django.setup()\n"
        "from leaderboard.management.commands.up import lock_folder\n"
        "lock_folder(pathlib.Path(sys.argv[1]))\n"
        "os.execv(sys.executable, [sys.executable, '-c', 'print(1, flush=True); input()'])"
    )
    environment = os.environ | {
        "DATA_DIR": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "convergebench_site.settings",
    }
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=environment,
    ) as first:
        assert first.stdout.readline() == b"1\n"
        second = subprocess.run(
            [sys.executable, "manage.py", "up"],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=environment,
            check=False,
        )
        first.stdin.close()
    assert second.returncode == 1
    assert second.stderr.strip() == (
        f"CommandError: {tmp_path} is in use by the site of process {first.pid}; stop that process, "
        "or set DATA_DIR to another folder."
    )
    os.close(lock_folder(tmp_path))


def test_two_processes_that_start_at_once_share_their_secrets(tmp_path):
    code = "from convergebench_site import settings as s; print(s.SECRET_KEY, s.FIELD_KEYS)"
    environment = os.environ | {"DATA_DIR": str(tmp_path / "var")}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT, env=environment
        )
        for _ in range(4)
    ]
    assert len({process.communicate()[0] for process in started}) == 1
    assert (tmp_path / "var" / "secret_key").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("address", ["", "word-only"])
def test_an_unusable_database_address_is_named(address, tmp_path):
    done = python(
        "import convergebench_site.settings", DATABASE_URL=address, DATA_DIR=str(tmp_path)
    )
    assert "ImproperlyConfigured: DATABASE_URL is not the address" in done.stderr


def test_stored_files_are_readable_by_their_owner_only(tmp_path):
    folder = tmp_path / "data"
    done = python(
        "import django; django.setup();"
        "from django.db import connection as c; c.cursor().execute('CREATE TABLE x (y)');"
        "from django.core.files.storage import default_storage as s;"
        "from django.core.files.base import ContentFile; s.save('originals/x', ContentFile(b'x'))",
        DATA_DIR=str(folder),
        DJANGO_SETTINGS_MODULE="convergebench_site.settings",
    )
    assert done.returncode == 0, done.stderr
    modes = {path.name: path.stat().st_mode & 0o077 for path in (folder, *folder.rglob("*"))}
    assert {"data", "site.sqlite3", "secret_key", "field_key", "originals", "x"} <= modes.keys()
    assert set(modes.values()) == {0}, modes


def test_the_socket_of_a_deep_folder_is_in_a_private_folder(tmp_path):
    deep = tmp_path / ("d" * 90) / "data"
    where = {"DATA_DIR": str(deep), "TMPDIR": str(tmp_path)}
    code = "from convergebench_site.settings import REDIS_SOCKET; print(REDIS_SOCKET)"
    socket = Path(python(code, **where).stdout.strip())
    assert socket.parent.parent == tmp_path
    assert socket.parent.stat().st_mode & 0o077 == 0
    socket.parent.chmod(0o777)  # as an attacker would prepare it
    assert "Other users can access" in python(code, **where).stderr


def test_the_about_page_names_the_contact(client, settings):
    assert "mailto:" not in client.get("/about/").content.decode()
    cache.clear()
    settings.CONTACT_EMAIL = "faults@site.example"
    assert 'href="mailto:faults@site.example"' in client.get("/about/").content.decode()


def test_pinned_hashes_match_the_installed_versions():
    """If this fails, run `make hashes`. Packages without a hash are installed by version only."""
    pinned = dict(re.findall(r"^([a-z0-9-]+)==(\S+)$", pins("constraints.txt"), re.MULTILINE))
    hashed = dict(re.findall(r"^([a-z0-9-]+)==([^\s;]+)", pins("hashes.txt"), re.MULTILINE))
    assert len(hashed) > 100
    assert "torch" not in hashed
    stale = {name: (pinned[name], hashed[name]) for name in pinned.keys() & hashed.keys()}
    assert {name: both for name, both in stale.items() if both[0] != both[1]} == {}
    # The list has the version of every installed package except the installers.
    here = {one.metadata["Name"].lower().replace("_", "-") for one in distributions()}
    assert here - pinned.keys() <= {"convergebench", "pip", "setuptools"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = project["dependencies"] + project["optional-dependencies"]["site"]
    needed += project["optional-dependencies"]["content"]
    named = {re.split(r"[\[<>=~ ]", line)[0].lower() for line in needed}
    assert {name.replace("_", "-") for name in named} <= entries("hashes-site.txt").keys()
    # Installing scoring later changes no version of the site's own packages.
    assert entries("hashes-site.txt").items() <= entries("hashes.txt").items()


def entries(name: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the version and hashes of each package in a requirements file."""
    packages = re.split(r"\n(?=\S)", pins(name))[1:]
    return {
        text.split("==")[0]: (
            re.split(r"[=\s]+", text)[1],
            tuple(re.findall(r"sha256:\w+", text)),
        )
        for text in packages
    }


def pins(name: str) -> str:
    return (ROOT / name).read_text().lower().replace("_", "-")
