"""Restoration: the benchmark degrades an image, the model restores it, with one call a trip."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.__main__ import main
from evaluation.bundle import document as bundles
from evaluation.bundle.checks import DIFFERENT, EQUAL
from evaluation.bundle.verify import degradation_check, verify
from evaluation.content import catalog
from evaluation.content.operators import DEGRADATIONS, degraded
from evaluation.content.suites import EditPair
from evaluation.images import EncodedImage
from leaderboard import jobs
from leaderboard.jobs.control import recount
from leaderboard.models import Call, Run, Suite, Trip
from leaderboard.models.runs import RunState
from leaderboard.testing import factories
from leaderboard.testing.bundle_runs import bundle_of
from leaderboard.testing.played import play

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick_metrics", "local")]

#: A pair of the catalogue, so that reference editors support it.
PROMPT = next(p for p in catalog.edit_pairs() if p.category == "restoration").backward


def restore(name: str) -> EditPair:
    return EditPair(
        slug=f"restore-{name}",
        category="restoration",
        forward=f"(Made by us: {name}.)",
        backward=PROMPT,
        change="operator",
        reversibility="destroys",
        operator=name,
    )


PAIRS = tuple(restore(name) for name in ("zoom", "old-film"))


@pytest.fixture
def restoration() -> Suite:
    return factories.tiny_suite(2, PAIRS, trips=2, slug="restoration", size=64)


def test_a_trip_calls_the_model_once_and_the_ledger_lists_our_steps(restoration):
    model = factories.editing_model("oracle", "oracle", price_per_edit="0.1", is_reference=True)
    assert model.estimate_on(restoration).edits == 8
    assert model.estimate_on(restoration).usd == pytest.approx(0.8)
    run = jobs.start(model, restoration)
    assert run.progress.edits_total == 8
    jobs.play(run.pk)
    jobs.score(run.pk)
    run.refresh_from_db()
    assert (run.state, run.progress.calls, run.progress.edits_done) == (RunState.FINISHED, 8, 8)
    assert run.ledger.filter(outcome=Call.SYNTHETIC, cost=0).count() == 8
    assert run.ledger.filter(outcome=Call.ANSWERED, direction="backward").count() == 8
    trip = Trip.objects.filter(chain__run=run, number=1).first()
    assert trip.edited_notes["made by us"].startswith("Digital zoom") or "Old film" in str(
        trip.edited_notes
    )
    recount(run)
    assert (run.progress.calls, run.progress.edits_done) == (8, 8)


def test_returning_the_source_loses_nothing_and_doing_nothing_loses_more(restoration):
    oracle, nothing = play("oracle", restoration), play("noop", restoration)
    kept = [
        run.standings.get(metric__name="ssim", threshold=0.5, scope="all").curve["mean"][1]
        for run in (oracle, nothing)
    ]
    assert kept[0] == pytest.approx(1, abs=1e-6)
    assert kept[1] < 0.95
    # All models receive the same image.
    sent = [
        sorted(Trip.objects.filter(chain__run=run, number=1).values_list("edited", flat=True))
        for run in (oracle, nothing)
    ]
    assert sent[0] == sent[1]


def test_a_chain_interrupted_after_our_edit_resumes_with_the_model(restoration):
    run = jobs.start(factories.editing_model("noop", "noop"), restoration)
    jobs.play(run.pk)
    Trip.objects.filter(chain__run=run, number=2).update(restored=None)
    Call.objects.filter(run=run, number=2, direction="backward").delete()
    run.chains.update(state="waiting", outcome="", trips_played=1)
    Run.objects.filter(pk=run.pk).update(state=RunState.QUEUED)
    recount(run)
    jobs.play(run.pk)
    jobs.score(run.pk)
    run.refresh_from_db()
    assert run.state == RunState.FINISHED
    assert run.ledger.filter(outcome=Call.SYNTHETIC).count() == 8  # not made again
    assert run.ledger.filter(outcome=Call.ANSWERED).count() == 8


def test_a_restorations_bundle_verifies_and_a_swapped_damaged_image_does_not(restoration, tmp_path):
    path = bundle_of(play("noop", restoration), tmp_path)
    with bundles.read(path) as bundle:
        checks = list(verify(bundle))
    wrong = [check for check in checks if check.verdict == DIFFERENT]
    assert not wrong, "\n".join(map(str, wrong))
    assert sum(check.what.startswith("operator ") for check in checks) == 8

    source = EncodedImage.from_image(factories.drawn_image(0))
    made = degraded("zoom", source, 1)
    for pair, verdict in ((PAIRS[0], EQUAL), (PAIRS[1], DIFFERENT)):
        assert degradation_check("trip 1", pair, 1, source, made).verdict == verdict


def test_a_restorations_pages_show_our_damaged_images(restoration, client):
    run = play("noop", restoration)
    case = restoration.cases.first()
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert "Scene by degradation" in page
    assert page.count('<td class="num h') == 4
    page = client.get(f"/runs/{run.pk}/cases/{case.pk}/").content.decode()
    assert "Made by us" in page
    assert client.get(restoration.get_absolute_url()).status_code == 200
    assert client.get("/gallery/").status_code == 200


def test_the_shell_plays_and_bundles_a_restoration(tmp_path: Path, capsys, monkeypatch):
    core, images = factories.core_suite(1, PAIRS, trips=1, size=64, slug="restoration")
    monkeypatch.setattr(
        "evaluation.content.sources.load_prepared", lambda wanted, size: images[wanted.slug].decoded
    )
    import json

    file = tmp_path / "suite.json"
    file.write_text(json.dumps(core.to_dict()))
    out = tmp_path / "run"
    assert (
        main(["run", "--play-only", "--editor", "noop", "--suite", str(file), "--out", str(out)])
        == 0
    )
    assert "2 edits" in capsys.readouterr().out
    assert main(["score", str(out), "--metrics", "psnr,ssim"]) == 0
    assert len((out / "calls.jsonl").read_text().splitlines()) == 2
    zipped = tmp_path / "bundle.zip"
    assert main(["bundle", str(out), "--out", str(zipped)]) == 0
    assert main(["verify", str(zipped)]) == 0


def test_every_degradation_plays(restoration):
    suite = factories.tiny_suite(1, tuple(map(restore, DEGRADATIONS)), trips=1, slug="all")
    assert play("noop", suite).complete
