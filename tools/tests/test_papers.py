from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.content import catalog
from leaderboard import jobs
from leaderboard.exports import bundles
from leaderboard.models import Run
from leaderboard.testing import factories
from leaderboard.testing.played import QUICK
from tools.papers import report, reproduction
from tools.papers.__main__ import main
from tools.papers.documents import Document, Section, Table, Verbatim, escape_latex
from tools.papers.source import Source, _saving

NAME = r"a_b%$\input{x} & <b>é</b>"


@pytest.fixture
def run(db, settings) -> Run:
    settings.METRICS = QUICK
    suite = factories.tiny_suite(1, trips=5)
    model = factories.editing_model("jpeg-75", "jpeg", is_reference=True)
    type(model).objects.filter(pk=model.pk).update(name=NAME)
    model.refresh_from_db()
    run = jobs.start(model, suite)
    jobs.play(run.pk)
    jobs.score(run.pk, linger=False)
    run.refresh_from_db()
    return run


@pytest.fixture
def saved(run, client, tmp_path) -> Path:
    """A folder with the site's answers to all requests of the tools."""

    def fetch(path: str) -> str | None:
        answer = client.get(f"/{path}")
        return answer.getvalue().decode() if answer.status_code == 200 else None

    source = Source(_saving(fetch, tmp_path / "saved"))
    report.write(source, run.suite.slug, tmp_path / "first")
    for paper in reproduction.PAPERS:
        reproduction.write(source, paper, tmp_path / paper, ["jpeg-75"], run.suite.slug)
    return tmp_path / "saved"


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "tables" / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_report_has_the_numbers_of_the_standings(run, saved, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(report.shutil, "which", lambda _: None)
    out = tmp_path / "paper"
    assert main(["report", run.suite.slug, "--source", str(saved), "--out", str(out)]) == 0
    assert "TeX is not installed" in capsys.readouterr().out
    standing = run.standings.get(metric__name=QUICK[0], threshold=0.5, scope="all")
    (line,) = rows(out, "references")
    assert (line["Editor"], line["Usable trips"]) == (NAME, f"{standing.usable_trips:.1f}")
    page = (out / "index.html").read_text()
    assert run.suite.content_hash in page
    assert "<b>é" not in page
    assert "No model is on this board yet" in (out / "paper.tex").read_text()
    for name in ("curves", "lasting", "causes"):
        assert (out / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    assert main(["report", run.suite.slug, "--source", str(saved), "--out", str(tmp_path)]) == 1
    assert "contains other files" in capsys.readouterr().err


def test_a_report_of_a_bundle_has_the_same_numbers(run, tmp_path):
    bundle = tmp_path / "run.zip"
    bundles.write(run, bundle)
    out = tmp_path / "paper"
    assert main(["report", run.suite.slug, "--source", str(bundle), "--out", str(out)]) == 0
    (line,) = rows(out, "references")
    usable = run.standings.filter(threshold=0.5, scope="all").values_list("usable_trips", flat=True)
    assert line["Usable trips"] in {f"{value:.1f}" for value in usable}


def test_published_papers_are_compared_with_our_results(run, saved, tmp_path, capsys):
    for paper in reproduction.PAPERS:
        out = tmp_path / "out" / paper
        options = ["--source", str(saved), "--out", str(out), "--model", "jpeg-75"]
        assert main(["reproduce", paper, "--suite", run.suite.slug, *options]) == 0
        assert f"finished, run {run.pk}" in capsys.readouterr().out
        assert run.suite.content_hash in (out / "comparison.md").read_text()
        assert {"settings", "runs"} < {path.stem for path in (out / "tables").iterdir()}
    assert float(rows(out.parent / "restoration", "methods")[-1]["SSIM"]) < 1
    assert len(rows(out.parent / "restoration", "scenes")) == 13 + 7


@pytest.mark.parametrize("name", reproduction.PAPERS)
def test_every_model_of_a_paper_ships_and_every_setting_has_both_sides(name):
    facts = reproduction.read_facts(name)
    assert set(facts["models"].values()) <= {row["slug"] for row in catalog.editing_models()}
    assert all(len(row) == 3 and all(row) for row in facts["settings"])
    assert facts["suite"] in {suite.slug for suite in catalog.suites()}


def test_an_unknown_suite_is_named(tmp_path, capsys):
    arguments = ["report", "nope", "--source", str(tmp_path), "--out", str(tmp_path / "paper")]
    assert main(arguments) == 1
    assert "no suite 'nope'; there are none" in capsys.readouterr().err


#: LaTeX written by the escaping itself: escaped signs, formulas, accents, names of signs.
ESCAPED = re.compile(r"\\[{}$&#%_]")
FORMULA = re.compile(r"\$(?:-|\^2|\^\\circ|\\frac12|\\[A-Za-z]+)\$")
COMMAND = re.compile(
    r"\\(?:textbackslash|textasciicircum|textasciitilde|textless|textgreater|textbar|ldots|S|ss"
    r"|ae|AE|oe|OE|o|O|l|L|i|[`'^~=.\"urHvc]|ttfamily\\char)(?![A-Za-z])"
)


@given(st.text(st.characters() | st.sampled_from("\\{}$&#%^_~[]*-`'\"<>|°²½−é")))
def test_no_text_becomes_a_latex_command(text):
    printed = escape_latex(text)
    assert printed.isascii()
    assert "\n" not in printed
    left = COMMAND.sub("", FORMULA.sub("", ESCAPED.sub("", printed)))
    assert not set(left) & set("\\%#&$^_")
    depth = 0
    for sign in left:
        depth += (sign == "{") - (sign == "}")
        assert depth >= 0
    assert depth == 0


def test_markdown_html_and_csv_escape_untrusted_texts():
    table = Table("t", "Caption", ["a", "b"], [["=1+1|x", "<script>"]])
    document = Document("T", "", [Section("S", [table, Verbatim("x")])])
    text = document.markdown()
    assert r"| =1+1\|x | \<script\> |" in text
    assert "|---|---:|\n" in text
    assert "<script>" not in document.html()
    assert table.csv().splitlines()[1] == "'=1+1|x,<script>"


@pytest.mark.release
@pytest.mark.skipif(not shutil.which("pdflatex"), reason="TeX is not installed")
def test_tex_compiles_the_report(run, saved, tmp_path):
    written = report.write(Source.open(str(saved)), run.suite.slug, tmp_path / "paper")
    assert "paper.pdf by pdflatex" in written
