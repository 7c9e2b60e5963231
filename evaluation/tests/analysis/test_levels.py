"""One default level: change its line, and every default and every sentence follows."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from evaluation.analysis import levels
from evaluation.analysis.levels import DEFAULT_LEVEL, LEVELS

#: Puts another default in the place of ours before anything else is imported.
OTHER_DEFAULT = "from evaluation.analysis import levels; levels.DEFAULT_LEVEL = 0.75\n" + (
    "for say in (levels.lost, levels.is_lost, levels.left, levels.life, levels.fraction):"
    " say.__defaults__ = (0.75,)\n"
)


def run(code: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", OTHER_DEFAULT + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "", **variables},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_default_is_one_of_the_levels_that_standings_have():
    assert DEFAULT_LEVEL in LEVELS


@pytest.mark.parametrize(
    ("level", "lost", "left", "life"),
    [
        (0.25, "three quarters", "a quarter", "Trips to 75\u00a0% lost"),
        (0.5, "half", "half", "Half-life"),
        (0.75, "a quarter", "three quarters", "Trips to 25\u00a0% lost"),
        (0.9, "a tenth", "90\u00a0%", "Trips to 10\u00a0% lost"),
        (0.95, "5\u00a0%", "95\u00a0%", "Trips to 5\u00a0% lost"),
    ],
)
def test_levels_in_words(level, lost, left, life):
    assert (levels.lost(level), levels.left(level), levels.life(level)) == (lost, left, life)


def test_every_function_that_takes_a_level_has_the_one_default():
    code = """
        import importlib, inspect, itertools, pkgutil
        from evaluation import analysis, cli
        seen = set()
        for module in itertools.chain.from_iterable(
            pkgutil.walk_packages(room.__path__, f"{room.__name__}.")
            for room in (analysis, cli)
        ):
            for name, function in inspect.getmembers(importlib.import_module(module.name)):
                if not inspect.isfunction(function):
                    continue
                level = inspect.signature(function).parameters.get("level")
                if level and level.default is not level.empty:
                    assert level.default == 0.75, (module.name, name)
                    seen.add(name)
        print(*seen)
    """
    assert {"summarise", "board", "case_values", "run_results", "repeat_spread"} <= set(
        run(code).split()
    )


def test_pages_and_shell_say_what_the_default_means(tmp_path):
    code = """
        import django
        django.setup()
        from django.template.loader import render_to_string
        from django.test import RequestFactory
        from evaluation.cli.commands import score
        from leaderboard.board.row import BoardFilters
        from leaderboard.models import Suite
        from leaderboard.pages import charts, model_page
        from leaderboard.views import texts
        request = RequestFactory().get("/")
        html = render_to_string("leaderboard/board.html", {}, request)
        assert "a quarter of it is gone" in " ".join(html.split())
        assert "half of it" not in html
        filters = BoardFilters(Suite(slug="demo"))
        assert filters.level == 0.75
        assert "level" not in filters.query()
        assert "level=0.5" in filters.query(level=0.5)
        figure = str(charts.retention_curves([], 5)["layout"])
        assert "a quarter is lost" in figure and "0.75" in figure
        assert "above three quarters" in str(vars(model_page))
        assert "a quarter is lost" in str(texts.worked_example())
        assert "until a quarter of its picture is lost" in " ".join(score.DESCRIPTION.split())
    """
    run(
        code,
        DJANGO_SETTINGS_MODULE="convergebench_site.settings",
        DATA_DIR=str(tmp_path),
        DEBUG="1",
    )
