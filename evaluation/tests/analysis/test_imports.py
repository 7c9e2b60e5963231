"""Pages compare and rank, so the statistics that they import must be light."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import evaluation

CODE = """
import numpy as np, sys
from evaluation.analysis import comparison, power, ranking, votes
from evaluation.analysis.case_values import case_values
from evaluation.testing.chains import run_of, spread_times
runs = [run_of(spread_times(30, np.random.default_rng(seed))) for seed in range(2)]
comparison.compare(*(case_values(run, 20) for run in runs))
ranking.board(dict(zip("ab", runs)), 20)
print(sorted({name.split(".")[0] for name in sys.modules}))
"""


def test_comparing_ranking_and_votes_load_only_numpy():
    run = subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=Path(evaluation.__file__).parent.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "'numpy'" in run.stdout
    for heavy in ("scipy", "choix", "pandas", "lifelines", "torch", "django"):
        assert f"'{heavy}'" not in run.stdout
