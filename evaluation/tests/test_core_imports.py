"""The harness can be imported without Django and torch."""

import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import evaluation

# These may use Django or torch.
APART = ("leaderboard.jobs", "evaluation.tests", "evaluation.benchmarks")

CORE = sorted(
    module.name
    for module in pkgutil.walk_packages(evaluation.__path__, "evaluation.")
    if not module.name.startswith(APART) and not module.name.endswith("__main__")
)


def loaded_by(code):
    """Return the top-level modules that a fresh Python has loaded after running `code`."""
    report = "; import sys, json; print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    run = subprocess.run(
        [sys.executable, "-c", code + report],
        cwd=Path(evaluation.__file__).parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stdout))


def test_no_module_of_the_core_loads_django_or_torch():
    assert {"evaluation.images", "evaluation.metrics.lpips"} <= set(CORE)
    loaded = loaded_by("import " + ", ".join(CORE))
    culprits = {"django", "torch", "torchvision", "diffusers", "transformers", "open_clip"}
    assert not loaded & culprits


def test_the_shell_starts_without_packages_that_few_commands_need():
    code = (
        "import evaluation.__main__ as shell\n"
        "from evaluation.editors import load_editor\n"
        "shell.parser()\n"
        "load_editor('oracle'); load_editor('latent')"
    )
    assert not loaded_by(code) & {"django", "torch", "cv2", "diffusers", "matplotlib", "lpips"}


def test_describing_a_metric_loads_nothing_heavy():
    code = (
        "from evaluation.metrics import METRICS, metric_class\n"
        "from evaluation import weights\n"
        "for name in METRICS:\n"
        "    kind = metric_class(name)\n"
        "    assert kind.name == name and kind.label and kind.version\n"
        "    assert kind.higher_is_better in (True, False)\n"
        "    assert kind().text(0.25) and kind().text(None) == 'not run'\n"
        "weights.status()\n"
        "pass"
    )
    assert not loaded_by(code) & {"torch", "cv2", "skimage"}
