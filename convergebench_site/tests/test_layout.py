"""Rules on imports that import-linter does not check."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("evaluation", "leaderboard", "convergebench_site", "tools")
#: Modules that may import our own modules inside a function, because Django must be set up before.
AFTER_SETUP = {
    *("leaderboard/apps.py", "leaderboard/benchmarks/load.py"),
    "leaderboard/benchmarks/pages.py",
    "leaderboard/benchmarks/worker.py",
    "tools/method_page.py",
}

MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def late_imports(tree: ast.AST) -> list[str]:
    """Return our own modules that are imported inside a function."""
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return [
        name
        for function in functions
        for node in ast.walk(function)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
        if name.split(".")[0] in PACKAGES
    ]


def test_no_function_imports_our_own_modules_to_hide_a_cycle():
    """Only heavy packages may be imported late. A late import of our own modules hides a cycle."""
    late_by_module = {}
    for path in MODULES:
        name = str(path.relative_to(ROOT))
        if "/tests/" not in name and name not in AFTER_SETUP:
            late_by_module[name] = late_imports(ast.parse(path.read_text(encoding="utf-8")))
    assert {name: late for name, late in late_by_module.items() if late} == {}
