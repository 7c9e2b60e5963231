"""What others published: imported with its faults output, shown with its source, never ranked."""

from __future__ import annotations

import csv
import io
import math
import re
from collections import defaultdict
from html import unescape
from operator import attrgetter
from pathlib import Path
from statistics import fmean

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from evaluation.content import catalog
from leaderboard import published_figures
from leaderboard.models import Case, EditingModel, PublishedFigure, Run, Standing, Suite
from leaderboard.testing.boards import make_model, make_run, make_suite

pytestmark = pytest.mark.django_db
HEAD = ",".join(published_figures.PublishedRow.model_fields)


def table(folder: Path, *lines: str, head: str = HEAD) -> Path:
    path = folder / "results.csv"
    path.write_text("\n".join([head, *lines]) + "\n")
    return path


def line(model: str = "flux", image: str = "portrait_01.jpg", number: int = 1, **changes) -> str:
    values = {
        "model": model,
        "image": image,
        "edit_pair": "hat_add_remove",
        "image_type": "portrait",
        "edit_category": "accessories",
        "round": number,
        "psnr": 30,
        "ssim": round(1 - 0.1 * number, 3),
        "lpips": 0.0,
        "clip_similarity": 0.9 - number / 100,
    } | changes
    return ",".join(str(value) for value in values.values())


def imported(path: Path) -> str:
    out = io.StringIO()
    call_command("import_results", "edit-converge-bench", str(path), stdout=out)
    return out.getvalue()


def test_every_fault_of_the_table_is_reported(tmp_path, client):
    chain = [line(number=n) for n in (1, 2, 3)]
    again = [line(number=n, ssim=0.95 - n / 10) for n in (1, 2, 3)]
    short = [line("grok", "portrait_02.jpg", n) for n in (1, 2)]
    output = imported(table(tmp_path, *chain, *chain, *again, *short))
    assert "3 of 11 rows are exact duplicates and were counted once." in output
    assert "lpips is 0 in every row: it was never computed and is left out." in output
    assert "1 chains repeat a case" in output
    assert (
        "The models were not run on the same cases. Cases per model, of 2: flux 1, grok 1."
        in output
    )
    assert "1 chains end before round 3" in output
    suite = Suite.objects.get()
    assert suite.published_elsewhere
    assert all(remark in suite.description for remark in output.splitlines()[:5])
    assert "where 0 % is 0.59" in suite.description


def test_a_table_becomes_a_suite_without_ranks(published_table, client):
    output = imported(published_table.path)
    twice = published_table.rows - published_table.distinct
    assert f"{twice:,} of {published_table.rows:,} rows are exact duplicates" in output
    suite = Suite.objects.get()
    assert (suite.slug, suite.trips, suite.source_url) == (
        published_figures.SLUG,
        10,
        published_figures.SOURCE,
    )
    assert Run.objects.filter(published=True, current=True, source="published").count() == 6
    assert not Standing.objects.exclude(rank=None).exists()
    best = Standing.objects.get(
        run__editing_model__slug__endswith="nano-banana", scope="all", threshold=0.5
    )
    assert best.metric.name == "ssim"
    # The best published model keeps no more than a blank card after ten trips.
    assert 2 < best.usable_trips < 3
    assert -0.2 < best.curve["mean"][10] < 0.1
    page = client.get(f"/?suite={suite.slug}-v1").content.decode()
    assert "These results were published by others" in page
    assert "nano_banana (edit-converge-bench)" in page
    # Without an image anywhere, every page about it still stands.
    run = Run.objects.first()
    case = run.chains.first().case
    for path in (
        suite.get_absolute_url(),
        case.get_absolute_url(),
        run.get_absolute_url(),
        run.editing_model.get_absolute_url(),
        f"/runs/{run.pk}/cases/{case.pk}/",
        f"/categories/?suite={suite.slug}-v1",
        f"/runs/{run.pk}/scores.csv",
        f"/api/v1/leaderboard?suite={suite.slug}-v1",
    ):
        assert client.get(path).status_code == 200, path
    assert client.get(f"/runs/{run.pk}/bundle.zip").status_code == 404
    assert published_figures.SOURCE in client.get(suite.get_absolute_url()).content.decode()


def test_a_second_import_changes_nothing_and_a_changed_table_is_a_new_version(tmp_path):
    path = table(tmp_path, line(number=1), line(number=2))
    imported(path)
    assert "already here" in imported(path)
    assert (Suite.objects.count(), Run.objects.count()) == (1, 1)
    imported(table(tmp_path, line(number=1), line(number=2), line(number=3)))
    assert list(Suite.objects.values_list("version", flat=True)) == [2, 1]
    assert EditingModel.objects.count() == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ssim": "high"}, "line 3, ssim: 'high': Input should be a valid number"),
        ({"ssim": "nan"}, "line 3, ssim"),
        ({"ssim": "1.5"}, "line 3, ssim: '1.5': Input should be less than or equal to 1"),
        ({"round": "0"}, "line 3, round"),
        (
            {"image_type": "dream"},
            "line 3, image_type: 'dream': Input should be 'portrait', 'scene' or",
        ),
        ({"edit_category": "magic"}, "line 3, edit_category"),
        ({"model": "<script>"}, "line 3, model"),
        ({"image": "../../x/y"}, "line 3, image"),
    ],
)
def test_an_invalid_line_stops_the_import(tmp_path, changes, words):
    with pytest.raises(CommandError, match=words):
        imported(table(tmp_path, line(), line(number=2, **changes)))
    assert not Suite.objects.exists()
    assert not Case.objects.exists()


def test_a_table_with_other_columns_is_refused(tmp_path):
    with pytest.raises(CommandError, match="lacks the columns model"):
        imported(table(tmp_path, "1,2", head="a,b"))
    with pytest.raises(CommandError, match="has no rows"):
        imported(table(tmp_path))


# Figures

FIGURES = "model,metric,trip,value,source,url,date"
FIGURE = "Flux,ssim,10,0.41,A paper,https://example.org/paper,2026-02-01"


def figures(folder: Path, *lines: str) -> str:
    out = io.StringIO()
    call_command("import_results", "figures", str(table(folder, *lines, head=FIGURES)), stdout=out)
    return out.getvalue()


def test_a_later_import_replaces_published_figures(tmp_path):
    assert "1 figures are new, 0 were replaced" in figures(tmp_path, FIGURE)
    figures(tmp_path, FIGURE.replace("0.41", "0.42"))
    figure = PublishedFigure.objects.get()
    assert (figure.model_name, figure.trip, figure.value) == ("Flux", 10, 0.42)
    assert str(figure.published_on) == "2026-02-01"


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (FIGURE.replace("ssim", "beauty"), "line 3, metric: beauty is not one of"),
        (FIGURE.replace("0.41", "inf"), "line 3, value"),
        (FIGURE.replace(",10,", ",0,"), "line 3, trip"),
        (FIGURE.replace("https://", "javascript:"), "line 3, url"),
        (FIGURE.replace("2026-02-01", "soon"), "line 3, date"),
        (FIGURE.replace("Flux", ""), "line 3, model"),
        (FIGURE, "line 3, model: this figure is already in line 2"),
    ],
)
def test_an_invalid_figure_stops_the_import_and_is_named(tmp_path, bad, words):
    with pytest.raises(CommandError, match=words):
        figures(tmp_path, FIGURE, bad)
    assert not PublishedFigure.objects.exists()


# Reported by others: the shipped figures


@pytest.fixture
def shipped() -> None:
    published_figures.import_figures(catalog.folder() / "published_figures.csv")


def test_the_shipped_figures_are_the_means_of_the_published_rows(shared):
    rows = published_figures.read_table(shared / "ecb/results.csv").rows
    places: dict[tuple[str, int], dict[tuple[str, str], list]] = defaultdict(dict)
    for row in rows:
        cases = places[row.model.replace("_", " "), row.round]
        cases.setdefault((row.image, row.edit_pair), []).append(row)

    def error(row) -> float:
        return 10 ** (-row.psnr / 10)

    scores = {"ssim": attrgetter("ssim"), "clip": attrgetter("clip_similarity"), "psnr": error}
    with (catalog.folder() / "published_figures.csv").open() as file:
        shipped = list(csv.DictReader(file))
    assert len(shipped) == len(places) * len(scores) == 180
    for figure in shipped:
        cases = places[figure["model"].lower(), int(figure["trip"])]
        score = scores[figure["metric"]]
        value = fmean(fmean(map(score, repeats)) for repeats in cases.values())
        if figure["metric"] == "psnr":
            value = -10 * math.log10(value)
        assert float(figure["value"]) == pytest.approx(value, abs=0.006), figure
        assert int(figure["cases"]) == len(cases)


def shown(client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return unescape(response.content.decode())


def test_the_front_page_shows_real_models_until_one_is_ranked(client, shipped):
    suite = make_suite(images=1)
    make_run(make_model("Oracle", is_reference=True), suite)
    text = shown(client, "/")
    assert "Reported by others: FLUX, Gemini, Grok, Nano Banana, Qwen and Seedream" in text
    assert "SSIM: 0.72 to 0.84 after 1 round trip, 0.28 to 0.62 after 10 round trips" in text
    assert "in February 2026, not measured here" in text
    assert published_figures.SOURCE in text
    assert text.count("LPIPS was never computed there") == 1
    assert "Reported by others:" not in shown(client, "/?q=flux")
    make_run(make_model("Ranked"), suite, rank=1)
    assert "Reported by others:" not in shown(client, "/")
    assert "Reported by others:" not in shown(client, "/?suite=demo-v1&q=nothing")


def test_the_page_shows_every_metric_with_case_counts_and_no_rank(client, shipped):
    text = shown(client, "/reported/")
    for label in ("SSIM", "CLIP similarity", "PSNR"):
        assert f"<h2>{label}: " in text
    for name in ("Nano Banana (66 cases)", "Qwen (56–57 cases)", "Seedream (2–3 cases)"):
        assert name in text
    # In alphabetical order: no column and no order says who is better.
    names = re.findall(r'<th scope="row">(.*?)</th>', text)
    assert names[:6] == sorted(names[:6])
    assert "Rank" not in text
    assert text.count("LPIPS was never computed there") == 1


def test_the_page_costs_few_queries_and_links_an_imported_table(
    client, shipped, tmp_path, django_assert_max_num_queries
):
    imported(table(tmp_path, line(number=1), line(number=2)))
    with django_assert_max_num_queries(4):
        assert "?suite=edit-converge-bench-v1" in shown(client, "/reported/")


def test_without_figures_the_page_explains_how_to_import_them(client):
    assert "load_benchmark" in shown(client, "/reported/")
