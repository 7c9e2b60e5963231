"""Docstrings, messages, templates and docs are in plain words: `[tool.words]` in pyproject.toml."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

ROOT = Path(settings.BASE_DIR)
RULES: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["words"]
PRODUCT = ("evaluation", "leaderboard", "convergebench_site", "tools")
NO_PRODUCT = {"tests", "testing", "benchmarks", "migrations"}


def modules() -> list[Path]:
    paths = (path for folder in PRODUCT for path in sorted((ROOT / folder).rglob("*.py")))
    return [path for path in paths if not NO_PRODUCT & {*path.parts, path.stem}]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def docstrings() -> Iterator[tuple[str, str]]:
    """Yield the place and text of each docstring."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
    for path in modules():
        for node in ast.walk(tree(path)):
            if isinstance(node, kinds) and (text := ast.get_docstring(node)):
                line = getattr(node, "lineno", 1)
                yield f"{path.relative_to(ROOT)}:{line}", text


def strings() -> Iterator[tuple[str, str]]:
    """Yield docstrings and messages: each string with a space in it."""
    for path in modules():
        for node in ast.walk(tree(path)):
            match node:
                case ast.Constant(value=str(text), lineno=line) if " " in text:
                    yield f"{path.relative_to(ROOT)}:{line}", text


def pages() -> Iterator[tuple[str, str]]:
    """Yield the text of each line of templates and docs, without tags and code."""
    texts = [*sorted((ROOT / "templates").rglob("*.html")), *sorted(ROOT.glob("docs/*.md"))]
    for path in [*texts, *sorted(ROOT.glob("*.md"))]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            plain = re.sub(r"\{[%{#].*?[%}#]\}|<[^>]*>|`[^`]*`", " ", line)
            yield f"{path.relative_to(ROOT)}:{number}", plain


@pytest.mark.parametrize("texts", [strings, pages])
def test_listed_words_are_not_used(texts):
    say = {word: re.compile(rf"\b{word}\b", re.IGNORECASE) for word in RULES["instead_of"]}
    faults = [
        f"{place}: {RULES['instead_of'][word]!r} instead of {word!r}"
        for place, text in texts()
        for word, pattern in say.items()
        if pattern.search(text)
    ]
    assert not faults, "\n".join(faults)


def test_a_docstring_begins_with_an_imperative_or_a_noun_and_is_short():
    openings = tuple(f"{word} " for word in RULES["no_openings"])
    heads = [(place, text.split("\n")[0]) for place, text in docstrings()]
    faults = [
        f"{place}: {head}"
        for place, head in heads
        if head.startswith(openings) or len(head) > RULES["first_line"]
    ]
    assert len(heads) > 1000
    assert not faults, "\n".join(faults)


def test_the_checker_reads_templates_and_docs():
    assert any("docs/method.md" in place for place, _ in pages())
    assert any("templates/leaderboard/board.html" in place for place, _ in pages())


def test_no_variable_of_a_template_is_split_over_two_lines():
    """Django would not parse such a variable, and would print its source."""
    for path in (ROOT / "templates").rglob("*.html"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            assert not re.search(r"\{\{[^}]*$", line), f"{path.name}:{number}"
