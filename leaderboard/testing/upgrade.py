"""Upgrade from an earlier release with a run under way: python -m leaderboard.testing.upgrade REVISION

The code of that revision (from git, with the packages installed here) creates a database and plays
part of a run. Then today's code migrates the database, plays the remaining part and scores the run.
Today's code also plays the same run from the start: all images and scores must be equal.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECRET = "u" * 64
#: Number of calls that the earlier release makes: it stops in the middle of the second chain.
CALLS = 9

BEGIN = f"""
from leaderboard import jobs
from leaderboard.models import EditingModel, Suite
from leaderboard.testing import factories
suite = Suite.objects.filter(slug="upgrade").first() or factories.tiny_suite(1, trips=3, slug="upgrade")
model = EditingModel.objects.create(slug=NAME, name=NAME, editor="noise", options={{"sigma": 2.0}})
run = jobs.start(model, suite, secret="{SECRET}", budget_calls=CALLS)
jobs.play(run.pk)
run.refresh_from_db()
print(run.state, run.progress.edits_done)
"""
CONTINUE = """
from leaderboard import jobs
from leaderboard.models import Run, RunProgress
run = Run.objects.get(editing_model__slug="begun")
RunProgress.objects.filter(pk=run.pk).update(budget_calls=None)
run.refresh_from_db()
jobs.resume(run)
jobs.play(run.pk)
"""
RESULTS = """
import json
from leaderboard import jobs
from leaderboard.models import Run, Score, Trip
results = []
for run in Run.objects.order_by("pk"):
    jobs.score(run.pk)
    run.refresh_from_db()
    trips = Trip.objects.filter(chain__run=run).order_by("chain__case__slug", "number")
    scores = Score.objects.filter(trip__chain__run=run)
    names = ("trip__chain__case__slug", "trip__number", "metric__name", "distance")
    results.append({
        "state": run.state,
        "edits": [run.progress.edits_done, run.progress.edits_total, run.progress.calls],
        "trips": list(trips.values_list("chain__case__slug", "number", "edited", "restored")),
        "scores": [(*row[:3], row[3].hex()) for row in scores.order_by(*names).values_list(*names)],
    })
print(json.dumps(results))
"""


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m leaderboard.testing.upgrade REVISION\n")
        return 2
    with tempfile.TemporaryDirectory(prefix="convergebench-upgrade-") as name:
        folder = Path(name)
        earlier = code_of(sys.argv[1], folder / "earlier")
        data = folder / "data"
        manage(earlier, data, "migrate", "--verbosity", "0")
        begun = manage(earlier, data, "shell", "-c", _begin("begun", CALLS)).split()
        sys.stdout.write(f"{sys.argv[1]} left a run {begun[-2]} after {begun[-1]} edits\n")
        manage(ROOT, data, "migrate", "--verbosity", "0")
        manage(ROOT, data, "shell", "-c", CONTINUE)
        manage(ROOT, data, "shell", "-c", _begin("anew", None))
        results = manage(ROOT, data, "shell", "-c", RESULTS).splitlines()[-1]
    upgraded, anew = json.loads(results)
    differing = [name for name in anew if upgraded[name] != anew[name]]
    finished = upgraded["state"] == "finished" and upgraded["trips"] and upgraded["scores"]
    sys.stdout.write(
        f"the run is {upgraded['state']} now, with {len(upgraded['trips'])} trips and "
        f"{len(upgraded['scores'])} scores; compared with the same run played by today's code, "
        f"{', '.join(differing) or 'nothing'} differs\n"
    )
    return 0 if finished and not differing else 1


def code_of(revision: str, folder: Path) -> Path:
    """Extract the project at this revision into a folder; return the folder."""
    folder.mkdir()
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "--end-of-options", revision],
        check=True,
        capture_output=True,
    )
    subprocess.run(
        ["tar", "--extract", "--directory", str(folder)], input=archive.stdout, check=True
    )
    return folder


def _begin(slug: str, calls: int | None) -> str:
    return BEGIN.replace("NAME", repr(slug)).replace("CALLS", repr(calls))


def manage(code: Path, data: Path, *arguments: str) -> str:
    """Run a command of the project in `code` on the database in `data`; return its output."""
    environment = os.environ | {
        "DATA_DIR": str(data),
        "PYTHONPATH": str(code),
        "METRICS": "psnr,ssim",
        "LOG_LEVEL": "ERROR",
        "AUDITS": "0",
        "OMP_NUM_THREADS": "1",
    }
    result = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=code,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise RuntimeError(f"{arguments[0]} in {code}: {result.stderr[-2000:]}")
    return result.stdout


if __name__ == "__main__":
    sys.exit(main())
