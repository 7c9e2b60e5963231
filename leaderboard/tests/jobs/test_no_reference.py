"""No-reference metrics: workers run them on each restored image; score files add others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.http import StreamingHttpResponse
from django.test import Client

from evaluation.bundle import document as bundles
from evaluation.bundle.checks import DIFFERENT, NOT_CHECKED
from evaluation.bundle.verify import verify
from evaluation.play import score as score_loop
from leaderboard import jobs
from leaderboard.contributions.importing import import_bundle
from leaderboard.exports.bundles import write
from leaderboard.models import Chain, NoReferenceResult, Run
from leaderboard.testing.played import play

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Run:
    settings.METRICS = ["psnr", "piqe"]
    monkeypatch.setattr(score_loop, "TRIPS_PIXELS", 1)  # a chain is written in several parts
    return play("noise")


def test_each_restored_image_and_the_source_have_a_value(run: Run) -> None:
    chains = list(Chain.objects.filter(run=run))
    assert chains
    for chain in chains:
        assert len(chain.quality["piqe"]) == chain.trips_scored + 1
        assert None not in chain.quality["piqe"]
    numbers = NoReferenceResult.objects.get(run=run).numbers["piqe"]
    last = str(run.suite.trips)
    assert numbers["trips"][last]["source"]["restored"] == len(chains)
    assert numbers["version"] == run.metrics["piqe"]["version"]
    before = [chain.quality for chain in chains]
    jobs.score_again(run)
    jobs.score(run.pk)
    assert [chain.quality for chain in Chain.objects.filter(run=run)] == before


def test_a_score_file_is_imported_completely_or_not_at_all(run: Run, tmp_path: Path) -> None:
    chain = Chain.objects.filter(run=run).select_related("case__image__stored").first()
    assert chain
    source = chain.case.image.stored
    assert source
    file = tmp_path / "musiq.csv"
    head = "sha256,case,repeat,trip,metric,value,version\n"
    rows = f"{source.sha256},,,,musiq,60,1\n,{chain.case.slug},0,1,musiq,70,1\n"
    file.write_text(f"{head}{rows},nowhere,0,1,musiq,1,1\n")
    with pytest.raises(CommandError, match=r"musiq.csv, line 4, case: the run has no image"):
        call_command("import_results", "scores", file, run.pk)
    chain.refresh_from_db()
    assert "musiq" not in chain.quality
    file.write_text(head + rows)
    call_command("import_results", "scores", file, run.pk, verbosity=0)
    chain.refresh_from_db()
    assert chain.quality["musiq"][:2] == [60.0, 70.0]
    numbers = NoReferenceResult.objects.get(run=run).numbers["musiq"]
    assert (numbers["imported"], numbers["label"]) == (True, "MUSIQ")
    with pytest.raises(CommandError, match="no run 99999"):
        call_command("import_results", "scores", file, 99999)


def test_all_values_can_be_downloaded(run: Run, client: Client) -> None:
    answer = client.get(f"/runs/{run.pk}/no-reference.csv")
    assert isinstance(answer, StreamingHttpResponse)
    head, *rows = b"".join(answer).decode().splitlines()  # type: ignore[arg-type]
    assert head == "case,repeat,trip,metric,value,version,higher_is_better"
    chains = Chain.objects.filter(run=run).select_related("case")
    assert len(rows) == sum(len(chain.quality["piqe"]) for chain in chains)
    chain = chains.order_by("case__position").first()
    assert chain
    assert rows[0].startswith(f"{chain.case.slug},0,0,piqe,{chain.quality['piqe'][0]}")
    Run.objects.filter(pk=run.pk).update(published=False)
    assert client.get(f"/runs/{run.pk}/no-reference.csv").status_code == 404


def test_a_bundle_has_the_values_and_verification_recomputes_them(run: Run, tmp_path: Path) -> None:
    write(run, tmp_path / "run.zip", images=True)
    with bundles.read(tmp_path / "run.zip") as bundle:
        checks = list(verify(bundle))
        assert [str(c) for c in checks if c.verdict in (DIFFERENT, NOT_CHECKED)] == []
        assert any("no-reference quality by piqe" in check.what for check in checks)
        imported = import_bundle(bundle).run
    one, two = (
        list(Chain.objects.filter(run=r).order_by("case", "repeat").values_list("quality"))
        for r in (run, imported)
    )
    assert one == two
    numbers = [NoReferenceResult.objects.get(run=r).numbers for r in (run, imported)]
    assert numbers[0] == numbers[1]
