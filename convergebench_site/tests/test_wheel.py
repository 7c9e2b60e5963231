"""The wheel that `pip install convergebench` installs, tested outside the checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from evaluation.cli.commands.schema import SCHEMAS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the unpacked wheel, as it would be installed."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "--wheel-dir"]
    made = subprocess.run([*build, str(folder), str(ROOT)], capture_output=True, text=True)
    if "No matching distribution found for hatchling" in made.stderr:
        pytest.skip("the packages that build wheels cannot be fetched here")
    assert made.returncode == 0, made.stderr
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "packages")
    return folder / "packages"


def python(installed, code, **environment):
    """Run code that imports from the wheel instead of the checkout."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=installed.parent,
        env=os.environ | {"PYTHONPATH": str(installed)} | environment,
        capture_output=True,
        text=True,
    )


@pytest.mark.release
@pytest.mark.slow
def test_the_harness_runs_from_the_wheel(installed):
    code = f"""
import convergebench, evaluation
from evaluation.__main__ import main
assert evaluation.__file__.startswith({str(installed)!r}), evaluation.__file__
assert convergebench.evaluate and convergebench.suite("smoke").cases
play = ["run", "--play-only", "--editor", "noop", "--suite", "smoke", "--trips", "1", "--cases", "desert--*"]
assert main([*play, "--out", "run"]) == 0
assert main(["schema", "run.json"]) == 0
"""
    ended = python(installed, code)
    assert ended.returncode == 0, ended.stderr
    assert not list(installed.rglob("tests"))
    schemas = {path.name for path in (installed / "convergebench/schemas").iterdir()}
    assert schemas == {f"{name}.schema.json" for name in SCHEMAS}


@pytest.mark.release
@pytest.mark.slow
def test_the_site_from_the_wheel_finds_its_pages_and_stores_data_in_the_current_folder(installed):
    sheet = next(iter(sorted((ROOT / "static").rglob("*.css")))).relative_to(ROOT / "static")
    code = f"""
import django
django.setup()
from django.conf import settings
from django.contrib.staticfiles import finders
from django.template.loader import get_template
from leaderboard.views.submissions import ROOT
assert str(settings.BASE_DIR).startswith({str(installed)!r}), settings.BASE_DIR
assert settings.DATA_DIR == __import__("pathlib").Path.cwd() / "var", settings.DATA_DIR
get_template("base.html")
assert finders.find({sheet.as_posix()!r})
assert (settings.BASE_DIR / "manage.py").is_file()
assert (settings.FIXTURE_DIRS[0] / "suites").is_dir()
assert (ROOT / "examples/example_server.py").is_file()
"""
    code = "import os; os.environ.pop('DATA_DIR', None)" + code
    for folder in ("templates", "static"):
        ours = {path.relative_to(ROOT) for path in (ROOT / folder).rglob("*") if path.is_file()}
        there = installed / "convergebench_site/installed"
        assert {path for path in ours if not (there / path).is_file()} == set()
    ended = python(installed, code, DJANGO_SETTINGS_MODULE="convergebench_site.settings")
    assert ended.returncode == 0, ended.stderr
