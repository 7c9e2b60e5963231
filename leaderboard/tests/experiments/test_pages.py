"""A played experiment: its findings, pages and files, and what stays private."""

from __future__ import annotations

import csv
import io

import pytest
from django.urls import reverse

from evaluation.bundle import document as bundles
from evaluation.bundle.checks import DIFFERENT, NOT_CHECKED
from evaluation.bundle.verify import verify
from evaluation.experiment_file import ExperimentFile
from leaderboard import jobs, standings
from leaderboard.board.rows import runs_of
from leaderboard.contributions import importing
from leaderboard.experiments import plan as experiments
from leaderboard.models import (
    EditingModel,
    EditPair,
    Experiment,
    ExperimentResult,
    Run,
    Suite,
    Trip,
)
from leaderboard.testing import experiments as made
from leaderboard.testing.bundle_runs import altered, bundle_of
from leaderboard.testing.played import once


@pytest.fixture(scope="module")
def wording(django_db_setup, django_db_blocker):
    yield from once(django_db_blocker, lambda: made.played(made.experiment()))


@pytest.mark.django_db
def test_the_page_shows_the_effect_of_every_arm(wording, client, django_assert_max_num_queries):
    with django_assert_max_num_queries(14):
        page = client.get(wording.get_absolute_url())
    text = page.content.decode()
    assert "Compared with plain, usable trips differ for long" in text
    assert "Friedman’s" in text or "Friedman&#x27;s" in text
    assert "Signed-rank tests with Holm" in text
    assert "Every case was played once" in text
    assert made.LONG.strip() in text  # the strip of the long arm has the words that were sent
    for run in made.runs(wording).values():
        assert reverse("run_bundle", args=[run.pk]) in text
    assert "wording" in client.get(reverse("experiments")).content.decode()
    assert wording.get_absolute_url() in client.get("/sitemap.xml").content.decode()


@pytest.mark.django_db
def test_another_metric_or_case_can_be_chosen_and_nonsense_is_ignored(wording, client):
    case = wording.suite.cases.last()
    page = client.get(wording.get_absolute_url(), {"metric": "psnr", "case": case.pk})
    assert f"One case in every arm: {case}" in page.content.decode()
    assert page.headers["X-Robots-Tag"] == "noindex"
    for value in ("<script>", "999999999999", "nonsense"):
        page = client.get(
            wording.get_absolute_url(), {"metric": value, "case": value, "model": value}
        )
        assert page.status_code == 200
        assert "no-store" in page.headers["Cache-Control"]
    assert client.get("/experiments/none/").status_code == 404


@pytest.mark.django_db
def test_numbers_and_file_can_be_downloaded(wording, client):
    answer = client.get(reverse("experiment_table", args=["wording"]))
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert {(row["metric"], row["arm"]) for row in rows} == {
        (metric, arm) for metric in ("psnr", "ssim") for arm in ("plain", "short", "long")
    }
    long = next(row for row in rows if row["metric"] == "ssim" and row["arm"] == "long")
    assert long["sure"] == "yes"
    assert float(long["high"]) < 0
    result = client.get("/api/v1/experiments/wording").json()
    assert [arm["name"] for arm in result["arms"]] == ["plain", "short", "long"]
    assert result["results"][0]["metrics"]["ssim"]["effects"][2]["sure"] is True
    assert client.get("/api/v1/experiments").json()["count"] == 1
    text = client.get(reverse("experiment_file", args=["wording"])).content.decode()
    file = ExperimentFile.parse(text)
    assert {name: arm.digest for name, arm in file.arms.items()} == {
        arm.name: arm.core.digest for arm in wording.arms.all()
    }


@pytest.mark.django_db
@pytest.mark.parametrize("hide", ["experiment", "run", "model", "suite"])
def test_private_runs_are_shown_nowhere(wording, client, hide):
    run = made.runs(wording)["long"]
    if hide == "experiment":
        Experiment.objects.update(published=False)
    elif hide == "run":
        Run.objects.filter(pk=run.pk).update(published=False)
    elif hide == "model":
        EditingModel.objects.update(status="hidden")
    else:
        Suite.objects.filter(pk=wording.suite_id).update(sealed=True)
    addresses = [
        reverse("experiments"),
        wording.get_absolute_url(),
        reverse("experiment_table", args=["wording"]),
        "/api/v1/experiments",
        "/api/v1/experiments/wording",
    ]
    for address in addresses:
        text = client.get(address).content.decode()
        assert "usable trips differ" not in text
        assert f"runs/{run.pk}/" not in text
        assert '"sure": true' not in text
        assert ",long," not in text
        if hide in ("experiment", "suite"):
            assert "Does the wording matter?" not in text


@pytest.mark.django_db
def test_the_page_of_an_arms_run_names_the_arm_and_its_prompts(wording, client):
    run = made.runs(wording)["long"]
    text = client.get(run.get_absolute_url()).content.decode()
    assert "arm of an experiment" in text
    assert "long wording" in text
    case = run.chains.first().case
    assert made.LONG.strip() in client.get(f"/runs/{run.pk}/cases/{case.pk}/").content.decode()
    model = client.get(run.editing_model.get_absolute_url()).content.decode()
    assert f"/runs/{run.pk}/" not in model
    assert f"/runs/{made.runs(wording)['plain'].pk}/" in model
    assert client.get(f"/api/v1/runs/{run.pk}").json()["arm"]["wording"] == "long"


def numbers(experiment: Experiment, metric: str = "ssim") -> dict:
    return ExperimentResult.objects.get(experiment=experiment, metric=metric).numbers


@pytest.mark.django_db
def test_exactly_the_planted_effect_is_found(wording):
    result = numbers(wording)
    assert [effect["arm"] for effect in result["effects"]] == ["plain", "short", "long"]
    assert [effect["sure"] for effect in result["effects"]] == [False, False, True]
    long = result["effects"][2]
    # What it misreads, it does not do: all usable trips of those cases are gone, and no others.
    plain = result["effects"][0]["usable_trips"]
    assert long["difference"] == pytest.approx(long["usable_trips"] - plain)
    times = {
        name: dict(run.chains.values_list("case__pair_slug", "usable_trips"))
        for name, run in made.runs(wording).items()
    }
    turned = [pair for pair in times["long"] if not pair.startswith("replica")]
    assert {times["long"][pair] for pair in turned} == {0.0}
    assert all(times["plain"][pair] == wording.suite.trips for pair in turned)
    kept = [pair for pair in times["long"] if pair.startswith("replica")]
    assert all(times["long"][pair] == times["plain"][pair] for pair in kept)
    assert result["ranks"]["p"] < 0.05


@pytest.mark.django_db
def test_every_arm_is_sent_only_its_own_prompts(wording):
    for name, run in made.runs(wording).items():
        pairs = {p.slug: p for p in EditPair.objects.all()}
        for chain in run.chains.select_related("case"):
            pair = pairs[chain.case.pair_slug]
            said = run.core_arm.pair_prompts(pair.slug, chain.case.forward, chain.case.backward)
            wanted = next((v["forward"] for v in pair.variants if v["name"] == name), pair.forward)
            assert said[0] == wanted
    notes = Trip.objects.filter(chain__run=made.runs(wording)["long"], number=1)
    assert {trip.edited_notes["understood"] for trip in notes} == {"keep"}


@pytest.mark.django_db
def test_an_arm_never_represents_its_model_and_the_default_arm_is_the_suites_own_run(wording):
    runs = made.runs(wording)
    assert [bool(run.arm_digest) for run in runs.values()] == [False, True, True]
    standings.refresh_ranks(wording.suite)
    assert [run.pk for run in runs_of(wording.suite)] == [runs["plain"].pk]
    assert list(Run.objects.filter(current=True)) == [runs["plain"]]
    assert not runs["long"].is_ranked
    assert "arm of an experiment" in Run.objects.get(pk=runs["long"].pk).public_state


@pytest.mark.django_db
def test_a_bundle_of_an_arm_verifies_until_its_prompts_are_altered(wording, tmp_path):
    path = bundle_of(made.runs(wording)["long"], tmp_path)
    with bundles.read(path) as bundle:
        assert bundle.arm.wording == "long"
        assert not [c for c in verify(bundle) if c.verdict in (DIFFERENT, NOT_CHECKED)]

    def other_words(document):
        prompts = document["run"]["arm"]["prompts"]
        prompts[min(prompts)] = ["Mirror it.", "Mirror it."]

    with bundles.read(altered(path, other_words, sealed=True)) as bundle:
        wrong = {c.what for c in verify(bundle) if c.verdict == DIFFERENT}
    assert wrong == {"forward prompt", "backward prompt"}
    broken = altered(path, lambda d: d["run"]["arm"].update(seeds="my own"), sealed=True)
    with pytest.raises(bundles.BundleError, match=r"run\.arm: seeds: should be"):
        bundles.read(broken)


@pytest.mark.django_db
def test_an_imported_arm_stays_an_arm(wording, tmp_path, settings):
    settings.METRICS = ["psnr", "ssim"]
    path = bundle_of(made.runs(wording)["short"], tmp_path)
    with bundles.read(path) as bundle:
        run = importing.import_bundle(bundle, model_slug="elsewhere").run
    assert run.core_arm == made.runs(wording)["short"].core_arm
    assert run.verified
    assert not run.current


@pytest.mark.django_db
def test_results_are_written_only_when_every_arm_has_ended_and_again_when_one_is_scored_again(
    wording, settings
):
    settings.METRICS = ["psnr", "ssim"]
    run = made.runs(wording)["long"]
    Run.objects.filter(pk=run.pk).update(state="paused")
    standings.refresh_experiments(run)
    assert not ExperimentResult.objects.exists()
    Run.objects.filter(pk=run.pk).update(state="finished")
    run.refresh_from_db()
    jobs.score_again(run)
    jobs.score(run.pk)
    assert numbers(wording)["effects"][2]["sure"]


@pytest.mark.django_db
def test_metrics_of_two_versions_are_never_compared(wording):
    run = made.runs(wording)["long"]
    run.metrics["ssim"]["version"] = "another"
    run.save()
    standings.refresh_experiments(run)
    assert set(ExperimentResult.objects.values_list("metric", flat=True)) == {"psnr"}


@pytest.mark.django_db
def test_starting_again_starts_nothing_twice(wording):
    before = Run.objects.count()
    assert experiments.start(wording) == []
    assert Run.objects.count() == before
    assert experiments.total_estimate(experiments.plan(wording)).edits == 0
