"""A paper of our own: from standings, as LaTeX and HTML, whatever models are called."""

from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from evaluation.analysis.half_life import METHOD_VERSION
from leaderboard.exchange.documents import html, latex, markdown
from leaderboard.exchange.documents.blocks import Document, Section, Table, Verbatim
from leaderboard.exchange.paper import writing
from leaderboard.models import PeopleReport, PeopleStanding, Suite, SuiteReport
from leaderboard.testing.boards import make_model, make_run, make_suite

HOSTILE = r"a_b%$\input{x} & #~^ [y] ``--'' <b>é</b> 中 \\* |z|"
AGREEMENT = {
    "about": "metric",
    "choice": "lpips",
    "tau": 0.33,
}


@pytest.fixture
def board(db: None) -> Suite:
    """Two models, one of them with a name that means harm, and two yardsticks."""
    suite = make_suite(content_hash="ab" * 32)
    scopes = ("all", "category:accessories", "category:geometry")
    best = make_run(
        make_model(HOSTILE, slug="hostile"), suite, 9.0, rank=1, scopes=scopes, marks_kept=0.97
    )
    make_run(make_model("_Plain $x$"), suite, 3.0, rank=2, scopes=scopes)
    for name, half_life in (("oracle", 60.0), ("jpeg", 4.0)):
        make_run(make_model(name, is_reference=True), suite, half_life, scopes=scopes)
    SuiteReport.objects.create(
        suite=suite,
        power={"models_alike": 2.2, "models_differ": 3.1},
        robustness={
            "runs": 2,
            "yardsticks": False,
            "agreements": [AGREEMENT],
            "retest": {"repeats": 2, "cases": 4, "runs": 2, "tau": 1.0, "difference": 0.25},
        },
        method_version=METHOD_VERSION,
        computed_at=timezone.now(),
    )
    PeopleStanding.objects.create(
        run=best, share=0.61, share_low=0.5, share_high=0.7, votes=40, voters=7,
        computed_at=timezone.now(),
    )  # fmt: skip
    share = {"share": 0.8, "low": 0.7, "high": 0.9}
    line = {"name": "picture", "kind": "metric", "everywhere": share, "shared": share}
    PeopleReport.objects.create(numbers={"lines": [line]}, computed_at=timezone.now())
    return suite


@pytest.fixture
def no_tex(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing.shutil, "which", lambda name: None)


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "tables" / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_paper_has_the_numbers_of_the_standings(board, no_tex, tmp_path, capsys):
    call_command("write_report", "demo", "--out", str(tmp_path / "paper"))
    out = capsys.readouterr().out
    folder = tmp_path / "paper"
    assert "no TeX is here" in out
    assert not (folder / "paper.pdf").exists()
    first, second = rows(folder, "standings")
    assert first["Model"] == HOSTILE
    assert (first["Rank"], first["Ranks possible"]) == ("1", "1–2")
    assert (first["Usable trips"], second["Usable trips"]) == ("9.0", "3.0")
    assert rows(folder, "categories")[0]["Accessories"].startswith("9.0 (")
    assert rows(folder, "causes")[0]["The model refused"] == "3\u00a0%"
    assert rows(folder, "audits")[0]["Marks kept"] == "97\u00a0%"
    assert rows(folder, "people")[0]["Share won"] == "61\u00a0%"
    assert rows(folder, "agreement")[0]["Where it speaks"] == "80\u00a0% (70–90)"
    assert rows(folder, "robustness")[0]["Agreement"] == "0.33"
    assert [row["Editor"] for row in rows(folder, "yardsticks")] == ["oracle", "jpeg"]
    page = (folder / "index.html").read_text()
    assert "ab" * 32 in page
    assert f"method version {METHOD_VERSION}" in page
    assert "<b>é" not in page
    for name in ("curves", "lasting", "causes"):
        assert (folder / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert "<svg" in (folder / "figures" / f"{name}.svg").read_text()
    assert "_Plain $x$" in (folder / "figures/lasting.svg").read_text()


def test_written_again_it_is_the_same_and_nothing_else_is_overwritten(board, no_tex, tmp_path):
    folder = tmp_path / "paper"
    writing.write(board, folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    writing.write(board, folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(CommandError, match="holds something else"):
        call_command("write_report", "demo", "--out", str(tmp_path))


@pytest.mark.django_db
def test_it_says_what_is_missing(tmp_path):
    with pytest.raises(CommandError, match="no suite 'nope'; there are none"):
        call_command("write_report", "nope", "--out", str(tmp_path))
    make_suite()
    with pytest.raises(CommandError, match="nobody has results"):
        call_command("write_report", "demo", "--out", str(tmp_path))


def test_a_board_of_yardsticks_alone_has_a_paper_too(db, no_tex, tmp_path):
    suite = make_suite()
    make_run(make_model("oracle", is_reference=True), suite, 60.0)
    writing.write(suite, tmp_path / "paper")
    assert "No model is on this board yet" in (tmp_path / "paper/paper.tex").read_text()


#: What the printer itself writes: escaped signs, formulas, accents, names of signs.
ESCAPED = re.compile(r"\\[{}$&#%_]")
FORMULA = re.compile(r"\$(?:-|\^2|\^\\circ|\\frac12|\\[A-Za-z]+)\$")
COMMAND = re.compile(
    r"\\(?:textbackslash|textasciicircum|textasciitilde|textless|textgreater|textbar|ldots|S|ss"
    r"|ae|AE|oe|OE|o|O|l|L|i|[`'^~=.\"urHvc]|ttfamily\\char)(?![A-Za-z])"
)


@given(st.text(st.characters() | st.sampled_from("\\{}$&#%^_~[]*-`'\"<>|°²½−é")))
def test_no_text_becomes_a_command(text):
    printed = latex.escaped(text)
    assert printed.isascii()
    assert "\n" not in printed
    left = COMMAND.sub("", FORMULA.sub("", ESCAPED.sub("", printed)))
    assert not set(left) & set("\\%#&$^_")
    depth = 0
    for sign in left:
        depth += (sign == "{") - (sign == "}")
        assert depth >= 0
    assert depth == 0


def test_a_name_is_printed_as_it_is():
    assert latex.escaped(r"a_b%$\input{x}") == r"a\_b\%\$\textbackslash{}input\{x\}"
    assert latex.escaped("Zoë–Ångström ☃") == r"Zo\"{e}--\r{A}ngstr\"{o}m {[}U+2603{]}"


def test_markdown_and_csv_hold_texts_of_strangers():
    table = Table("t", "Caption", ["a", "b"], [["=1+1|x", "<script>"]])
    document = Document("T", "A", "today", "", [Section("S", [table, Verbatim("x")])])
    text = markdown.printed(document)
    assert r"=1+1\|x" in text
    assert "<script>" not in text.replace(r"\<", "")
    assert "<script>" not in html.printed(document)
    assert markdown.as_csv(table).splitlines()[1] == "'=1+1|x,<script>"


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="no TeX is here")
def test_tex_sets_it(board, tmp_path):
    written = writing.write(board, tmp_path / "paper")
    assert written.pdf == "paper.pdf by pdflatex"
    assert (tmp_path / "paper/paper.pdf").read_bytes().startswith(b"%PDF")
